//! Compound fields of a sample.

use crate::bytes::{Endian, RawBytes};
use crate::words::BranchFlags;

/// Callchain as recorded: leaf first, with context markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callchain<'a> {
    bytes: RawBytes<'a>,
    endian: Endian,
}

/// `PERF_CONTEXT_*` marker, for the addresses after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextMarker(pub u64);

impl ContextMarker {
    /// Following addresses are in the hypervisor.
    pub const HV: ContextMarker = ContextMarker(-32i64 as u64);
    /// Following addresses are in the kernel.
    pub const KERNEL: ContextMarker = ContextMarker(-128i64 as u64);
    /// Following addresses are in user mode.
    pub const USER: ContextMarker = ContextMarker(-512i64 as u64);
    /// User part, deferred to a separate record. The next and last entry is a cookie, not an
    /// address: see [`Callchain::cookie`].
    pub const USER_DEFERRED: ContextMarker = ContextMarker(-640i64 as u64);
    /// Following addresses are in a guest.
    pub const GUEST: ContextMarker = ContextMarker(-2048i64 as u64);
    /// Following addresses are in a guest's kernel.
    pub const GUEST_KERNEL: ContextMarker = ContextMarker(-2176i64 as u64);
    /// Following addresses are in a guest's user mode.
    pub const GUEST_USER: ContextMarker = ContextMarker(-2560i64 as u64);

    /// Returns true if an entry of a callchain is a marker, not an address (`>= PERF_CONTEXT_MAX`).
    #[inline]
    pub fn is_marker(entry: u64) -> bool {
        entry >= -4095i64 as u64
    }
}

impl<'a> Callchain<'a> {
    pub(crate) fn parse(body: RawBytes<'a>, at: usize, endian: Endian) -> Option<Callchain<'a>> {
        let len = counted(&body, at, endian, 8, 0)?;
        Some(Callchain {
            bytes: body.get(at + 8..at.checked_add(len)?)?,
            endian,
        })
    }

    /// Returns the number of entries, including markers.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Iterates over the entries, leaf first, including markers and cookie.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (bytes, endian) = (self.bytes, self.endian);
        (0..bytes.len() / 8).map_while(move |i| bytes.u64(i * 8, endian))
    }

    /// Returns the cookie of a deferred user part, which identifies the CALLCHAIN_DEFERRED record.
    /// `None` unless the callchain ends with [`ContextMarker::USER_DEFERRED`] and a cookie
    /// (`get_perf_callchain` in kernel/events/callchain.c).
    pub fn cookie(&self) -> Option<u64> {
        let marker = self.bytes.len().checked_sub(16)?;
        let is_deferred =
            self.bytes.u64(marker, self.endian) == Some(ContextMarker::USER_DEFERRED.0);
        let cookie = self.bytes.u64(marker + 8, self.endian);
        cookie.filter(|_| is_deferred)
    }

    /// Returns the callchain without the marker and cookie of a deferred user part.
    pub fn without_cookie(&self) -> Callchain<'a> {
        let end = self.bytes.len() - if self.cookie().is_some() { 16 } else { 0 };
        Callchain {
            bytes: self.bytes.get(0..end).unwrap_or(self.bytes),
            endian: self.endian,
        }
    }

    /// Returns the raw entries, eight bytes each in the recorder's byte order, as a key for
    /// interning.
    pub fn raw(&self) -> RawBytes<'a> {
        self.bytes
    }
}

/// Registers of a sample: the ABI, and a value for each bit of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRegisters<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 0 none (a kernel thread), 1 32-bit, 2 64-bit.
    pub abi: u64,
    pub(super) mask: u64,
    pub(super) bytes: RawBytes<'a>,
    pub(super) endian: Endian,
}

impl RecordedRegisters<'_> {
    /// Returns register `number` of the architecture's `asm/perf_regs.h`.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number)?;
        if self.mask & bit == 0 || self.bytes.is_empty() {
            return None;
        }
        let index = (self.mask & (bit - 1)).count_ones() as usize;
        self.bytes.u64(index * 8, self.endian)
    }

    /// Iterates over the numbers and values of all present registers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let mut mask = self.mask;
        (0..self.bytes.len() / 8).map_while(move |index| {
            let number = mask.trailing_zeros();
            let value = self.bytes.u64(index * 8, self.endian)?;
            mask = mask.checked_sub(1)? & mask;
            Some((number, value))
        })
    }
}

/// User stack dump, from the stack pointer upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedStack<'a> {
    /// Valid bytes (`dyn_size`).
    pub bytes: RawBytes<'a>,
    /// Bytes reserved for the dump, valid or not.
    pub reserved: u64,
}

/// Entry of a branch stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchEntry {
    /// Address of the branch.
    pub from: u64,
    /// Target address of the branch.
    pub to: u64,
    /// Flags, type and cycles of the branch.
    pub flags: BranchFlags,
}

/// Branch stack, most recent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchEntries<'a> {
    /// Hardware index, with [`BranchSampleType::HW_INDEX`](crate::BranchSampleType::HW_INDEX).
    pub hw_index: Option<u64>,
    pub(super) entries: RawBytes<'a>,
    pub(super) counters: RawBytes<'a>,
    pub(super) endian: Endian,
}

impl BranchEntries<'_> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len() / 24
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the entries.
    pub fn iter(&self) -> impl Iterator<Item = BranchEntry> + '_ {
        (0..self.len()).map_while(|i| {
            let word = |n: usize| self.entries.u64(i * 24 + n * 8, self.endian);
            Some(BranchEntry {
                from: word(0)?,
                to: word(1)?,
                flags: BranchFlags(word(2)?),
            })
        })
    }

    /// Iterates over the event counters of each entry, one word each, with
    /// [`BranchSampleType::COUNTERS`](crate::BranchSampleType::COUNTERS).
    pub fn counters(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.counters.len() / 8).map_while(|i| self.counters.u64(i * 8, self.endian))
    }
}

pub(super) fn counted(
    body: &RawBytes<'_>,
    at: usize,
    endian: Endian,
    item: usize,
    extra: usize,
) -> Option<usize> {
    let n = usize::try_from(body.u64(at, endian)?).ok()?;
    n.checked_mul(item)?.checked_add(8 + extra)
}
