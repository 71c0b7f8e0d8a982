//! [`keep_naming_parts`]: removes code and data from an image.

use object::elf::{
    FileHeader32, FileHeader64, SHF_ALLOC, SHT_FINI_ARRAY, SHT_INIT_ARRAY, SHT_NOBITS,
    SHT_PREINIT_ARRAY, SHT_PROGBITS, SHT_REL, SHT_RELA,
};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, FileKind};

/// Substrings of the names of loaded sections to keep: unwind information, Go's function tables,
/// and PLT names.
const KEPT: [&[u8]; 7] = [
    b"eh_frame",
    b"gopclntab",
    b"debug",
    b"note",
    b"interp",
    b"plt",
    b".rela.dyn",
];

/// `sh_type` follows `sh_name`, in all ELF classes.
const TYPE_AT: u64 = 4;

/// Overwrites code and data with zeros, which compress to nothing. Keeps symbols, unwind and debug
/// information and notes at their offsets. Returns the number of bytes kept.
pub(super) fn keep_naming_parts(bytes: &mut [u8]) -> u64 {
    let parts = match FileKind::parse(&*bytes) {
        Ok(FileKind::Elf64) => parts_without_names::<FileHeader64<Endianness>>(bytes),
        Ok(FileKind::Elf32) => parts_without_names::<FileHeader32<Endianness>>(bytes),
        _ => None,
    };
    let mut left = bytes.len() as u64;
    for part in parts.unwrap_or_default() {
        let range = usize::try_from(part.start)
            .ok()
            .zip(usize::try_from(part.len).ok());
        let range = range.and_then(|(start, len)| Some(start..start.checked_add(len)?));
        // Sections of a valid file do not overlap. This bounds the time for an invalid one.
        if part.len > left {
            break;
        }
        if let Some(part_bytes) = range.and_then(|range| bytes.get_mut(range)) {
            part_bytes.fill(0);
            left -= part.len;
        }
        // Mark the section as empty for readers.
        let kind = usize::try_from(part.header + TYPE_AT).ok();
        if let Some(kind) = kind.and_then(|at| bytes.get_mut(at..at.checked_add(4)?)) {
            let no_bits = match part.endian {
                Endianness::Little => SHT_NOBITS.0.to_le_bytes(),
                Endianness::Big => SHT_NOBITS.0.to_be_bytes(),
            };
            kind.copy_from_slice(&no_bits);
        }
    }
    left
}

struct Part {
    start: u64,
    len: u64,
    header: u64,
    endian: Endianness,
}

fn parts_without_names<F: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<Vec<Part>> {
    let header = F::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let first: u64 = header.e_shoff(endian).into();
    let size = u64::from(header.e_shentsize(endian));
    let parts = sections
        .iter()
        .zip(0_u64..)
        .filter_map(|(section, number)| {
            let is_loaded = section.sh_flags(endian).0 & SHF_ALLOC.0 != 0;
            let is_plain = matches!(
                section.sh_type(endian),
                SHT_PROGBITS
                    | SHT_REL
                    | SHT_RELA
                    | SHT_INIT_ARRAY
                    | SHT_FINI_ARRAY
                    | SHT_PREINIT_ARRAY
            );
            let name = sections.section_name(endian, section).unwrap_or_default();
            let is_kept = KEPT
                .iter()
                .any(|part| name.windows(part.len()).any(|window| window == *part));
            let (start, len) = section.file_range(endian)?;
            let is_left_out = is_plain && is_loaded && !is_kept && len > 0;
            is_left_out.then_some(Part {
                start,
                len,
                header: first.checked_add(size.checked_mul(number)?)?,
                endian,
            })
        });
    Some(parts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_image::{Segments, build_id_of};

    #[test]
    fn symbols_notes_and_unwinding_information_stay_and_code_goes() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut part = whole.clone();
        let left = keep_naming_parts(&mut part);
        assert!(left < whole.len() as u64 && left > 0);
        assert_eq!(part.len(), whole.len());
        assert_eq!(build_id_of(&part[..]), build_id_of(&whole[..]));
        assert!(Segments::parse(&part[..]).is_some());
        let section = |bytes: &[u8], name: &[u8]| -> Option<Vec<u8>> {
            let header = FileHeader64::<Endianness>::parse(bytes).unwrap();
            let endian = header.endian().unwrap();
            let sections = header.sections(endian, bytes).unwrap();
            let (_, section) = sections.section_by_name(endian, name)?;
            Some(section.data(endian, bytes).unwrap().to_vec())
        };
        for name in [&b".symtab"[..], b".strtab", b".eh_frame"] {
            assert!(section(&whole, name).is_some());
            assert_eq!(section(&part, name), section(&whole, name));
        }
        // If the linker created them.
        for name in [&b".plt"[..], b".plt.got", b".rela.plt", b".rela.dyn"] {
            assert_eq!(section(&part, name), section(&whole, name));
        }
        assert_eq!(section(&part, b".text"), Some(Vec::new()));
        let of_symbols = section(&whole, b".symtab").unwrap().len() as u64;
        assert!(left >= of_symbols);
    }

    #[test]
    fn what_is_no_elf_file_stays_as_it_is() {
        for text in [
            &b""[..],
            b"\x7fELF",
            b"some text that is longer than a header of an ELF file",
        ] {
            let mut bytes = text.to_vec();
            assert_eq!(keep_naming_parts(&mut bytes), text.len() as u64);
            assert_eq!(bytes, text);
        }
    }

    /// Very many sections, each as large as half of the file.
    #[test]
    fn sections_that_overlap_take_no_time() {
        let mut bytes = vec![0_u8; 64 + 60_000 * 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let len = bytes.len() as u64;
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(16, &[2, 0, 62, 0, 1]);
        put(40, &64_u64.to_le_bytes());
        put(52, &[64, 0, 56, 0, 0, 0, 64, 0]);
        put(60, &60_000_u16.to_le_bytes());
        // Index of the section with the names.
        put(62, &1_u16.to_le_bytes());
        for number in 1..60_000 {
            let at = 64 + number * 64;
            put(at + 4, &SHT_PROGBITS.0.to_le_bytes());
            put(at + 8, &SHF_ALLOC.0.to_le_bytes());
            put(at + 32, &(len / 2).to_le_bytes());
        }
        let left = keep_naming_parts(&mut bytes);
        assert!(left < len);
    }
}
