//! Parses the parts of [`ElfSymbols`](super::ElfSymbols) from the bytes of a file.

use super::ElfError;
use super::choose::{Candidate, Chooser};
use super::file::{File, Symbols};
use super::plt::{self, Indirect};
use super::strings::{MAX_NAME, Strings};
use super::table::{Entry, Origin, Table};
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use rprof_image::{BuildId, Segments, build_id_of};
use rprof_unwind::{GoNames, go_functions_in, go_text_start};
use rustc_hash::FxHashMap;
use std::ops::Range;

pub(super) struct Parts {
    pub(super) build_id: Option<BuildId>,
    pub(super) segments: Segments,
    pub(super) strings: Strings,
    pub(super) has_symtab: bool,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) table: Table,
    pub(super) indirect: Vec<Indirect>,
}

pub(super) fn parse(data: &[u8]) -> Result<Parts, ElfError> {
    match data.get(..5) {
        Some(&[0x7f, b'E', b'L', b'F', 1]) => parse_class::<elf::FileHeader32<Endianness>>(data),
        Some(&[0x7f, b'E', b'L', b'F', 2]) => parse_class::<elf::FileHeader64<Endianness>>(data),
        _ => Err(ElfError::NotElf),
    }
}

fn parse_class<E: FileHeader<Endian = Endianness>>(data: &[u8]) -> Result<Parts, ElfError> {
    let damaged = |error: object::read::Error| ElfError::Damaged(error.to_string().into());
    let header = E::parse(data).map_err(|_| ElfError::NotElf)?;
    let endian = header.endian().map_err(|_| ElfError::NotElf)?;
    let kind: u16 = header.e_type(endian).0;
    if kind != elf::ET_EXEC.0 && kind != elf::ET_DYN.0 {
        return Err(ElfError::NotLoadable(kind));
    }
    header.program_headers(endian, data).map_err(damaged)?;
    let segments = Segments::parse(data).unwrap_or_default();
    let sections = header.sections(endian, data).map_err(damaged)?;
    let file = File {
        data,
        endian,
        header,
        machine: header.e_machine(endian).0,
        sections: &sections,
        segments: &segments,
    };

    let symtab = file.symbols(elf::SHT_SYMTAB);
    let dynsym = file.symbols(elf::SHT_DYNSYM);
    let go = symtab.is_none().then(|| file.go_names()).flatten();
    let range =
        |table: Option<&Symbols<'_, E>>| table.map_or(0..0, |table| table.string_range.clone());
    Ok(Parts {
        build_id: build_id_of(data),
        strings: Strings {
            symtab: range(symtab.as_ref()),
            dynsym: range(dynsym.as_ref()),
            go: go.map_or(0..0, |names| names.strings),
        },
        has_symtab: symtab.is_some(),
        segments,
    })
}

/// Parses all symbols, or only those relevant for the sorted `svmas`. `None` if that takes all
/// symbols. Empty if the file is damaged.
pub(super) fn tables(data: &[u8], strings: &Strings, svmas: Option<&[u64]>) -> Option<Tables> {
    struct Find<'a>(&'a Strings, Option<&'a [u64]>);
    impl WithFile for Find<'_> {
        type Output = Option<Tables>;

        fn of<E: FileHeader<Endian = Endianness>>(self, file: &File<'_, '_, E>) -> Option<Tables> {
            match self.1 {
                None => Some(file.all_symbols(self.0)),
                Some(svmas) => file.some_symbols(self.0, svmas),
            }
        }
    }
    with_file(data, Find(strings, svmas))?
}

/// Returns the source files of the local symbols that start at the sorted `starts`.
pub(super) fn source_files(data: &[u8], starts: &[u64]) -> FxHashMap<u64, Box<str>> {
    struct Find<'a>(&'a [u64]);
    impl WithFile for Find<'_> {
        type Output = FxHashMap<u64, Box<str>>;

        fn of<E: FileHeader<Endian = Endianness>>(self, file: &File<'_, '_, E>) -> Self::Output {
            file.source_files(self.0)
        }
    }
    with_file(data, Find(starts)).unwrap_or_default()
}

/// Returns the version of each exported symbol that starts at the sorted `starts`; `None` for the
/// current one.
pub(super) fn versions_at(data: &[u8], starts: &[u64]) -> FxHashMap<u64, Option<Box<str>>> {
    struct Find<'a>(&'a [u64]);
    impl WithFile for Find<'_> {
        type Output = FxHashMap<u64, Option<Box<str>>>;

        fn of<E: FileHeader<Endian = Endianness>>(self, file: &File<'_, '_, E>) -> Self::Output {
            file.versions_at(self.0)
        }
    }
    with_file(data, Find(starts)).unwrap_or_default()
}

/// A function of both classes of ELF files.
trait WithFile {
    type Output;

    fn of<E: FileHeader<Endian = Endianness>>(self, file: &File<'_, '_, E>) -> Self::Output;
}

fn with_file<F: WithFile>(data: &[u8], with: F) -> Option<F::Output> {
    fn of<E: FileHeader<Endian = Endianness>, F: WithFile>(
        data: &[u8],
        with: F,
    ) -> Option<F::Output> {
        let header = E::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, data).ok()?;
        Some(with.of(&File {
            data,
            endian,
            header,
            machine: header.e_machine(endian).0,
            sections: &sections,
            segments: &Segments::parse(data).unwrap_or_default(),
        }))
    }
    match data.get(4)? {
        1 => of::<elf::FileHeader32<Endianness>, F>(data, with),
        _ => of::<elf::FileHeader64<Endianness>, F>(data, with),
    }
}

#[derive(Clone, Copy)]
struct SectionInfo {
    loaded: bool,
    labels: bool,
    end: u64,
}

#[derive(Clone, Copy)]
struct Symbol {
    index: usize,
    start: u64,
    size: u64,
    untyped: bool,
    limit: u64,
}

/// Returns true for an old symbol version, `cfree@GLIBC_2.2.5`, as linkers write it into `.symtab`.
/// `@@` marks the default.
fn is_old_version(name: &[u8]) -> bool {
    let name = &name[..name.len().min(MAX_NAME)];
    let at = name.iter().position(|&byte| byte == b'@');
    // Crystal marks its functions by an asterisk, and writes `@` before a class.
    let is_version = |at| at > 0 && name.get(at + 1) != Some(&b'@') && name.first() != Some(&b'*');
    at.is_some_and(is_version)
}

impl<'data, E: FileHeader<Endian = Endianness>> File<'data, '_, E> {
    fn section_infos(&self) -> Vec<SectionInfo> {
        let info = |section: &E::SectionHeader| {
            let name = self
                .sections
                .section_name(self.endian, section)
                .unwrap_or_default();
            let name = &name[..name.len().min(256)];
            let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
            let (start, size): (u64, u64) = (
                section.sh_addr(self.endian).into(),
                section.sh_size(self.endian).into(),
            );
            SectionInfo {
                loaded: section.sh_flags(self.endian).contains(elf::SHF_ALLOC),
                labels: has(b"text") || has(b"data"),
                end: start.saturating_add(size),
            }
        };
        self.sections.iter().map(info).collect()
    }

    /// Stands in for the section of a symbol in a file without section headers.
    fn segment_info(&self, svma: u64) -> Option<SectionInfo> {
        let (_, left) = self.segments.offset_of_svma(svma)?;
        Some(SectionInfo {
            loaded: true,
            labels: true,
            end: svma.saturating_add(left),
        })
    }

    fn all_symbols(&self, strings: &Strings) -> Tables {
        let dynsym = self.symbols(elf::SHT_DYNSYM);
        let infos = self.section_infos();
        let mut candidates = Vec::new();
        let mut chooser = Chooser::new(self.data, strings);
        let symtab = self.symbols(elf::SHT_SYMTAB);
        for (table, origin) in [(&symtab, Origin::Symtab), (&dynsym, Origin::Dynsym)] {
            if let Some(table) = table {
                candidates.reserve(table.len());
                self.collect(table, origin, &infos, |_| true, &mut candidates);
                chooser.settle(&mut candidates);
            }
        }
        if !strings.go.is_empty() {
            candidates.extend(self.go_functions());
            chooser.settle(&mut candidates);
        }
        let mut entries: Vec<Entry> = candidates.iter().map(Entry::from).collect();
        drop(candidates);
        // Last: a symbol at the start of a PLT entry keeps its name.
        let indirect = plt::append(self, dynsym.as_ref(), &mut entries);
        Tables {
            table: Table::new(entries),
            indirect,
        }
    }

    /// Parses the symbols that determine the names of the sorted `svmas`. `None` if that takes all
    /// symbols.
    ///
    /// A symbol that covers an address is the last to start before it, or its size reaches the
    /// address. All aliases at such a start count. A symbol without size ends at the next start in
    /// its table; a `.dynsym` symbol at the next start in either.
    fn some_symbols(&self, strings: &Strings, svmas: &[u64]) -> Option<Tables> {
        let symtab = self.symbols(elf::SHT_SYMTAB);
        let dynsym = self.symbols(elf::SHT_DYNSYM);
        let tables = [(symtab, Origin::Symtab), (dynsym, Origin::Dynsym)];
        let len = |(table, _): &(Option<Symbols<'_, E>>, _)| table.as_ref().map_or(0, Symbols::len);
        let all: usize = tables.iter().map(len).sum();
        let is_go = !strings.go.is_empty();
        if all < 1024 || svmas.len() > all / 16 || is_go || plt::any_in(self, svmas) {
            return None;
        }
        let infos = self.section_infos();
        let mut starts = Vec::new();
        let mut labels = Vec::new();
        for (table, _) in &tables {
            let Some(table) = table else { continue };
            let mut last = vec![None; svmas.len()];
            self.each(table, &infos, |_, found| {
                if found.untyped && found.size == 0 {
                    labels.push(found.start);
                }
                let at = svmas.partition_point(|&svma| svma < found.start);
                if let Some(last) = last.get_mut(at) {
                    *last = (*last).max(Some(found.start));
                    if svmas[at] - found.start < found.size {
                        starts.push(found.start);
                    }
                }
            });
            let mut before = None;
            for last in last {
                before = before.max(last);
                starts.extend(before);
            }
            // A malicious file may consist of symbols that cover everything.
            starts.sort_unstable();
            starts.dedup();
            if starts.len() > all / 4 {
                return None;
            }
        }
        // A function around a label decides whether the label counts.
        labels.retain(|label| starts.binary_search(label).is_ok());
        labels.sort_unstable();
        for table in tables.iter().filter_map(|(table, _)| table.as_ref()) {
            if labels.is_empty() {
                break;
            }
            self.each(table, &infos, |_, found| {
                let after = labels.partition_point(|&label| label <= found.start);
                let label = labels.get(after).filter(|_| !found.untyped);
                if label.is_some_and(|label| label - found.start < found.size) {
                    starts.push(found.start);
                }
            });
        }
        starts.sort_unstable();
        starts.dedup();
        if starts.len() > all / 4 {
            return None;
        }
        let mut candidates = Vec::new();
        let mut chooser = Chooser::new(self.data, strings);
        for (table, origin) in &tables {
            let Some(table) = table else { continue };
            let mut next: Vec<u64> = vec![u64::MAX; starts.len()];
            let keep = |start: u64| {
                let at = starts.partition_point(|&kept| kept < start);
                if let Some(next) = at.checked_sub(1).and_then(|before| next.get_mut(before)) {
                    *next = start.min(*next);
                }
                starts.get(at) == Some(&start)
            };
            self.collect(table, *origin, &infos, keep, &mut candidates);
            next.retain(|next| *next != u64::MAX && starts.binary_search(next).is_err());
            candidates.extend(next.into_iter().map(Candidate::mark));
            chooser.settle(&mut candidates);
        }
        candidates.retain(|candidate| starts.binary_search(&candidate.start).is_ok());
        Some(Tables {
            table: Table::new(candidates.iter().map(Entry::from).collect()),
            indirect: Vec::new(),
        })
    }

    fn each(
        &self,
        table: &Symbols<'data, E>,
        infos: &[SectionInfo],
        mut take: impl FnMut(&E::Sym, Symbol),
    ) {
        for (index, symbol) in table.enumerate() {
            let name = symbol.st_name(self.endian);
            let Some(section) = table.section_of(self.endian, symbol, index) else {
                continue;
            };
            let mut start: u64 = symbol.st_value(self.endian).into();
            let in_segment = || self.segment_info(start);
            let info = infos.get(section.0).copied();
            let Some(info) = info.or_else(|| infos.is_empty().then(in_segment)?) else {
                continue;
            };
            let untyped = symbol.st_type() == elf::STT_NOTYPE;
            let hidden = matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
            let counts = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_OBJECT => true,
                elf::STT_NOTYPE => info.labels && !hidden && !self.names_nothing(table, symbol),
                _ => false,
            };
            if name == 0 || !info.loaded || !counts {
                continue;
            }
            if self.machine == elf::EM_ARM.0 && symbol.st_type() == elf::STT_FUNC {
                start &= !1; // Thumb code
            }
            let found = Symbol {
                index: index.0,
                start,
                size: symbol.st_size(self.endian).into(),
                untyped,
                limit: if start < info.end { info.end } else { u64::MAX },
            };
            take(symbol, found);
        }
    }

    fn collect(
        &self,
        table: &Symbols<'data, E>,
        origin: Origin,
        infos: &[SectionInfo],
        mut keep: impl FnMut(u64) -> bool,
        candidates: &mut Vec<Candidate>,
    ) {
        let versions = match origin {
            Origin::Dynsym => self.versions(),
            _ => &[],
        };
        self.each(table, infos, |symbol, found| {
            if !keep(found.start) {
                return;
            }
            let name = symbol.st_name(self.endian);
            let is_old = match origin {
                Origin::Dynsym => self.is_hidden(versions, found.index),
                _ => table.strings().get(name).is_ok_and(is_old_version),
            };
            candidates.push(Candidate {
                start: found.start,
                is_old,
                size: found.size,
                name,
                origin,
                untyped: found.untyped,
                weak: symbol.st_bind() == elf::STB_WEAK,
                global: symbol.st_bind() == elf::STB_GLOBAL,
                limit: found.limit,
            });
        });
    }

    /// Symbols of type `STT_FILE` come before the local symbols of their file (System V ABI, "Symbol
    /// Table").
    fn source_files(&self, starts: &[u64]) -> FxHashMap<u64, Box<str>> {
        let mut found = FxHashMap::default();
        let Some(table) = self.symbols(elf::SHT_SYMTAB) else {
            return found;
        };
        let mut file: &[u8] = &[];
        for symbol in table.iter() {
            let start: u64 = symbol.st_value(self.endian).into();
            if symbol.st_bind() != elf::STB_LOCAL {
                continue;
            }
            if symbol.st_type() == elf::STT_FILE {
                let name = table.strings().get(symbol.st_name(self.endian));
                let name = name.unwrap_or_default();
                file = &name[..name.len().min(MAX_NAME)];
            } else if !file.is_empty() && starts.binary_search(&start).is_ok() {
                found.insert(start, String::from_utf8_lossy(file).into());
            }
        }
        found
    }

    /// Returns the version of each exported symbol that starts at `starts`; `None` for the current
    /// one.
    fn versions_at(&self, starts: &[u64]) -> FxHashMap<u64, Option<Box<str>>> {
        let mut found = FxHashMap::default();
        let versions = self.sections.versions(self.endian, self.data);
        let (Some(table), Ok(Some(versions))) = (self.symbols(elf::SHT_DYNSYM), versions) else {
            return found;
        };
        for (index, symbol) in table.enumerate() {
            let start: u64 = symbol.st_value(self.endian).into();
            if starts.binary_search(&start).is_err() {
                continue;
            }
            let version = versions.version_index(self.endian, index);
            if !version.is_hidden() {
                found.insert(start, None);
            } else if let Ok(Some(version)) = versions.version(version.into()) {
                let name = version.name();
                let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]);
                found.entry(start).or_insert_with(|| Some(name.into()));
            }
        }
        found
    }

    /// Returns the functions that a Go program keeps for its runtime. Their strings are a range of the
    /// file.
    fn go_names(&self) -> Option<GoNames> {
        let section = |name: &[u8]| self.sections.section_by_name(self.endian, name);
        let table = section(b".gopclntab").or_else(|| section(b".data.rel.ro.gopclntab"));
        // The C compiler as linker has no section for it.
        let (table, before) = match table {
            Some((_, table)) => (table, 0),
            None => {
                section(b".go.buildinfo")?;
                let (_, table) = section(b".data.rel.ro")?;
                (table, go_functions_in(self.section_bytes(table))?)
            }
        };
        let bytes = self
            .section_bytes(table)
            .get(usize::try_from(before).ok()?..)?;
        let svma: u64 = table.sh_addr(self.endian).into();
        let relocations = section(b".rela.dyn");
        let relocations = relocations.map_or(&[][..], |(_, section)| self.section_bytes(section));
        let text = go_text_start(svma.wrapping_add(before), relocations);
        let start_of_text = || Some(section(b".text")?.1.sh_addr(self.endian).into());
        let names = GoNames::parse(bytes, text.or_else(start_of_text)?)?;
        let offset = table.file_range(self.endian)?.0.checked_add(before)?;
        let offset = usize::try_from(offset).ok()?;
        let Range { start, end } = names.strings;
        Some(GoNames {
            strings: offset.checked_add(start)?..offset.checked_add(end)?,
            ..names
        })
    }

    fn go_functions(&self) -> Vec<Candidate> {
        let Some(GoNames { functions, end, .. }) = self.go_names() else {
            return Vec::new();
        };
        let nexts = functions.iter().skip(1).map(|(start, _)| *start);
        let ends = nexts.chain(std::iter::once(end));
        let candidate = |(&(start, name), end): (&(u64, u32), u64)| Candidate {
            start,
            size: end.saturating_sub(start).max(1),
            name,
            origin: Origin::Go,
            untyped: false,
            is_old: false,
            weak: false,
            global: false,
            limit: end,
        };
        functions.iter().zip(ends).map(candidate).collect()
    }

    /// Returns the symbol versions of `.dynsym`, two bytes each (`.gnu.version`).
    fn versions(&self) -> &'data [u8] {
        let mut sections = self.sections.iter();
        let found = sections.find(|section| section.sh_type(self.endian) == elf::SHT_GNU_VERSYM);
        found.map_or(&[], |section| self.section_bytes(section))
    }

    /// Returns true for a hidden version, which new programs do not link to (Linux Standard Base,
    /// "Symbol Version Table").
    fn is_hidden(&self, versions: &[u8], index: usize) -> bool {
        let bytes = versions
            .get(2 * index..)
            .and_then(|rest| rest.first_chunk());
        let version = bytes.map(|&bytes| match self.endian {
            Endianness::Little => u16::from_le_bytes(bytes),
            Endianness::Big => u16::from_be_bytes(bytes),
        });
        version.is_some_and(|version| version & 0x8000 != 0)
    }

    /// Returns true for a label within a function: `.L44`, which assemblers keep where a relocation
    /// needs it (i386), or a mapping symbol, such as `$x` or `$d` (ELF for the Arm Architecture,
    /// "Mapping symbols"; also RISC-V and others).
    fn names_nothing(&self, table: &Symbols<'data, E>, symbol: &E::Sym) -> bool {
        let has_mapping_symbols = [
            elf::EM_ARM.0,
            elf::EM_AARCH64.0,
            elf::EM_RISCV.0,
            elf::EM_CSKY.0,
        ]
        .contains(&self.machine);
        let name = table.strings().get(symbol.st_name(self.endian));
        name.is_ok_and(|name| {
            name.starts_with(b".L") || has_mapping_symbols && name.starts_with(b"$")
        })
    }
}
