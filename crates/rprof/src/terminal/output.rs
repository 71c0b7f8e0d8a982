//! Output of commands: to a file that is complete or absent, to a stream, or to standard output.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rprof_launch::standard_output_was_closed;
use rprof_output::{Choice, Destination, OutputError, Readers};

use crate::wording::messages::Failure;
use crate::wording::remedies;

/// Default output names. The user did not choose to overwrite a file there.
const DEFAULT_NAMES: [&str; 3] = ["flamegraph.svg", "perf.data", "profile.html"];

pub(crate) fn choice(path: &Path) -> Choice {
    match DEFAULT_NAMES.iter().any(|name| path == Path::new(name)) {
        true => Choice::Default,
        false => Choice::Typed,
    }
}

/// Returns the failure of an output, with its remedy.
pub(crate) fn cannot(error: OutputError) -> Failure {
    match remedies::of_output(&error) {
        Some(remedy) => anyhow::anyhow!("{error}{remedy}").into(),
        None => error.into(),
    }
}

/// Output of a command, checked before the work starts.
pub(crate) struct Output {
    /// `None` for standard output.
    to: Option<(Destination, PathBuf)>,
    readers: Readers,
}

impl Output {
    /// Checks that `path` can be written, before the work starts; `-` is standard output.
    pub(crate) fn prepare(path: &Path) -> Result<Output, Failure> {
        Output::checked(path).map_err(cannot)
    }

    /// Does the same as [`prepare`](Self::prepare), without a remedy in the error.
    pub(crate) fn checked(path: &Path) -> Result<Output, OutputError> {
        if path == Path::new("-") {
            return Ok(Output {
                to: None,
                readers: Readers::ByUmask,
            });
        }
        let to = Destination::of(path, choice(path))?;
        to.check()?;
        Ok(Output {
            to: Some((to, path.to_owned())),
            readers: Readers::ByUmask,
        })
    }

    /// Sets file mode 0600 for kernel addresses, which `kernel.kptr_restrict` hides from other
    /// users.
    pub(crate) fn private_if(self, holds_kernel_addresses: bool) -> Output {
        match holds_kernel_addresses {
            true => Output {
                readers: Readers::Owner,
                ..self
            },
            false => self,
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.to.as_ref().map(|(_, path)| &**path)
    }

    /// Writes the result. The file appears under its name only when complete.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some((to, path)) = self.to else {
            let what = || "cannot write to standard output".to_owned();
            check_standard_output()?;
            let mut out = BufWriter::new(io::stdout().lock());
            write(&mut out).map_err(|failure| failure.context(what()))?;
            return Ok(out.flush().with_context(what)?);
        };
        let mut out = to.begin_for(self.readers).map_err(cannot)?;
        let what = || format!("cannot write {}", path.display());
        write(&mut out).map_err(|failure| failure.context(what()))?;
        out.finish().map_err(cannot)
    }
}

pub(crate) fn check_standard_output() -> Result<(), Failure> {
    match standard_output_was_closed() {
        true => Err(anyhow::anyhow!(
            "cannot write to standard output: it is closed (`>&-`); use `>/dev/null` to discard \
             the output"
        )
        .into()),
        false => Ok(()),
    }
}

/// Writes to a file, or to standard output for `-`.
pub(crate) fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    Output::prepare(path)?.write(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let failed = write_to(&path, |out| {
            out.write_all(b"half")?;
            Err(Failure::from(io::Error::other("no more")))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_to(&path, |out| Ok(out.write_all(b"new")?)).is_ok());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert!(write_to(Path::new("/no/such/folder/out"), |_| Ok(())).is_err());
    }

    #[test]
    fn devices_are_written_to_as_they_stand() {
        assert!(write_to(Path::new("/dev/null"), |out| Ok(out.write_all(b"x")?)).is_ok());
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    }
}
