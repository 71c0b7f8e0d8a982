//! [`Spool`]: windows queued for a destination, bounded in bytes.
//!
//! ```text
//!   FOLDER/NAME/ledger.json                      LossLedger
//!   FOLDER/NAME/queue/00001700000000000000-3-1/  a window
//!       0000,samples,date=…,hour=…,….parquet     its files, in the order of sending; `,` stands for `/`
//!   FOLDER/NAME/quarantine/…                     refused files, each with NAME.why
//! ```
//!
//! The name of a window is `START-TOLD-NEW`: its start in microseconds, the lost windows that it and
//! all earlier ones report, and the lost windows that it reports itself. One rename adds a window, so
//! that it is complete or absent. Files have mode 0600, folders 0700.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rprof_output::Folder;

use crate::ledger::{LossLedger, TEMPORARY};

/// Name suffix of a file during an upload to a server that would count a duplicate.
const SENDING: &str = ".sending";

/// Name suffix of a file with the reason for a rejection.
const WHY: &str = ".why";

/// File of a window. The parts of its name are separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowFile {
    /// Name at the destination.
    pub name: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Spool of one destination.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    folder: Folder,
    ledger: LossLedger,
    /// The destination would count a duplicate upload.
    sends_once: bool,
}

/// Queued window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Queued {
    /// Start, in microseconds since 1970.
    pub start: i64,
    /// Losses reported by this window and the earlier ones.
    told: u64,
    /// Losses reported by this window.
    new: u64,
}

impl Queued {
    fn name(&self) -> String {
        format!("{:020}-{}-{}", self.start, self.told, self.new)
    }

    fn parse(name: &OsStr) -> Option<Queued> {
        let mut parts = name.to_str()?.splitn(3, '-');
        Some(Queued {
            start: parts.next()?.parse().ok()?,
            told: parts.next()?.parse().ok()?,
            new: parts.next()?.parse().ok()?,
        })
    }
}

impl Spool {
    /// Opens a spool, and recovers from a crash. Removes incomplete windows. Counts the unfinished
    /// window as lost, and files whose upload may have succeeded.
    ///
    /// # Errors
    /// The folders cannot be created, read or written.
    pub fn open(path: &Path, sends_once: bool) -> io::Result<Spool> {
        let folder = Folder::create(path)?;
        for name in ["queue", "quarantine"] {
            folder.create_child(OsStr::new(name))?;
        }
        let mut spool = Spool {
            ledger: LossLedger::open(&folder),
            path: path.to_owned(),
            folder,
            sends_once,
        };
        spool.recover()?;
        Ok(spool)
    }

    fn recover(&mut self) -> io::Result<()> {
        for folder in [self.path.clone(), self.queue()] {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                    match entry.file_type()?.is_dir() {
                        true => fs::remove_dir_all(entry.path())?,
                        false => fs::remove_file(entry.path())?,
                    }
                }
            }
        }
        if let Some(name) = self.ledger.entries().dropping.clone() {
            self.remove(&name)?;
        }
        let windows = self.windows()?;
        let told = windows.iter().map(|window| window.told).max().unwrap_or(0);
        let is_there = |start| windows.iter().any(|window| window.start == start);
        let open = self.ledger.entries().open.iter();
        let lost = open.filter(|start| !is_there(**start)).count() as u64;
        let mut unsure = 0;
        if self.sends_once {
            for window in &windows {
                for name in self.names(window)? {
                    if name.to_string_lossy().ends_with(SENDING) {
                        fs::remove_file(self.queue().join(window.name()).join(name))?;
                        unsure = 1;
                    }
                }
                self.remove_if_empty(window)?;
            }
        }
        self.ledger.change(&self.folder, |entries| {
            let more = lost + unsure;
            entries.lost += more;
            entries.owed += more;
            entries.told = entries.told.max(told);
            (entries.open, entries.dropping) = (Vec::new(), None);
        })
    }

    fn queue(&self) -> PathBuf {
        self.path.join("queue")
    }

    /// Notes the start of a window. Without a later [`keep`](Spool::keep) or
    /// [`cancel`](Spool::cancel), the window counts as lost.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn begin_window(&mut self, start: i64) -> io::Result<()> {
        self.ledger
            .change(&self.folder, |entries| entries.open.push(start))
    }

    /// Cancels a started window that has no data.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn cancel(&mut self, start: i64) -> io::Result<()> {
        self.ledger.change(&self.folder, |entries| {
            entries.open.retain(|open| *open != start);
        })
    }

    /// Counts a window that could not be stored as lost.
    pub fn lose(&mut self, start: i64) {
        let lose = |entries: &mut crate::ledger::Entries| {
            entries.lost += 1;
            entries.owed += 1;
            entries.open.retain(|open| *open != start);
        };
        // On a full disk the window counts as lost after a restart.
        self.ledger.change(&self.folder, lose).ok();
    }

    /// Returns the number of lost windows that no window reports yet.
    pub fn untold(&self) -> u64 {
        let entries = self.ledger.entries();
        entries.owed.saturating_sub(entries.told)
    }

    /// Returns the total number of lost windows.
    pub fn lost(&self) -> u64 {
        self.ledger.entries().lost
    }

    /// Stores a window, which reports all [untold](Spool::untold) losses.
    ///
    /// # Errors
    /// The window cannot be written. It is removed completely then.
    pub fn keep(&mut self, start: i64, items: &[WindowFile]) -> io::Result<()> {
        let owed = self.ledger.entries().owed;
        if !items.is_empty() {
            let mut window = Queued {
                start,
                told: owed,
                new: self.untold(),
            };
            let temporary = self.queue().join(format!("{TEMPORARY}{start}"));
            let written = self.write(&temporary, items);
            let named = written.and_then(|()| {
                // The clock was set back by an exact amount.
                while self.queue().join(window.name()).exists() {
                    window.start += 1;
                }
                fs::rename(&temporary, self.queue().join(window.name()))
            });
            if let Err(error) = named {
                fs::remove_dir_all(&temporary).ok();
                return Err(error);
            }
        }
        self.ledger.change(&self.folder, |entries| {
            entries.told = owed;
            entries.open.retain(|open| *open != start);
        })
    }

    fn write(&self, folder: &Path, items: &[WindowFile]) -> io::Result<()> {
        let into = Folder::create(folder)?;
        for (nth, item) in items.iter().enumerate() {
            let name = format!("{nth:04},{}", item.name.replace('/', ","));
            let (temporary, mut file) = into.create_temporary(TEMPORARY)?;
            file.write_all(&item.bytes)?;
            file.sync_data()?;
            into.rename(&temporary, OsStr::new(&name))?;
        }
        Ok(())
    }

    /// Returns the queued windows, oldest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn windows(&self) -> io::Result<Vec<Queued>> {
        let names = self.folder.child(OsStr::new("queue"))?.names()?;
        let mut windows: Vec<Queued> = names
            .iter()
            .filter_map(|name| Queued::parse(name))
            .collect();
        windows.sort();
        Ok(windows)
    }

    fn names(&self, window: &Queued) -> io::Result<Vec<OsString>> {
        let mut names = Folder::open(&self.queue().join(window.name()))?.names()?;
        names.sort();
        Ok(names)
    }

    /// Returns the next file of a window: its name in the spool, and its content.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_item(&self, window: &Queued) -> io::Result<Option<(OsString, WindowFile)>> {
        let Some(name) = self.names(window)?.into_iter().next() else {
            return Ok(None);
        };
        let bytes = fs::read(self.queue().join(window.name()).join(&name))?;
        let text = name.to_string_lossy();
        let text = text.strip_suffix(SENDING).unwrap_or(&text);
        let of_item = text.split_once(',').map_or(text, |(_, name)| name);
        let item = WindowFile {
            name: of_item.replace(',', "/"),
            bytes,
        };
        Ok(Some((name, item)))
    }

    /// Marks a file before its upload, if a duplicate must be avoided. Returns its new name.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn begin_sending(&self, window: &Queued, name: OsString) -> io::Result<OsString> {
        if !self.sends_once || name.to_string_lossy().ends_with(SENDING) {
            return Ok(name);
        }
        let folder = self.queue().join(window.name());
        let mut sending = name.clone();
        sending.push(SENDING);
        fs::rename(folder.join(name), folder.join(&sending))?;
        Ok(sending)
    }

    /// Removes the mark, after the server reported that it did not accept the file.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn put_back(&self, window: &Queued, name: &OsStr) -> io::Result<()> {
        let text = name.to_string_lossy();
        let Some(before) = text.strip_suffix(SENDING) else {
            return Ok(());
        };
        let folder = self.queue().join(window.name());
        fs::rename(folder.join(name), folder.join(before))
    }

    /// Removes an uploaded file, and its window if no file remains.
    ///
    /// # Errors
    /// The file or window cannot be removed.
    pub fn sent(&self, window: &Queued, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.queue().join(window.name()).join(name))?;
        self.remove_if_empty(window).map(drop)
    }

    /// Removes a window without files. Returns whether it was removed.
    ///
    /// # Errors
    /// The folder cannot be read or removed.
    pub fn remove_if_empty(&self, window: &Queued) -> io::Result<bool> {
        if !self.names(window)?.is_empty() {
            return Ok(false);
        }
        fs::remove_dir(self.queue().join(window.name()))?;
        Ok(true)
    }

    /// Moves a rejected file to quarantine, with the server's message.
    ///
    /// # Errors
    /// The file cannot be moved.
    pub fn quarantine(&self, window: &Queued, name: &OsStr, why: &str) -> io::Result<()> {
        let text = name.to_string_lossy();
        let to = format!(
            "{:020}-{}",
            window.start,
            text.strip_suffix(SENDING).unwrap_or(&text)
        );
        let quarantine = self.path.join("quarantine");
        let folder = Folder::open(&quarantine)?;
        let (temporary, mut file) = folder.create_temporary(TEMPORARY)?;
        file.write_all(why.as_bytes())?;
        folder.rename(&temporary, OsStr::new(&format!("{to}{WHY}")))?;
        fs::rename(
            self.queue().join(window.name()).join(name),
            quarantine.join(to),
        )?;
        self.remove_if_empty(window).map(drop)
    }

    /// Returns the number of quarantined files.
    pub fn quarantined(&self) -> usize {
        let names = fs::read_dir(self.path.join("quarantine"))
            .into_iter()
            .flatten()
            .flatten();
        names
            .filter(|entry| !entry.file_name().to_string_lossy().ends_with(WHY))
            .count()
    }

    /// Returns the size of all stored files in bytes.
    pub fn bytes(&self) -> u64 {
        bytes_below(&self.path)
    }

    /// Drops the oldest file in quarantine, or else the oldest window. The window and the losses
    /// that it would have reported count as lost. Returns false if the spool is empty.
    ///
    /// # Errors
    /// The file or window cannot be removed, or the ledger cannot be written.
    pub fn drop_oldest(&mut self) -> io::Result<bool> {
        let quarantine = self.path.join("quarantine");
        let mut names = Folder::open(&quarantine)?.names()?;
        names.sort();
        if let Some(name) = names.into_iter().next() {
            fs::remove_file(quarantine.join(name))?;
            return Ok(true);
        }
        let windows = self.windows()?;
        let Some(oldest) = windows.first() else {
            return Ok(false);
        };
        let name = oldest.name();
        let telling = self.telling(oldest)?;
        self.ledger.change(&self.folder, |entries| {
            entries.lost += 1;
            entries.owed += 1 + telling;
            entries.dropping = Some(name.clone());
        })?;
        self.remove(&name)?;
        self.ledger
            .change(&self.folder, |entries| entries.dropping = None)?;
        Ok(true)
    }

    /// Returns the loss reports that a dropped window takes with it: 0 once its `hosts` row is
    /// uploaded.
    fn telling(&self, window: &Queued) -> io::Result<u64> {
        let names = self.names(window)?;
        let mut names = names.iter().map(|name| name.to_string_lossy());
        Ok(match names.any(|name| name.contains(",hosts,")) {
            true => window.new,
            false => 0,
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_dir_all(self.queue().join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

pub(crate) fn bytes_below(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

pub(crate) fn free_percent(path: &Path) -> Option<f64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(100.0 * stat.f_bavail as f64 / stat.f_blocks.max(1) as f64)
}

#[cfg(test)]
mod tests;
