//! Events of a recording, and the event of a record.

use rprof_records::{Attr, Endian, RawRecord, RecordType, SampleLayout};

use crate::user_records::{CpuSet, EventUpdate};

/// Event of a recording: its attr, its name and its ids.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// Attributes of the event.
    pub attr: Attr,
    /// Recorded name, or one derived from the attr.
    pub name: String,
    /// Ids of its instances (one for each CPU or thread).
    pub ids: Vec<u64>,
    /// Layout of its samples.
    pub layout: SampleLayout,
    /// Unit of its counts, such as `Joules`, if recorded.
    pub unit: Option<String>,
    /// Factor from counts to `unit`.
    pub scale: Option<f64>,
    /// CPUs of the event, if recorded.
    pub cpus: Option<CpuSet>,
}

/// Events of a recording, found by event id.
#[derive(Clone, Debug, Default)]
pub struct Events {
    list: Vec<RecordedEvent>,
    /// Events sorted by id. A hostile file chooses the ids, so this is no hash table.
    by_id: Vec<(u64, u32)>,
    /// Offset of the id in samples, if common to all events.
    sample_id_at: Option<usize>,
    /// Distance in bytes of a trailer's id from the end, if common to all events.
    trailer_id_at: Option<usize>,
}

impl Events {
    /// Creates the list from events with their ids, in file order. An empty name is derived from
    /// the attr. A duplicate id belongs to the first event.
    pub fn new(list: Vec<(Attr, String, Vec<u64>)>, endian: Endian) -> Events {
        let list: Vec<RecordedEvent> = (list.into_iter())
            .map(|(attr, name, ids)| RecordedEvent {
                layout: SampleLayout::new(&attr, endian),
                name: match name.is_empty() {
                    true => attr.name(),
                    false => name,
                },
                attr,
                ids,
                unit: None,
                scale: None,
                cpus: None,
            })
            .collect();
        let mut by_id: Vec<(u64, u32)> = (list.iter().zip(0..))
            .flat_map(|(event, index)| event.ids.iter().map(move |id| (*id, index)))
            .collect();
        by_id.sort_unstable();
        by_id.dedup_by_key(|(id, _)| *id);
        let same = |place: fn(&SampleLayout) -> Option<usize>| {
            let first = place(&list.first()?.layout)?;
            (list.iter())
                .all(|e| place(&e.layout) == Some(first))
                .then_some(first)
        };
        Events {
            sample_id_at: same(SampleLayout::sample_id_offset),
            trailer_id_at: same(SampleLayout::trailer_id_offset_from_end),
            by_id,
            list,
        }
    }

    pub(crate) fn update(&mut self, id: u64, update: EventUpdate) {
        let Some(event) = self.by_id(id).and_then(|i| self.list.get_mut(i)) else {
            return;
        };
        match update {
            EventUpdate::Unit(unit) => event.unit = Some(unit),
            EventUpdate::Scale(scale) => event.scale = Some(scale),
            EventUpdate::Name(name) if !name.is_empty() => event.name = name,
            EventUpdate::Cpus(cpus) => event.cpus = Some(cpus),
            _ => {}
        }
    }

    /// Returns the events.
    pub fn list(&self) -> &[RecordedEvent] {
        &self.list
    }

    /// Returns the index of the event with an id.
    pub fn by_id(&self, id: u64) -> Option<usize> {
        let at = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[at].1 as usize)
    }

    /// Returns true if several events sample, but no id separates their samples. All then belong to
    /// the first event, as in perf.
    pub fn are_indistinct(&self) -> bool {
        let sampling = self.list.iter().filter(|e| e.attr.period_or_freq != 0);
        sampling.count() > 1 && (self.sample_id_at.is_none() || self.by_id.is_empty())
    }

    /// Returns the index of a sample's event in [`list`](Self::list); `None` for an unknown id. Id
    /// 0 in synthesized samples means the first event.
    ///
    /// For other record types, use [`of_other`](Self::of_other).
    #[inline]
    pub fn of_sample(&self, record: &RawRecord<'_>) -> Option<usize> {
        if self.list.len() == 1 {
            return Some(0);
        }
        let at = match self.sample_id_at {
            Some(at) if !self.by_id.is_empty() => at,
            _ => return (!self.list.is_empty()).then_some(0),
        };
        match record.body.u64(at, record.endian)? {
            0 => Some(self.by_id(0).unwrap_or(0)),
            id => self.by_id(id),
        }
    }

    /// Returns the event of a kernel record other than a sample. Synthesized records have id 0 or
    /// none, and use the first event's layout.
    #[inline]
    pub fn of_other(&self, record: &RawRecord<'_>) -> Option<usize> {
        if self.list.is_empty() || record.kind.is_user() {
            return None;
        }
        if self.list.len() == 1 {
            return Some(0);
        }
        let id = self.trailer_id_at.and_then(|at| {
            let at = record.body.len().checked_sub(at)?;
            record.body.u64(at, record.endian)
        });
        Some(id.and_then(|id| self.by_id(id)).unwrap_or(0))
    }

    /// Returns the layout of a record, if its event is known.
    #[inline]
    pub fn layout_of(&self, record: &RawRecord<'_>) -> Option<&SampleLayout> {
        let index = match record.kind {
            RecordType::SAMPLE => self.of_sample(record),
            _ => self.of_other(record),
        }?;
        Some(&self.list[index].layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Misc, RawBytes, SampleType};

    fn events(ids: [Vec<u64>; 2]) -> Events {
        let attr = Attr {
            sample_type: SampleType::IDENTIFIER | SampleType::IP,
            period_or_freq: 1000,
            ..Attr::default()
        };
        let list = ids.map(|ids| (attr.clone(), String::new(), ids)).to_vec();
        Events::new(list, Endian::Little)
    }

    fn event_of(events: &Events, id: u64) -> Option<usize> {
        let body = [id.to_le_bytes(), [0; 8]].concat();
        events.of_sample(&RawRecord {
            kind: RecordType::SAMPLE,
            misc: Misc(0),
            body: RawBytes::from(&body[..]),
            endian: Endian::Little,
        })
    }

    #[test]
    fn samples_are_told_apart_by_id() {
        let events = events([vec![1, 2], vec![3, 2]]);
        let of = [1, 2, 3, 4, 0].map(|id| event_of(&events, id));
        assert_eq!(of, [Some(0), Some(0), Some(1), None, Some(0)]);
        assert!(!events.are_indistinct());
    }

    #[test]
    fn without_ids_the_first_event_takes_all() {
        let events = events([vec![], vec![]]);
        assert_eq!(event_of(&events, 77), Some(0));
        assert!(events.are_indistinct());
    }

    #[test]
    fn an_update_is_noted() {
        let mut events = events([vec![1], vec![2]]);
        events.update(2, EventUpdate::Name("power".into()));
        events.update(2, EventUpdate::Unit("Joules".into()));
        events.update(2, EventUpdate::Scale(0.5));
        events.update(9, EventUpdate::Scale(0.25));
        let event = &events.list()[1];
        assert_eq!(
            (&event.name[..], event.unit.as_deref(), event.scale),
            ("power", Some("Joules"), Some(0.5))
        );
    }
}
