//! Paths that name an open descriptor, such as `/dev/stdout`, or `/dev/fd/63` of a shell's
//! `>(COMMAND)`.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::link::MAX_LINKS;

/// Returns the descriptor of this process that a path names: `/dev/stdout`, `/dev/fd/N`,
/// `/proc/self/fd/N`, or a link to one of them.
#[must_use]
pub fn named_descriptor(path: &Path) -> Option<u32> {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        // Stop here: these paths are themselves links to the open file.
        match number(&at) {
            // `/dev/stdin` is not a valid output.
            Some(0) if at != path => return None,
            Some(number) => return Some(number),
            None => {}
        }
        let target = fs::read_link(&at).ok()?;
        at = at.parent()?.join(target);
    }
    None
}

/// Returns the descriptor that a path names literally, without following links.
pub(crate) fn number(path: &Path) -> Option<u32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        text => {
            let digits = (text.strip_prefix("/dev/fd/"))
                .or_else(|| text.strip_prefix("/proc/self/fd/"))
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse().ok()
        }
    }
}

/// Opens a descriptor of this process again, for appending.
///
/// # Errors
/// The system's error, for example for a closed descriptor or a socket;
/// [`io::ErrorKind::InvalidInput`] for a block device or a directory.
pub(crate) fn open(number: u32) -> io::Result<File> {
    match number {
        1 => return Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        2 => return Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
        _ => {}
    }
    let path = format!("/proc/self/fd/{number}");
    let kind = fs::metadata(&path)?.file_type();
    if kind.is_block_device() || kind.is_dir() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // The other end of a pipe is open already, or never will be.
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = (File::options().append(true))
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    wait_when_full(&file)?;
    Ok(file)
}

pub(crate) fn wait_when_full(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn only_whole_numbers_of_descriptors_are_named() {
        let of = |path: &str| number(Path::new(path));
        assert_eq!(of("/dev/stdout"), Some(1));
        assert_eq!(of("/dev/fd/63"), Some(63));
        assert_eq!(of("/proc/self/fd/2"), Some(2));
        for path in [
            "/dev/fd/",
            "/dev/fd/+1",
            "/dev/fd/1/x",
            "stdout",
            "/dev/null",
            "/dev/fd/99999999999",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn links_are_followed_to_the_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| {
            let path = folder.path().join(name);
            std::os::unix::fs::symlink(to, &path).unwrap();
            named_descriptor(&path)
        };
        assert_eq!(link("out", "/proc/self/fd/1"), Some(1));
        assert_eq!(link("far", "out"), Some(1));
        assert_eq!(link("err", "/dev/stderr"), Some(2));
        for (name, to) in [
            ("file", "nothing"),
            ("self", "self"),
            ("exe", "/proc/self/exe"),
        ] {
            assert_eq!(link(name, to), None, "{name}");
        }
    }

    #[test]
    fn a_pipe_is_written_to_by_its_number() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut file = open(writer.as_raw_fd() as u32).unwrap();
        drop(writer);
        file.write_all(b"text").unwrap();
        drop(file);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(open(99_999).is_err());
    }
}
