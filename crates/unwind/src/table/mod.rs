//! [`UnwindTable`]: the call frame information of one image.

mod augmentation;
mod block;
mod called;
mod cfi;
mod elf;
mod entry;
mod functions;
mod index;
mod pclntab;
mod rows;
mod rule;
mod switches;
mod undescribed;

pub use called::CalledFunctions;
pub use elf::TableError;
pub use functions::FunctionRanges;
pub use pclntab::{GoNames, go_functions_in, go_text_start};
pub use rows::{CfaRule, RegisterRule, Row, Rows};

pub(crate) use cfi::{DescribedRow, Found, RuleRef};
pub(crate) use rule::{Cfa, Saved, Value};
pub(crate) use switches::{Site, Switch};

use crate::Arch;
use cfi::Cfi;
use elf::{Elf, Section};
use object::ReadRef;
use pclntab::GoFunctions;
use rprof_image::{FileReader, Segment, Segments};
use std::borrow::Cow;
use std::ops::Range;
use switches::Switches;
use undescribed::UndescribedCode;

/// The call frame information of one ELF image, for lookups by SVMA (stated address).
///
/// One table serves all threads and processes. It copies all needed bytes, so the file may be
/// truncated afterwards. `.eh_frame` takes precedence over `.debug_frame`, which may be compressed.
/// Without section headers, `PT_GNU_EH_FRAME` locates `.eh_frame`.
#[derive(Debug)]
pub struct UnwindTable {
    arch: Arch,
    entry: u64,
    is_go: bool,
    /// Length in bytes of the entry function; 0 if there is none.
    entry_len: u64,
    base: u64,
    segments: Segments,
    plts: Box<[(u64, u64)]>,
    switches: Switches,
    /// Go functions without call frame information.
    go_functions: GoFunctions,
    /// SVMAs of the code of Go.
    go_text: Option<Range<u64>>,
    undescribed: UndescribedCode,
    has_too_long: bool,
    eh_frame: Option<Cfi>,
    debug_frame: Option<Cfi>,
}

/// Statistics of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TableStats {
    /// FDEs, about one for each function.
    pub fdes: usize,
    /// Rows compiled so far.
    pub rows: usize,
    /// Rules compiled so far, with duplicates in different blocks.
    pub rules: usize,
    /// Memory in bytes of the section copies and the index.
    pub index_bytes: usize,
    /// Memory in bytes of compiled rows and rules.
    pub row_bytes: usize,
    /// Memory in bytes of copied code without FDEs.
    pub code_bytes: usize,
}

impl UnwindTable {
    /// Parses an ELF image: the bytes of a file, or of the vdso as mapped. Takes about 100 ns for
    /// each function. Rows are compiled on first use.
    ///
    /// # Errors
    ///
    /// [`TableError`] for unusable images. Without call frame information the table is empty, see
    /// [`has_cfi`](Self::has_cfi). Damaged entries are skipped.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        Self::parse_parts(bytes)
    }

    /// Like [`parse`](Self::parse), but reads only the needed parts of the file.
    ///
    /// # Errors
    ///
    /// [`TableError`].
    pub fn read(file: &FileReader<'_>) -> Result<Self, TableError> {
        Self::parse_parts(file)
    }

    fn parse_parts<'data>(bytes: impl ReadRef<'data>) -> Result<Self, TableError> {
        let mut elf = Elf::parse(bytes)?;
        let base = elf.segments.code_start();
        let eh_frame = elf.eh_frame.take();
        let debug_frame = elf.debug_frame.take();
        let mut described = Vec::new();
        let mut cfi = |section, eh| Cfi::new(&elf, section, eh, base, &mut described);
        let eh_frame = eh_frame.map(|section| cfi(section, true));
        let debug_frame = debug_frame.map(|section| cfi(section, false));
        let some = |cfi: &Cfi| cfi.fdes() != 0;
        let go_list = elf.go_functions.map(|(svma, (offset, len))| {
            let part = |(offset, len)| elf::part(bytes, offset, len).unwrap_or(&[]);
            let relocations = elf.relocations.map_or(&[][..], part);
            let text = go_text_start(svma, relocations).or(elf.text);
            (part((offset, len)), text.unwrap_or(base))
        });
        let go_text = go_list.and_then(|(list, text)| GoFunctions::text(list, text));
        let go_functions = match (go_list, &debug_frame) {
            (Some((list, text)), None) => GoFunctions::parse(list, text),
            _ => GoFunctions::default(),
        };
        let described_entry = described
            .iter()
            .find(|&&(start, end)| start <= elf.entry && elf.entry < end)
            .map(|&(_, end)| end - elf.entry);
        // Libraries call their own functions through the linkage table.
        let exported = match described.is_empty() {
            true => elf::exported_functions(bytes),
            false => Vec::new(),
        };
        let undescribed = UndescribedCode::new(bytes, &elf.segments, described, exported);
        let entry_len = described_entry
            .or_else(|| Some(entry::len(elf.arch, undescribed.at(elf.entry)?)))
            .filter(|_| elf.entry != 0);
        Ok(Self {
            entry_len: entry_len.unwrap_or(0),
            undescribed,
            has_too_long: elf.has_too_long,
            arch: elf.arch,
            entry: elf.entry,
            is_go: elf.is_go,
            base,
            eh_frame: eh_frame.filter(some),
            debug_frame: debug_frame.filter(some),
            plts: elf.plts.into(),
            switches: match elf.arch {
                Arch::X86_64 if elf.is_go => Switches::find(bytes, &elf.segments),
                _ => Switches::default(),
            },
            go_functions,
            go_text,
            segments: elf.segments,
        })
    }

    /// Returns the table of JIT code from the bytes of its `.eh_frame`, which lies at address `at`.
    /// Drops entries for addresses outside `code`. The bias is 0: all addresses are AVMAs.
    #[must_use]
    pub fn of_jit_code(arch: Arch, eh_frame: &[u8], at: u64, code: Range<u64>) -> Self {
        let len = code.end.saturating_sub(code.start);
        let load = Segment {
            offset: 0,
            svma: code.start,
            file_size: len,
            memory_size: len,
            align: 0,
            executable: true,
        };
        let elf = Elf {
            arch,
            entry: 0,
            segments: Segments::new(vec![load]),
            eh_frame: None,
            debug_frame: None,
            eh_frame_hdr: None,
            has_too_long: false,
            is_go: false,
            go_functions: None,
            relocations: None,
            plts: Vec::new(),
            text: None,
            got: None,
        };
        let section = Section {
            bytes: Cow::Borrowed(eh_frame),
            svma: at,
            count: None,
        };
        let cfi = Cfi::new(&elf, section, true, code.start, &mut Vec::new());
        Self {
            entry_len: 0,
            undescribed: UndescribedCode::default(),
            has_too_long: false,
            arch,
            entry: 0,
            is_go: false,
            base: code.start,
            eh_frame: (cfi.fdes() != 0).then_some(cfi),
            debug_frame: None,
            plts: Box::default(),
            switches: Switches::default(),
            go_functions: GoFunctions::default(),
            go_text: None,
            segments: elf.segments,
        }
    }

    /// Returns the processor architecture of the image.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns true if any code has call frame information.
    #[must_use]
    pub const fn has_cfi(&self) -> bool {
        self.eh_frame.is_some() || self.debug_frame.is_some()
    }

    /// Returns true if a section was skipped because it exceeds 64 MiB, decompressed.
    #[must_use]
    pub const fn has_too_long_section(&self) -> bool {
        self.has_too_long
    }

    /// Returns the approximate memory in bytes. It grows as rows are compiled, up to a limit.
    #[must_use]
    pub fn memory(&self) -> usize {
        let sections = self
            .sections()
            .map(|cfi| cfi.index_size() + cfi.row_bytes());
        let fixed = size_of_val(&*self.plts) + self.switches.size() + self.go_functions.size();
        size_of::<Self>() + fixed + self.undescribed.size() + sections.sum::<usize>()
    }

    /// Returns the SVMA of a file offset, if a segment contains it.
    #[must_use]
    pub fn svma_of_offset(&self, file_offset: u64) -> Option<u64> {
        self.segments.svma(file_offset)
    }

    /// Returns the bias of an image whose byte at `file_offset` is mapped at `avma`, as in
    /// `/proc/PID/maps` or an MMAP record. It wraps, as all arithmetic with it.
    #[must_use]
    pub fn bias(&self, avma: u64, file_offset: u64) -> Option<u64> {
        self.segments.bias(avma, file_offset)
    }

    /// Returns true if this SVMA has call frame information.
    #[must_use]
    pub fn covers(&self, svma: u64) -> bool {
        !matches!(self.find(svma), Found::NoFde)
    }

    /// Returns the start SVMA of the function that contains this SVMA. A split-off part (`.cold`)
    /// is a function of its own. Takes some microseconds.
    #[must_use]
    pub fn function_start(&self, svma: u64) -> Option<u64> {
        let relative = u32::try_from(svma.checked_sub(self.base)?).ok()?;
        let mut starts = (self.sections()).filter_map(|cfi| cfi.function_start(relative));
        let described = starts.next().map(|start| self.base + u64::from(start));
        described.or_else(|| self.go_functions.start(svma))
    }

    /// Returns statistics of the rows compiled so far.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        let mut stats = TableStats {
            code_bytes: self.undescribed.size(),
            ..TableStats::default()
        };
        for cfi in self.sections() {
            stats.fdes += cfi.fdes();
            stats.index_bytes += cfi.index_size();
            for block in cfi.compiled() {
                stats.rows += block.starts.len();
                stats.rules += block.rules();
                stats.row_bytes += block.heap_size();
            }
        }
        stats
    }

    /// Returns all rows in address order, of `.eh_frame` first. Compiles everything: for tests and
    /// tools.
    #[must_use]
    pub fn rows(&self) -> Rows<'_> {
        Rows::new(self)
    }

    #[inline]
    pub(crate) fn find(&self, svma: u64) -> Found<'_> {
        let Some(relative) = svma
            .checked_sub(self.base)
            .and_then(|relative| u32::try_from(relative).ok())
        else {
            return Found::NoFde;
        };
        let mut last = Found::NoFde;
        for cfi in self.sections() {
            match cfi.find(relative) {
                Found::Rule(rule) => return Found::Rule(rule),
                Found::Bad => last = Found::Bad,
                Found::NoFde => {}
            }
        }
        last
    }

    /// Returns the row of call frame information that contains this SVMA.
    pub(crate) fn row_at(&self, svma: u64) -> Option<DescribedRow<'_>> {
        let relative = u32::try_from(svma.checked_sub(self.base)?).ok()?;
        self.sections().find_map(|cfi| cfi.row(relative))
    }

    /// Returns the SVMA of the next row in the same function, and its rule.
    pub(crate) fn next_rule(&self, svma: u64) -> Option<(u64, RuleRef<'_>)> {
        let relative = u32::try_from(svma.checked_sub(self.base)?).ok()?;
        let (start, rule) = (self.sections()).find_map(|cfi| cfi.next_rule(relative))?;
        Some((self.base + u64::from(start), rule))
    }

    /// Returns true for code of the function at the entry point. It has no caller, except in shared
    /// libraries whose entry point is an ordinary function.
    pub(crate) fn is_entry_code(&self, svma: u64) -> bool {
        let within = svma.checked_sub(self.entry);
        within.is_some_and(|within| within < self.entry_len)
    }

    /// Returns true for Go images, whose code always keeps frame pointers and often does not
    /// return.
    pub(crate) const fn keeps_frame_pointers(&self) -> bool {
        self.is_go
    }

    /// Returns the effect of the call before this SVMA, if Go code made it on another stack. C code
    /// is excluded: it restores the stack pointer from registers, too.
    pub(crate) fn switch_at(&self, svma: u64) -> Option<Switch> {
        let switch = self.switches.at(svma)?;
        self.is_go_code(svma.wrapping_sub(1)).then_some(switch)
    }

    /// Returns the distance in bytes from the stack pointer to the return address in Go code without call
    /// frame information.
    pub(crate) fn go_frame_size(&self, svma: u64) -> Option<u32> {
        let size = self.go_functions.frame_size(svma)?;
        (self.arch == Arch::X86_64 && self.is_go_code(svma)).then_some(size)
    }

    /// Returns true in Go functions that have no caller, by the runtime's own table.
    pub(crate) fn is_go_top(&self, svma: u64) -> bool {
        self.go_functions.is_top(svma) && self.is_go_code(svma)
    }

    /// Returns true for Go code. `.eh_frame` covers only the C code of a Go image.
    pub(crate) fn is_go_code(&self, svma: u64) -> bool {
        let is_elsewhere = self
            .go_text
            .as_ref()
            .is_some_and(|text| !text.contains(&svma));
        if !self.is_go || is_elsewhere {
            return false;
        }
        let relative = svma.checked_sub(self.base);
        let relative = relative.and_then(|relative| u32::try_from(relative).ok());
        let is_described = |cfi: &Cfi| {
            relative.is_some_and(|relative| !matches!(cfi.find(relative), Found::NoFde))
        };
        !self.eh_frame.as_ref().is_some_and(is_described)
    }

    pub(crate) const fn switches(&self) -> &Switches {
        &self.switches
    }

    pub(crate) fn undescribed_code(&self, svma: u64) -> Option<&[u8]> {
        self.undescribed.at(svma)
    }

    /// Returns true if a call in code without FDEs cannot return to this SVMA: another function begins there.
    pub(crate) fn begins_behind_call(&self, svma: u64) -> bool {
        self.undescribed.begins_behind_call(self.arch, svma)
    }

    /// Returns true at the start of a function, and in procedure linkage tables.
    pub(crate) fn begins_function(&self, svma: u64) -> bool {
        // Compilers describe neither assembly nor the functions that LLVM's outliner makes.
        let is_behind_described = || svma > 0 && self.covers(svma - 1) && !self.covers(svma);
        self.function_start(svma) == Some(svma)
            || self.is_plt(svma)
            || is_behind_described()
            || self.undescribed.begins_function(self.arch, svma)
    }

    /// Returns an SVMA that the function at this one, in code without FDEs, ends before.
    pub(crate) fn next_start(&self, svma: u64) -> Option<u64> {
        self.undescribed.next_start(self.arch, svma)
    }

    /// Returns true if no FDE lies between two SVMAs without FDE, or if their code was not copied.
    pub(crate) fn is_one_gap(&self, one: u64, other: u64) -> bool {
        let (low, high) = (one.min(other), one.max(other));
        let rest = self.undescribed.at(low);
        rest.is_none_or(|rest| high - low < rest.len() as u64)
    }

    /// Returns true if this SVMA is in a procedure linkage table.
    pub(crate) fn is_plt(&self, svma: u64) -> bool {
        self.plts
            .iter()
            .any(|&(start, end)| start <= svma && svma < end)
    }

    /// Returns the start of the procedure linkage table whose first 32 bytes contain this SVMA: in
    /// AArch64 programs its first entry, unless they are static.
    pub(crate) fn plt_header(&self, svma: u64) -> Option<u64> {
        let mut starts = self.plts.iter().map(|&(start, _)| start);
        starts.find(|start| svma.checked_sub(*start).is_some_and(|within| within < 32))
    }

    fn sections(&self) -> impl Iterator<Item = &Cfi> {
        self.eh_frame.iter().chain(&self.debug_frame)
    }
}
