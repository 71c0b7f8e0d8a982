//! [`Image`]: one ELF file, with the places of functions, pointers and names.

use rustc_hash::FxHashMap;

use crate::decode::{self, Arch};
use crate::unwind_info::{Caller, UnwindInfo};

/// Length in bytes of a stub in a procedure linkage table.
const STUB: u64 = 16;

/// Length of a stub of AArch64 with `bti c` or `autia1716`.
const PROTECTED_STUB: u64 = 24;

/// Length in bytes of the code before the stubs of AArch64.
const HEADER: u64 = 32;

/// Pointer that the dynamic linker writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Relocation to the symbol of this name, in any image.
    Name(Box<str>),
    /// Relocation to an address of the same image.
    Address(u64),
    /// Relocation to the result of the resolver at this address (`STT_GNU_IFUNC`).
    Resolver(u64),
}

/// A symbol that other images may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition {
    pub(crate) address: u64,
    /// True for `STT_GNU_IFUNC`: the address belongs to the resolver.
    pub(crate) is_resolver: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) name: Box<str>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_code: bool,
    pub(crate) has_bytes: bool,
}

impl Section {
    fn has(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn is_linkage_table(&self) -> bool {
        self.name.starts_with(".plt") || &*self.name == ".iplt"
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) file_size: u64,
    pub(crate) start: u64,
    pub(crate) is_code: bool,
}

/// A contiguous part of a function, or code with unknown bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Piece {
    pub(crate) const fn has(self, address: u64) -> bool {
        self.start <= address && address < self.end
    }
}

/// An ELF file. Addresses are as stated in the file (SVMA).
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) arch: Arch,
    pub(crate) data: Vec<u8>,
    pub(crate) segments: Vec<Segment>,
    /// Sections in memory, ascending by address.
    pub(crate) sections: Vec<Section>,
    pub(crate) unwind_info: UnwindInfo,
    /// Names of functions, ascending by address.
    pub(crate) symbols: Vec<(u64, Box<str>)>,
    pub(crate) slots: FxHashMap<u64, Slot>,
    pub(crate) definitions: FxHashMap<Box<str>, Vec<Definition>>,
    /// True if other images can use `definitions`. A static program has all its functions there.
    pub(crate) has_exports: bool,
    /// Memory that is read-only once the dynamic linker is done.
    pub(crate) read_only: Option<(u64, u64)>,
    /// Entry point, initialization and termination functions.
    pub(crate) entries: Vec<u64>,
    pub(crate) is_linker: bool,
}

impl Image {
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let has = |segment: &&Segment| {
            segment.offset <= offset && offset - segment.offset < segment.file_size
        };
        let mut found = self.segments.iter().filter(has);
        let code = found.clone().find(|segment| segment.is_code);
        let segment = code.or_else(|| found.next())?;
        Some(segment.start.wrapping_add(offset - segment.offset))
    }

    /// Returns the bytes from an address to the end of its segment.
    pub(crate) fn bytes(&self, address: u64) -> Option<&[u8]> {
        let segment = self.segments.iter().find(|segment| {
            segment.start <= address && address - segment.start < segment.file_size
        })?;
        let within = address - segment.start;
        let from = usize::try_from(segment.offset.checked_add(within)?).ok()?;
        let len = usize::try_from(segment.file_size - within).ok()?;
        let end = from.saturating_add(len).min(self.data.len());
        self.data.get(from..end)
    }

    /// Returns the bytes from one address to another, as far as the file has them.
    pub(crate) fn range(&self, piece: Piece) -> &[u8] {
        let bytes = self.bytes(piece.start).unwrap_or_default();
        let len = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
        bytes.get(..len).unwrap_or(bytes)
    }

    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let bytes = self.bytes(address)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    fn section(&self, address: u64) -> Option<&Section> {
        self.sections.iter().find(|section| section.has(address))
    }

    /// Returns true if an address lies in executable memory.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        match self.section(address) {
            Some(section) => section.is_code,
            None => self.sections.is_empty() && self.bytes(address).is_some(),
        }
    }

    pub(crate) fn is_linkage_table(&self, address: u64) -> bool {
        self.section(address).is_some_and(Section::is_linkage_table)
    }

    /// Returns the address of the symbol `_GLOBAL_OFFSET_TABLE_`.
    pub(crate) fn offset_table(&self) -> Option<u64> {
        let start = |name: &str| {
            let mut sections = self.sections.iter();
            let section = sections.find(|section| &*section.name == name);
            section.map(|section| section.start)
        };
        start(".got.plt").or_else(|| start(".got"))
    }

    /// Returns true if the pointer at an address is the dynamic linker's alone.
    pub(crate) fn is_constant(&self, address: u64) -> bool {
        let is_table = |section: &Section| section.name.starts_with(".got");
        let in_range = |(start, end): (u64, u64)| (start..end).contains(&address);
        self.read_only.is_some_and(in_range) || self.section(address).is_some_and(is_table)
    }

    /// Returns the piece of code that an address belongs to. Unwinding information decides; where
    /// there is none, symbols do. Without both, it is all code between described functions.
    pub(crate) fn piece(&self, address: u64) -> Option<Piece> {
        let section = self.section(address);
        if let Some(table) = section.filter(|section| section.is_linkage_table()) {
            let (first, len) = self.stubs(table);
            let within = address.checked_sub(first);
            let start = within.map_or(table.start, |within| address - within % len);
            let end = within.map_or(first, |_| start + len).min(table.end);
            return Some(Piece { start, end });
        }
        if let Some(fde) = self.unwind_info.at(address) {
            let (start, end) = (fde.start, fde.end);
            return Some(Piece { start, end });
        }
        if !self.is_code(address) {
            return None;
        }
        let (low, high) = self.unwind_info.hole(address);
        let low = low.max(section.map_or(0, |section| section.start));
        let high = high.min(section.map_or_else(|| self.end(address), |section| section.end));
        let behind = self.symbols.partition_point(|(at, _)| *at <= address);
        let before = behind.checked_sub(1).map(|at| self.symbols[at].0);
        let next = self.symbols.get(behind).map_or(u64::MAX, |(at, _)| *at);
        let start = before.filter(|at| *at >= low).unwrap_or(low);
        let end = next.min(high);
        Some(Piece { start, end })
    }

    /// Returns the address of the first stub of a linkage table, and the length of each.
    fn stubs(&self, table: &Section) -> (u64, u64) {
        const BTI: u32 = 0xd503_245f;
        const AUTHENTICATES: u32 = 0xd503_219f;
        let first = table.start + HEADER;
        let word = |at: u64| {
            let bytes = self.bytes(at)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let is_protected = self.arch == Arch::Aarch64
            && (word(first) == Some(BTI) || word(first + 12) == Some(AUTHENTICATES));
        match is_protected {
            true => (first, PROTECTED_STUB),
            false => (table.start, STUB),
        }
    }

    fn end(&self, address: u64) -> u64 {
        let len = self.bytes(address).map_or(0, <[u8]>::len);
        address.saturating_add(len as u64)
    }

    /// Returns the name of the function at an address, with the distance from its start.
    pub(crate) fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let behind = self.symbols.partition_point(|(at, _)| *at <= address);
        let (start, name) = self.symbols.get(behind.checked_sub(1)?)?;
        // A name in front of other code belongs to another function.
        let is_here = self.piece(address)?.start <= *start;
        is_here.then(|| (&**name, address - start))
    }

    /// Returns true if the code at an address is the trampoline that a signal handler returns to.
    pub(crate) fn is_trampoline(&self, address: u64) -> bool {
        // `mov $15, %rax; syscall`, `mov x8, #139; svc #0`.
        let code: &[u8] = match self.arch {
            Arch::X86_64 => &[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05],
            Arch::Aarch64 => &[0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4],
        };
        let is_signal = |at: u64| self.unwind_info.at(at).is_some_and(|fde| fde.is_signal);
        let has_code = |at: u64| self.bytes(at).is_some_and(|bytes| bytes.starts_with(code));
        is_signal(address)
            || is_signal(address.wrapping_sub(1))
            // Go's is recorded one byte higher: readers look up the byte before. A sample may be at the
            // system call or behind it.
            || (0..=code.len() as u64).any(|within| has_code(address.wrapping_sub(within)))
    }

    /// Returns true if the code at an address is the root of a stack by its description, or by the
    /// name that Go's runtime gives it.
    pub(crate) fn is_root(&self, address: u64) -> bool {
        let name = self.symbol(address.wrapping_sub(1)).map(|(name, _)| name);
        let is_goexit = name.is_some_and(|name| name.trim_end_matches(".abi0") == "runtime.goexit");
        is_goexit || self.caller(address) == Caller::None
    }

    /// Returns true if the code at an address has its return address in a register, like x86-64's
    /// `longjmp`: it continues at another place.
    pub(crate) fn is_leaving(&self, address: u64) -> bool {
        self.arch == Arch::X86_64 && self.caller(address) == Caller::InRegister
    }

    fn caller(&self, address: u64) -> Caller {
        let return_register = match self.arch {
            Arch::X86_64 => 16,
            Arch::Aarch64 => 30,
        };
        self.unwind_info.caller(address, return_register)
    }

    pub(crate) fn instruction(&self, address: u64) -> String {
        let bytes = self.bytes(address).unwrap_or_default();
        match self.arch {
            Arch::X86_64 => decode::x86_text(bytes, address),
            Arch::Aarch64 => decode::aarch64_text(bytes),
        }
    }
}
