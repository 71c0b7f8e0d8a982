//! Bits of the attr: one method each.

use super::Builder;
use rprof_records::AttrFlags;

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident => $flag:ident;)*) => {
        /// Bits of `perf_event_attr`, in the order of perf_event_open(2).
        impl Builder {
            $($(#[$doc])* #[must_use] pub fn $name(mut self, on: bool) -> Builder {
                self.attr.flags.set(AttrFlags::$flag, on);
                self
            })*
        }

        #[cfg(test)]
        const BITS: &[(&str, fn(Builder, bool) -> Builder, AttrFlags)] =
            &[$((stringify!($name), Builder::$name, AttrFlags::$flag)),*];
    };
}

bits! {
    /// Leaves the event off until it is enabled (`disabled`); set from the start.
    disabled => DISABLED;
    /// Counts children as well that are born later, threads and processes (`inherit`). Before
    /// Linux 6.12 it does not go with [`ReadFormat::GROUP`](rprof_records::ReadFormat::GROUP); never
    /// with a ring, unless the event is for one CPU.
    inherit => INHERIT;
    /// Asks that the event is always on a counter (`pinned`). Where that fails, reading answers
    /// [`PinnedWithoutCounter`](crate::ReadError::PinnedWithoutCounter).
    pinned => PINNED;
    /// Asks that no other group is on the PMU together with this event's (`exclusive`).
    exclusive => EXCLUSIVE;
    /// Leaves out user mode (`exclude_user`).
    exclude_user => EXCLUDE_USER;
    /// Leaves out the kernel (`exclude_kernel`).
    exclude_kernel => EXCLUDE_KERNEL;
    /// Leaves out the hypervisor (`exclude_hv`).
    exclude_hv => EXCLUDE_HV;
    /// Leaves out idle CPUs (`exclude_idle`).
    exclude_idle => EXCLUDE_IDLE;
    /// Records executable mappings (`mmap`).
    mmap => MMAP;
    /// Records names of tasks (`comm`).
    comm => COMM;
    /// Keeps counts for each task over context switches between inheriting tasks, and records READ
    /// when one ends (`inherit_stat`).
    inherit_stat => INHERIT_STAT;
    /// Enables the event at the next exec (`enable_on_exec`).
    enable_on_exec => ENABLE_ON_EXEC;
    /// Records births and ends of tasks (`task`).
    task => TASK;
    /// Records mappings of data as well (`mmap_data`).
    mmap_data => MMAP_DATA;
    /// Gives all records but samples a trailer with the fields of
    /// [`SampleId`](rprof_records::SampleId) (`sample_id_all`).
    sample_id_all => SAMPLE_ID_ALL;
    /// Leaves out the host (`exclude_host`).
    exclude_host => EXCLUDE_HOST;
    /// Leaves out guests (`exclude_guest`).
    exclude_guest => EXCLUDE_GUEST;
    /// Leaves the kernel's side out of callchains (`exclude_callchain_kernel`).
    exclude_callchain_kernel => EXCLUDE_CALLCHAIN_KERNEL;
    /// Leaves the user's side out of callchains (`exclude_callchain_user`).
    exclude_callchain_user => EXCLUDE_CALLCHAIN_USER;
    /// Records mappings with the identity of their file (`mmap2`, Linux 3.16).
    mmap2 => MMAP2;
    /// Tells names that an exec gave from others (`comm_exec`, Linux 3.16).
    comm_exec => COMM_EXEC;
    /// Records context switches (`context_switch`, Linux 4.3).
    context_switch => CONTEXT_SWITCH;
    /// Writes the ring from its end to its start, for a
    /// [`BackwardRing`](crate::BackwardRing) (`write_backward`, Linux 4.6).
    write_backward => WRITE_BACKWARD;
    /// Records namespaces of tasks (`namespaces`, Linux 4.12).
    namespaces => NAMESPACES;
    /// Records symbols that come to or leave the kernel (`ksymbol`, Linux 5.0).
    ksymbol => KSYMBOL;
    /// Records BPF programs that come or go (`bpf_event`, Linux 5.0).
    bpf_event => BPF_EVENT;
    /// Writes samples into the AUX area of the group's leader (`aux_output`, Linux 5.4).
    aux_output => AUX_OUTPUT;
    /// Records control groups that are made (`cgroup`, Linux 5.7).
    cgroup_records => CGROUP;
    /// Records changes of the kernel's code (`text_poke`, Linux 5.8).
    text_poke => TEXT_POKE;
    /// Records build-ids of mapped files in place of their inodes (`build_id`, Linux 5.12).
    build_id => BUILD_ID;
    /// Counts threads that are born later, and no child processes (`inherit_thread`, Linux 5.13);
    /// goes with [`inherit`](Self::inherit).
    inherit_thread => INHERIT_THREAD;
    /// Closes the event when the task begins another program (`remove_on_exec`, Linux 5.13).
    remove_on_exec => REMOVE_ON_EXEC;
    /// Sends SIGTRAP to the task at each overflow (`sigtrap`, Linux 5.13); needs
    /// [`remove_on_exec`](Self::remove_on_exec). [`Traps`](crate::Traps) receives them.
    sigtrap => SIGTRAP;
    /// Leaves users' callchains out of samples, to be recorded when the task returns to its own code
    /// (`defer_callchain`, Linux 6.19).
    defer_callchain => DEFER_CALLCHAIN;
    /// Records callchains that were deferred (`defer_output`, Linux 6.19).
    defer_output => DEFER_OUTPUT;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Software;

    #[test]
    fn each_bit_has_a_method_of_its_own() {
        let mut seen = AttrFlags::empty();
        for (name, set, flag) in BITS {
            let off = set(Builder::software(Software::DUMMY), false).attr.flags;
            let on = set(Builder::software(Software::DUMMY), true).attr.flags;
            assert_eq!(on.difference(off), *flag, "{name}");
            assert!(!seen.intersects(*flag), "{name}");
            seen |= *flag;
        }
        // The others are set by fields: frequency, wake-ups, precision, clock.
        let by_fields = AttrFlags::FREQ
            | AttrFlags::WATERMARK
            | AttrFlags::PRECISE_IP_1
            | AttrFlags::PRECISE_IP_2
            | AttrFlags::USE_CLOCKID;
        assert_eq!((seen | by_fields).bits(), (1 << 40) - 1);
    }
}
