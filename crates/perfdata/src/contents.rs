//! The bytes of an input: a mapped file, or what a pipe gave.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::error::Error;

/// Bytes that stay where they are.
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
    /// Opens a regular file without blocking on anything else that may stand there.
    pub(crate) fn open(path: &Path) -> Result<Contents, Error> {
        let read = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let file = (File::options().read(true))
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(read)?;
        let meta = file.metadata().map_err(read)?;
        let kind = meta.file_type();
        if !kind.is_file() {
            return Err(Error::NotAFile {
                path: path.to_owned(),
                kind: match () {
                    () if kind.is_dir() => "directory",
                    () if kind.is_fifo() => "named pipe",
                    () if kind.is_char_device() => "character device",
                    () if kind.is_block_device() => "block device",
                    () => "socket",
                },
            });
        }
        if meta.len() == 0 {
            return Err(Error::Empty {
                path: path.to_owned(),
            });
        }
        // SAFETY: the map is read-only and private to this process. Another process
        // that shortens the file while it is read can end this one with SIGBUS, as
        // it can with every program that maps its input (perf does the same); it
        // cannot make a read go out of bounds.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(read)?;
        Ok(Contents::Mapped(map))
    }

    /// Reads a stream to its end.
    pub(crate) fn read(mut from: impl Read, name: &Path) -> Result<Contents, Error> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map_err(|source| Error::Read {
            path: name.to_owned(),
            source,
        })?;
        if bytes.is_empty() {
            return Err(Error::Empty {
                path: name.to_owned(),
            });
        }
        Ok(Contents::Owned(bytes))
    }
}
