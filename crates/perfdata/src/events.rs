//! Which record belongs to which event.

use rprof_records::{Attr, Endian, RawRecord, RecordType, SampleLayout};
use rustc_hash::FxHashMap;

/// One recorded event.
#[derive(Clone, Debug)]
pub struct Event {
    /// How it was opened.
    pub attr: Attr,
    /// Its name as the recorder wrote it, else made from the attr.
    pub name: String,
    /// Ids of its instances (one for each CPU or thread).
    pub ids: Vec<u64>,
    /// Where the fields of its samples stand.
    pub layout: SampleLayout,
}

/// All events of a recording.
#[derive(Clone, Debug, Default)]
pub struct Events {
    list: Vec<Event>,
    by_id: FxHashMap<u64, u32>,
    /// Where a sample's id stands, if at one place for all events.
    sample_id_at: Option<usize>,
    /// The same for trailers, in bytes from the end.
    trailer_id_at: Option<usize>,
}

impl Events {
    /// Events in the order of the file, each with its ids; an empty name is
    /// replaced by one made from the attr.
    pub fn new(list: Vec<(Attr, String, Vec<u64>)>, endian: Endian) -> Events {
        let mut events = Events::default();
        for (attr, name, ids) in list {
            events.push(attr, name, ids, endian);
        }
        events
    }

    pub(crate) fn push(&mut self, attr: Attr, name: String, ids: Vec<u64>, endian: Endian) {
        let layout = SampleLayout::new(&attr, endian);
        let name = match name.is_empty() {
            true => attr.name(),
            false => name,
        };
        let index = self.list.len() as u32;
        for id in &ids {
            self.by_id.entry(*id).or_insert(index);
        }
        self.list.push(Event {
            attr,
            name,
            ids,
            layout,
        });
        let same = |place: fn(&SampleLayout) -> Option<usize>| {
            let first = place(&self.list.first()?.layout)?;
            (self.list.iter())
                .all(|e| place(&e.layout) == Some(first))
                .then_some(first)
        };
        let sample = same(SampleLayout::sample_id_offset);
        let trailer = same(SampleLayout::trailer_id_offset_from_end);
        self.sample_id_at = sample;
        self.trailer_id_at = trailer;
    }

    pub(crate) fn set_name(&mut self, id: u64, name: String) {
        if let Some(index) = self.by_id.get(&id) {
            self.list[*index as usize].name = name;
        }
    }

    /// The events.
    pub fn list(&self) -> &[Event] {
        &self.list
    }

    /// The event that `id` belongs to.
    pub fn by_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).map(|i| *i as usize)
    }

    /// The event of a sample; `None` for an id that no event has.
    #[inline]
    pub fn of_sample(&self, record: &RawRecord<'_>) -> Option<usize> {
        if self.list.len() == 1 {
            return Some(0);
        }
        // Without ids in the samples the first event takes them all, as in perf.
        let Some(at) = self.sample_id_at else {
            return (!self.list.is_empty()).then_some(0);
        };
        self.by_id(record.body.u64(at, record.endian)?)
    }

    /// The event of a kernel record that is not a sample. Records that a recorder
    /// synthesised carry id 0, or none: they are laid out as the first event says.
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

    /// The layout for a record, if its event is known.
    #[inline]
    pub fn layout_of(&self, record: &RawRecord<'_>) -> Option<&SampleLayout> {
        let index = match record.kind {
            RecordType::SAMPLE => self.of_sample(record),
            _ => self.of_other(record),
        }?;
        Some(&self.list[index].layout)
    }
}
