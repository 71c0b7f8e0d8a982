//! Event descriptions for the file, with the attrs of the rewritten records.

use rprof_perfdata::EventDescription;
use rprof_records::request_context::BPF_OUTPUT;
use rprof_records::{Attr, AttrFlags, EventKind, SampleType};
use rprof_sampler::{EventIds, Role};

use crate::unwind::is_to_unwind;

/// Event name of wait samples, as in perf.
const WAITS: &str = "offcpu-time";

/// Returns the id of the event at this index of [`Rewriting::sums`], beyond the first. The kernel
/// counts ids from 1.
pub(crate) fn made_up_id(event: usize) -> u64 {
    1 << 63 | event as u64
}

/// Changes to records before they are written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rewriting {
    /// Registers and stack bytes become callchains.
    pub(crate) unwinds: bool,
    /// Mask of user registers that samples keep.
    pub(crate) kept_registers: u64,
    /// Keeps SWITCH records besides the waits computed from them.
    pub(crate) keeps_switches: bool,
    /// Names of the events that the samples of the first event are added up to; empty if they
    /// are written themselves.
    pub(crate) sums: &'static [&'static str],
    /// Waits contain their wakers.
    pub(crate) records_wakers: bool,
}

impl Rewriting {
    pub(crate) fn unwound(&self, attr: &Attr) -> Attr {
        match self.unwinds && is_to_unwind(attr) {
            true => attr.unwound(self.kept_registers),
            false => attr.clone(),
        }
    }

    pub(crate) fn describe(&self, events: &[EventIds]) -> Vec<EventDescription> {
        let wakeups = || events.iter().filter(|event| event.role == Role::Wakeups);
        let describe = |event: &EventIds| {
            let attr = self.unwound(&event.attr);
            let mut ids = event.ids.clone();
            let (attr, name) = match event.role {
                Role::OffCpu => {
                    // LOST and THROTTLE records name the event, and perf rejects unknown ids.
                    ids.extend(wakeups().flat_map(|event| &event.ids));
                    let attr = attr_of_waits(&attr, *self);
                    (attr, WAITS.to_owned())
                }
                _ => (attr, event.name.clone()),
            };
            EventDescription { attr, name, ids }
        };
        // Wakeups are part of the waits that they end.
        let is_written = |event: &&EventIds| event.role != Role::Wakeups;
        let written = events.iter().filter(is_written);
        let mut described: Vec<EventDescription> = written.map(describe).collect();
        if !self.sums.is_empty() && !described.is_empty() {
            let mut summed = described.remove(0);
            // Other events change the sums. LOST records name them, and perf rejects unknown ids.
            for other in described.extract_if(.., |other| other.attr.kind == EventKind::TRACEPOINT)
            {
                summed.ids.extend(other.ids);
            }
            let of_moment = |(number, name): (usize, &&str)| {
                let mut attr = without_payload(&summed.attr);
                attr.bp_type = 0;
                (attr.config1, attr.config2) = (0, 0);
                (attr.kind, attr.config) = (EventKind::SOFTWARE, BPF_OUTPUT);
                EventDescription {
                    attr,
                    name: (*name).to_owned(),
                    ids: match number {
                        0 => summed.ids.clone(),
                        _ => vec![made_up_id(number)],
                    },
                }
            };
            let moments = self.sums.iter().enumerate().map(of_moment);
            described.splice(0..0, moments);
        }
        described
    }
}

/// Returns an attr whose samples lack the payload of a tracepoint: a sum has none.
pub(crate) fn without_payload(attr: &Attr) -> Attr {
    let mut attr = attr.clone();
    attr.sample_type.remove(SampleType::RAW);
    attr
}

/// Returns the attr of wait samples for the unwound attr `switches`. With wakers, the address field
/// is a [`WaitEnd`](rprof_records::WaitEnd).
pub(crate) fn attr_of_waits(switches: &Attr, rewriting: Rewriting) -> Attr {
    let mut attr = switches.clone();
    (attr.kind, attr.config) = (EventKind::SOFTWARE, BPF_OUTPUT);
    attr.sample_type |= SampleType::PERIOD;
    attr.sample_type
        .set(SampleType::ADDR, rewriting.records_wakers);
    (attr.flags).set(AttrFlags::CONTEXT_SWITCH, rewriting.keeps_switches);
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_of_the_rings_belongs_to_a_described_event() {
        let roles = [Role::Samples, Role::Wakeups, Role::OffCpu, Role::Sideband];
        let events: Vec<EventIds> = (1..)
            .zip(roles)
            .map(|(number, role)| EventIds {
                role,
                attr: Attr::default(),
                name: format!("{role:?}"),
                ids: vec![10 * number, 10 * number + 1],
            })
            .collect();
        let described = Rewriting::default().describe(&events);
        let ids = |name: &str| {
            let event = described.iter().find(|event| event.name == name);
            event.map(|event| event.ids.clone())
        };
        assert_eq!(described.len(), 3);
        assert_eq!(ids("Samples"), Some(vec![10, 11]));
        assert_eq!(ids(WAITS), Some(vec![30, 31, 20, 21]), "with the wakeups");
        assert_eq!(ids("Sideband"), Some(vec![40, 41]));
    }
}
