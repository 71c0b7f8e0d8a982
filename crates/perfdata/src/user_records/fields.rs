//! [`Fields`]: decodes a record's body.

use rprof_records::{Endian, RawBytes};

pub(super) struct Fields<'a> {
    pub(super) body: RawBytes<'a>,
    pub(super) endian: Endian,
}

impl Fields<'_> {
    pub(super) fn u32(&self, at: usize) -> Option<u32> {
        self.body.u32(at, self.endian)
    }

    pub(super) fn i32(&self, at: usize) -> Option<i32> {
        self.u32(at).map(u32::cast_signed)
    }

    pub(super) fn u64(&self, at: usize) -> Option<u64> {
        self.body.u64(at, self.endian)
    }

    /// Decodes the text in a field of `len` bytes, up to the first NUL.
    pub(super) fn text(&self, at: usize, len: usize) -> Option<String> {
        let bytes = self.body.get(at..at + len)?.to_cow();
        Some(crate::features::text(&bytes))
    }

    /// Decodes `count` items of `size` bytes from offset `at`; `None` if some are missing.
    pub(super) fn items<T>(
        &self,
        at: usize,
        count: u64,
        size: usize,
        mut item: impl FnMut(usize) -> Option<T>,
    ) -> Option<Vec<T>> {
        let room = self.body.len().checked_sub(at)? / size;
        let count = usize::try_from(count).ok().filter(|c| *c <= room)?;
        (0..count).map(|i| item(at + i * size)).collect()
    }
}
