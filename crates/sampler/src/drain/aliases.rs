//! Ids of events that were opened again.
//!
//! Headers of recordings and tables of receivers have the ids from the start. So records of a new
//! event get its predecessor's id.

use rprof_records::RecordType;

/// Id of a new event, and of the first event in its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Aliases(Vec<(u64, u64)>);

impl Aliases {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a new event in place of `old`. Returns the first event's id.
    pub(super) fn add(&mut self, new: u64, old: u64) -> u64 {
        let first = self.first_of(old).unwrap_or(old);
        self.0.push((new, first));
        first
    }

    fn first_of(&self, id: u64) -> Option<u64> {
        let found = self.0.iter().find(|(new, _)| *new == id);
        found.map(|(_, first)| *first)
    }

    /// Replaces the ids in whole records with IDENTIFIER.
    pub(super) fn apply(&self, mut records: &mut [u8]) {
        while let [a, b, c, d, _, _, low, high, ..] = *records {
            let size = usize::from(u16::from_ne_bytes([low, high]));
            let Some((record, rest)) = records.split_at_mut_checked(size.max(8)) else {
                break;
            };
            let trailer = size.saturating_sub(8);
            let (in_body, has_trailer) = match RecordType(u32::from_ne_bytes([a, b, c, d])) {
                RecordType::SAMPLE => (Some(8), false),
                RecordType::LOST => (Some(8), true),
                RecordType::THROTTLE | RecordType::UNTHROTTLE => (Some(16), true),
                _ => (None, true),
            };
            let places = in_body.into_iter().chain(has_trailer.then_some(trailer));
            for at in places.filter(|at| *at >= 8) {
                self.replace(record, at);
            }
            records = rest;
        }
    }

    fn replace(&self, record: &mut [u8], at: usize) {
        let word = record.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<8>);
        if let Some(word) = word
            && let Some(first) = self.first_of(u64::from_ne_bytes(*word))
        {
            *word = first.to_ne_bytes();
        }
    }
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
