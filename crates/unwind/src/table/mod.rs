//! [`UnwindTable`]: the call frame information of one image.

mod augmentation;
mod block;
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

pub use functions::FunctionRanges;
pub use rows::{CfaRule, RegisterRule, Row, Rows};

pub(crate) use cfi::{Found, RuleRef};
pub(crate) use rule::{Cfa, Value};
pub(crate) use switches::{Site, Switch};

use crate::{Arch, TableError};
use cfi::Cfi;
use elf::{Elf, Section};
use object::ReadRef;
use rprof_image::{FileReader, Segment, Segments};
use std::borrow::Cow;
use std::ops::Range;
use switches::Switches;
use undescribed::UndescribedCode;

/// The call frame information of one ELF image, ready for lookups by SVMA (stated address).
///
/// Made once for each image and shared by all threads and all processes that map it. It
/// keeps copies of what it needs; the file may go away or be truncated.
///
/// `.eh_frame` is asked first, then `.debug_frame`, decompressed if need be. Without section
/// headers `.eh_frame` is found through `PT_GNU_EH_FRAME`.
#[derive(Debug)]
pub struct UnwindTable {
    arch: Arch,
    entry: u64,
    is_go: bool,
    /// Length in bytes of the function at the entry point.
    entry_len: u64,
    base: u64,
    segments: Segments,
    plts: Box<[(u64, u64)]>,
    /// Calls that Go's runtime makes on another stack.
    switches: Switches,
    /// SVMAs at which functions start, of a Go image without call frame information for them.
    go_functions: Box<[u64]>,
    undescribed: UndescribedCode,
    has_too_long: bool,
    eh_frame: Option<Cfi>,
    debug_frame: Option<Cfi>,
}

/// Figures of a table, for reports and measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TableStats {
    /// FDEs in the index, which is about one for each function.
    pub fdes: usize,
    /// Rows of FDEs that were compiled so far.
    pub rows: usize,
    /// Distinct rules of those, counted block by block.
    pub rules: usize,
    /// Bytes of memory: the copies of the sections and the index.
    pub index_bytes: usize,
    /// Bytes of memory: compiled rows and rules.
    pub row_bytes: usize,
    /// Bytes of memory: copies of the code that no FDE describes.
    pub code_bytes: usize,
}

impl UnwindTable {
    /// Reads an ELF image, whose bytes are those of the file (or of the vdso as it is mapped).
    ///
    /// Takes some 100 ns for each function of the image; rows are compiled when asked for.
    ///
    /// # Errors
    ///
    /// Only for images that are of no use at all; see [`TableError`]. Without call frame
    /// information the table is empty, which [`has_cfi`](Self::has_cfi) tells. Entries that are
    /// damaged are left out.
    pub fn parse(bytes: &[u8]) -> Result<Self, TableError> {
        Self::parse_parts(bytes)
    }

    /// Parses an ELF file, of which only those parts are read that are needed, as [`parse`](Self::parse) does.
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
        let go_functions = match (elf.go_functions, &debug_frame) {
            (Some((offset, len)), None) => {
                let section = elf::part(bytes, offset, len).unwrap_or(&[]);
                pclntab::starts(section, elf.text.unwrap_or(base)).into()
            }
            _ => Box::default(),
        };
        let described_entry = described
            .iter()
            .find(|&&(start, end)| start <= elf.entry && elf.entry < end)
            .map(|&(_, end)| end - elf.entry);
        let undescribed = UndescribedCode::new(bytes, &elf.segments, described);
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
            segments: elf.segments,
        })
    }

    /// Makes the table of JIT code, of which only `.eh_frame` is known: its bytes,
    /// and its address `at`, from which relative pointers in it count. What it says of code outside
    /// of `code` is left out. There is no bias: all addresses are AVMAs.
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
            go_functions: Box::default(),
            segments: elf.segments,
        }
    }

    /// Returns the processor that the image is for.
    #[must_use]
    pub const fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns true if there is call frame information for any code at all.
    #[must_use]
    pub const fn has_cfi(&self) -> bool {
        self.eh_frame.is_some() || self.debug_frame.is_some()
    }

    /// Returns true if call frame information was left out because its section, decompressed, is longer
    /// than any honest one (64 MiB).
    #[must_use]
    pub const fn has_too_long_section(&self) -> bool {
        self.has_too_long
    }

    /// Returns about how many bytes of memory the table takes now. It grows as rows are compiled, up to
    /// a bound for each section.
    #[must_use]
    pub fn memory(&self) -> usize {
        let sections = self
            .sections()
            .map(|cfi| cfi.index_size() + cfi.row_bytes());
        let fixed =
            size_of_val(&*self.plts) + self.switches.size() + size_of_val(&*self.go_functions);
        size_of::<Self>() + fixed + self.undescribed.size() + sections.sum::<usize>()
    }

    /// Returns the SVMA of the byte at this offset of the file, as far as a segment has it.
    #[must_use]
    pub fn svma_of_offset(&self, file_offset: u64) -> Option<u64> {
        self.segments.svma(file_offset)
    }

    /// Returns the bias of an image of which the byte at `file_offset` is mapped at `avma`: the start of
    /// a mapping and its offset, as in `/proc/PID/maps` or an MMAP record. May be "negative",
    /// then it wraps, as all arithmetic with it does.
    #[must_use]
    pub fn bias(&self, avma: u64, file_offset: u64) -> Option<u64> {
        self.segments.bias(avma, file_offset)
    }

    /// Returns true if there is call frame information for the instruction at this SVMA.
    #[must_use]
    pub fn covers(&self, svma: u64) -> bool {
        !matches!(self.find(svma), Found::NoFde)
    }

    /// Returns the SVMA at which the function starts that the instruction at this one belongs to, as call frame
    /// information has it: a part that was split off (`.cold`) is a function of its own.
    ///
    /// Takes some microseconds: for a few questions, not for every frame.
    #[must_use]
    pub fn function_start(&self, svma: u64) -> Option<u64> {
        let relative = u32::try_from(svma.checked_sub(self.base)?).ok()?;
        let mut starts = (self.sections()).filter_map(|cfi| cfi.function_start(relative));
        let described = starts.next().map(|start| self.base + u64::from(start));
        described.or_else(|| {
            let behind = self.go_functions.partition_point(|start| *start <= svma);
            self.go_functions.get(behind.checked_sub(1)?).copied()
        })
    }

    /// Figures. Counts only what was compiled so far.
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

    /// All rows in order of addresses, those of `.eh_frame` before those of `.debug_frame`. For
    /// tests and tools; compiles everything.
    #[must_use]
    pub fn rows(&self) -> Rows<'_> {
        Rows::new(self)
    }

    /// Returns the rule for the instruction at this SVMA.
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

    /// Returns true if this SVMA lies in the function at the image's entry point, which has no caller. In shared
    /// libraries the entry point may be that of an ordinary function, which has.
    pub(crate) fn is_entry_code(&self, svma: u64) -> bool {
        let within = svma.checked_sub(self.entry);
        within.is_some_and(|within| within < self.entry_len)
    }

    /// Returns true if code without description keeps frame pointers for sure: that of Go does, and has many
    /// functions that do not return.
    pub(crate) const fn keeps_frame_pointers(&self) -> bool {
        self.is_go
    }

    /// Returns what the call before this SVMA does, if it is made on a stack that was just switched to. C code beside Go's,
    /// which `.eh_frame` describes, gives back room on its own stack.
    pub(crate) fn switch_at(&self, svma: u64) -> Option<Switch> {
        let switch = self.switches.at(svma)?;
        self.is_go_code(svma.wrapping_sub(1)).then_some(switch)
    }

    /// Returns true if the Go compiler made this code. `.eh_frame` describes C code beside it.
    pub(crate) fn is_go_code(&self, svma: u64) -> bool {
        if !self.is_go {
            return false;
        }
        let relative = svma.checked_sub(self.base);
        let relative = relative.and_then(|relative| u32::try_from(relative).ok());
        let is_described = |cfi: &Cfi| {
            relative.is_some_and(|relative| !matches!(cfi.find(relative), Found::NoFde))
        };
        !self.eh_frame.as_ref().is_some_and(is_described)
    }

    /// Calls that Go's runtime makes on another stack.
    pub(crate) const fn switches(&self) -> &Switches {
        &self.switches
    }

    /// Code without description, from this SVMA on.
    pub(crate) fn undescribed_code(&self, svma: u64) -> Option<&[u8]> {
        self.undescribed.at(svma)
    }

    /// Returns true if no described function lies between two SVMAs without description. Also true where their code was not kept.
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

    /// Returns true if this SVMA is in the first entry of a procedure linkage table, behind its first
    /// instruction, on AArch64: there it is 32 bytes long.
    pub(crate) fn is_plt_header(&self, svma: u64) -> bool {
        let mut headers = self
            .plts
            .iter()
            .map(|&(start, end)| (start, end.min(start.saturating_add(32))));
        headers.any(|(start, end)| start < svma && svma < end)
    }

    fn sections(&self) -> impl Iterator<Item = &Cfi> {
        self.eh_frame.iter().chain(&self.debug_frame)
    }
}
