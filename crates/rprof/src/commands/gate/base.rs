//! Folders of recordings to compare with.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::machine::Machine;
use crate::input::run_folders::recordings_in;
use crate::wording::messages::Failure;

/// File that describes the machine of a folder's recordings.
const MACHINE: &str = "machine.json";

/// Recordings of the old side.
pub(super) struct Base {
    pub(super) folder: PathBuf,
    /// Recordings, ordered by number.
    pub(super) files: Vec<PathBuf>,
}

impl Base {
    /// Finds the recordings of a folder. Fails if there are none, or if another machine made them.
    pub(super) fn open(folder: &Path, here: &Machine) -> Result<Base, Failure> {
        let base = Base::of_any_machine(folder)?;
        base.is_of(here)?;
        Ok(base)
    }

    pub(super) fn of_any_machine(folder: &Path) -> Result<Base, Failure> {
        if let Err(error) = std::fs::metadata(folder)
            && error.kind() == ErrorKind::NotFound
        {
            let folder = folder.display();
            return Err(anyhow::anyhow!(
                "cannot read {folder}: {error}; `rprof gate --save {folder} -- COMMAND` makes it"
            )
            .into());
        }
        if folder.is_file() {
            let file = folder.display();
            return Err(Failure::with_status(
                2,
                anyhow::anyhow!(
                    "{file} is a file, but --base takes a folder of recordings: `rprof gate --save DIR \
                     -- COMMAND` makes one"
                ),
            ));
        }
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
                "no recordings in {folder} itself: it holds runs of two commands; give \
                 {folder}/old or {folder}/new"
            ),
            false => anyhow::anyhow!(
                "no recordings in {folder}: make some with `rprof gate --save {folder} -- COMMAND`"
            ),
        }
        .into())
    }

    /// Finds the recordings of a folder; `None` if it is missing or empty.
    pub(super) fn find(folder: &Path, here: &Machine) -> Result<Option<Base>, Failure> {
        let is_there = match std::fs::symlink_metadata(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            _ => !recordings_in(folder)?.is_empty(),
        };
        is_there.then(|| Base::open(folder, here)).transpose()
    }

    fn is_of(&self, here: &Machine) -> Result<(), Failure> {
        let Some(there) = Machine::read(&self.folder.join(MACHINE))? else {
            return Ok(());
        };
        let differences = there.differences(here);
        if differences.is_empty() {
            return Ok(());
        }
        let message = format!(
            "cannot compare: {} was recorded on another machine or with other settings: {}. Record \
             it again with --save {}, or use one folder per machine (--baseline-dir)",
            self.folder.display(),
            differences.join(", "),
            self.folder.display()
        );
        Err(Failure::with_status(2, anyhow::anyhow!(message)))
    }
}

/// Creates the folder before the runs are recorded.
pub(super) fn check(folder: &Path) -> Result<(), Failure> {
    let cannot = || format!("cannot make {}", folder.display());
    Ok(std::fs::create_dir_all(folder).with_context(cannot)?)
}

/// Moves recordings into a folder as `1.data`, `2.data` and so on, and writes the machine file.
/// Older recordings become `.old`.
pub(super) fn keep(files: &[PathBuf], folder: &Path, here: &Machine) -> Result<(), Failure> {
    check(folder)?;
    let cannot = |path: &Path| format!("cannot save {}", path.display());
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
