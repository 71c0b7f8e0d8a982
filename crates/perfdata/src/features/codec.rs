//! Encoder and decoder of primitive values in sections.

use rprof_records::Endian;

/// Decodes a section; `None` past its end.
#[derive(Clone)]
pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(rest: &'a [u8], endian: Endian) -> Decoder<'a> {
        Decoder { rest, endian }
    }

    pub(super) fn endian(&self) -> Endian {
        self.endian
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.try_into().ok()?;
        Some(self.endian.u32(bytes))
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.take(8)?.try_into().ok()?;
        Some(self.endian.u64(bytes))
    }

    /// Decodes a 32-bit length with padding, then text up to the first NUL.
    pub(super) fn string(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        Some(text(self.take(len)?))
    }

    /// Decodes a 32-bit count, then items of at least `least` bytes each.
    pub(super) fn list<T>(
        &mut self,
        least: usize,
        item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()?;
        self.items(u64::from(count), least, item)
    }

    /// Decodes `count` items of at least `least` bytes each. Refuses a count that exceeds the bytes
    /// left, before any allocation.
    pub(super) fn items<T>(
        &mut self,
        count: u64,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        if count > (self.rest.len() / least.max(1)) as u64 {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
    endian: Endian,
}

impl Encoder {
    pub(super) fn new(endian: Endian) -> Encoder {
        Encoder {
            bytes: Vec::new(),
            endian,
        }
    }

    pub(super) fn endian(&self) -> Endian {
        self.endian
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend(self.endian.put_u32(value));
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend(self.endian.put_u64(value));
    }

    /// Pads with at least one NUL to a multiple of 64, like perf.
    pub(super) fn string(&mut self, text: &str) {
        let len = (text.len() + 1).next_multiple_of(64);
        self.u32(len as u32);
        self.bytes.extend_from_slice(text.as_bytes());
        self.zeros(len - text.len());
    }

    pub(super) fn zeros(&mut self, count: usize) {
        self.bytes.extend(std::iter::repeat_n(0, count));
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.u32(items.len() as u32);
        for one in items {
            item(self, one);
        }
    }
}
