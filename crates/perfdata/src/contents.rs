//! Bytes of an input: a mapped file, or a pipe's data.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::error::Error;

/// Maximum length of a stream kept in memory. Longer ones go to a temporary file.
const IN_MEMORY: usize = 16 << 20;

/// Immutable bytes of an input.
#[derive(Debug)]
pub(crate) enum Contents {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Deref for Contents {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Contents::Mapped(map) => map,
            Contents::Owned(bytes) => bytes,
        }
    }
}

impl Contents {
    /// Opens a regular file. Does not block if the path is a pipe or device.
    pub(crate) fn open(path: &Path) -> Result<Contents, Error> {
        Contents::open_with(path, 0)
    }

    /// Opens a file like [`open`](Self::open), but refuses a symbolic link.
    pub(crate) fn open_no_link(path: &Path) -> Result<Contents, Error> {
        Contents::open_with(path, libc::O_NOFOLLOW).map_err(|error| match error {
            Error::Read { path, source } if source.raw_os_error() == Some(libc::ELOOP) => {
                let kind = "symbolic link";
                Error::NotAFile { path, kind }
            }
            error => error,
        })
    }

    fn open_with(path: &Path, flags: i32) -> Result<Contents, Error> {
        let read = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let file = (File::options().read(true))
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | flags)
            .open(path)
            .map_err(read)?;
        let meta = file.metadata().map_err(read)?;
        if let Some(kind) = other_than_file(&meta) {
            return Err(Error::NotAFile {
                path: path.to_owned(),
                kind,
            });
        }
        if meta.len() == 0 {
            return Err(Error::Empty {
                path: path.to_owned(),
            });
        }
        map(&file).map_err(read)
    }

    /// Reads a stream to its end. Spools a long one to an unlinked file.
    pub(crate) fn read(mut from: impl Read, name: &Path) -> Result<Contents, Error> {
        let read = |source| Error::Read {
            path: name.to_owned(),
            source,
        };
        let mut bytes = Vec::new();
        (from.by_ref().take(IN_MEMORY as u64))
            .read_to_end(&mut bytes)
            .map_err(read)?;
        if bytes.is_empty() {
            return Err(Error::Empty {
                path: name.to_owned(),
            });
        }
        if bytes.len() < IN_MEMORY {
            return Ok(Contents::Owned(bytes));
        }
        let spool = |source| Error::Spool {
            path: name.to_owned(),
            source,
        };
        let mut file = tempfile::tempfile()
            .or_else(|_| tempfile::tempfile_in("/var/tmp"))
            .map_err(spool)?;
        file.write_all(&bytes).map_err(spool)?;
        drop(bytes);
        // Users must react differently to read and write errors.
        let mut buffer = vec![0; 1 << 20];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => file.write_all(&buffer[..len]).map_err(spool)?,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(read(e)),
            }
        }
        file.seek(SeekFrom::Start(0)).map_err(spool)?;
        map(&file).map_err(spool)
    }
}

fn map(file: &File) -> std::io::Result<Contents> {
    // SAFETY: the map is read-only and private to this process. Another process that truncates the
    // file can end this one with SIGBUS, as with every program that maps its input. It cannot make
    // a read go out of bounds.
    let map = unsafe { memmap2::Mmap::map(file) }?;
    Ok(Contents::Mapped(map))
}

fn other_than_file(meta: &Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("directory"),
        () if kind.is_fifo() => Some("named pipe"),
        () if kind.is_char_device() => Some("character device"),
        () if kind.is_block_device() => Some("block device"),
        () => Some("socket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stream_goes_to_a_file() {
        let len = IN_MEMORY as u64 + 5;
        let contents = Contents::read(std::io::repeat(7).take(len), Path::new("-")).unwrap();
        assert!(matches!(contents, Contents::Mapped(_)));
        assert_eq!(contents.len() as u64, len);
        assert!(contents.iter().all(|b| *b == 7));
        let contents = Contents::read(&b"short"[..], Path::new("-")).unwrap();
        assert!(matches!(contents, Contents::Owned(_)));
    }
}
