//! Record after record.

use rprof_records::{Endian, Header, RawBytes, RawRecord, RecordType};

use crate::error::Damage;

/// One record and where it stood.
#[derive(Clone, Copy, Debug)]
pub struct Walked<'a> {
    /// Bytes from the start of the file; for a decompressed record that of the
    /// compressed record it came out of.
    pub offset: u64,
    /// The record.
    pub record: RawRecord<'a>,
    /// Bytes that follow the record and belong to it (AUXTRACE, tracing data).
    pub payload: &'a [u8],
}

/// Walks over bytes that hold records one behind the other.
pub struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    base: u64,
    /// Whether `base` is that of all records (a decompressed block).
    fixed_base: bool,
    endian: Endian,
    damage: Option<Damage>,
}

impl<'a> Walk<'a> {
    /// Walks over `bytes`, the first of which stands at `base` in the file.
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

    /// Bytes walked over so far.
    pub fn consumed(&self) -> usize {
        self.at
    }

    /// Why the walk ended before the end of the bytes, if it did.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn offset(&self) -> u64 {
        match self.fixed_base {
            true => self.base,
            false => self.base + self.at as u64,
        }
    }

    fn fail(&mut self, what: String) -> Option<Walked<'a>> {
        self.damage = Some(Damage {
            offset: self.offset(),
            what,
        });
        None
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Walked<'a>;

    #[inline]
    fn next(&mut self) -> Option<Walked<'a>> {
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
        let size = usize::from(header.size);
        if size < Header::SIZE {
            return self.fail(format!(
                "a {} record says that it is {size} bytes long, less than its header",
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
            misc: header.misc,
            body: RawBytes::from(&whole[Header::SIZE..]),
            endian: self.endian,
        };
        let after = &rest[size..];
        let payload_len = match header.kind {
            RecordType::AUXTRACE => record.body.u64(0, self.endian),
            RecordType::HEADER_TRACING_DATA => {
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
        let walked = Walked {
            offset: self.offset(),
            record,
            payload,
        };
        self.at += size + payload.len();
        Some(walked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Misc, put_record};

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
        // A payload said to be longer than the file.
        bytes[8..16].fill(0xff);
        let mut walk = Walk::new(&bytes, 0, Endian::Big);
        assert!(walk.next().is_none() && walk.damage().is_some());
    }
}
