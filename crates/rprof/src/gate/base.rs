//! Folders of recordings to compare with.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::machine::Machine;
use crate::messages::Failure;
use crate::named_input::is_recording;

/// File that says which machine the recordings of a folder are of.
const MACHINE: &str = "machine.json";

/// Recordings that others are compared with.
pub(super) struct Base {
    pub(super) folder: PathBuf,
    /// Recordings, in the order of their numbers.
    pub(super) files: Vec<PathBuf>,
}

impl Base {
    /// Finds the recordings of a folder. Fails if there is none, or if they are another machine's.
    pub(super) fn open(folder: &Path, here: &Machine) -> Result<Base, Failure> {
        let base = Base::of_any_machine(folder)?;
        base.is_of(here)?;
        Ok(base)
    }

    /// Finds the recordings of a folder, whichever machine they are of.
    pub(super) fn of_any_machine(folder: &Path) -> Result<Base, Failure> {
        let files = recordings_in(folder)?;
        if !files.is_empty() {
            return Ok(Base {
                folder: folder.to_owned(),
                files,
            });
        }
        let has = |name: &str| folder.join(name).is_dir();
        let folder = folder.display();
        Err(match has("old") && has("new") {
            true => anyhow::anyhow!(
                "there is no recording in {folder} itself; runs of two commands are in {folder}/old and {folder}/new"
            ),
            false => anyhow::anyhow!(
                "there is no recording in {folder}: `rprof gate --save {folder} -- COMMAND` makes some"
            ),
        }
        .into())
    }

    /// Finds the recordings of a folder; `None` if there are none, or no such folder.
    pub(super) fn find(folder: &Path, here: &Machine) -> Result<Option<Base>, Failure> {
        let is_there = match std::fs::symlink_metadata(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            _ => !recordings_in(folder)?.is_empty(),
        };
        is_there.then(|| Base::open(folder, here)).transpose()
    }

    /// Fails if what was noted of the machine is not this one's.
    fn is_of(&self, here: &Machine) -> Result<(), Failure> {
        let Some(there) = Machine::read(&self.folder.join(MACHINE))? else {
            return Ok(());
        };
        let differences = there.differences(here);
        if differences.is_empty() {
            return Ok(());
        }
        let message = format!(
            "not to be compared: {} is of another machine, or of this one as it was: {}. Make it anew with --save {}, or give \
             a folder of its own to each machine (--baseline-dir)",
            self.folder.display(),
            differences.join(", "),
            self.folder.display()
        );
        Err(Failure::with_status(2, anyhow::anyhow!(message)))
    }
}

/// Lists the recordings of a folder. What was moved aside when newer ones were kept (`.old`) is none, nor is what is hidden.
fn recordings_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(anyhow::anyhow!(
                "{}: {error}; `rprof gate --save {} -- COMMAND` makes it",
                cannot(),
                folder.display()
            )
            .into());
        }
        entries => entries.with_context(cannot)?,
    };
    for entry in entries {
        let path = entry.with_context(cannot)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy());
        let counts = name.is_some_and(|name| !name.starts_with('.') && !name.ends_with(".old"));
        if counts && is_recording(path.as_os_str()) {
            files.push(path);
        }
    }
    files.sort_by_key(|path| (number_of(path), path.clone()));
    Ok(files)
}

/// Returns the number in a file's name: the tenth run is behind the ninth.
fn number_of(path: &Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(u64::MAX)
}

/// Makes sure that recordings can be kept in a folder, before they are made.
pub(super) fn check(folder: &Path) -> Result<(), Failure> {
    let cannot = || format!("cannot make {}", folder.display());
    Ok(std::fs::create_dir_all(folder).with_context(cannot)?)
}

/// Moves recordings into a folder, as `1.data`, `2.data` and so on. Those that it has become `.old`; of the machine a note is
/// left.
pub(super) fn keep(files: &[PathBuf], folder: &Path, here: &Machine) -> Result<(), Failure> {
    check(folder)?;
    let cannot = |path: &Path| format!("cannot keep {}", path.display());
    for before in recordings_in(folder)? {
        let mut aside = OsString::from(&before);
        aside.push(".old");
        std::fs::rename(&before, aside).with_context(|| cannot(&before))?;
    }
    for (number, file) in (1..).zip(files) {
        let path = folder.join(format!("{number}.data"));
        std::fs::rename(file, &path).with_context(|| cannot(&path))?;
    }
    here.write(&folder.join(MACHINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stand_in_the_order_of_their_numbers() {
        let mut paths: Vec<PathBuf> = ["10.data", "9.data", "perf.data.2", "x.data"]
            .map(PathBuf::from)
            .into();
        paths.sort_by_key(|path| (number_of(path), path.clone()));
        assert_eq!(
            paths,
            ["perf.data.2", "9.data", "10.data", "x.data"].map(PathBuf::from)
        );
    }
}
