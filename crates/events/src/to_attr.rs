//! [`Event::apply`]: writes an event into `perf_event_attr`.

use crate::event::{Event, EventDetail};
use crate::settings::SamplingRate;
use rprof_records::{Attr, AttrFlags, EventKind, ReadFormat, SampleType};
use std::ffi::CStr;

/// Flags that only the event determines.
const OWN_FLAGS: AttrFlags = AttrFlags::EXCLUDE_GUEST
    .union(AttrFlags::EXCLUDE_HOST)
    .union(AttrFlags::EXCLUDE_IDLE)
    .union(AttrFlags::PRECISE_IP_1)
    .union(AttrFlags::PRECISE_IP_2)
    .union(AttrFlags::PINNED)
    .union(AttrFlags::EXCLUSIVE);

impl Event {
    /// Writes the event into an attr that already has all other fields, including the rate.
    ///
    /// - Set: type, config words (for breakpoints address and length), breakpoint type,
    ///   `precise_ip`, guests, host and idle, pinned and exclusive.
    /// - Added: `exclude_user`, `exclude_kernel` and `exclude_hv`; sample fields that the event
    ///   requires ([`needs_raw`](Self::needs_raw), `READ` for `S`).
    /// - For `S`: each sample of the leader reads the group's counts (`PERF_FORMAT_GROUP`), without
    ///   `inherit`, which Linux refused with it until 6.12. The other events have neither frequency
    ///   nor period.
    /// - `inherit` according to the event's own setting, if any; never for a [probe by
    ///   path](Self::is_inherited).
    ///
    /// Does not set the pointer to a probe's path: see [`probe_path`](Self::probe_path).
    ///
    /// # Examples
    /// ```
    /// use rprof_events::Event;
    /// use rprof_records::{Attr, AttrFlags, EventKind};
    ///
    /// let mut attr = Attr::default();
    /// Event::parse("instructions:u")?.apply(&mut attr);
    /// assert_eq!((attr.kind, attr.config), (EventKind::HARDWARE, 1));
    /// assert!(attr.flags.contains(AttrFlags::EXCLUDE_KERNEL));
    /// # Ok::<(), rprof_events::EventError>(())
    /// ```
    pub fn apply(&self, attr: &mut Attr) {
        attr.kind = self.kind;
        [
            attr.config,
            attr.config1,
            attr.config2,
            attr.config3,
            attr.config4,
        ] = self.config;
        attr.bp_type = self.bp_type;
        attr.flags.remove(OWN_FLAGS);
        attr.flags |= self.modifiers.exclude_flags() | self.qualifiers.flags();
        if self.is_leader {
            attr.flags.set(AttrFlags::PINNED, self.qualifiers.pinned);
            (attr.flags).set(AttrFlags::EXCLUSIVE, self.qualifiers.exclusive);
        }
        if let Some(inherit) = self.settings.inherit {
            attr.flags.set(AttrFlags::INHERIT, inherit);
        }
        if !self.is_inherited() {
            attr.flags.remove(AttrFlags::INHERIT);
        }
        if self.needs_raw() {
            attr.sample_type |= SampleType::RAW | SampleType::TIME | SampleType::CPU;
        }
        if self.qualifiers.sample_read {
            attr.sample_type |= SampleType::READ;
            if self.group.is_some() {
                attr.read_format |= ReadFormat::GROUP | ReadFormat::ID;
                attr.flags.remove(AttrFlags::INHERIT);
            }
            if !self.takes_samples() {
                attr.flags.remove(AttrFlags::FREQ);
                attr.period_or_freq = 0;
            }
        }
    }

    /// Returns its own rate (`/freq=…/` or `/period=…/`), which overrides the recording's.
    pub fn rate(&self) -> Option<SamplingRate> {
        self.settings.rate
    }

    /// Returns the default period without any configured rate: 1 for tracepoints, breakpoints,
    /// probes and BPF output, as in perf.
    pub fn default_period(&self) -> Option<u64> {
        let each = self.needs_raw()
            || self.kind == EventKind::BREAKPOINT
            || matches!(self.detail, EventDetail::Probe(_));
        each.then_some(1)
    }

    /// Returns true if its samples are useless without their payload (`PERF_SAMPLE_RAW`):
    /// tracepoints and BPF output.
    pub fn needs_raw(&self) -> bool {
        // As in perf, not for the number of an unknown tracepoint.
        matches!(self.detail, EventDetail::Tracepoint { .. }) || self.is_bpf_output()
    }

    /// Returns true for events with samples. In a group with `S`, only the leader takes them.
    pub(crate) fn takes_samples(&self) -> bool {
        self.is_leader || !self.qualifiers.sample_read
    }

    /// Returns the requested `precise_ip`, 0 to 3.
    pub fn precise(&self) -> u8 {
        self.qualifiers.precise_ip()
    }

    /// Returns true if a lower precision is acceptable (`P`).
    pub fn any_precise(&self) -> bool {
        self.qualifiers.most_precise
    }

    /// Returns the text that `attr.config1` must point to while the event is being opened: a
    /// uprobe's path or a kprobe's function (`uprobe_path`, `kprobe_func`).
    ///
    /// A pointer is meaningless in a file, so the stored attr has 0 there. The event must outlive
    /// the call of perf_event_open(2).
    pub fn probe_path(&self) -> Option<&CStr> {
        match &self.detail {
            EventDetail::Probe(text) => text.as_deref(),
            _ => None,
        }
    }

    /// Returns true if new threads and child processes of a target can inherit it.
    ///
    /// The kernel reads a probe's path again, from the memory of the target process, where it does
    /// not exist. clone(2) then fails in that process with `EFAULT` (`perf_uprobe_init`, seen with
    /// Linux 6.18).
    pub fn is_inherited(&self) -> bool {
        self.probe_path().is_none()
    }

    /// Returns true if it counts elapsed time even on an idle CPU: the kernel's clocks.
    pub fn ticks_when_idle(&self) -> bool {
        let clocks = [crate::generic::SW_CPU_CLOCK, crate::generic::SW_TASK_CLOCK];
        self.kind == EventKind::SOFTWARE && clocks.contains(&self.config[0])
    }

    fn is_bpf_output(&self) -> bool {
        self.kind == EventKind::SOFTWARE && self.config[0] == crate::generic::SW_BPF_OUTPUT
    }
}
