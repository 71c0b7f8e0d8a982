//! [`Cfi`]: one section of call frame information, compiled on demand.

use super::augmentation;
use super::block::{self, Block, Compiler, InBlock};
use super::elf::{Elf, Section};
use super::index::{Cies, Slice, Walk};
use super::rule::{Rule, Saved};
use crate::Arch;
use gimli::{BaseAddresses, DebugFrame, EhFrame, LittleEndian, UnwindSection, Vendor};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

/// Maximum number of bytes of compiled rows. A program's rows take a few MiB.
const MAX_ROW_BYTES: usize = 64 << 20;

/// A copy of a section, an index of its FDEs, and the rows compiled so far. The first thread that
/// needs an FDE compiles its block. Later lookups take no lock.
#[derive(Debug)]
pub(crate) struct Cfi {
    arch: Arch,
    eh: bool,
    base: u64,
    bases: BaseAddresses,
    bytes: Box<[u8]>,
    offsets: Box<[u32]>,
    starts: Box<[u32]>,
    blocks: Box<[OnceLock<Box<Block>>]>,
    row_bytes: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    Rule(RuleRef<'a>),
    NoFde,
    /// An FDE covers the code, but is unreadable.
    Bad,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleRef<'a> {
    pub(crate) rule: &'a Rule,
    block: &'a Block,
    bytes: &'a [u8],
}

/// Code with one rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DescribedRow<'a> {
    /// SVMA of the first byte.
    start: u64,
    checked: &'a AtomicU16,
}

impl DescribedRow<'_> {
    /// Returns the SVMA up to which the code agrees with the rule, to check the code up to `svma`. `None` far
    /// behind the start, where the answer would not be kept.
    pub(crate) fn checked_before(&self, svma: u64) -> Option<u64> {
        let checked = self.start + u64::from(self.checked.load(Ordering::Relaxed));
        (svma.wrapping_sub(self.start) <= u64::from(u16::MAX)).then_some(checked)
    }

    /// Stores the SVMA up to which the code agrees with the rule.
    pub(crate) fn set_checked(&self, svma: u64) {
        if let Ok(len) = u16::try_from(svma.wrapping_sub(self.start)) {
            self.checked.fetch_max(len, Ordering::Relaxed);
        }
    }
}

impl<'a> RuleRef<'a> {
    #[inline]
    pub(crate) fn saved(&self) -> &'a [Saved] {
        self.block.saved(self.rule)
    }

    pub(crate) fn expression(&self, index: u32) -> Option<&'a [u8]> {
        let span = self.block.span(index)?;
        self.bytes
            .get(span.offset as usize..)?
            .get(..span.len as usize)
    }

    /// Returns true for a function that may leave its callers' frames, as `_Unwind_RaiseException` of
    /// GCC's runtime does. At its end it overwrites its saved registers and its return address by those
    /// of the frame that handles the exception. It saves the registers with which it passes the
    /// exception on (`__builtin_eh_return`): rax and rdx, or eax and edx. Functions that save all
    /// registers for their callers, as of Swift, save rcx too.
    pub(crate) fn leaves_frames(&self, arch: Arch) -> bool {
        let (data, other) = match arch {
            Arch::X86_64 => ([0, 1], 2),
            Arch::X86 => ([0, 2], 1),
            Arch::Aarch64 => return false,
        };
        data.into_iter().all(|register| self.saves(register)) && !self.saves(other)
    }

    /// Returns true at the last instructions of a function that
    /// [leaves its callers' frames](Self::leaves_frames). The frame pointer and the return address are
    /// those of the frame that handles the exception.
    pub(crate) fn has_left_frames(&self, arch: Arch) -> bool {
        !self.saves(arch.fp())
    }

    fn saves(&self, register: u8) -> bool {
        (self.saved().iter()).any(|saved| saved.register == register)
    }
}

impl Cfi {
    /// Parses a section. Adds the SVMA ranges of its FDEs to `described`.
    pub(crate) fn new(
        elf: &Elf<'_>,
        section: Section<'_>,
        eh: bool,
        base: u64,
        described: &mut Vec<(u64, u64)>,
    ) -> Self {
        let mut bytes: Box<[u8]> = section.bytes.into();
        if elf.arch == Arch::Aarch64 {
            augmentation::take_out(&mut bytes, eh);
        }
        let mut bases = BaseAddresses::default();
        if eh {
            bases = bases.set_eh_frame(section.svma);
        }
        if let Some(text) = elf.text {
            bases = bases.set_text(text);
        }
        if let Some(got) = elf.got {
            bases = bases.set_got(got);
        }
        let walk = Walk {
            bytes: &bytes,
            eh,
            count: section.count,
            base,
            segments: &elf.segments,
        };
        let fdes = if eh {
            walk.run(&eh_frame(&bytes, elf.arch), &bases)
        } else {
            walk.run(&debug_frame(&bytes, elf.arch), &bases)
        };
        let starts: Box<[u32]> = fdes
            .chunks(block::FDES)
            .filter_map(|chunk| chunk.first())
            .map(|fde| fde.start)
            .collect();
        let offsets: Box<[u32]> = fdes.iter().map(|fde| fde.offset).collect();
        let svma = |relative: u32| base.wrapping_add(relative.into());
        described.extend(fdes.iter().map(|fde| (svma(fde.start), svma(fde.end))));
        drop(fdes);
        Self {
            arch: elf.arch,
            eh,
            base,
            bases,
            blocks: starts.iter().map(|_| OnceLock::new()).collect(),
            starts,
            offsets,
            bytes,
            row_bytes: AtomicUsize::new(0),
        }
    }

    /// Finds the rule for `address`, relative to the table's base.
    #[inline]
    pub(crate) fn find(&self, address: u32) -> Found<'_> {
        let behind = self.starts.partition_point(|&start| start <= address);
        let Some(block) = behind.checked_sub(1).and_then(|number| self.block(number)) else {
            return Found::NoFde;
        };
        self.found(block, block.find(address))
    }

    /// Returns the row that contains an address, if it has a rule.
    pub(crate) fn row(&self, address: u32) -> Option<DescribedRow<'_>> {
        let behind = self.starts.partition_point(|&start| start <= address);
        let block = self.block(behind.checked_sub(1)?)?;
        let behind = block.starts.partition_point(|&start| start <= address);
        let number = behind.checked_sub(1)?;
        let InBlock::Rule(_) = block.row(number) else {
            return None;
        };
        Some(DescribedRow {
            start: self.base + u64::from(*block.starts.get(number)?),
            checked: block.checked(number)?,
        })
    }

    /// Returns the start of the row behind the one of `address`, and its rule, if both are in one
    /// block.
    pub(crate) fn next_rule(&self, address: u32) -> Option<(u32, RuleRef<'_>)> {
        let behind = self.starts.partition_point(|&start| start <= address);
        let block = self.block(behind.checked_sub(1)?)?;
        let next = block.starts.partition_point(|&start| start <= address);
        match self.found(block, block.row(next)) {
            Found::Rule(rule) => Some((*block.starts.get(next)?, rule)),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn found<'a>(&'a self, block: &'a Block, found: InBlock<'a>) -> Found<'a> {
        match found {
            InBlock::Rule(rule) => Found::Rule(RuleRef {
                rule,
                block,
                bytes: &self.bytes,
            }),
            InBlock::NoFde => Found::NoFde,
            InBlock::Bad => Found::Bad,
        }
    }

    /// Returns a block, compiled on first use. `None` if there is no such block, or at the memory
    /// limit.
    pub(crate) fn block(&self, number: usize) -> Option<&Block> {
        let cell = self.blocks.get(number)?;
        Some(match cell.get() {
            Some(block) => block,
            None if self.row_bytes() >= MAX_ROW_BYTES => return None,
            None => cell.get_or_init(|| {
                let block = Box::new(self.compile(number));
                let bytes = size_of::<Block>() + block.heap_size();
                self.row_bytes.fetch_add(bytes, Ordering::Relaxed);
                block
            }),
        })
    }

    /// Returns the start of the FDE that contains an address, both relative to the table's base.
    pub(crate) fn function_start(&self, address: u32) -> Option<u32> {
        let behind = self.starts.partition_point(|&start| start <= address);
        let first = behind.checked_sub(1)? * block::FDES;
        let last = (first + block::FDES).min(self.offsets.len());
        let offsets = self.offsets.get(first..last)?;
        let svma = self.base.checked_add(address.into())?;
        let start = match self.eh {
            true => start_of(
                &eh_frame(&self.bytes, self.arch),
                &self.bases,
                offsets,
                svma,
            ),
            false => start_of(
                &debug_frame(&self.bytes, self.arch),
                &self.bases,
                offsets,
                svma,
            ),
        };
        u32::try_from(start?.checked_sub(self.base)?).ok()
    }

    #[cold]
    fn compile(&self, number: usize) -> Block {
        let first = number * block::FDES;
        let last = (first + block::FDES).min(self.offsets.len());
        let offsets = self.offsets.get(first..last).unwrap_or(&[]);
        let end = self.starts.get(number + 1).copied().unwrap_or(u32::MAX);
        match self.eh {
            true => self.compile_in(&eh_frame(&self.bytes, self.arch), offsets, end),
            false => self.compile_in(&debug_frame(&self.bytes, self.arch), offsets, end),
        }
    }

    fn compile_in<'a, S: UnwindSection<Slice<'a>>>(
        &self,
        section: &S,
        offsets: &[u32],
        end: u32,
    ) -> Block {
        Compiler {
            section,
            bases: &self.bases,
            arch: self.arch,
            base: self.base,
            cies: Cies::new(),
        }
        .block(offsets, end)
    }

    pub(crate) fn fdes(&self) -> usize {
        self.offsets.len()
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn compiled(&self) -> impl Iterator<Item = &Block> {
        self.blocks
            .iter()
            .filter_map(|block| block.get().map(|block| &**block))
    }

    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn index_size(&self) -> usize {
        self.bytes.len()
            + size_of_val(&*self.offsets)
            + size_of_val(&*self.starts)
            + size_of_val(&*self.blocks)
    }
}

fn start_of<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offsets: &[u32],
    svma: u64,
) -> Option<u64> {
    let mut cies = Cies::new();
    offsets.iter().find_map(|&offset| {
        let offset = S::Offset::from(offset as usize);
        let get = |section: &_, bases: &_, offset| cies.get(section, bases, offset);
        let fde = section.fde_from_offset(bases, offset, get).ok()?;
        fde.contains(svma).then(|| fde.initial_address())
    })
}

pub(super) fn eh_frame(bytes: &[u8], arch: Arch) -> EhFrame<Slice<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(arch.word_size() as u8);
    section.set_vendor(vendor(arch));
    section
}

fn debug_frame(bytes: &[u8], arch: Arch) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(arch.word_size() as u8);
    section.set_vendor(vendor(arch));
    section
}

fn vendor(arch: Arch) -> Vendor {
    match arch {
        Arch::X86_64 | Arch::X86 => Vendor::Default,
        Arch::Aarch64 => Vendor::AArch64,
    }
}
