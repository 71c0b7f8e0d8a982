//! ELF notes and build-ids.

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadRef};
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
pub fn build_id_in_notes(mut notes: &[u8], big_endian: bool, align: u64) -> Option<BuildId> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let word = |bytes: &[u8]| -> Option<u32> {
        let bytes: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        Some(if big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    };
    let align = if align == 8 { 8 } else { 4 };
    loop {
        let name_len = word(notes)? as usize;
        let desc_len = word(notes.get(4..)?)? as usize;
        let kind = word(notes.get(8..)?)?;
        let desc_at = 12_usize
            .checked_add(name_len)?
            .checked_next_multiple_of(align)?;
        let desc_end = desc_at.checked_add(desc_len)?;
        let name = notes.get(12..)?.get(..name_len)?;
        let desc = notes.get(desc_at..desc_end)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::new(desc);
        }
        notes = notes.get(desc_end.checked_next_multiple_of(align)?..)?;
    }
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
}
