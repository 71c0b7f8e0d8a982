//! `JIT_CODE_UNWINDING_INFO`: unwinding information of the next code record.
//!
//! ```text
//!   unwinding_size, eh_frame_hdr_size, mapped_size: u64; .eh_frame, .eh_frame_hdr
//! ```
//!
//! The specification puts `.eh_frame_hdr` first; perf, V8 and others put it last
//! (`jit_add_eh_frame_info` in `tools/perf/util/genelf.c`). Both are accepted: the header begins
//! with its version, 1, and no `.eh_frame` does.
//!
//! Pointers are relative to a table after the code, at the next multiple of 8, as V8 and perf place
//! it. If the process did not map the table (`mapped_size` is 0), only the header is present. It is
//! ignored, as such code is unwound by frame pointers.

use super::format::Reader;

/// Version of `.eh_frame_hdr`, its first byte.
const HDR_VERSION: u8 = 1;

/// Maximum length of an `.eh_frame`, in bytes. V8 writes about a hundred per function, and the
/// recorder parses it between samples.
const MAX_EH_FRAME: usize = 64 << 10;

/// Unwinding information of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitUnwinding<'a> {
    /// Start AVMA of the code.
    pub start: u64,
    /// Length of the code in bytes.
    pub size: u64,
    /// Bytes of `.eh_frame`.
    pub eh_frame: &'a [u8],
    /// Offset of `eh_frame` from the start of the code in bytes.
    pub eh_frame_offset: u64,
}

/// Unwinding information of code at any address.
#[derive(Debug)]
pub(super) struct Unwinding {
    eh_frame: Box<[u8]>,
    /// Offset of `eh_frame` in the table.
    behind: u64,
}

impl Unwinding {
    /// `None` for a damaged record, `Some(None)` for a useless one.
    pub(super) fn parse(mut body: Reader<'_>) -> Option<Option<Self>> {
        let (size, header, mapped) = (body.u64()?, body.u64()?, body.u64()?);
        let table = body.bytes(usize::try_from(size).ok()?)?;
        let header = usize::try_from(header).ok()?;
        let len = table.len().checked_sub(header)?;
        if mapped == 0 || len == 0 || len > MAX_EH_FRAME {
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

    pub(super) fn len(&self) -> usize {
        self.eh_frame.len()
    }

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
