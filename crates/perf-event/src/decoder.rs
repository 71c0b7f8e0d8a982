//! [`RecordDecoder`]: bytes of a ring to typed records, whichever of several events they are of.

use rprof_records::{
    Attr, DecodeError, Endian, Misc, RawBytes, RawRecord, Record, RecordType, SampleId,
    SampleLayout,
};

/// Layouts of the events that share a ring.
#[derive(Clone, Debug)]
pub struct RecordDecoder {
    /// Ids and layouts; an id of `None` is that of an event alone.
    events: Vec<(Option<u64>, SampleLayout)>,
}

/// Record of a ring.
#[derive(Clone, Debug)]
pub struct RingRecord<'a> {
    /// Number of its event, in the order in which the events were added.
    pub event: usize,
    /// Bits of its header.
    pub misc: Misc,
    /// Trailer of a record that is no sample; empty without
    /// [`sample_id_all`](crate::Builder::sample_id_all).
    pub id: SampleId,
    /// Record itself.
    pub record: Record<'a>,
}

impl RecordDecoder {
    /// Begins with the one event that a ring is of.
    pub fn new(attr: &Attr) -> RecordDecoder {
        RecordDecoder {
            events: vec![(None, SampleLayout::new(attr, Endian::NATIVE))],
        }
    }

    /// Adds an event whose records are [redirected](crate::PerfFd::redirect_to) to the ring, by the id that
    /// [`PerfFd::id`](crate::PerfFd::id) gives. All must have
    /// [`SampleType::IDENTIFIER`](rprof_records::SampleType::IDENTIFIER) then; records that say no
    /// id of an event that was added are taken for the first one's.
    pub fn add(&mut self, id: u64, attr: &Attr) {
        let layout = SampleLayout::new(attr, Endian::NATIVE);
        self.events.push((Some(id), layout));
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// [`DecodeError`] where a field does not fit.
    pub fn decode<'a>(&'a self, raw: &RawRecord<'a>) -> Result<RingRecord<'a>, DecodeError> {
        let event = self.event_of(raw);
        let layout = &self.events[event].1;
        let id = match raw.kind {
            RecordType::SAMPLE => SampleId::default(),
            _ => layout.sample_id(raw),
        };
        Ok(RingRecord {
            event,
            misc: raw.misc,
            id,
            record: Record::decode(raw, Some(layout))?,
        })
    }

    /// Decodes records that stand one behind the other, up to the first that is cut off.
    pub fn records<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = Result<RingRecord<'a>, DecodeError>> {
        let mut rest = RawBytes::from(bytes);
        std::iter::from_fn(move || {
            let raw = RawRecord::parse(rest, Endian::NATIVE)?;
            rest = rest.get_from(raw.size())?;
            Some(self.decode(&raw))
        })
    }

    /// Finds the event of a record: IDENTIFIER is the first word of a sample and the last of a trailer.
    fn event_of(&self, raw: &RawRecord<'_>) -> usize {
        if self.events.len() == 1 {
            return 0;
        }
        let at = match raw.kind {
            RecordType::SAMPLE => Some(0),
            _ => raw.body.len().checked_sub(8),
        };
        let id = at.and_then(|at| raw.body.u64(at, raw.endian));
        (self.events.iter())
            .position(|(event, _)| event.is_some() && *event == id)
            .unwrap_or(0)
    }
}
