//! [`Destination`]: where an output goes, according to the file at its path.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;

use crate::error::OutputError;
use crate::kind::{Kind, is_harmless_device};
use crate::pending::{PendingFile, Readers};
use crate::{link, named_descriptor};

/// Origin of an output's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Typed by the user, who may intend a special file.
    Typed,
    /// A default name: regular files only, because the current folder may belong to anyone.
    Default,
}

/// Target of an output.
#[derive(Debug)]
pub enum Destination {
    /// A new file, which replaces a regular file or link.
    File(PathBuf),
    /// An open device, FIFO or descriptor.
    Stream {
        /// Open for writing.
        file: File,
        /// Name, for messages.
        path: PathBuf,
    },
}

impl Destination {
    /// Classifies the file at `path`, and opens it unless a new file replaces it. Never blocks, and
    /// opens a device only if that has no side effects.
    ///
    /// # Errors
    /// [`OutputError`] if the file must not be written.
    pub fn of(path: &Path, choice: Choice) -> Result<Destination, OutputError> {
        let create = |source| OutputError::Create {
            path: path.to_owned(),
            source,
        };
        let number = match choice {
            Choice::Typed => named_descriptor(path),
            Choice::Default => named_descriptor::number(path),
        };
        if let Some(number) = number {
            return Ok(Destination::Stream {
                file: named_descriptor::open(number).map_err(create)?,
                path: path.to_owned(),
            });
        }
        // Hold a descriptor, to open the file that was checked.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = match open(path, flags, Mode::empty()) {
            Ok(held) => held,
            // Creating the file later reports a missing folder better.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Destination::File(path.to_owned())),
            Err(error) => return Err(create(error.into())),
        };
        let stat = fstat(&held).map_err(|error| create(error.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Destination::File(path.to_owned())),
            FileType::Symlink => {
                link::check(path)?;
                Ok(Destination::File(path.to_owned()))
            }
            kind => {
                let is_meant = choice == Choice::Typed;
                match is_meant && (kind == FileType::Fifo || is_harmless_device(&stat)) {
                    true => Ok(Destination::Stream {
                        file: open_held(&held, path)?,
                        path: path.to_owned(),
                    }),
                    false => Err(OutputError::InTheWay {
                        path: path.to_owned(),
                        kind: Kind::of(kind),
                    }),
                }
            }
        }
    }

    /// Begins a result, readable according to the umask.
    ///
    /// # Errors
    /// [`OutputError::Create`] if the folder is missing or not writable.
    pub fn begin(self) -> Result<PendingFile, OutputError> {
        self.begin_for(Readers::ByUmask)
    }

    /// Begins a result for these readers. Keeps the mode of a stream.
    ///
    /// # Errors
    /// Fails as [`begin`](Self::begin) does.
    pub fn begin_for(self, readers: Readers) -> Result<PendingFile, OutputError> {
        match self {
            Destination::File(path) => PendingFile::beside(&path, readers),
            Destination::Stream { file, path } => Ok(PendingFile::stream(file, path)),
        }
    }

    /// Checks that the file can be created, before work with a result that would be lost: creates a
    /// temporary file beside it and removes it.
    ///
    /// # Errors
    /// [`OutputError::Create`].
    pub fn check(&self) -> Result<(), OutputError> {
        match self {
            Destination::File(path) => PendingFile::beside(path, Readers::Owner).map(drop),
            Destination::Stream { .. } => Ok(()),
        }
    }
}

/// Opens the held file for writing, without waiting for a reader.
fn open_held(held: &OwnedFd, path: &Path) -> Result<File, OutputError> {
    let create = |source| OutputError::Create {
        path: path.to_owned(),
        source,
    };
    let again = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match open(again, flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(Errno::NXIO) => {
            return Err(OutputError::NoReader {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(create(error.into())),
    };
    named_descriptor::wait_when_full(&file).map_err(create)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    fn of(path: &Path, choice: Choice) -> Result<Destination, OutputError> {
        Destination::of(path, choice)
    }

    #[test]
    fn fifos_need_a_reader_and_a_typed_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        let nobody = of(&path, Choice::Typed);
        assert!(
            matches!(nobody, Err(OutputError::NoReader { .. })),
            "{nobody:?}"
        );
        let mut reader = File::options().read(true).write(true).open(&path).unwrap();
        let default = of(&path, Choice::Default);
        let refused = matches!(
            default,
            Err(OutputError::InTheWay {
                kind: Kind::NamedPipe,
                ..
            })
        );
        assert!(refused, "{default:?}");
        let mut pending = of(&path, Choice::Typed).unwrap().begin().unwrap();
        pending.write_all(b"text").unwrap();
        pending.finish().unwrap();
        let mut text = [0; 4];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"text");
    }

    #[test]
    fn devices_are_written_to_where_they_are_typed_and_harmless() {
        let full = Path::new("/dev/full");
        assert!(matches!(
            of(full, Choice::Typed),
            Ok(Destination::Stream { .. })
        ));
        assert!(matches!(
            of(full, Choice::Default),
            Err(OutputError::InTheWay { .. })
        ));
        let other = of(Path::new("/dev/urandom"), Choice::Typed);
        assert!(
            matches!(other, Err(OutputError::InTheWay { .. })),
            "{other:?}"
        );
        let folder = of(Path::new("/"), Choice::Typed);
        assert!(
            matches!(folder, Err(OutputError::InTheWay { .. })),
            "{folder:?}"
        );
    }

    #[test]
    fn links_lead_to_files_or_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = |name: &str, to: &str| {
            let path = folder.path().join(name);
            symlink(to, &path).unwrap();
            of(&path, Choice::Typed)
        };
        std::fs::write(folder.path().join("file"), "x").unwrap();
        for (name, to) in [("good", "file"), ("dangling", "nothing"), ("twice", "good")] {
            let got = link(name, to);
            assert!(matches!(got, Ok(Destination::File(_))), "{got:?}");
        }
        for (name, to) in [("dir", "."), ("self", "self")] {
            let got = link(name, to);
            // A link to itself has no target.
            let fine = matches!(got, Err(OutputError::LinkToDevice { .. })) || name == "self";
            assert!(fine, "{got:?}");
        }
        for (name, to) in [
            ("null", "/dev/null"),
            ("null-2", "null"),
            ("exe", "/proc/self/exe"),
            ("missing", "/proc/nothing"),
        ] {
            let got = link(name, to);
            assert!(
                matches!(got, Err(OutputError::LinkIntoSystem { .. })),
                "{got:?}"
            );
        }
        let out = folder.path().join("out");
        symlink("/dev/stdout", &out).unwrap();
        let typed = of(&out, Choice::Typed);
        assert!(matches!(typed, Ok(Destination::Stream { .. })), "{typed:?}");
        let default = of(&out, Choice::Default);
        assert!(
            matches!(default, Err(OutputError::LinkIntoSystem { .. })),
            "{default:?}"
        );
        let stdin = of(Path::new("/dev/stdin"), Choice::Typed);
        assert!(stdin.is_err(), "{stdin:?}");
    }
}
