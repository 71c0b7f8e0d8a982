//! Code of the running kernel, from `/proc/kcore`.
//!
//! The kernel patches its own code (alternatives, static keys, ftrace), so its file on disk
//! differs. `/proc/kcore` is an ELF core file with AVMAs in its `PT_LOAD` headers, and needs
//! `CAP_SYS_RAWIO`. Source: `fs/proc/kcore.c`.

use crate::open_error::OpenError;
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Maximum number of bytes per read.
const MAX_LEN: usize = 16 << 20;

/// Reads code of the running kernel at an AVMA.
///
/// # Errors
/// [`OpenError`]: [`OpenError::NoSuchFile`] also if no segment contains the range.
pub fn kernel_code(avma: u64, len: usize) -> Result<Vec<u8>, OpenError> {
    read_core(Path::new("/proc/kcore"), avma, len)
}

fn read_core(path: &Path, avma: u64, len: usize) -> Result<Vec<u8>, OpenError> {
    if len > MAX_LEN {
        return Err(OpenError::TooLong);
    }
    let file = File::open(path)?;
    let headers = ReadCache::new(&file);
    let damaged = |_| OpenError::Failed;
    let header = FileHeader64::<Endianness>::parse(&headers).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let segments = header.program_headers(endian, &headers).map_err(damaged)?;
    let offset = segments.iter().find_map(|segment| {
        let inside = avma.checked_sub(segment.p_vaddr(endian))?;
        let end = inside.checked_add(len as u64)?;
        let is_here = segment.p_type(endian) == PT_LOAD && end <= segment.p_memsz(endian);
        is_here.then(|| segment.p_offset(endian).checked_add(inside))?
    });
    let mut code = vec![0; len];
    file.read_exact_at(&mut code, offset.ok_or(OpenError::NoSuchFile)?)?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(avma: u64, bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
        file.extend([0; 8]);
        file.extend([4, 0, 62, 0, 1, 0, 0, 0]);
        for word in [0_u64, 64, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend([0; 4]);
        for half in [64_u16, 56, 1, 64, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1_u32.to_le_bytes());
        file.extend(5_u32.to_le_bytes());
        let len = bytes.len() as u64;
        for word in [120, avma, 0, len, len, 0x1000] {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
        file
    }

    #[test]
    fn code_is_read_by_address() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = 0xffff_ffff_8100_0000;
        std::fs::write(file.path(), core(text, b"0123456789")).unwrap();
        let read = |avma, len| read_core(file.path(), avma, len);
        assert_eq!(read(text + 2, 3), Ok(b"234".to_vec()));
        assert_eq!(read(text, 10), Ok(b"0123456789".to_vec()));
        assert_eq!(read(text, 11), Err(OpenError::NoSuchFile));
        assert_eq!(read(text - 1, 2), Err(OpenError::NoSuchFile));
        assert_eq!(read(u64::MAX, 2), Err(OpenError::NoSuchFile));
        assert_eq!(read(text, usize::MAX), Err(OpenError::TooLong));
    }
}
