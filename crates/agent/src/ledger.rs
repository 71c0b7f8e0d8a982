//! [`LossLedger`]: count of lost windows, which survives crashes.
//!
//! Counters only grow, so that writing one twice changes nothing. `owed` is the number of lost
//! windows to report. The name of a stored window has the value after its report.

use std::ffi::OsStr;
use std::io::{self, Write};

use rprof_output::Folder;
use serde::{Deserialize, Serialize};

const FILE: &str = "ledger.json";

/// Persistent state of a spool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entries {
    /// Total number of lost windows.
    pub lost: u64,
    /// Number of losses to report, again if the window that reported one was lost.
    pub owed: u64,
    /// Number of losses that stored windows report.
    pub told: u64,
    /// Start times of windows that are neither stored nor lost yet, in microseconds since 1970.
    pub open: Vec<i64>,
    /// Folder name of the window that is being dropped.
    pub dropping: Option<String>,
}

/// Ledger of one destination's spool.
#[derive(Debug)]
pub struct LossLedger {
    entries: Entries,
}

impl LossLedger {
    /// Reads the ledger in a folder. Replaces a damaged ledger: writes are atomic, so another
    /// program damaged it.
    pub fn open(folder: &Folder) -> LossLedger {
        let read = || -> Option<Entries> {
            let mut text = String::new();
            let file = folder.open_file(OsStr::new(FILE)).ok()?;
            io::Read::read_to_string(&mut io::Read::take(file, 4096), &mut text).ok()?;
            serde_json::from_str(&text).ok()
        };
        LossLedger {
            entries: read().unwrap_or_default(),
        }
    }

    /// Returns the current state.
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// Changes the state, on disk before in memory.
    ///
    /// # Errors
    /// The ledger cannot be written. The state is unchanged then.
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

/// Writes a file of mode 0600 atomically.
pub(crate) fn write_whole(folder: &Folder, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (temporary, mut file) = folder.create_temporary(TEMPORARY)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_data());
    let named = written.and_then(|()| folder.rename(&temporary, OsStr::new(name)));
    if named.is_err() {
        folder.remove(&temporary).ok();
    }
    named
}

/// Prefix of incomplete files and folders.
pub(crate) const TEMPORARY: &str = ".new-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_found_again_and_a_damaged_one_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let mut ledger = LossLedger::open(&folder);
        assert_eq!(*ledger.entries(), Entries::default());
        ledger
            .change(&folder, |entries| {
                (entries.lost, entries.open) = (3, vec![7]);
            })
            .unwrap();
        assert_eq!(LossLedger::open(&folder).entries(), ledger.entries());
        std::fs::write(dir.path().join(FILE), "{\"lost\":").unwrap();
        assert_eq!(*LossLedger::open(&folder).entries(), Entries::default());
        let names = folder.names().unwrap();
        assert_eq!(names, [FILE]);
    }
}
