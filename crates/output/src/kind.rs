//! [`Kind`]: types of files that are not regular.

use std::fmt;

use rustix::fs::{FileType, Stat, major, minor};

/// Type of a file that is not regular.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Directory (`S_IFDIR`).
    Directory,
    /// FIFO.
    NamedPipe,
    /// Unix domain socket (`S_IFSOCK`).
    Socket,
    /// Character device (`S_IFCHR`), such as `/dev/null`.
    CharacterDevice,
    /// Block device: a disk or a part of one.
    BlockDevice,
    /// Any other type.
    Other,
}

impl Kind {
    pub(crate) fn of(file_type: FileType) -> Kind {
        match file_type {
            FileType::Directory => Kind::Directory,
            FileType::Fifo => Kind::NamedPipe,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            _ => Kind::Other,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Directory => "directory",
            Kind::NamedPipe => "named pipe",
            Kind::Socket => "socket",
            Kind::CharacterDevice => "character device",
            Kind::BlockDevice => "block device",
            Kind::Other => "special file",
        })
    }
}

/// Returns true for character devices without side effects of open and write: null, zero, full and
/// tty (`Documentation/admin-guide/devices.txt` of Linux).
pub(crate) fn is_harmless_device(stat: &Stat) -> bool {
    let numbers = (major(stat.st_rdev), minor(stat.st_rdev));
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && matches!(numbers, (1, 3 | 5 | 7) | (5, 0))
}
