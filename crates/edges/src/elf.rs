//! Reads an ELF file into an [`Image`].

use std::fs::File;
use std::os::unix::fs::FileExt;

use gimli::BaseAddresses;
use object::LittleEndian;
use object::elf::{
    EM_AARCH64, EM_X86_64, FileHeader64, PF_X, PT_GNU_RELRO, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR,
    SHN_UNDEF, SHT_NOBITS, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE,
};
use object::read::elf::{
    FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable,
};
use rustc_hash::FxHashMap;

use crate::decode::Arch;
use crate::go;
use crate::image::{Definition, Image, Section, Segment, Slot};
use crate::unwind_info::UnwindInfo;

type Header = FileHeader64<LittleEndian>;
type Sections<'a> = SectionTable<'a, Header>;

const ENDIAN: LittleEndian = LittleEndian;

/// Tags of the dynamic section: `DT_INIT`, `DT_FINI`.
const FUNCTIONS: [u64; 2] = [12, 13];

/// Parses an ELF file of x86-64 or AArch64. Returns `None` for other files.
pub(crate) fn parse(path: &str, data: Vec<u8>) -> Option<Image> {
    if data.get(..6)? != [0x7f, b'E', b'L', b'F', 2, 1] {
        return None;
    }
    let header = Header::parse(&*data).ok()?;
    let arch = match header.e_machine(ENDIAN) {
        EM_X86_64 => Arch::X86_64,
        EM_AARCH64 => Arch::Aarch64,
        _ => return None,
    };
    let (mut segments, mut read_only) = (Vec::new(), None);
    for segment in header.program_headers(ENDIAN, &*data).ok()? {
        let start = segment.p_vaddr(ENDIAN);
        match segment.p_type(ENDIAN) {
            PT_LOAD => segments.push(Segment {
                offset: segment.p_offset(ENDIAN),
                file_size: segment.p_filesz(ENDIAN),
                start,
                is_code: segment.p_flags(ENDIAN).0 & PF_X.0 != 0,
            }),
            PT_GNU_RELRO => read_only = Some((start, start + segment.p_memsz(ENDIAN))),
            _ => {}
        }
    }
    let table = header.sections(ENDIAN, &*data).ok()?;
    let mut found = Found::default();
    for (index, section) in table.enumerate() {
        found.add_symbols(&table, index, section, &data);
        found.add_section(&table, section, &data);
    }
    for section in table.iter() {
        found.add_pointers(&table, section, &data, arch);
    }
    let has_exports = !found.exported.is_empty();
    if !has_exports {
        found.exported = std::mem::take(&mut found.own);
    }
    let own = found.relocated.filter(|_| found.is_go);
    let own = || own.and_then(|(start, section)| go::find(section, start));
    if let Some((start, table)) = found.go_functions.or_else(own) {
        let text = match found.slots.get(&start.wrapping_add(go::TEXT_START)) {
            Some(Slot::Address(text)) => Some(*text),
            _ => found.text,
        };
        found.symbols.extend(go::functions(table, text));
    }
    let unwind_info = UnwindInfo::parse(found.frames.unwrap_or_default(), found.bases);
    found.sections.sort_by_key(|section| section.start);
    found.symbols.sort();
    found.symbols.dedup_by_key(|(address, _)| *address);
    found.entries.push(header.e_entry(ENDIAN));
    let file = path.rsplit('/').next().unwrap_or(path);
    let (sections, symbols, slots) = (found.sections, found.symbols, found.slots);
    let (definitions, entries) = (found.exported, found.entries);
    Some(Image {
        arch,
        segments,
        sections,
        unwind_info,
        symbols,
        slots,
        definitions,
        has_exports,
        read_only,
        entries,
        is_linker: file.starts_with("ld-linux") || file.starts_with("ld-musl"),
        data,
    })
}

/// Reads the vdso of this process from memory. All 64-bit processes of the machine have the same.
pub(crate) fn vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let number = |hex| u64::from_str_radix(hex, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

#[derive(Default)]
struct Found<'a> {
    sections: Vec<Section>,
    symbols: Vec<(u64, Box<str>)>,
    /// Symbols of `.dynsym`, and of `.symtab`.
    exported: FxHashMap<Box<str>, Vec<Definition>>,
    own: FxHashMap<Box<str>, Vec<Definition>>,
    slots: FxHashMap<u64, Slot>,
    entries: Vec<u64>,
    frames: Option<&'a [u8]>,
    /// Address and bytes of the table of Go's functions, and of a section that may contain it.
    go_functions: Option<(u64, &'a [u8])>,
    relocated: Option<(u64, &'a [u8])>,
    is_go: bool,
    /// Address of `.text`.
    text: Option<u64>,
    bases: BaseAddresses,
}

type SectionHeader64 = object::elf::SectionHeader64<LittleEndian>;

impl<'a> Found<'a> {
    fn add_section(&mut self, table: &Sections<'a>, section: &SectionHeader64, data: &'a [u8]) {
        let start = section.sh_addr(ENDIAN);
        let flags = section.sh_flags(ENDIAN).0;
        if flags & SHF_ALLOC.0 == 0 || start == 0 {
            return;
        }
        let name = table.section_name(ENDIAN, section).unwrap_or_default();
        let contents = || section.data(ENDIAN, data).ok();
        match name {
            b".eh_frame" => {
                self.frames = contents();
                self.bases = std::mem::take(&mut self.bases).set_eh_frame(start);
            }
            b".text" => {
                self.text = Some(start);
                self.bases = std::mem::take(&mut self.bases).set_text(start);
            }
            b".gopclntab" | b".data.rel.ro.gopclntab" => {
                self.go_functions = contents().map(|table| (start, table));
            }
            b".data.rel.ro" => self.relocated = contents().map(|section| (start, section)),
            b".go.buildinfo" => self.is_go = true,
            b".got" => self.bases = std::mem::take(&mut self.bases).set_got(start),
            b".dynamic" => {
                let words = contents().unwrap_or_default().as_chunks::<16>().0;
                for entry in words {
                    let (tag, value) = entry.split_at(8);
                    let number =
                        |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                    if FUNCTIONS.contains(&number(tag)) {
                        self.entries.push(number(value));
                    }
                }
            }
            _ => {}
        }
        self.sections.push(Section {
            name: String::from_utf8_lossy(name).into(),
            start,
            end: start.saturating_add(section.sh_size(ENDIAN)),
            is_code: flags & SHF_EXECINSTR.0 != 0,
            has_bytes: section.sh_type(ENDIAN) != SHT_NOBITS,
        });
    }

    fn add_symbols(
        &mut self,
        table: &Sections<'a>,
        index: object::SectionIndex,
        section: &SectionHeader64,
        data: &'a [u8],
    ) {
        let Ok(Some(symbols)) = section.symbols(ENDIAN, data, table, index) else {
            return;
        };
        let is_exported = table.section_name(ENDIAN, section) == Ok(b".dynsym");
        for symbol in symbols.iter() {
            let (kind, address) = (symbol.st_type(), symbol.st_value(ENDIAN));
            if symbol.st_shndx(ENDIAN) == SHN_UNDEF
                || ![STT_FUNC, STT_NOTYPE, STT_GNU_IFUNC].contains(&kind)
                || address == 0
            {
                continue;
            }
            let name =
                String::from_utf8_lossy(symbols.symbol_name(ENDIAN, symbol).unwrap_or_default());
            // Labels of an assembler, and marks of AArch64, are no functions.
            if name.is_empty() || name.starts_with(".L") || name.starts_with('$') {
                continue;
            }
            self.symbols.push((address, (&*name).into()));
            let definition = Definition {
                address,
                is_resolver: kind == STT_GNU_IFUNC,
            };
            let names = if is_exported {
                &mut self.exported
            } else {
                &mut self.own
            };
            names.entry((&*name).into()).or_default().push(definition);
        }
    }

    fn add_pointers(
        &mut self,
        table: &Sections<'a>,
        section: &SectionHeader64,
        data: &'a [u8],
        arch: Arch,
    ) {
        let is_alloc = section.sh_flags(ENDIAN).0 & SHF_ALLOC.0 != 0;
        let Ok(Some((relocations, link))) = section.rela(ENDIAN, data) else {
            return;
        };
        if !is_alloc {
            return;
        }
        let symbols = table.symbol_table_by_index(ENDIAN, data, link).ok();
        for relocation in relocations {
            let kind = relocation.r_type(ENDIAN, false).0;
            let addend = relocation.r_addend(ENDIAN) as u64;
            let symbol = relocation.r_sym(ENDIAN, false) as usize;
            let slot = match Pointer::of(arch, kind) {
                Some(Pointer::Symbol) => symbol_slot(symbols.as_ref(), symbol, addend),
                Some(Pointer::Relative) => Some(Slot::Address(addend)),
                Some(Pointer::Resolver) => Some(Slot::Resolver(addend)),
                None => None,
            };
            if let Some(slot) = slot {
                self.slots.insert(relocation.r_offset(ENDIAN), slot);
            }
        }
    }
}

fn symbol_slot(
    symbols: Option<&SymbolTable<'_, Header>>,
    index: usize,
    addend: u64,
) -> Option<Slot> {
    let symbols = symbols?;
    let symbol = symbols.symbol(object::SymbolIndex(index)).ok()?;
    let name = symbols.symbol_name(ENDIAN, symbol).unwrap_or_default();
    match name {
        b"" => Some(Slot::Address(symbol.st_value(ENDIAN).wrapping_add(addend))),
        name => Some(Slot::Name(String::from_utf8_lossy(name).into())),
    }
}

/// Kind of a relocation that writes a pointer.
enum Pointer {
    Symbol,
    Relative,
    Resolver,
}

impl Pointer {
    /// Classifies a relocation type (psABI of x86-64, ELF for the Arm 64-bit architecture).
    const fn of(arch: Arch, kind: u32) -> Option<Self> {
        match (arch, kind) {
            // R_X86_64_64, GLOB_DAT, JUMP_SLOT; R_AARCH64_ABS64, GLOB_DAT, JUMP_SLOT.
            (Arch::X86_64, 1 | 6 | 7) | (Arch::Aarch64, 257 | 1025 | 1026) => Some(Self::Symbol),
            (Arch::X86_64, 8) | (Arch::Aarch64, 1027) => Some(Self::Relative),
            (Arch::X86_64, 37) | (Arch::Aarch64, 1032) => Some(Self::Resolver),
            _ => None,
        }
    }
}
