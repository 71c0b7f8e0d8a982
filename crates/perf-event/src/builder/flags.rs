//! Bits of the attr, one method each.

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
    /// Opens the event disabled (`disabled`); on by default.
    disabled => DISABLED;
    /// Counts threads and processes started later too (`inherit`). Before Linux 6.12, it excludes
    /// [`ReadFormat::GROUP`](rprof_records::ReadFormat::GROUP). With a ring buffer, the event must
    /// be for one CPU.
    inherit => INHERIT;
    /// Requires a counter at all times (`pinned`). If the kernel has none, reading returns
    /// [`PinnedWithoutCounter`](crate::ReadError::PinnedWithoutCounter).
    pinned => PINNED;
    /// Requires that no other group shares the PMU with this event's group (`exclusive`).
    exclusive => EXCLUSIVE;
    /// Excludes user mode (`exclude_user`).
    exclude_user => EXCLUDE_USER;
    /// Excludes the kernel (`exclude_kernel`).
    exclude_kernel => EXCLUDE_KERNEL;
    /// Excludes the hypervisor (`exclude_hv`).
    exclude_hv => EXCLUDE_HV;
    /// Excludes idle CPUs (`exclude_idle`).
    exclude_idle => EXCLUDE_IDLE;
    /// Records executable mappings (`mmap`).
    mmap => MMAP;
    /// Records names of tasks (`comm`).
    comm => COMM;
    /// Keeps counts for each task across context switches between inheriting tasks, and writes a
    /// READ record at exit (`inherit_stat`).
    inherit_stat => INHERIT_STAT;
    /// Enables the event at the next exec (`enable_on_exec`).
    enable_on_exec => ENABLE_ON_EXEC;
    /// Records forks and exits of tasks (`task`).
    task => TASK;
    /// Also records data mappings (`mmap_data`).
    mmap_data => MMAP_DATA;
    /// Adds a trailer with [`SampleId`](rprof_records::SampleId) to all records except samples
    /// (`sample_id_all`).
    sample_id_all => SAMPLE_ID_ALL;
    /// Excludes the host (`exclude_host`).
    exclude_host => EXCLUDE_HOST;
    /// Excludes guests (`exclude_guest`).
    exclude_guest => EXCLUDE_GUEST;
    /// Excludes the kernel part of callchains (`exclude_callchain_kernel`).
    exclude_callchain_kernel => EXCLUDE_CALLCHAIN_KERNEL;
    /// Excludes the user part of callchains (`exclude_callchain_user`).
    exclude_callchain_user => EXCLUDE_CALLCHAIN_USER;
    /// Records mappings with their file's identity (`mmap2`, Linux 3.16).
    mmap2 => MMAP2;
    /// Flags names set by exec (`comm_exec`, Linux 3.16).
    comm_exec => COMM_EXEC;
    /// Records context switches (`context_switch`, Linux 4.3).
    context_switch => CONTEXT_SWITCH;
    /// Writes the ring buffer backward, for a [`BackwardRing`](crate::BackwardRing)
    /// (`write_backward`, Linux 4.6).
    write_backward => WRITE_BACKWARD;
    /// Records namespaces of tasks (`namespaces`, Linux 4.12).
    namespaces => NAMESPACES;
    /// Records symbols added to or removed from the kernel (`ksymbol`, Linux 5.0).
    ksymbol => KSYMBOL;
    /// Records loaded and unloaded BPF programs (`bpf_event`, Linux 5.0).
    bpf_event => BPF_EVENT;
    /// Writes samples into the AUX area of the group's leader (`aux_output`, Linux 5.4).
    aux_output => AUX_OUTPUT;
    /// Records new control groups (`cgroup`, Linux 5.7).
    cgroup_records => CGROUP;
    /// Records changes of kernel code (`text_poke`, Linux 5.8).
    text_poke => TEXT_POKE;
    /// Records build-ids of mapped files instead of inodes (`build_id`, Linux 5.12).
    build_id => BUILD_ID;
    /// Restricts [`inherit`](Self::inherit) to threads, without child processes (`inherit_thread`,
    /// Linux 5.13).
    inherit_thread => INHERIT_THREAD;
    /// Removes the event when the task calls exec (`remove_on_exec`, Linux 5.13).
    remove_on_exec => REMOVE_ON_EXEC;
    /// Sends SIGTRAP to the task at each overflow (`sigtrap`, Linux 5.13); requires
    /// [`remove_on_exec`](Self::remove_on_exec). [`Traps`](crate::Traps) receives the signals.
    sigtrap => SIGTRAP;
    /// Defers the user part of callchains until the task returns to user mode (`defer_callchain`,
    /// Linux 6.19).
    defer_callchain => DEFER_CALLCHAIN;
    /// Records deferred callchains (`defer_output`, Linux 6.19).
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
        let by_fields = AttrFlags::FREQ
            | AttrFlags::WATERMARK
            | AttrFlags::PRECISE_IP_1
            | AttrFlags::PRECISE_IP_2
            | AttrFlags::USE_CLOCKID;
        assert_eq!((seen | by_fields).bits(), (1 << 40) - 1);
    }
}
