//! Into `perf_event_attr`.

use crate::event::Origin;
use crate::{Event, Rate};
use rprof_records::{Attr, AttrFlags, EventKind, ReadFormat, SampleType};
use std::ffi::CStr;

/// Bits that the event alone decides.
const OWN: AttrFlags = AttrFlags::EXCLUDE_GUEST
    .union(AttrFlags::EXCLUDE_HOST)
    .union(AttrFlags::EXCLUDE_IDLE)
    .union(AttrFlags::PRECISE_IP_1)
    .union(AttrFlags::PRECISE_IP_2)
    .union(AttrFlags::PINNED)
    .union(AttrFlags::EXCLUSIVE);

impl Event {
    /// Writes what the event says into an attr that has all else already, the rate included.
    ///
    /// - Set: type, config words (for breakpoints address and length), breakpoint type, `precise_ip`,
    ///   guests, host and idle, pinned and exclusive.
    /// - Added: `exclude_user`, `exclude_kernel` and `exclude_hv`; sample fields that this event
    ///   is of no use without ([`needs_raw`](Self::needs_raw), `READ` for `S`).
    /// - For `S`: the group's counts are read with each sample of the leader
    ///   (`PERF_FORMAT_GROUP`), which is not for children (no `inherit`; Linux refused that until
    ///   6.12), and the other events have neither frequency nor period.
    /// - `inherit` as the event's own setting has it.
    ///
    /// The pointer to a probe's path is not set: see [`probe_path`](Self::probe_path).
    pub fn apply(&self, attr: &mut Attr) {
        attr.kind = self.kind;
        [
            attr.config,
            attr.config1,
            attr.config2,
            attr.config3,
            attr.config4,
        ] = self.words;
        attr.bp_type = self.bp_type;
        attr.flags.remove(OWN);
        attr.flags |= self.modifiers.exclude_flags() | self.qualifiers.flags();
        if self.leads {
            attr.flags.set(AttrFlags::PINNED, self.qualifiers.pinned);
            (attr.flags).set(AttrFlags::EXCLUSIVE, self.qualifiers.exclusive);
        }
        if let Some(inherit) = self.settings.inherit {
            attr.flags.set(AttrFlags::INHERIT, inherit);
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

    /// Its own rate, by `/freq=…/` or `/period=…/`; goes before what is asked for the recording.
    pub fn rate(&self) -> Option<Rate> {
        self.settings.rate
    }

    /// The period when no rate is asked for at all, neither for the event nor for the recording.
    ///
    /// Each tracepoint, breakpoint, probe and BPF output is a sample of its own then, as in perf.
    pub fn default_period(&self) -> Option<u64> {
        let each = self.needs_raw()
            || self.kind == EventKind::BREAKPOINT
            || matches!(self.origin, Origin::Probe(_));
        each.then_some(1)
    }

    /// Whether its samples say nothing without their payload (`PERF_SAMPLE_RAW`).
    pub fn needs_raw(&self) -> bool {
        // Numbers typed without their tracepoint being known are left alone, as in perf.
        matches!(self.origin, Origin::Tracepoint { .. }) || self.is_bpf_output()
    }

    /// Whether it takes samples. In a group with `S` only the leader does.
    pub fn takes_samples(&self) -> bool {
        self.leads || !self.qualifiers.sample_read
    }

    /// `precise_ip` as it is asked for, 0 to 3.
    pub fn precise(&self) -> u8 {
        self.qualifiers.precise_ip()
    }

    /// Whether a lower precision than asked for will do (`P`).
    pub fn any_precise(&self) -> bool {
        self.qualifiers.most_precise
    }

    /// What `attr.config1` must point to while the event is being opened, and only then: a
    /// uprobe's path or a kprobe's function (`uprobe_path`, `kprobe_func`).
    ///
    /// A pointer means nothing in a file, so the attr that is kept has 0 there. The kernel copies
    /// the text during perf_event_open(2); the event must outlive that call and no more.
    pub fn probe_path(&self) -> Option<&CStr> {
        match &self.origin {
            Origin::Probe(text) => text.as_deref(),
            _ => None,
        }
    }

    fn is_bpf_output(&self) -> bool {
        self.kind == EventKind::SOFTWARE && self.words[0] == crate::generic::SW_BPF_OUTPUT
    }
}
