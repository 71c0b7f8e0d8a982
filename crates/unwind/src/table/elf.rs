//! Finds the parts of an ELF file that a table needs.

use super::pclntab::go_functions_in;
use crate::Arch;
use gimli::{BaseAddresses, EhFrameHdr, LittleEndian, Pointer};
use object::elf::{
    EM_386, EM_AARCH64, EM_X86_64, FileHeader32, FileHeader64, PT_GNU_EH_FRAME, SHT_DYNSYM,
    STT_FUNC,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{CompressedData, CompressionFormat, ReadRef};
use rprof_image::Segments;
use std::borrow::Cow;

/// Maximum size of a section in bytes, decompressed, since a hostile file can be sparse. The
/// largest known ones have about 50 MB.
pub(crate) const MAX_SECTION: usize = 64 << 20;

/// Reason why an image gives no [`UnwindTable`](crate::UnwindTable).
///
/// Missing call frame information is no error: the table then has no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not an ELF file, or the ELF header is cut off.
    #[error("not an ELF file")]
    NotAnElf,
    /// A big-endian ELF file, or a class that does not fit its processor (x32).
    #[error("big-endian, or addresses of another size than its processor's")]
    WrongClass,
    /// An ELF file for an unsupported processor (see [`Arch`](crate::Arch)).
    #[error("unsupported processor for unwinding (ELF machine {0})")]
    WrongMachine(u16),
    /// The program headers lie outside the file.
    #[error("the ELF file's program headers are damaged")]
    Damaged,
}

pub(crate) struct Elf<'a> {
    pub(crate) arch: Arch,
    pub(crate) entry: u64,
    pub(crate) segments: Segments,
    pub(crate) eh_frame: Option<Section<'a>>,
    pub(crate) debug_frame: Option<Section<'a>>,
    /// SVMA from the program headers.
    pub(crate) eh_frame_hdr: Option<u64>,
    pub(crate) has_too_long: bool,
    pub(crate) is_go: bool,
    /// SVMA, and file offset and length, of the Go runtime's list of functions.
    pub(crate) go_functions: Option<(u64, (u64, u64))>,
    /// File offset and length of `.rela.dyn`.
    pub(crate) relocations: Option<(u64, u64)>,
    pub(crate) plts: Vec<(u64, u64)>,
    /// SVMA of `.text`, the base of text-relative pointers.
    pub(crate) text: Option<u64>,
    pub(crate) got: Option<u64>,
}

pub(crate) struct Section<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) svma: u64,
    /// Maximum number of FDEs, if the end of the section is unknown.
    pub(crate) count: Option<usize>,
}

impl<'a> Elf<'a> {
    pub(crate) fn parse(bytes: impl ReadRef<'a>) -> Result<Self, TableError> {
        let start = bytes.read_bytes_at(0, 6).unwrap_or_default();
        if !start.starts_with(&object::elf::ELFMAG) {
            return Err(TableError::NotAnElf);
        }
        // EI_CLASS and EI_DATA: 64 or 32 bits, little endian.
        match start.get(4..6) {
            Some(&[2, 1]) => Self::of_class::<FileHeader64<object::LittleEndian>>(bytes),
            Some(&[1, 1]) => Self::of_class::<FileHeader32<object::LittleEndian>>(bytes),
            _ => Err(TableError::WrongClass),
        }
    }

    fn of_class<H>(bytes: impl ReadRef<'a>) -> Result<Self, TableError>
    where
        H: FileHeader<Endian = object::LittleEndian>,
    {
        let header = H::parse(bytes).map_err(|_| TableError::NotAnElf)?;
        let endian = object::LittleEndian;
        let arch = match (header.e_machine(endian), header.is_class_64()) {
            (EM_X86_64, true) => Arch::X86_64,
            (EM_AARCH64, true) => Arch::Aarch64,
            (EM_386, false) => Arch::X86,
            (EM_X86_64 | EM_AARCH64 | EM_386, _) => return Err(TableError::WrongClass),
            (other, _) => return Err(TableError::WrongMachine(other.0)),
        };
        let program_headers = header
            .program_headers(endian, bytes)
            .map_err(|_| TableError::Damaged)?;
        let mut elf = Self {
            arch,
            entry: header.e_entry(endian).into(),
            segments: Segments::parse(bytes).ok_or(TableError::Damaged)?,
            eh_frame: None,
            debug_frame: None,
            eh_frame_hdr: None,
            has_too_long: false,
            is_go: false,
            go_functions: None,
            relocations: None,
            plts: Vec::new(),
            text: None,
            got: None,
        };
        elf.read_sections(header, bytes);
        let hdr = program_headers
            .iter()
            .find(|segment| segment.p_type(endian) == PT_GNU_EH_FRAME);
        elf.eh_frame_hdr = hdr.map(|segment| segment.p_vaddr(endian).into());
        if let (None, Some(hdr)) = (&elf.eh_frame, elf.eh_frame_hdr) {
            elf.eh_frame = elf.eh_frame_behind(bytes, hdr);
        }
        Ok(elf)
    }

    /// Reads the section headers. Ignores missing or damaged ones.
    fn read_sections<H>(&mut self, header: &H, bytes: impl ReadRef<'a>)
    where
        H: FileHeader<Endian = object::LittleEndian>,
    {
        let endian = object::LittleEndian;
        let Ok(sections) = header.sections(endian, bytes) else {
            return;
        };
        let mut has_go = false;
        let mut relocated = None;
        for section in sections.iter() {
            let Ok(name) = sections.section_name(endian, section) else {
                continue;
            };
            let svma: u64 = section.sh_addr(endian).into();
            let size: u64 = section.sh_size(endian).into();
            let has_too_long = &mut self.has_too_long;
            let mut data = || {
                let contents = match contents(section, bytes, name)? {
                    Contents::TooLong => {
                        *has_too_long = true;
                        return None;
                    }
                    Contents::Bytes(bytes) => bytes,
                };
                (!contents.is_empty()).then_some(Section {
                    bytes: contents,
                    svma,
                    count: None,
                })
            };
            match name {
                b".eh_frame" if self.eh_frame.is_none() => self.eh_frame = data(),
                b".debug_frame" | b".zdebug_frame" if self.debug_frame.is_none() => {
                    self.debug_frame = data();
                }
                // On i386, Go keeps no frame pointers.
                b".gopclntab" | b".data.rel.ro.gopclntab" if self.arch != Arch::X86 => {
                    self.is_go = true;
                    self.go_functions = Some((svma, (section.sh_offset(endian).into(), size)));
                }
                b".go.buildinfo" => has_go = self.arch != Arch::X86,
                b".data.rel.ro" => {
                    relocated = Some((svma, section.sh_offset(endian).into(), size));
                }
                b".rela.dyn" => self.relocations = Some((section.sh_offset(endian).into(), size)),
                b".text" => self.text = Some(svma),
                b".got" => self.got = Some(svma),
                b".plt" | b".plt.sec" | b".plt.got" | b".iplt" => {
                    self.plts.push((svma, svma.saturating_add(size)));
                }
                _ => {}
            }
        }
        if has_go
            && !self.is_go
            && let Some((svma, offset, size)) = relocated
        {
            let found = part(bytes, offset, size).and_then(go_functions_in);
            self.go_functions = found.map(|at| {
                let rest = (offset.wrapping_add(at), size.saturating_sub(at));
                (svma.wrapping_add(at), rest)
            });
            self.is_go = found.is_some();
        }
    }

    /// Returns the `.eh_frame` that `.eh_frame_hdr` points to. Its end is unknown, so the
    /// terminator or the header's table limits the number of entries.
    fn eh_frame_behind(&self, bytes: impl ReadRef<'a>, svma: u64) -> Option<Section<'a>> {
        let hdr = self.mapped(bytes, svma)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(svma);
        let size = self.arch.word_size() as u8;
        let hdr = EhFrameHdr::new(hdr, LittleEndian)
            .parse(&bases, size)
            .ok()?;
        let Pointer::Direct(svma) = hdr.eh_frame_ptr() else {
            return None;
        };
        let count = hdr.table().map(|table| table.iter(&bases).size_hint().0);
        let bytes = self.mapped(bytes, svma)?;
        Some(Section {
            bytes: Cow::Borrowed(bytes.get(..MAX_SECTION).unwrap_or(bytes)),
            svma,
            count,
        })
    }

    fn mapped(&self, bytes: impl ReadRef<'a>, svma: u64) -> Option<&'a [u8]> {
        let (offset, left) = self.segments.offset_of_svma(svma)?;
        part(bytes, offset, left)
    }
}

/// Returns the SVMAs of the functions in `.dynsym`, unordered. A missing or damaged table has none.
pub(super) fn exported_functions<'a>(bytes: impl ReadRef<'a>) -> Vec<u64> {
    fn of_class<'a, H>(bytes: impl ReadRef<'a>) -> Option<Vec<u64>>
    where
        H: FileHeader<Endian = object::LittleEndian>,
    {
        let endian = object::LittleEndian;
        let sections = H::parse(bytes).ok()?.sections(endian, bytes).ok()?;
        let mut tables = sections
            .iter()
            .filter(|one| one.sh_type(endian) == SHT_DYNSYM);
        if tables.any(|table| table.sh_size(endian).into() > MAX_SECTION as u64) {
            return None;
        }
        let symbols = sections.symbols(endian, bytes, SHT_DYNSYM).ok()?;
        let functions = symbols.iter().filter(|one| one.st_type() == STT_FUNC);
        Some(functions.map(|one| one.st_value(endian).into()).collect())
    }
    let found = match bytes.read_bytes_at(4, 1) {
        Ok([2]) => of_class::<FileHeader64<object::LittleEndian>>(bytes),
        _ => of_class::<FileHeader32<object::LittleEndian>>(bytes),
    };
    found.unwrap_or_default()
}

const MAX_PART: u64 = 64 << 20;

/// Returns up to `len` bytes of a file, at most 64 MiB.
pub(super) fn part<'a>(bytes: impl ReadRef<'a>, offset: u64, len: u64) -> Option<&'a [u8]> {
    let left = bytes.len().ok()?.checked_sub(offset)?;
    let len = len.min(left).min(MAX_PART);
    bytes.read_bytes_at(offset, len).ok()
}

enum Contents<'a> {
    Bytes(Cow<'a, [u8]>),
    TooLong,
}

/// Returns the bytes of a section, decompressed. `None` if they are damaged or not in the file
/// (debug files have only the headers).
fn contents<'a>(
    section: &impl SectionHeader<Endian = object::LittleEndian>,
    bytes: impl ReadRef<'a>,
    name: &[u8],
) -> Option<Contents<'a>> {
    let endian = object::LittleEndian;
    if section.sh_type(endian) == object::elf::SHT_NOBITS {
        return None;
    }
    if section.sh_size(endian).into() > MAX_SECTION as u64 {
        return Some(Contents::TooLong);
    }
    let data = section.data(endian, bytes).ok()?;
    let compressed = match section.compression(endian, bytes).ok()? {
        Some((header, offset, size)) => {
            use object::read::elf::CompressionHeader;
            let format = match header.ch_type(endian) {
                object::elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
                object::elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
                _ => return None,
            };
            CompressedData {
                format,
                data: bytes.read_bytes_at(offset, size).ok()?,
                uncompressed_size: header.ch_size(endian).into(),
            }
        }
        // The format before SHF_COMPRESSED: "ZLIB", the size in big-endian order, the stream.
        None if name.starts_with(b".z") => {
            let rest = data.strip_prefix(b"ZLIB")?;
            let (size, data) = rest.split_first_chunk()?;
            CompressedData {
                format: CompressionFormat::Zlib,
                data,
                uncompressed_size: u64::from_be_bytes(*size),
            }
        }
        None => return Some(Contents::Bytes(Cow::Borrowed(data))),
    };
    if compressed.uncompressed_size > MAX_SECTION as u64 {
        return Some(Contents::TooLong);
    }
    compressed.decompress().ok().map(Contents::Bytes)
}
