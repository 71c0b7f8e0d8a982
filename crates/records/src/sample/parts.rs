//! The parts of a sample that are more than a number.

use crate::bytes::{Endian, RawBytes};
use crate::words::BranchFlags;

/// Addresses of a callchain as recorded: leaf first, with context markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callchain<'a> {
    bytes: RawBytes<'a>,
    endian: Endian,
}

/// A `PERF_CONTEXT_*` marker: what the addresses after it are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextMarker(pub u64);

impl ContextMarker {
    /// Hypervisor.
    pub const HV: ContextMarker = ContextMarker(-32i64 as u64);
    /// Kernel.
    pub const KERNEL: ContextMarker = ContextMarker(-128i64 as u64);
    /// User.
    pub const USER: ContextMarker = ContextMarker(-512i64 as u64);
    /// User, delivered in a record of its own. The next entry, the last one, is a cookie and no address:
    /// see [`Callchain::cookie`].
    pub const USER_DEFERRED: ContextMarker = ContextMarker(-640i64 as u64);
    /// Guest.
    pub const GUEST: ContextMarker = ContextMarker(-2048i64 as u64);
    /// Kernel of the guest.
    pub const GUEST_KERNEL: ContextMarker = ContextMarker(-2176i64 as u64);
    /// User mode of the guest.
    pub const GUEST_USER: ContextMarker = ContextMarker(-2560i64 as u64);

    /// Returns true if an entry of a callchain is a marker and no address
    /// (`>= PERF_CONTEXT_MAX`).
    #[inline]
    pub fn is_marker(entry: u64) -> bool {
        entry >= -4095i64 as u64
    }
}

impl<'a> Callchain<'a> {
    /// Reads a counted callchain that begins at `at`; `None` if it does not fit.
    pub(crate) fn parse(body: RawBytes<'a>, at: usize, endian: Endian) -> Option<Callchain<'a>> {
        let len = counted(&body, at, endian, 8, 0)?;
        Some(Callchain {
            bytes: body.get(at + 8..at.checked_add(len)?)?,
            endian,
        })
    }

    /// Number of entries, markers included.
    pub fn len(&self) -> usize {
        self.bytes.len() / 8
    }

    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The entries, leaf first, markers and cookie included.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (bytes, endian) = (self.bytes, self.endian);
        (0..bytes.len() / 8).map_while(move |i| bytes.u64(i * 8, endian))
    }

    /// Returns the cookie of a deferred user part: that of the CALLCHAIN_DEFERRED record which has it. `None`
    /// if the callchain does not end with [`ContextMarker::USER_DEFERRED`] and a cookie, where the kernel
    /// writes them (`get_perf_callchain` in kernel/events/callchain.c).
    pub fn cookie(&self) -> Option<u64> {
        let marker = self.bytes.len().checked_sub(16)?;
        let is_deferred =
            self.bytes.u64(marker, self.endian) == Some(ContextMarker::USER_DEFERRED.0);
        let cookie = self.bytes.u64(marker + 8, self.endian);
        cookie.filter(|_| is_deferred)
    }

    /// Returns the callchain without the marker and cookie of a deferred user part: markers and
    /// addresses only.
    pub fn without_cookie(&self) -> Callchain<'a> {
        let end = self.bytes.len() - if self.cookie().is_some() { 16 } else { 0 };
        Callchain {
            bytes: self.bytes.get(0..end).unwrap_or(self.bytes),
            endian: self.endian,
        }
    }

    /// The entries as they stand, eight bytes each in the recorder's byte
    /// order: a key for interning.
    pub fn raw(&self) -> RawBytes<'a> {
        self.bytes
    }
}

/// Registers of a sample: the ABI, and a value for each bit of the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 0 none (a kernel thread), 1 32-bit, 2 64-bit.
    pub abi: u64,
    pub(super) mask: u64,
    pub(super) bytes: RawBytes<'a>,
    pub(super) endian: Endian,
}

impl Registers<'_> {
    /// Register `number`, as numbered in the architecture's `asm/perf_regs.h`.
    pub fn get(&self, number: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(number)?;
        if self.mask & bit == 0 || self.bytes.is_empty() {
            return None;
        }
        let index = (self.mask & (bit - 1)).count_ones() as usize;
        self.bytes.u64(index * 8, self.endian)
    }

    /// Number and value of every register that is there.
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

/// Bytes of the user stack, from the stack pointer upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackDump<'a> {
    /// The bytes that are real (`dyn_size` of them).
    pub bytes: RawBytes<'a>,
    /// Bytes that the record has for the dump, real or not.
    pub reserved: u64,
}

/// One entry of a branch stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchEntry {
    /// Address of the branch.
    pub from: u64,
    /// Address that the branch went to.
    pub to: u64,
    /// Flags, kind and cycles of the branch, as read.
    pub flags: BranchFlags,
}

/// A branch stack, most recent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchEntries<'a> {
    /// Hardware index, with [`BranchSampleType::HW_INDEX`](crate::BranchSampleType::HW_INDEX).
    pub hw_index: Option<u64>,
    pub(super) entries: RawBytes<'a>,
    pub(super) counters: RawBytes<'a>,
    pub(super) endian: Endian,
}

impl BranchEntries<'_> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len() / 24
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries.
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

    /// A word of event counters for each entry, with [`BranchSampleType::COUNTERS`](crate::BranchSampleType::COUNTERS).
    pub fn counters(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.counters.len() / 8).map_while(|i| self.counters.u64(i * 8, self.endian))
    }
}

/// Bytes of a counted list that begins at `at`: the count and its items.
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
