//! Names for the entries of the procedure linkage table.
//!
//! An entry jumps through a slot of the global offset table, and a dynamic relocation names the
//! function for that slot. So each entry is decoded for its slot. This works for `.plt`, `.plt.sec`
//! (with `-z ibtplt`) and `.plt.got` (bound at load time), in any order. In files without section
//! headers, the dynamic segment leads to the relocations, and the table's header to the entries.

use super::file::{File, Symbols};
use super::table::{Entry, Origin, Table};
use object::Endianness;
use object::ReadRef;
use object::elf;
use object::read::elf::{FileHeader, Rel, Rela, SectionHeader, Sym};
use rustc_hash::FxHashMap;

/// Usual size in bytes of an entry.
const SIZE: usize = 16;

/// Value of a slot, as the dynamic linker sets it.
#[derive(Clone, Copy)]
enum Target {
    /// A function, by the offset of its name in the strings of `.dynsym`.
    Named(u32),
    /// An indirect function, selected by the resolver at this SVMA.
    Resolver(u64),
}

/// PLT entry of an indirect function. The symbol of its resolver may be in a debug file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indirect {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) resolver: u64,
}

#[derive(Default)]
struct Slots {
    by_svma: FxHashMap<u64, Target>,
    /// Targets in the order of `.rela.plt`. Lazy entries refer to them by index.
    by_index: Vec<Target>,
}

/// Processor, which decides the form of PLT entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    X86_64,
    Aarch64,
    X86 {
        /// SVMA of the global offset table. Entries address slots relative to it, by ebx.
        got: u64,
    },
}

impl Form {
    fn of<E: FileHeader<Endian = Endianness>>(file: &File<'_, '_, E>) -> Option<Self> {
        if file.endian != Endianness::Little {
            return None;
        }
        match file.machine {
            machine if machine == elf::EM_X86_64.0 => Some(Self::X86_64),
            machine if machine == elf::EM_AARCH64.0 => Some(Self::Aarch64),
            machine if machine == elf::EM_386.0 => {
                // Without lazy binding linkers join both tables.
                let section = |name| file.sections.section_by_name(file.endian, name);
                let table = section(&b".got.plt"[..]).or_else(|| section(b".got"));
                let got = table.map_or(0, |(_, section)| section.sh_addr(file.endian).into());
                Some(Self::X86 { got })
            }
            _ => None,
        }
    }
}

/// Appends a symbol for each PLT entry to the symbols in `entries`. Returns the entries of indirect
/// functions, named or not, ascending by start.
pub(super) fn append<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, '_, E>,
    dynsym: Option<&Symbols<'data, E>>,
    entries: &mut Vec<Entry>,
) -> Vec<Indirect> {
    let mut indirect = Vec::new();
    let Some(form) = Form::of(file) else {
        return indirect;
    };
    let tables = match file.sections.is_empty() {
        true => without_section(file, form).into_iter().collect(),
        false => linkage_tables(file),
    };
    if tables.is_empty() {
        return indirect;
    }
    let slots = match file.sections.is_empty() {
        true => slots_by_segment(file, dynsym).unwrap_or_default(),
        false => slots(file, dynsym),
    };
    // Built on demand: only resolvers need a symbol lookup.
    let mut symbols = None;
    for table in tables {
        let LinkageTable {
            svma, size, bytes, ..
        } = table;
        let mut at = 0;
        while let Some(code) = bytes.get(at..).filter(|rest| rest.len() >= 8) {
            let code = &code[..code.len().min(size)];
            let here = svma.wrapping_add(at as u64);
            // Entries of `.plt.got` may be shorter, and the next table is aligned.
            let is_short = matches!(code, [0xff, 0x25, _, _, _, _, 0x66, 0x90, ..]);
            let is_short = table.is_open && (is_short || !at.is_multiple_of(SIZE));
            let size = if is_short { SIZE / 2 } else { size };
            let mut len = size;
            if at == 0 && is_header(code, form) {
                len = if form == Form::Aarch64 { 32 } else { 16 };
                entries.push(Entry::new(here, len as u64, Origin::PltHeader, 0));
            } else if let Some(target) = decode(code, here, form, &slots) {
                let name = match target {
                    Target::Named(name) => Some((Origin::PltDynsym, name)),
                    Target::Resolver(svma) => {
                        indirect.push(Indirect {
                            start: here,
                            size: size as u64,
                            resolver: svma,
                        });
                        let symbols = symbols.get_or_insert_with(|| Table::new(entries.clone()));
                        symbols.lookup(svma).map(|symbol| match symbol.origin() {
                            Origin::Symtab => (Origin::PltSymtab, symbol.name()),
                            _ => (Origin::PltDynsym, symbol.name()),
                        })
                    }
                };
                if let Some((origin, name)) = name {
                    entries.push(Entry::new(here, size as u64, origin, name));
                }
            } else if table.is_open && !is_short {
                break;
            }
            at += len;
        }
    }
    indirect.sort_by_key(|entry| entry.start);
    indirect
}

/// Code with entries.
struct LinkageTable<'data> {
    svma: u64,
    /// Size of an entry in bytes.
    size: usize,
    bytes: &'data [u8],
    /// True if the end is unknown: other code follows the last entry.
    is_open: bool,
}

fn linkage_tables<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, '_, E>,
) -> Vec<LinkageTable<'data>> {
    let table = |section: &E::SectionHeader| {
        let stated: u64 = section.sh_entsize(file.endian).into();
        LinkageTable {
            svma: section.sh_addr(file.endian).into(),
            size: if matches!(stated, 8 | 16 | 24 | 32) {
                stated as usize
            } else {
                SIZE
            },
            bytes: file.section_bytes(section),
            is_open: false,
        }
    };
    plt_sections(file).map(table).collect()
}

/// Finds the linkage table of a file without section headers by the table's header, which jumps
/// through the third word of the global offset table. The dynamic segment has the address of that
/// table (`DT_PLTGOT`). For x86-64.
fn without_section<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, '_, E>,
    form: Form,
) -> Option<LinkageTable<'data>> {
    let got = file.dynamic_value(file.dynamic()?, elf::DT_PLTGOT)?;
    if form != Form::X86_64 {
        return None;
    }
    // Overlapping segments are malicious.
    let mut left = file.data.len();
    let mut found = file.segments.code().filter_map(|segment| {
        let start = usize::try_from(segment.offset).ok()?;
        let len = usize::try_from(segment.file_size).ok()?;
        let bytes = file.data.get(start..)?;
        let bytes = bytes.get(..len).unwrap_or(bytes);
        let bytes = bytes.get(..left).unwrap_or(bytes);
        left -= bytes.len();
        // The table is aligned.
        let first = (segment.svma.wrapping_neg() % SIZE as u64) as usize;
        let mut places = (first..bytes.len()).step_by(SIZE);
        let at = places.find(|&at| {
            let code = bytes.get(at..).unwrap_or_default();
            let jump = segment.svma.wrapping_add(at as u64 + 6);
            is_header(code, form) && jump_slot(code.get(6..), jump) == Some(got.wrapping_add(16))
        })?;
        Some(LinkageTable {
            svma: segment.svma.wrapping_add(at as u64),
            size: SIZE,
            bytes: bytes.get(at..)?,
            is_open: true,
        })
    });
    found.next()
}

fn plt_sections<'a, E: FileHeader<Endian = Endianness>>(
    file: &File<'_, 'a, E>,
) -> impl Iterator<Item = &'a E::SectionHeader> {
    let names: [&[u8]; 4] = [b".plt", b".plt.sec", b".plt.got", b".iplt"];
    names.into_iter().filter_map(|name| {
        let found = file.sections.section_by_name(file.endian, name);
        found.map(|(_, section)| section)
    })
}

pub(super) fn any_in<E: FileHeader<Endian = Endianness>>(
    file: &File<'_, '_, E>,
    svmas: &[u64],
) -> bool {
    if file.sections.is_empty() {
        return Form::of(file)
            .and_then(|form| without_section(file, form))
            .is_some();
    }
    // The last entry may extend slightly past the section.
    const LONGEST: u64 = 64;
    plt_sections(file).any(|section| {
        let start: u64 = section.sh_addr(file.endian).into();
        let size: u64 = section.sh_size(file.endian).into();
        let end = start.saturating_add(size).saturating_add(LONGEST);
        let after = svmas.partition_point(|&svma| svma < start);
        svmas.get(after).is_some_and(|&svma| svma < end)
    })
}

fn slots<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, '_, E>,
    dynsym: Option<&Symbols<'data, E>>,
) -> Slots {
    let mut slots = Slots::default();
    // Overlapping sections are malicious: read each byte at most once on average.
    let mut budget = file.data.len();
    for section in file.sections.iter() {
        if !section.sh_flags(file.endian).contains(elf::SHF_ALLOC) {
            continue;
        }
        let plain = section.rel(file.endian, file.data).ok().flatten();
        let plain = plain.map_or(&[][..], |(relocations, _)| relocations);
        let Some(left) = budget.checked_sub(size_of_val(plain)) else {
            break;
        };
        budget = left;
        if file.machine == elf::EM_386.0 {
            slots.add_x86(file, dynsym, section, plain);
            continue;
        }
        let Ok(Some((relocations, _))) = section.rela(file.endian, file.data) else {
            continue;
        };
        let Some(left) = budget.checked_sub(size_of_val(relocations)) else {
            break;
        };
        budget = left;
        let name = file
            .sections
            .section_name(file.endian, section)
            .unwrap_or_default();
        let lazy = name == b".rela.plt";
        slots.add(file, dynsym, relocations, lazy);
    }
    slots
}

/// Reads the slots of a file without section headers.
fn slots_by_segment<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, '_, E>,
    dynsym: Option<&Symbols<'data, E>>,
) -> Option<Slots> {
    let mut slots = Slots::default();
    let dynamic = file.dynamic()?;
    let tables = [
        (elf::DT_RELA, elf::DT_RELASZ, false),
        (elf::DT_JMPREL, elf::DT_PLTRELSZ, true),
    ];
    for (address, size, lazy) in tables {
        let value = |tag| file.dynamic_value(dynamic, tag);
        let (Some(address), Some(size)) = (value(address), value(size)) else {
            continue;
        };
        let (offset, left) = file.segments.offset_of_svma(address)?;
        let count = usize::try_from(size.min(left)).ok()? / size_of::<E::Rela>();
        let relocations: &[E::Rela] = file.data.read_slice_at(offset, count).ok()?;
        slots.add(file, dynsym, relocations, lazy);
    }
    Some(slots)
}

impl Slots {
    fn add<'data, E: FileHeader<Endian = Endianness>>(
        &mut self,
        file: &File<'data, '_, E>,
        dynsym: Option<&Symbols<'data, E>>,
        relocations: &[E::Rela],
        lazy: bool,
    ) {
        for relocation in relocations {
            let kind = relocation.r_type(file.endian, false);
            let target = if matches!(kind, elf::R_X86_64_IRELATIVE | elf::R_AARCH64_IRELATIVE) {
                Target::Resolver(relocation.r_addend(file.endian).into() as u64)
            } else if matches!(
                kind,
                elf::R_X86_64_JUMP_SLOT
                    | elf::R_X86_64_GLOB_DAT
                    | elf::R_AARCH64_JUMP_SLOT
                    | elf::R_AARCH64_GLOB_DAT
            ) {
                let symbol = relocation
                    .symbol(file.endian, false)
                    .and_then(|index| dynsym?.symbol(index));
                Target::Named(symbol.map_or(0, |symbol| symbol.st_name(file.endian)))
            } else {
                continue;
            };
            self.by_svma
                .insert(relocation.r_offset(file.endian).into(), target);
            if lazy {
                self.by_index.push(target);
            }
        }
    }

    /// Adds the relocations of i386. The slot of an indirect function holds the resolver's SVMA.
    fn add_x86<'data, E: FileHeader<Endian = Endianness>>(
        &mut self,
        file: &File<'data, '_, E>,
        dynsym: Option<&Symbols<'data, E>>,
        section: &E::SectionHeader,
        relocations: &[E::Rel],
    ) {
        let name = file.sections.section_name(file.endian, section);
        let lazy = name.unwrap_or_default() == b".rel.plt";
        for relocation in relocations {
            let slot: u64 = relocation.r_offset(file.endian).into();
            let target = match relocation.r_type(file.endian) {
                elf::R_386_IRELATIVE => {
                    let Some(resolver) = word_at(file, slot) else {
                        continue;
                    };
                    Target::Resolver(resolver.into())
                }
                elf::R_386_JMP_SLOT | elf::R_386_GLOB_DAT => {
                    let index = relocation.symbol(file.endian);
                    let symbol = index.and_then(|index| dynsym?.symbol(index));
                    Target::Named(symbol.map_or(0, |symbol| symbol.st_name(file.endian)))
                }
                _ => continue,
            };
            self.by_svma.insert(slot, target);
            if lazy {
                self.by_index.push(target);
            }
        }
    }
}

fn word_at<E: FileHeader<Endian = Endianness>>(file: &File<'_, '_, E>, svma: u64) -> Option<u32> {
    let mut sections = file.sections.iter();
    let (section, within) = sections.find_map(|section| {
        let within = svma.checked_sub(section.sh_addr(file.endian).into())?;
        let is_in = section.sh_flags(file.endian).contains(elf::SHF_ALLOC)
            && within < section.sh_size(file.endian).into();
        is_in.then_some((section, within))
    })?;
    let bytes = file
        .section_bytes(section)
        .get(usize::try_from(within).ok()?..)?;
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}

/// The header pushes the second word of the GOT and jumps to the dynamic linker.
fn is_header(code: &[u8], form: Form) -> bool {
    match form {
        Form::X86_64 => code.starts_with(&[0xff, 0x35]),
        Form::Aarch64 => code.starts_with(&0xa9bf_7bf0_u32.to_le_bytes()),
        Form::X86 { .. } => matches!(code, [0xff, 0x35, ..] | [0xff, 0xb3, 4, 0, 0, 0, ..]),
    }
}

fn decode(code: &[u8], svma: u64, form: Form, slots: &Slots) -> Option<Target> {
    let target = match form {
        Form::X86_64 => decode_x86_64(code, svma, slots),
        Form::Aarch64 => decode_aarch64(code, svma, slots),
        Form::X86 { got } => decode_x86(code, got, slots),
    }?;
    (!matches!(target, Target::Named(0))).then_some(target)
}

/// Decodes `jmp *slot(%rip)`, optionally after `endbr64` and `bnd`. With `-z ibtplt`, entries of
/// `.plt` are `endbr64; push $index; jmp header`, with the index of the relocation.
fn decode_x86_64(code: &[u8], svma: u64, slots: &Slots) -> Option<Target> {
    let word = |at: usize| -> Option<[u8; 4]> { code.get(at..at + 4)?.try_into().ok() };
    let at = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        4
    } else {
        0
    };
    if code.get(at) == Some(&0x68) {
        let index = u32::from_le_bytes(word(at + 1)?);
        return slots.by_index.get(index as usize).copied();
    }
    let slot = jump_slot(code.get(at..), svma.wrapping_add(at as u64))?;
    slots.by_svma.get(&slot).copied()
}

/// Decodes `jmp *slot(%rip)`, optionally after `bnd`.
fn jump_slot(code: Option<&[u8]>, svma: u64) -> Option<u64> {
    let (displacement, len) = match code? {
        [0xff, 0x25, rest @ ..] => (rest, 6),
        [0xf2, 0xff, 0x25, rest @ ..] => (rest, 7),
        _ => return None,
    };
    let displacement = i32::from_le_bytes(*displacement.first_chunk()?);
    Some(
        svma.wrapping_add(len)
            .wrapping_add_signed(displacement.into()),
    )
}

/// Decodes `jmp *slot` or `jmp *distance(%ebx)`, optionally after `endbr32`. Lazy entries of `-z
/// ibtplt` push the offset of the relocation, of 8 bytes each.
fn decode_x86(code: &[u8], got: u64, slots: &Slots) -> Option<Target> {
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfb]).unwrap_or(code);
    let word = |bytes: &[u8]| Some(u32::from_le_bytes(*bytes.first_chunk()?));
    let slot = match code {
        [0x68, offset @ ..] => return slots.by_index.get(word(offset)? as usize / 8).copied(),
        [0xff, 0x25, slot @ ..] => word(slot)?.into(),
        [0xff, 0xa3, distance @ ..] => (got as u32).wrapping_add(word(distance)?).into(),
        _ => return None,
    };
    slots.by_svma.get(&slot).copied()
}

/// Decodes `adrp x16, page; ldr x17, [x16, #offset]`, optionally after `bti c`.
fn decode_aarch64(code: &[u8], svma: u64, slots: &Slots) -> Option<Target> {
    let word = |at: usize| -> Option<u32> {
        Some(u32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?))
    };
    let at = if word(0)? == 0xd503_245f { 4 } else { 0 };
    let (adrp, ldr) = (word(at)?, word(at + 4)?);
    if adrp & 0x9f00_001f != 0x9000_0010 || ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let pages = (adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3;
    let pages = i64::from((pages << 11) as i32 >> 11);
    let page = (svma.wrapping_add(at as u64) & !0xfff).wrapping_add_signed(pages << 12);
    let slot = page.wrapping_add(u64::from(ldr >> 10 & 0xfff) << 3);
    slots.by_svma.get(&slot).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(svma: u64) -> Slots {
        Slots {
            by_svma: [(svma, Target::Named(5))].into_iter().collect(),
            by_index: vec![Target::Named(5)],
        }
    }

    #[test]
    fn x86_64_forms() {
        let slots = slots(0x4000);
        let hit = |code: &[u8], svma| {
            matches!(
                decode(code, svma, Form::X86_64, &slots),
                Some(Target::Named(5))
            )
        };
        assert!(hit(
            &[0xff, 0x25, 0xca, 0x2f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9],
            0x1030
        ));
        assert!(hit(
            &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xc5, 0x2f, 0, 0],
            0x1030
        ));
        assert!(hit(
            &[0xff, 0x25, 0xfa, 0xef, 0xff, 0xff, 0x66, 0x90],
            0x5000
        ));
        assert!(hit(&[0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0], 0x1020));
        assert!(!hit(&[0xf3, 0x0f, 0x1e, 0xfa, 0x68, 1, 0, 0, 0], 0x1020));
        assert!(!hit(&[0xff, 0x25, 0, 0], 0x1020));
    }

    #[test]
    fn x86_forms() {
        let slots = slots(0x0804_c00c);
        let form = Form::X86 { got: 0x0804_c000 };
        let hit = |code: &[u8]| matches!(decode(code, 0, form, &slots), Some(Target::Named(5)));
        let absolute = [0xff, 0x25, 0x0c, 0xc0, 4, 8, 0x68, 8, 0, 0, 0, 0xe9];
        assert!(hit(&absolute));
        assert!(hit(&[0xff, 0xa3, 0x0c, 0, 0, 0, 0x66, 0x90]));
        assert!(hit(&[
            0xf3, 0x0f, 0x1e, 0xfb, 0xff, 0xa3, 0x0c, 0, 0, 0, 0x66, 0x0f
        ]));
        assert!(hit(&[0xf3, 0x0f, 0x1e, 0xfb, 0x68, 0, 0, 0, 0, 0xe9]));
        assert!(!hit(&[0xff, 0xa3, 0x10, 0, 0, 0, 0x66, 0x90]));
        assert!(!hit(&[0x68, 8, 0, 0, 0, 0xe9]));
        assert!(!hit(&[0xff, 0xa3, 0x0c]));
        assert!(is_header(&[0xff, 0xb3, 4, 0, 0, 0, 0xff, 0xa3, 8], form));
        assert!(!is_header(&absolute, form));
    }

    #[test]
    fn aarch64_form() {
        // adrp x16, #0x1f000; ldr x17, [x16, #0xfa0]
        let slots = slots(0x2_1fa0);
        let code: Vec<u8> = [0xf000_00f0_u32, 0xf947_d211]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert!(matches!(
            decode(&code, 0x2000, Form::Aarch64, &slots),
            Some(Target::Named(5))
        ));
    }
}
