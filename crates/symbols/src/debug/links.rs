//! Links from an ELF file to its debug files: debug link, supplementary file, embedded symbol
//! table.

use object::read::elf::{ElfFile, FileHeader};
use object::{Endianness, Object, ObjectSection};
use rprof_image::{BuildId, build_id_of};

const MAX_NAME: usize = 4096;

/// Unverified links of one file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Links {
    /// `.gnu_debuglink`: name of the debug file, and its CRC-32 (GDB manual, "Debugging Information
    /// in Separate Files").
    pub(crate) debug: Option<(Vec<u8>, u32)>,
    /// `.gnu_debugaltlink`, or `.debug_sup` (DWARF 5, section 7.3.6): path and build-id of the
    /// supplementary file of `dwz`.
    pub(crate) shared: Option<(Vec<u8>, BuildId)>,
    pub(crate) has_dwarf: bool,
}

impl Links {
    /// Reads the links of an ELF file. Damaged sections count as absent.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let links = match bytes.get(4) {
            Some(1) => Self::of::<object::elf::FileHeader32<Endianness>>(bytes),
            _ => Self::of::<object::elf::FileHeader64<Endianness>>(bytes),
        };
        links.unwrap_or_default()
    }

    fn of<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<Self> {
        let file = ElfFile::<E>::parse(bytes).ok()?;
        let debug = file.gnu_debuglink().ok().flatten();
        let debug = debug
            .filter(|(name, _)| is_plain(name))
            .map(|(name, crc)| (name.to_vec(), crc));
        let path = |name: &[u8]| (1..=MAX_NAME).contains(&name.len()).then(|| name.to_vec());
        let shared = match file.gnu_debugaltlink().ok().flatten() {
            Some((name, id)) => path(name).zip(BuildId::new(id)),
            None => (file.section_by_name(".debug_sup"))
                .and_then(|section| supplementary(section.data().ok()?, file.endian(), false))
                .and_then(|(name, id)| path(name).zip(BuildId::new(id))),
        };
        let has_dwarf = file
            .section_by_name(".debug_info")
            .is_some_and(|info| info.file_range().is_some_and(|(_, len)| len > 0));
        Some(Self {
            debug,
            shared,
            has_dwarf,
        })
    }
}

/// Returns the bytes of `.gnu_debugdata`, still compressed.
pub(crate) fn debugdata(bytes: &[u8]) -> Option<&[u8]> {
    fn of<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<&[u8]> {
        let file = ElfFile::<E>::parse(bytes).ok()?;
        file.section_by_name(".gnu_debugdata")?.data().ok()
    }
    match bytes.get(4)? {
        1 => of::<object::elf::FileHeader32<Endianness>>(bytes),
        _ => of::<object::elf::FileHeader64<Endianness>>(bytes),
    }
}

fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && name.len() <= 255 && !name.contains(&b'/')
}

/// Returns the build-id of a supplementary file, or the checksum in its `.debug_sup`: DWARF 5
/// requires no build-id.
pub(super) fn shared_id(bytes: &[u8]) -> Option<BuildId> {
    fn of<E: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<BuildId> {
        let file = ElfFile::<E>::parse(bytes).ok()?;
        let section = file.section_by_name(".debug_sup")?.data().ok()?;
        BuildId::new(supplementary(section, file.endian(), true)?.1)
    }
    build_id_of(bytes).or_else(|| match bytes.get(4)? {
        1 => of::<object::elf::FileHeader32<Endianness>>(bytes),
        _ => of::<object::elf::FileHeader64<Endianness>>(bytes),
    })
}

/// Parses `.debug_sup`: version (2), flag of a supplementary file (1), path, checksum length,
/// checksum.
fn supplementary(section: &[u8], endian: Endianness, shared: bool) -> Option<(&[u8], &[u8])> {
    let (version, rest) = section.split_first_chunk::<2>()?;
    let version = match endian {
        Endianness::Little => u16::from_le_bytes(*version),
        Endianness::Big => u16::from_be_bytes(*version),
    };
    let (&is_shared, rest) = rest.split_first()?;
    if !(2..=5).contains(&version) || is_shared != u8::from(shared) {
        return None;
    }
    let end = rest.iter().position(|&byte| byte == 0)?;
    let (path, rest) = rest.split_at(end);
    // The length is a ULEB128: one byte up to 127. Checksums have 20 bytes.
    let (&len, rest) = rest.get(1..)?.split_first()?;
    Some((path, rest.get(..usize::from(len))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_sup() {
        let section = b"\x05\x00\x00/x/y.debug\0\x04abcd";
        let read = |bytes| supplementary(bytes, Endianness::Little, false);
        assert_eq!(read(section), Some((&b"/x/y.debug"[..], &b"abcd"[..])));
        for cut in 0..section.len() {
            assert_eq!(read(&section[..cut]), None);
        }
        assert_eq!(
            read(b"\x05\x00\x01/x\0\x01a"),
            None,
            "the shared file itself"
        );
        let shared = supplementary(b"\x05\x00\x01\0\x02ab", Endianness::Little, true);
        assert_eq!(shared, Some((&b""[..], &b"ab"[..])));
        assert_eq!(supplementary(section, Endianness::Little, true), None);
    }

    #[test]
    fn names_only() {
        for name in [&b""[..], b"..", b"../x", b"/etc/x", b"a/b"] {
            assert!(!is_plain(name));
        }
        assert!(is_plain(b"x.debug"));
    }
}
