//! `JIT_CODE_UNWINDING_INFO`: how to unwind the code that the next record tells of.
//!
//! ```text
//!   unwinding_size, eh_frame_hdr_size, mapped_size: u64; .eh_frame, .eh_frame_hdr
//! ```
//!
//! The specification has the header of the table first; what perf reads, and V8 and others write,
//! has it last (`jit_add_eh_frame_info` in `tools/perf/util/genelf.c`). A header begins with its
//! version, 1, and no `.eh_frame` does, so both are taken.
//!
//! Pointers are relative, and count as if the table lay behind the code, at the next multiple of
//! 8: there V8 has it, and there perf puts it. Where the process had not mapped the table
//! (`mapped_size` is 0), only the header is there, which says nothing that is of use here: frame
//! pointers are what such code is unwound by anyway.

use super::reader::Reader;

/// Version of `.eh_frame_hdr`, which is its first byte.
const HDR_VERSION: u8 = 1;

/// Longest `.eh_frame` of one piece of code that is taken, in bytes. V8 has some hundred; the
/// recorder makes a table of it between two samples, and a hostile dump may want that often.
const LONGEST: usize = 64 << 10;

/// The unwinding information of a piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitUnwinding<'a> {
    /// Where the code starts: AVMA.
    pub start: u64,
    /// Its length in bytes.
    pub size: u64,
    /// The bytes of `.eh_frame`.
    pub eh_frame: &'a [u8],
    /// Where those lie, in bytes from the start of the code: for relative pointers in them.
    pub eh_frame_offset: u64,
}

/// The same, wherever the code is.
#[derive(Debug)]
pub(super) struct Unwinding {
    eh_frame: Box<[u8]>,
    /// How far behind the beginning of the table they lie.
    behind: u64,
}

impl Unwinding {
    /// The body of a record: `None` where it is damaged, nothing where it is of no use.
    pub(super) fn parse(mut body: Reader<'_>) -> Option<Option<Self>> {
        let (size, header, mapped) = (body.u64()?, body.u64()?, body.u64()?);
        let table = body.bytes(usize::try_from(size).ok()?)?;
        let header = usize::try_from(header).ok()?;
        let len = table.len().checked_sub(header)?;
        if mapped == 0 || len == 0 || len > LONGEST {
            return Some(None);
        }
        let is_header = |bytes: &[u8]| bytes.first() == Some(&HDR_VERSION);
        let behind = match is_header(&table[len..]) || !is_header(table) {
            true => 0,
            false => header,
        };
        Some(Some(Self {
            eh_frame: table[behind..behind + len].into(),
            behind: behind as u64,
        }))
    }

    /// Bytes of the table.
    pub(super) fn len(&self) -> usize {
        self.eh_frame.len()
    }

    /// That of code at this place.
    pub(super) fn of(&self, start: u64, size: u64) -> JitUnwinding<'_> {
        JitUnwinding {
            start,
            size,
            eh_frame: &self.eh_frame,
            eh_frame_offset: size
                .saturating_add(7)
                .wrapping_div(8)
                .saturating_mul(8)
                .saturating_add(self.behind),
        }
    }
}
