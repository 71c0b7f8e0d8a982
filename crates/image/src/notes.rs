//! ELF notes: build-ids, and probe points that programs bring with them (USDT).

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection, ObjectSegment, ReadRef};
use rprof_records::BuildId;

/// Finds the build-id in the notes of an ELF file, a byte slice or a
/// [`FileReader`](crate::FileReader).
#[must_use]
pub fn build_id_of<'data>(data: impl ReadRef<'data>) -> Option<BuildId> {
    match data.read_bytes_at(0, 5).ok()? {
        [0x7f, b'E', b'L', b'F', 1] => of_class::<elf::FileHeader32<_>>(data),
        [0x7f, b'E', b'L', b'F', 2] => of_class::<elf::FileHeader64<_>>(data),
        _ => None,
    }
}

fn of_class<'data, E: FileHeader<Endian = Endianness>>(
    data: impl ReadRef<'data>,
) -> Option<BuildId> {
    // Limits the work for headers that all point at the same megabytes. Notes are short and come
    // early.
    const MAX_NOTES: usize = 64;
    const MAX_LEN: usize = 64 << 10;
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let scan = |bytes: &[u8], align: u64| {
        let bytes = &bytes[..bytes.len().min(MAX_LEN)];
        build_id_in_notes(bytes, endian == Endianness::Big, align)
    };
    let segments = header.program_headers(endian, data).unwrap_or_default();
    let segments = (segments.iter())
        .filter(|segment| segment.p_type(endian) == elf::PT_NOTE)
        .filter_map(|segment| {
            let bytes = segment.data(endian, data).ok()?;
            Some((bytes, segment.p_align(endian).into()))
        });
    let found = (segments.take(MAX_NOTES)).find_map(|(bytes, align)| scan(bytes, align));
    found.or_else(|| {
        let sections = header.sections(endian, data).unwrap_or_default();
        let notes = (sections.iter()).filter(|section| section.sh_type(endian) == elf::SHT_NOTE);
        notes.take(MAX_NOTES).find_map(|section| {
            let bytes = section.data(endian, data).unwrap_or_default();
            scan(bytes, section.sh_addralign(endian).into())
        })
    })
}

/// Finds the build-id in a `PT_NOTE` segment, a `SHT_NOTE` section, `/sys/kernel/notes` or
/// `/sys/module/NAME/notes/*`.
///
/// `align` is the alignment of the segment: 8 pads to 8 bytes, all other values to 4 (System V ABI,
/// "Note Section"). Damaged notes end the search.
#[must_use]
pub fn build_id_in_notes(notes: &[u8], big_endian: bool, align: u64) -> Option<BuildId> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let mut notes = Notes {
        rest: notes,
        big_endian,
        align: if align == 8 { 8 } else { 4 },
    };
    let found = notes.find(|note| note.kind == NT_GNU_BUILD_ID && note.name == b"GNU\0")?;
    BuildId::new(found.description)
}

/// Iterator over notes. It ends at a damaged note.
struct Notes<'a> {
    rest: &'a [u8],
    big_endian: bool,
    align: usize,
}

struct Note<'a> {
    kind: u32,
    /// Owner name of the note, with the zero byte at its end.
    name: &'a [u8],
    description: &'a [u8],
}

impl<'a> Iterator for Notes<'a> {
    type Item = Note<'a>;

    fn next(&mut self) -> Option<Note<'a>> {
        let bytes = self.rest;
        let word = |at| number(bytes, at, 4, self.big_endian);
        let name_len = word(0)? as usize;
        let description_len = word(4)? as usize;
        let kind = word(8)? as u32;
        let start = 12_usize
            .checked_add(name_len)?
            .checked_next_multiple_of(self.align)?;
        let end = start.checked_add(description_len)?;
        let name = bytes.get(12..)?.get(..name_len)?;
        let description = bytes.get(start..end)?;
        let next = end.checked_next_multiple_of(self.align)?;
        self.rest = bytes.get(next..).unwrap_or_default();
        Some(Note {
            kind,
            name,
            description,
        })
    }
}

/// Reads an unsigned number of `len` bytes, 4 or 8.
fn number(bytes: &[u8], at: usize, len: usize, big_endian: bool) -> Option<u64> {
    let bytes = bytes.get(at..)?.get(..len)?;
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    Some(match big_endian {
        true => bytes.iter().fold(0, add),
        false => bytes.iter().rev().fold(0, add),
    })
}

/// Probe point that a program brings with it (USDT, `sys/sdt.h` of SystemTap).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsdtProbe {
    /// Name without the provider.
    pub name: String,
    /// File offset of the instruction, in bytes.
    pub offset: u64,
    /// File offset of the counter that enables the probe, in bytes; `None` without a counter.
    pub semaphore: Option<u64>,
    /// Sizes and operands of the arguments in assembler syntax, such as `8@%rdi -4@$7`.
    pub arguments: String,
}

/// Returns the probe points of one provider in an ELF file. Damaged notes end the search, and probes
/// outside the file are left out.
#[must_use]
pub fn usdt_probes(elf: &[u8], provider: &str) -> Vec<UsdtProbe> {
    usdt_notes(elf, provider).unwrap_or_default()
}

fn usdt_notes(elf: &[u8], provider: &str) -> Option<Vec<UsdtProbe>> {
    const MAX_PROBES: usize = 4_096;
    const NT_STAPSDT: u32 = 3;
    let file = object::File::parse(elf).ok()?;
    let section = file.section_by_name(".note.stapsdt")?;
    let base = (file.section_by_name(".stapsdt.base")).map(|section| section.address());
    let big_endian = !file.is_little_endian();
    let width = if file.is_64() { 8 } else { 4 };
    let file_offset = |address: u64| {
        file.segments().find_map(|segment| {
            let (start, len) = segment.file_range();
            let within = address.checked_sub(segment.address())?;
            (within < len).then(|| start.checked_add(within)).flatten()
        })
    };
    let notes = Notes {
        rest: section.data().ok()?,
        big_endian,
        align: 4,
    };
    let notes = notes.filter(|note| note.kind == NT_STAPSDT && note.name == b"stapsdt\0");
    let probe = |note: Note<'_>| {
        let address = |index| number(note.description, index * width, width, big_endian);
        let mut texts = note.description.get(3 * width..)?.split(|byte| *byte == 0);
        let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
        if text()? != provider {
            return None;
        }
        // Prelinking moves the code, but not the addresses in notes.
        let moved = base.map_or(0, |base| base.wrapping_sub(address(1).unwrap_or(base)));
        let at = |index| address(index).map(|value| value.wrapping_add(moved));
        Some(UsdtProbe {
            name: text()?,
            offset: file_offset(at(0)?)?,
            semaphore: match address(2)? {
                0 => None,
                _ => Some(file_offset(at(2)?)?),
            },
            arguments: text()?,
        })
    };
    Some(notes.take(MAX_PROBES).filter_map(probe).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], desc: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, desc.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [name, desc] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn found_behind_other_notes() {
        let mut notes = note(1, b"GNU\0", &[0; 16]);
        notes.extend(note(3, b"Xen\0", &[9; 8]));
        notes.extend(note(3, b"GNU\0", &[7; 20]));
        assert_eq!(build_id_in_notes(&notes, false, 4), BuildId::new(&[7; 20]));
        for cut in 0..notes.len() {
            assert_eq!(build_id_in_notes(&notes[..cut], false, 4), None);
        }
        assert_eq!(build_id_in_notes(&[0xff; 64], false, 4), None);
    }

    #[test]
    fn probes_outside_the_file_and_cut_files_give_none() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(usdt_probes(&own, "otel_memory"), []);
        for cut in (0..own.len().min(4096)).step_by(7) {
            assert_eq!(usdt_probes(&own[..cut], "otel_memory"), []);
        }
        assert_eq!(number(&[1, 2, 3, 4], 0, 4, true), Some(0x0102_0304));
        assert_eq!(number(&[1, 2, 3, 4], 0, 4, false), Some(0x0403_0201));
        assert_eq!(number(&[1, 2, 3, 4], 1, 4, false), None);
    }
}
