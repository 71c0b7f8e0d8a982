//! [`Ledger`]: windows that were lost, counted over crashes.
//!
//! Numbers only grow, so that writing one twice changes nothing: `owed` is the number of lost windows that are to be told of, and each
//! window that is kept is named with the `owed` up to which it tells.

use std::ffi::OsStr;
use std::io::{self, Write};

use rprof_output::Folder;
use serde::{Deserialize, Serialize};

const FILE: &str = "ledger.json";

/// State of a spool, as it is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entries {
    /// Windows that were lost since ever.
    pub lost: u64,
    /// Lost windows that are to be told of: once more where the window that told of them was lost itself.
    pub owed: u64,
    /// Part of these that kept windows tell of.
    pub told: u64,
    /// Begins of the windows that were begun and are neither kept nor lost, in microseconds since 1970.
    pub open: Vec<i64>,
    /// Window that is being dropped, by the name of its folder.
    pub dropping: Option<String>,
}

/// The ledger of one destination's spool.
#[derive(Debug)]
pub struct Ledger {
    entries: Entries,
}

impl Ledger {
    /// Reads the ledger in a folder. One that is damaged begins anew, as it is written whole or not at all: somebody else did it.
    pub fn open(folder: &Folder) -> Ledger {
        let read = || -> Option<Entries> {
            let mut text = String::new();
            let file = folder.open_file(OsStr::new(FILE)).ok()?;
            io::Read::read_to_string(&mut io::Read::take(file, 4096), &mut text).ok()?;
            serde_json::from_str(&text).ok()
        };
        Ledger {
            entries: read().unwrap_or_default(),
        }
    }

    /// Returns what it says.
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Changes it, on disk before in memory.
    ///
    /// # Errors
    /// It cannot be written; nothing is changed then.
    pub fn change(&mut self, folder: &Folder, change: impl FnOnce(&mut Entries)) -> io::Result<()> {
        let mut entries = self.entries.clone();
        change(&mut entries);
        if entries == self.entries {
            return Ok(());
        }
        write_whole(folder, FILE, serde_json::to_string(&entries)?.as_bytes())?;
        self.entries = entries;
        Ok(())
    }
}

/// Writes a file of mode 0600 under a name, whole or not at all.
///
/// # Errors
/// It cannot be made, written or renamed.
pub(crate) fn write_whole(folder: &Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = folder.create_temporary(TEMPORARY)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    let named = written.and_then(|()| folder.rename(&temporary, OsStr::new(name)));
    if named.is_err() {
        folder.remove(&temporary).ok();
    }
    named
}

/// Begin of the names of files and folders that are not whole yet.
pub(crate) const TEMPORARY: &str = ".new-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_found_again_and_a_damaged_one_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let mut ledger = Ledger::open(&folder);
        assert_eq!(*ledger.entries(), Entries::default());
        ledger
            .change(&folder, |entries| {
                (entries.lost, entries.open) = (3, vec![7]);
            })
            .unwrap();
        assert_eq!(Ledger::open(&folder).entries(), ledger.entries());
        std::fs::write(dir.path().join(FILE), "{\"lost\":").unwrap();
        assert_eq!(*Ledger::open(&folder).entries(), Entries::default());
        let names = folder.names().unwrap();
        assert_eq!(names, [FILE]);
    }
}
