//! Names for the entries of the procedure linkage table.
//!
//! An entry jumps through a slot of the global offset table, and a dynamic relocation names the
//! function for that slot. So each entry is decoded for its slot. This works for `.plt`, `.plt.sec`
//! (with `-z ibtplt`) and `.plt.got` (bound at load time), in any order.

use super::file::File;
use super::table::{Entry, Origin, Table};
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym, SymbolTable};
use rustc_hash::FxHashMap;

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
    /// Targets in the order of `.rela.plt`, to which lazy entries refer by index.
    by_index: Vec<Target>,
}

/// Appends a symbol for each PLT entry to the symbols in `entries`. Returns the entries of indirect
/// functions, named or not, ascending by start.
pub(super) fn append<'data, E: FileHeader<Endian = Endianness>>(
    file: &File<'data, '_, E>,
    dynsym: Option<&SymbolTable<'data, E>>,
    entries: &mut Vec<Entry>,
) -> Vec<Indirect> {
    let mut indirect = Vec::new();
    let x86_64 = file.machine == elf::EM_X86_64.0;
    let aarch64 = file.machine == elf::EM_AARCH64.0 && file.endian == Endianness::Little;
    if !x86_64 && !aarch64 {
        return indirect;
    }
    let mut sections = plt_sections(file).peekable();
    if sections.peek().is_none() {
        return indirect;
    }
    let slots = slots(file, dynsym);
    // Resolvers need a symbol lookup, so the table is built on demand.
    let mut symbols = None;
    for section in sections {
        let svma: u64 = section.sh_addr(file.endian).into();
        let stated: u64 = section.sh_entsize(file.endian).into();
        let size = if matches!(stated, 8 | 16 | 24 | 32) {
            stated as usize
        } else {
            16
        };
        let bytes = file.section_bytes(section);
        let mut at = 0;
        while let Some(code) = bytes.get(at..).filter(|rest| rest.len() >= 8) {
            let code = &code[..code.len().min(size)];
            let here = svma.wrapping_add(at as u64);
            let mut len = size;
            if at == 0 && is_header(code, x86_64) {
                len = if aarch64 { 32 } else { 16 };
                entries.push(Entry::new(here, len as u64, Origin::PltHeader, 0));
            } else if let Some(target) = decode(code, here, x86_64, &slots) {
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
            }
            at += len;
        }
    }
    indirect.sort_by_key(|entry| entry.start);
    indirect
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
    dynsym: Option<&SymbolTable<'data, E>>,
) -> Slots {
    let mut slots = Slots::default();
    // Each byte of the file is read at most once on average: overlapping sections are malicious.
    let mut budget = file.data.len();
    for section in file.sections.iter() {
        if !section.sh_flags(file.endian).contains(elf::SHF_ALLOC) {
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
                    .and_then(|index| dynsym?.symbol(index).ok());
                Target::Named(symbol.map_or(0, |symbol| symbol.st_name(file.endian)))
            } else {
                continue;
            };
            slots
                .by_svma
                .insert(relocation.r_offset(file.endian).into(), target);
            if lazy {
                slots.by_index.push(target);
            }
        }
    }
    slots
}

/// The header pushes the second word of the GOT and jumps to the dynamic linker.
fn is_header(code: &[u8], x86_64: bool) -> bool {
    if x86_64 {
        code.starts_with(&[0xff, 0x35])
    } else {
        code.starts_with(&0xa9bf_7bf0_u32.to_le_bytes())
    }
}

fn decode(code: &[u8], svma: u64, x86_64: bool, slots: &Slots) -> Option<Target> {
    let target = if x86_64 {
        decode_x86_64(code, svma, slots)
    } else {
        decode_aarch64(code, svma, slots)
    }?;
    (!matches!(target, Target::Named(0))).then_some(target)
}

/// Decodes `jmp *slot(%rip)`, optionally after `endbr64` and `bnd`. With `-z ibtplt`, entries of
/// `.plt` are `endbr64; push $index; jmp header`, with the index of the relocation.
fn decode_x86_64(code: &[u8], svma: u64, slots: &Slots) -> Option<Target> {
    let word = |at: usize| -> Option<[u8; 4]> { code.get(at..at + 4)?.try_into().ok() };
    let mut at = if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        4
    } else {
        0
    };
    if code.get(at) == Some(&0x68) {
        let index = u32::from_le_bytes(word(at + 1)?);
        return slots.by_index.get(index as usize).copied();
    }
    if code.get(at) == Some(&0xf2) {
        at += 1;
    }
    if code.get(at..at + 2) != Some(&[0xff, 0x25]) {
        return None;
    }
    let displacement = i32::from_le_bytes(word(at + 2)?);
    let slot = svma
        .wrapping_add(at as u64 + 6)
        .wrapping_add_signed(displacement.into());
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
        let hit =
            |code: &[u8], svma| matches!(decode(code, svma, true, &slots), Some(Target::Named(5)));
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
    fn aarch64_form() {
        // adrp x16, #0x1f000; ldr x17, [x16, #0xfa0]
        let slots = slots(0x2_1fa0);
        let code: Vec<u8> = [0xf000_00f0_u32, 0xf947_d211]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        assert!(matches!(
            decode(&code, 0x2000, false, &slots),
            Some(Target::Named(5))
        ));
    }
}
