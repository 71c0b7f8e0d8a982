//! [`RecordDecoder`]: decodes records of a ring buffer of one or more events.

use rprof_records::{
    Attr, DecodeError, Endian, Misc, RawBytes, RawRecord, Record, RecordType, SampleId,
    SampleLayout,
};

/// Layouts of the events that share a ring buffer.
#[derive(Clone, Debug)]
pub struct RecordDecoder {
    /// Ids and layouts. A single event has no id.
    events: Vec<(Option<u64>, SampleLayout)>,
}

/// Record of a ring buffer.
#[derive(Clone, Debug)]
pub struct RingRecord<'a> {
    /// Index of its event, in the order of addition.
    pub event: usize,
    /// Bits of its header.
    pub misc: Misc,
    /// Trailer of a record other than a sample; empty without
    /// [`sample_id_all`](crate::Builder::sample_id_all).
    pub id: SampleId,
    /// Decoded record.
    pub record: Record<'a>,
}

impl RecordDecoder {
    /// Creates a decoder for the ring buffer's own event.
    pub fn new(attr: &Attr) -> RecordDecoder {
        RecordDecoder {
            events: vec![(None, SampleLayout::new(attr, Endian::NATIVE))],
        }
    }

    /// Adds an event whose records are [redirected](crate::PerfFd::redirect_to) to the ring buffer,
    /// by its [id](crate::PerfFd::id). All events then require
    /// [`SampleType::IDENTIFIER`](rprof_records::SampleType::IDENTIFIER). Unknown ids belong to the
    /// first event.
    pub fn add(&mut self, id: u64, attr: &Attr) {
        let layout = SampleLayout::new(attr, Endian::NATIVE);
        self.events.push((Some(id), layout));
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if a field is invalid.
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

    /// Decodes consecutive records, up to the first truncated one.
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

    /// Finds the event of a record. IDENTIFIER is a sample's first and a trailer's last word.
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
