//! Iteration over records.

use std::borrow::Cow;

use rprof_records::{Endian, Header, Misc, RawBytes, RawRecord, RecordType};

use crate::error::Damage;

/// Record with its position.
#[derive(Clone, Copy, Debug)]
pub struct RecordAt<'a> {
    /// File offset. A decompressed record has the offset of its compressed record.
    pub offset: u64,
    /// Undecoded record: its header and the bytes of its body.
    pub record: RawRecord<'a>,
    /// Bytes that follow the record and belong to it (AUXTRACE, tracing data).
    pub payload: &'a [u8],
    /// Raw bytes, with header and payload.
    pub bytes: &'a [u8],
}

/// simpleperf's own record of tracepoint formats.
const SIMPLEPERF_TRACING_DATA: RecordType = RecordType(32777);

pub(crate) fn tracing_data<'a>(walked: &RecordAt<'a>) -> Option<Cow<'a, [u8]>> {
    let kind = walked.record.kind;
    if kind != RecordType::HEADER_TRACING_DATA && kind != SIMPLEPERF_TRACING_DATA {
        return None;
    }
    let len = walked.record.body.u32(0, walked.record.endian)? as usize;
    match walked.payload.is_empty() {
        true => Some(walked.record.body.get(4..len.checked_add(4)?)?.to_cow()),
        false => walked.payload.get(..len).map(Cow::Borrowed),
    }
}

/// Iterates over consecutive records in bytes.
pub struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    /// `base` is the offset of every record (a decompressed block).
    fixed_base: bool,
    endian: Endian,
    damage: Option<Damage>,
}

impl<'a> Walk<'a> {
    /// Iterates over `bytes`, which start at file offset `base`.
    pub fn new(bytes: &'a [u8], base: u64, endian: Endian) -> Walk<'a> {
        Walk {
            bytes,
            at: 0,
            base,
            fixed_base: false,
            endian,
            damage: None,
        }
    }

    pub(crate) fn decompressed(bytes: &'a [u8], base: u64, endian: Endian) -> Walk<'a> {
        Walk {
            fixed_base: true,
            ..Walk::new(bytes, base, endian)
        }
    }

    /// Returns the number of bytes consumed so far.
    pub fn consumed(&self) -> usize {
        self.at
    }

    /// Skips ordinary records until `bytes` are consumed. Stops at a record that has a payload, is
    /// compressed, or is damaged.
    pub(crate) fn skip_ordinary(&mut self, bytes: usize) {
        while self.at < bytes {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(header) = Header::parse(&RawBytes::from(rest), self.endian) else {
                return;
            };
            let size = usize::from(header.size);
            // The kernel's (perf_event.h).
            let is_kernels = header.kind.0 < 64 || header.kind == RecordType::FINISHED_ROUND;
            if !is_kernels || size < Header::SIZE || size > rest.len() {
                return;
            }
            self.at += size;
        }
    }

    /// Skips whole samples without decoding their bodies, while `each` accepts their `misc`.
    #[inline]
    pub fn skip_samples(&mut self, mut each: impl FnMut(Misc) -> bool) {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(header) = Header::parse(&RawBytes::from(rest), self.endian) else {
                return;
            };
            let size = usize::from(header.size);
            let is_whole = size >= Header::SIZE && size <= rest.len();
            if header.kind != RecordType::SAMPLE || !is_whole || !each(header.misc) {
                return;
            }
            self.at += size;
        }
    }

    /// Returns the damage that ended the iteration early.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn offset(&self) -> u64 {
        match self.fixed_base {
            true => self.base,
            false => self.base + self.at as u64,
        }
    }

    fn fail(&mut self, what: String) -> Option<RecordAt<'a>> {
        self.damage = Some(Damage {
            offset: self.offset(),
            what,
        });
        None
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = RecordAt<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordAt<'a>> {
        if self.damage.is_some() {
            return None;
        }
        let rest = self.bytes.get(self.at..).filter(|r| !r.is_empty())?;
        let Some(header) = Header::parse(&RawBytes::from(rest), self.endian) else {
            return self.fail(format!(
                "{} bytes are too few for a record header",
                rest.len()
            ));
        };
        let mut size = usize::from(header.size);
        let mut misc = header.misc;
        // simpleperf's sizes have 32 bits, with the upper half in `misc` (its `record.h`).
        if header.kind.is_simpleperf() {
            size |= usize::from(misc.0) << 16;
            misc = Misc(0);
        }
        if size < Header::SIZE {
            return self.fail(format!(
                "a {} record has a size of {size} bytes, less than its header",
                header.kind
            ));
        }
        let Some(whole) = rest.get(..size) else {
            return self.fail(format!(
                "a {} record of {size} bytes is cut off after {}",
                header.kind,
                rest.len()
            ));
        };
        let record = RawRecord {
            kind: header.kind,
            misc,
            body: RawBytes::from(&whole[Header::SIZE..]),
            endian: self.endian,
        };
        let after = &rest[size..];
        let payload_len = match header.kind {
            RecordType::AUXTRACE => record.body.u64(0, self.endian),
            // simpleperf stores the formats in the record itself.
            RecordType::HEADER_TRACING_DATA if record.body.len() <= 8 => {
                (record.body.u32(0, self.endian)).map(|len| u64::from(len).next_multiple_of(8))
            }
            _ => Some(0),
        };
        let payload = (payload_len.and_then(|len| usize::try_from(len).ok()))
            .and_then(|len| after.get(..len));
        let Some(payload) = payload else {
            return self.fail(format!(
                "the data behind a {} record reaches past the end of the file",
                header.kind
            ));
        };
        let walked = RecordAt {
            offset: self.offset(),
            record,
            payload,
            bytes: &rest[..size + payload.len()],
        };
        self.at += walked.bytes.len();
        Some(walked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::put_record;

    fn two_records() -> Vec<u8> {
        let mut bytes = Vec::new();
        for kind in [RecordType::COMM, RecordType::EXIT] {
            put_record(&mut bytes, kind, Misc(0), Endian::Little, |out| {
                out.extend([1; 24]);
            })
            .unwrap();
        }
        bytes
    }

    #[test]
    fn whole_records_before_a_cut_are_kept() {
        let bytes = two_records();
        for len in 0..bytes.len() {
            let mut walk = Walk::new(&bytes[..len], 100, Endian::Little);
            assert_eq!(walk.by_ref().count(), len / 32);
            assert_eq!(walk.damage().is_some(), len % 32 != 0);
            if let Some(damage) = walk.damage() {
                assert_eq!(damage.offset, 100 + len as u64 / 32 * 32);
            }
        }
    }

    #[test]
    fn a_size_of_zero_ends_the_walk() {
        let mut bytes = two_records();
        bytes[32 + 6..32 + 8].fill(0);
        let mut walk = Walk::new(&bytes, 0, Endian::Little);
        assert_eq!(walk.by_ref().count(), 1);
        assert_eq!(walk.damage().unwrap().offset, 32);
    }

    #[test]
    fn what_is_skipped_is_ordinary() {
        let mut bytes = two_records();
        bytes.extend([0; 8]);
        let mut walk = Walk::new(&bytes, 0, Endian::Little);
        walk.skip_ordinary(33);
        assert_eq!(walk.consumed(), 64);
        walk.skip_ordinary(1000);
        assert_eq!((walk.consumed(), walk.damage()), (64, None));
        assert!(walk.next().is_none() && walk.damage().is_some());

        for kind in [
            RecordType::AUXTRACE,
            RecordType::COMPRESSED,
            RecordType(32777),
        ] {
            let mut bytes = two_records();
            bytes[32..36].copy_from_slice(&kind.0.to_le_bytes());
            let mut walk = Walk::new(&bytes, 0, Endian::Little);
            walk.skip_ordinary(1000);
            assert_eq!(walk.consumed(), 32, "{kind}");
        }
    }

    #[test]
    fn whole_samples_are_skipped_as_long_as_they_are_let() {
        let mut bytes = Vec::new();
        for (n, kind) in [RecordType::SAMPLE; 4].into_iter().enumerate() {
            put_record(&mut bytes, kind, Misc(n as u16), Endian::Little, |out| {
                out.extend([1; 24]);
            })
            .unwrap();
        }
        let mut walk = Walk::new(&bytes, 0, Endian::Little);
        walk.skip_samples(|misc| misc.0 < 2);
        assert_eq!(walk.consumed(), 64);
        let mut walk = Walk::new(&bytes[..100], 0, Endian::Little);
        walk.skip_samples(|_| true);
        assert_eq!((walk.consumed(), walk.damage()), (96, None));
        assert!(walk.next().is_none() && walk.damage().is_some());
        let other = two_records();
        let mut walk = Walk::new(&other, 0, Endian::Little);
        walk.skip_samples(|_| true);
        assert_eq!(walk.consumed(), 0);
    }

    #[test]
    fn tracepoint_formats_stand_behind_the_record_or_in_it() {
        for inside in [false, true] {
            let mut bytes = Vec::new();
            let kind = RecordType::HEADER_TRACING_DATA;
            put_record(&mut bytes, kind, Misc(0), Endian::Little, |out| {
                out.extend(13u32.to_le_bytes());
                if inside {
                    out.extend([7; 16]);
                }
            })
            .unwrap();
            if !inside {
                bytes.extend([7; 16]);
            }
            bytes.extend(two_records());
            let walked: Vec<_> = Walk::new(&bytes, 0, Endian::Little).collect();
            assert_eq!(walked.len(), 3);
            assert_eq!(tracing_data(&walked[0]).unwrap().as_ref(), [7; 13]);
        }
    }

    #[test]
    fn simpleperfs_records_may_be_longer() {
        let mut bytes = Vec::new();
        bytes.extend(32777u32.to_le_bytes());
        bytes.extend([1, 0, 16, 0]);
        bytes.resize(0x1_0010, 5);
        bytes.extend(two_records());
        let walked: Vec<_> = Walk::new(&bytes, 0, Endian::Little).collect();
        assert_eq!(walked.len(), 3);
        assert_eq!(walked[0].record.size(), 0x1_0010);
        assert_eq!(walked[0].bytes.len(), 0x1_0010);
    }

    #[test]
    fn a_payload_is_skipped() {
        let mut bytes = Vec::new();
        put_record(
            &mut bytes,
            RecordType::AUXTRACE,
            Misc(0),
            Endian::Big,
            |out| {
                out.extend(16u64.to_be_bytes());
                out.extend([0; 32]);
            },
        )
        .unwrap();
        bytes.extend([9; 16]);
        put_record(&mut bytes, RecordType::COMM, Misc(0), Endian::Big, |_| ()).unwrap();
        let kinds: Vec<_> = Walk::new(&bytes, 0, Endian::Big)
            .map(|w| (w.record.kind, w.payload.len()))
            .collect();
        assert_eq!(kinds, [(RecordType::AUXTRACE, 16), (RecordType::COMM, 0)]);
        bytes[8..16].fill(0xff);
        let mut walk = Walk::new(&bytes, 0, Endian::Big);
        assert!(walk.next().is_none() && walk.damage().is_some());
    }
}
