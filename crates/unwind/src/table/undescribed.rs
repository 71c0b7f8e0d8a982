//! [`UndescribedCode`]: the code of an image without FDEs, for simulation.

use super::elf::part;
use crate::branch::Branch;
use crate::{Arch, code};
use memchr::memchr2_iter;
use object::ReadRef;
use rprof_image::Segments;
use std::sync::OnceLock;

/// Maximum number of bytes to copy. Larger images get no copy, as stripped Go programs, which keep
/// frame pointers.
const MAX_KEPT: u64 = 4 << 20;

/// Minimum length in bytes. Shorter stretches are padding between functions.
const MIN_STRETCH: u64 = 17;

/// Maximum number of listed starts of functions, to limit the memory for hostile images.
const MAX_STARTS: usize = 1 << 18;

#[derive(Debug, Default)]
pub(crate) struct UndescribedCode {
    stretches: Box<[(u64, Box<[u8]>)]>,
    exported: Box<[u64]>,
    /// SVMAs of exported functions and targets of calls and `lea`, in ascending order. Listed at the first use.
    starts: OnceLock<Box<[u64]>>,
}

impl UndescribedCode {
    /// Copies all executable parts outside the SVMA ranges `described`, which are unordered. `exported` has
    /// SVMAs of functions.
    pub(crate) fn new<'data>(
        bytes: impl ReadRef<'data>,
        segments: &Segments,
        described: Vec<(u64, u64)>,
        mut exported: Vec<u64>,
    ) -> Self {
        let gaps = gaps(segments, described);
        let total = gaps
            .iter()
            .fold(0_u64, |sum, (start, end)| sum.saturating_add(end - start));
        if total > MAX_KEPT {
            return Self::default();
        }
        exported.truncate(MAX_STARTS);
        let copy = |&(start, end): &(u64, u64)| {
            let (offset, left) = segments.offset_of_svma(start)?;
            let bytes = part(bytes, offset, left.min(end - start))?;
            Some((start, bytes.into()))
        };
        let mut stretches: Vec<(u64, Box<[u8]>)> = gaps.iter().filter_map(copy).collect();
        stretches.sort_unstable_by_key(|(start, _)| *start);
        Self {
            stretches: stretches.into(),
            exported: exported.into(),
            starts: OnceLock::new(),
        }
    }

    pub(crate) fn at(&self, svma: u64) -> Option<&[u8]> {
        let behind = self.stretches.partition_point(|(start, _)| *start <= svma);
        let (start, bytes) = self.stretches.get(behind.checked_sub(1)?)?;
        bytes.get(usize::try_from(svma - start).ok()?..)
    }

    /// Returns true if a call cannot return to this SVMA, since the next function begins there or behind
    /// padding: code calls that function or takes its address, or it begins as compilers begin functions.
    pub(crate) fn begins_behind_call(&self, arch: Arch, svma: u64) -> bool {
        let Some(behind) = self.at(svma) else {
            return false;
        };
        let padding = code::padding(arch, behind);
        let start = svma.wrapping_add(padding as u64);
        let code = behind.get(padding..).unwrap_or(&[]);
        code::begins_function(arch, code, padding > 0) || self.is_start(arch, start)
    }

    /// Returns true for an SVMA that may be the start of a function.
    pub(crate) fn begins_function(&self, arch: Arch, svma: u64) -> bool {
        let code = self.at(svma);
        code.is_some_and(|code| {
            code::begins_function(arch, code, true) || self.is_start(arch, svma)
        })
    }

    fn is_start(&self, arch: Arch, svma: u64) -> bool {
        self.starts(arch).binary_search(&svma).is_ok()
    }

    /// Returns the SVMA of the next function that code calls, or of the end of the code without FDEs.
    /// Functions that are only called through pointers are missing.
    pub(crate) fn next_start(&self, arch: Arch, svma: u64) -> Option<u64> {
        let end = svma.saturating_add(self.at(svma)?.len() as u64);
        let starts = self.starts(arch);
        let behind = starts.partition_point(|start| *start <= svma);
        Some(starts.get(behind).map_or(end, |start| end.min(*start)))
    }

    fn starts(&self, arch: Arch) -> &[u64] {
        self.starts.get_or_init(|| self.find_starts(arch))
    }

    fn find_starts(&self, arch: Arch) -> Box<[u64]> {
        let mut starts = self.exported.to_vec();
        let mut add = |target: u64| {
            if starts.len() < MAX_STARTS && self.at(target).is_some() {
                starts.push(target);
            }
        };
        for (start, code) in &self.stretches {
            match arch {
                Arch::Aarch64 => {
                    let words = code.as_chunks().0.iter().zip((*start..).step_by(4));
                    for (word, at) in words {
                        let branch = Branch::decode(u32::from_le_bytes(*word), at);
                        if let Some(Branch::Call(Some(target))) = branch {
                            add(target);
                        }
                    }
                }
                Arch::X86_64 | Arch::X86 => {
                    for at in memchr2_iter(CALL, LEA, code) {
                        if let Some(target) = named_in(arch, code, at, *start) {
                            add(target);
                        }
                    }
                }
            }
        }
        starts.sort_unstable();
        starts.dedup();
        starts.into()
    }

    pub(crate) fn size(&self) -> usize {
        let bytes = self.stretches.iter().map(|(_, bytes)| bytes.len());
        let starts = self.starts.get().map_or(0, |starts| size_of_val(&**starts));
        let exported = size_of_val(&*self.exported);
        bytes.sum::<usize>() + size_of_val(&*self.stretches) + starts + exported
    }
}

/// Opcodes of a direct call, and of `lea`.
const CALL: u8 = 0xe8;
const LEA: u8 = 0x8d;

/// Maximum distance in bytes from a call that begins a thunk to its target.
const MAX_THUNK: i32 = 32;

/// Returns the target of a possible call or `lea` at an offset.
/// `None` for a call a few bytes ahead: a thunk, or code that pushes its own address.
fn named_in(arch: Arch, code: &[u8], at: usize, start: u64) -> Option<u64> {
    let (opcode, rest) = code.get(at..)?.split_first()?;
    let (operand, len) = match (*opcode, arch) {
        (CALL, _) => (rest, 5),
        // lea REG, [rip + x]
        (_, Arch::X86_64) if rest.first()? & 0xc7 == 5 => (rest.get(1..)?, 6),
        _ => return None,
    };
    let distance = i32::from_le_bytes(*operand.first_chunk()?);
    let next = start.wrapping_add((at + len) as u64);
    let is_function = *opcode == LEA || !(0..MAX_THUNK).contains(&distance);
    is_function.then(|| arch.wrap(next.wrapping_add_signed(distance.into())))
}

/// Returns the executable SVMA ranges outside `described`, which are unordered, without padding
/// between functions.
pub(super) fn gaps(segments: &Segments, mut described: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    described.sort_unstable();
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for segment in segments.code() {
        let (start, end) = (segment.svma, segment.svma.saturating_add(segment.file_size));
        let mut at = start;
        let first = described.partition_point(|&(_, end)| end <= start);
        for &(low, high) in described.get(first..).unwrap_or(&[]) {
            if low >= end {
                break;
            }
            if low > at {
                gaps.push((at, low));
            }
            at = at.max(high);
        }
        if at < end {
            gaps.push((at, end));
        }
    }
    gaps.retain(|(start, end)| end - start >= MIN_STRETCH);
    gaps.sort_unstable();
    gaps
}
