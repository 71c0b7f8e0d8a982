//! Ids that stand for an event of this session.
//!
//! Headers of recordings and tables of receivers have the ids from the start. So records of an
//! event that was opened again get its predecessor's id.
//!
//! Linux prepares the sample of a software event once for all recorders that count the event on a
//! thread (`do_perf_sw_event`). So samples can have the id of another recorder's event, at least on
//! Linux 6.18. Only one event of the session can be meant, unless it has several that the kernel
//! counts this way.

use crate::open::EventIds;
use rprof_perf_event::Software;
use rprof_records::{EventKind, RecordType};
use std::collections::HashSet;
use std::sync::Arc;

/// Ids in records, and those that replace them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aliases {
    /// Id of a new event, and of the first event in its place.
    renewed: Vec<(u64, u64)>,
    shared: Option<Arc<SharedEvent>>,
}

/// A software event that other recorders may count too.
#[derive(Debug)]
struct SharedEvent {
    /// Id for samples of unknown ids.
    id: u64,
    known: HashSet<u64>,
}

impl Aliases {
    /// Takes the ids of a session's events.
    pub(crate) fn of(events: &[EventIds]) -> Aliases {
        let mut shared = events.iter().filter(|event| can_be_shared(event));
        let id = match (shared.next(), shared.next()) {
            (Some(event), None) => event.ids.first().copied(),
            _ => None,
        };
        let ids = events.iter().flat_map(|event| &event.ids);
        let shared = id.map(|id| SharedEvent {
            id,
            known: ids.copied().collect(),
        });
        Aliases {
            renewed: Vec::new(),
            shared: shared.map(Arc::new),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.renewed.is_empty() && self.shared.is_none()
    }

    /// Adds a new event in place of `old`. Returns the first event's id.
    pub(super) fn add(&mut self, new: u64, old: u64) -> u64 {
        let first = self.first_of(old).unwrap_or(old);
        self.renewed.push((new, first));
        first
    }

    fn first_of(&self, id: u64) -> Option<u64> {
        let found = self.renewed.iter().find(|(new, _)| *new == id);
        found.map(|(_, first)| *first)
    }

    /// Returns the id for an unknown one of a sample.
    fn of_shared(&self, id: u64) -> Option<u64> {
        let shared = self.shared.as_ref()?;
        (!shared.known.contains(&id)).then_some(shared.id)
    }

    /// Replaces the ids in whole records with IDENTIFIER.
    pub(super) fn apply(&self, mut records: &mut [u8]) {
        while let [a, b, c, d, _, _, low, high, ..] = *records {
            let size = usize::from(u16::from_ne_bytes([low, high]));
            let Some((record, rest)) = records.split_at_mut_checked(size.max(8)) else {
                break;
            };
            let trailer = size.saturating_sub(8);
            let kind = RecordType(u32::from_ne_bytes([a, b, c, d]));
            let (in_body, has_trailer) = match kind {
                RecordType::SAMPLE => (Some(8), false),
                RecordType::LOST => (Some(8), true),
                RecordType::THROTTLE | RecordType::UNTHROTTLE => (Some(16), true),
                _ => (None, true),
            };
            let places = in_body.into_iter().chain(has_trailer.then_some(trailer));
            for at in places.filter(|at| *at >= 8) {
                self.replace(record, at, kind == RecordType::SAMPLE);
            }
            records = rest;
        }
    }

    fn replace(&self, record: &mut [u8], at: usize, is_sample: bool) {
        let Some(word) = record.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<8>) else {
            return;
        };
        let id = u64::from_ne_bytes(*word);
        let first = self.first_of(id);
        let first = first.or_else(|| is_sample.then(|| self.of_shared(id)).flatten());
        if let Some(first) = first {
            *word = first.to_ne_bytes();
        }
    }
}

/// Returns true if the kernel counts the event for all recorders at once. Clocks have timers of
/// their own, and the last two count nothing.
fn can_be_shared(event: &EventIds) -> bool {
    const OTHERS: [Software; 4] = [
        Software::CPU_CLOCK,
        Software::TASK_CLOCK,
        Software::DUMMY,
        Software::BPF_OUTPUT,
    ];
    event.attr.kind == EventKind::SOFTWARE
        && event.attr.period_or_freq > 0
        && !OTHERS.contains(&Software(event.attr.config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: RecordType, words: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * words.len() as u16;
        let mut bytes = kind.0.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_of_events_opened_twice_again_get_the_first_id() {
        let mut aliases = Aliases::default();
        assert_eq!(aliases.add(20, 10), 10);
        assert_eq!(aliases.add(30, 20), 10);
        let records = |id| {
            [
                record(RecordType::SAMPLE, &[id, 30, 30]),
                record(RecordType::LOST, &[id, 30, 7, id]),
                record(RecordType::THROTTLE, &[30, id, 5, 7, id]),
                record(RecordType::COMM, &[30, 30, id]),
                record(RecordType::SWITCH, &[id]),
                record(RecordType::SWITCH, &[]),
            ]
            .concat()
        };
        for id in [30, 20, 10] {
            let mut bytes = records(id);
            aliases.apply(&mut bytes);
            assert_eq!(bytes, records(10), "{id}");
        }
        let mut others = records(11);
        aliases.apply(&mut others);
        assert_eq!(others, records(11));
        let mut cut = records(30);
        cut.truncate(cut.len() - 9);
        aliases.apply(&mut cut);
        aliases.apply(&mut [0; 16]);
    }
}
