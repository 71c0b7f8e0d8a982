//! Field offsets of samples and trailers.

use crate::attr::Attr;
use crate::bytes::{Endian, RawBytes};
use crate::flags::{AttrFlags, BranchSampleType, ReadFormat, SampleType};
use crate::header::{RawRecord, RecordType};
use crate::sample_id::SampleId;

/// Fixed-size fields in the kernel's order (`perf_output_sample`, perf_event_open(2)).
pub(crate) const FIXED: [SampleType; 9] = [
    SampleType::IDENTIFIER,
    SampleType::IP,
    SampleType::TID,
    SampleType::TIME,
    SampleType::ADDR,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::PERIOD,
];

/// One-word fields of the trailer, in order.
pub(crate) const TRAILER: [SampleType; 6] = [
    SampleType::TID,
    SampleType::TIME,
    SampleType::ID,
    SampleType::STREAM_ID,
    SampleType::CPU,
    SampleType::IDENTIFIER,
];

/// Offset of a missing field.
const NONE: u8 = u8::MAX;

/// Field offsets in samples and trailers of one event.
///
/// Reading a fixed field is one load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleLayout {
    pub(crate) sample_type: SampleType,
    pub(crate) read_format: ReadFormat,
    pub(crate) branch: BranchSampleType,
    pub(crate) regs_user: u64,
    pub(crate) regs_intr: u64,
    pub(crate) endian: Endian,
    /// Byte offset of each field of `FIXED`, or `NONE`.
    fixed: [u8; FIXED.len()],
    pub(crate) fixed_len: u8,
    /// Byte offset of each field of `TRAILER`, or `NONE`.
    trailer: [u8; TRAILER.len()],
    trailer_len: u8,
}

impl SampleLayout {
    /// One-word fields at the start of every sample, in order.
    pub const FIXED: [SampleType; 9] = FIXED;

    /// Computes the layout of records of an event with this attr.
    pub fn new(attr: &Attr, endian: Endian) -> SampleLayout {
        let place = |order: &[SampleType], out: &mut [u8]| {
            let mut at = 0;
            for (field, slot) in order.iter().zip(out) {
                if attr.sample_type.contains(*field) {
                    *slot = at;
                    at += 8;
                }
            }
            at
        };
        let mut fixed = [NONE; FIXED.len()];
        let fixed_len = place(&FIXED, &mut fixed);
        let mut trailer = [NONE; TRAILER.len()];
        let trailer_len = match attr.flags.contains(AttrFlags::SAMPLE_ID_ALL) {
            true => place(&TRAILER, &mut trailer),
            false => 0,
        };
        SampleLayout {
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            endian,
            fixed,
            fixed_len,
            trailer,
            trailer_len,
        }
    }

    /// Returns true if this crate supports all fields of a sample and all parts of variable ones.
    pub(crate) fn has_known_fields(&self) -> bool {
        /// Supported bits of `perf_event_attr.read_format` and `branch_sample_type`.
        const READ: u64 = (ReadFormat::LOST.bits() << 1) - 1;
        const BRANCH: u64 = (BranchSampleType::COUNTERS.bits() << 1) - 1;
        let is_known =
            |field, bits: u64, known: u64| !self.sample_type.contains(field) || bits & !known == 0;
        SampleType::all_known().contains(self.sample_type)
            && is_known(SampleType::READ, self.read_format.bits(), READ)
            && is_known(SampleType::BRANCH_STACK, self.branch.bits(), BRANCH)
    }

    /// Returns the fields of a sample.
    pub fn sample_type(&self) -> SampleType {
        self.sample_type
    }

    /// Returns the byte order of the recording.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the length of the trailer in bytes; 0 if there is none.
    pub fn trailer_len(&self) -> usize {
        usize::from(self.trailer_len)
    }

    /// Returns the byte offset of a fixed field in a sample's body.
    ///
    /// `field` is one bit of IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD. Returns
    /// `None` for other fields, or if the sample lacks it.
    #[inline]
    pub fn fixed_offset(&self, field: SampleType) -> Option<usize> {
        let index = FIXED.iter().position(|f| *f == field)?;
        match self.fixed[index] {
            NONE => None,
            at => Some(usize::from(at)),
        }
    }

    /// Returns the offset of the event id in a sample's body: IDENTIFIER, else ID.
    pub fn sample_id_offset(&self) -> Option<usize> {
        self.fixed_offset(SampleType::IDENTIFIER)
            .or_else(|| self.fixed_offset(SampleType::ID))
    }

    /// Returns the distance in bytes from the event id in a trailer to the end of the body.
    pub fn trailer_id_offset_from_end(&self) -> Option<usize> {
        let at = match (self.trailer[5], self.trailer[2]) {
            (NONE, NONE) => return None,
            (NONE, id) => id,
            (identifier, _) => identifier,
        };
        Some(usize::from(self.trailer_len - at))
    }

    /// Returns the offset of a trailer word in a record's body. Samples and user records have no
    /// trailer.
    #[inline]
    fn trailer_word(&self, record: &RawRecord<'_>, index: usize) -> Option<usize> {
        if record.kind == RecordType::SAMPLE || record.kind.is_user() {
            return None;
        }
        match self.trailer[index] {
            NONE => None,
            at => Some(record.body.len().checked_sub(self.trailer_len())? + usize::from(at)),
        }
    }

    /// Returns the time of a record in nanoseconds of the event's clock, from a sample's field or
    /// from the trailer. Returns `None` for user records.
    #[inline]
    pub fn time_of(&self, record: &RawRecord<'_>) -> Option<u64> {
        match record.kind {
            RecordType::SAMPLE => self.sample_time(&record.body),
            _ => self.trailer_time(record),
        }
    }

    /// Returns the time in a record's trailer, in nanoseconds of the event's clock. Returns `None`
    /// for samples and user records, which have no trailer.
    #[inline]
    pub fn trailer_time(&self, record: &RawRecord<'_>) -> Option<u64> {
        (record.body).u64(self.trailer_word(record, 1)?, self.endian)
    }

    /// Returns the time of a sample in nanoseconds of the event's clock.
    #[inline]
    pub fn sample_time(&self, body: &RawBytes<'_>) -> Option<u64> {
        body.u64(self.fixed_offset(SampleType::TIME)?, self.endian)
    }

    /// Decodes a record's trailer. All fields are `None` in samples, in user records, and in a body
    /// shorter than the trailer.
    pub fn sample_id(&self, record: &RawRecord<'_>) -> SampleId {
        let body = &record.body;
        let u64_of = |index| body.u64(self.trailer_word(record, index)?, self.endian);
        let u32_of = |index, plus| body.u32(self.trailer_word(record, index)? + plus, self.endian);
        SampleId {
            pid: u32_of(0, 0).map(|v| v as i32),
            tid: u32_of(0, 4).map(|v| v as i32),
            time: u64_of(1),
            id: u64_of(5).or_else(|| u64_of(2)),
            stream_id: u64_of(3),
            cpu: u32_of(4, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Misc;

    #[test]
    fn order_is_the_kernels_not_the_bits() {
        let attr = Attr {
            sample_type: SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::CPU
                | SampleType::STREAM_ID
                | SampleType::PERIOD,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::Little);
        let at = |field| layout.fixed_offset(field);
        assert_eq!(at(SampleType::IDENTIFIER), Some(0));
        assert_eq!(at(SampleType::IP), Some(8));
        assert_eq!(at(SampleType::TIME), None);
        assert_eq!(at(SampleType::STREAM_ID), Some(16));
        assert_eq!(at(SampleType::CPU), Some(24));
        assert_eq!(at(SampleType::PERIOD), Some(32));
        assert_eq!(at(SampleType::CALLCHAIN), None);
        assert_eq!(layout.trailer_len(), 24);
        assert_eq!(layout.trailer_id_offset_from_end(), Some(8));
    }

    #[test]
    fn a_body_shorter_than_its_trailer_has_none() {
        let attr = Attr {
            sample_type: SampleType::TIME | SampleType::TID,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::Little);
        let record = record(RecordType::EXIT, &[7; 8]);
        assert_eq!(layout.sample_id(&record), SampleId::default());
        assert_eq!(layout.time_of(&record), None);
    }

    fn record(kind: RecordType, body: &[u8]) -> RawRecord<'_> {
        RawRecord {
            kind,
            misc: Misc(0),
            body: RawBytes::from(body),
            endian: Endian::Little,
        }
    }

    #[test]
    fn what_ends_a_user_record_or_a_sample_is_no_trailer() {
        let attr = Attr {
            sample_type: SampleType::TIME | SampleType::TID,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::Little);
        let body: Vec<u8> = (1..=3u64).flat_map(u64::to_le_bytes).collect();
        let (id, time) = (layout.sample_id(&record(RecordType::EXIT, &body)), Some(3));
        assert_eq!((id.pid, id.tid, id.time), (Some(2), Some(0), time));
        assert_eq!(layout.time_of(&record(RecordType::EXIT, &body)), time);
        for kind in [RecordType::AUXTRACE_INFO, RecordType::EVENT_UPDATE] {
            assert_eq!(layout.sample_id(&record(kind, &body)), SampleId::default());
            assert_eq!(layout.time_of(&record(kind, &body)), None);
        }
        let sample = record(RecordType::SAMPLE, &body);
        assert_eq!(layout.trailer_time(&sample), None);
        assert_eq!(layout.time_of(&sample), Some(2));
    }
}
