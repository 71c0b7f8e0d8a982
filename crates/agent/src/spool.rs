//! [`Spool`]: windows queued for a destination, bounded in bytes.
//!
//! ```text
//!   FOLDER/NAME/ledger.json                      Ledger
//!   FOLDER/NAME/queue/00001700000000000000-3-1/  a window; lost windows that all up to it tell of, and that it tells of
//!       0000,samples,date=…,hour=…,….parquet     what is sent, in this order; `,` stands for `/`
//!   FOLDER/NAME/quarantine/…                     what was refused, each with NAME.why
//! ```
//!
//! The name of a window is `START-TOLD-NEW`. One rename adds a window, so that it is complete or
//! absent. Files have mode 0600, folders 0700.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rprof_output::Folder;

use crate::ledger::{Ledger, TEMPORARY};

/// Name suffix of a file during an upload to a server that would count a duplicate.
const SENDING: &str = ".sending";

/// Name suffix of a file with the reason for a rejection.
const WHY: &str = ".why";

/// File of a window. The parts of its name are separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
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
    ledger: Ledger,
    /// True if the destination would count a duplicate upload.
    sends_once: bool,
}

/// Queued window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Queued {
    /// Start, in microseconds since 1970.
    pub start: i64,
    /// Total number of losses reported by this window and the earlier ones.
    told: u64,
    /// Number of losses reported by this window.
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
    /// window as lost, and also files whose upload may have succeeded.
    ///
    /// # Errors
    /// The folders cannot be created, read or written.
    pub fn open(path: &Path, sends_once: bool) -> io::Result<Spool> {
        let folder = Folder::create(path)?;
        for name in ["queue", "quarantine"] {
            folder.create_child(OsStr::new(name))?;
        }
        let mut spool = Spool {
            ledger: Ledger::open(&folder),
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
        // If the disk is full, the window stays open, and counts as lost after a restart.
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
    pub fn keep(&mut self, start: i64, items: &[Item]) -> io::Result<()> {
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
                // Two windows have the same start if the clock was set back by an exact amount.
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

    fn write(&self, folder: &Path, items: &[Item]) -> io::Result<()> {
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
    pub fn next_item(&self, window: &Queued) -> io::Result<Option<(OsString, Item)>> {
        let Some(name) = self.names(window)?.into_iter().next() else {
            return Ok(None);
        };
        let bytes = fs::read(self.queue().join(window.name()).join(&name))?;
        let text = name.to_string_lossy();
        let text = text.strip_suffix(SENDING).unwrap_or(&text);
        let of_item = text.split_once(',').map_or(text, |(_, name)| name);
        let item = Item {
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

    /// Drops the oldest file in quarantine, or else the oldest window. A dropped window counts as
    /// lost, and so do the losses that it would have reported. Returns false if the spool is empty.
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

    /// Returns the number of loss reports that a dropped window takes with it: 0 once its `hosts`
    /// row is uploaded.
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

/// Returns the total size of all files below a folder.
pub(crate) fn bytes_below(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Returns the percentage of a disk that unprivileged users can still use.
pub(crate) fn free_percent(path: &Path) -> Option<f64> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some(100.0 * stat.f_bavail as f64 / stat.f_blocks.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, bytes: usize) -> Item {
        Item {
            name: name.to_owned(),
            bytes: vec![b'x'; bytes],
        }
    }

    fn window() -> Vec<Item> {
        vec![
            item("stacks/a", 10),
            item("hosts/a", 10),
            item("samples/a", 10),
        ]
    }

    fn open(path: &Path) -> Spool {
        Spool::open(path, false).unwrap()
    }

    #[test]
    fn files_come_back_in_order_under_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path());
        spool.keep(7, &window()).unwrap();
        let queued = spool.windows().unwrap();
        let mut names = Vec::new();
        while let Some((name, item)) = spool.next_item(&queued[0]).unwrap() {
            names.push(item.name);
            spool.sent(&queued[0], &name).unwrap();
            if spool.windows().unwrap().is_empty() {
                break;
            }
        }
        assert_eq!(names, ["stacks/a", "hosts/a", "samples/a"]);
        assert_eq!(
            spool.bytes(),
            fs::metadata(folder.path().join("ledger.json")).map_or(0, |m| m.len())
        );
    }

    #[test]
    fn a_window_that_was_open_when_the_agent_died_is_lost_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path());
        spool.begin_window(60).unwrap();
        drop(spool);
        let mut spool = open(folder.path());
        assert_eq!((spool.untold(), spool.lost()), (1, 1));
        drop(spool);
        // No window was recorded in between.
        spool = open(folder.path());
        assert_eq!(spool.untold(), 1);
        spool.begin_window(120).unwrap();
        spool.keep(120, &window()).unwrap();
        assert_eq!(spool.untold(), 0);
        spool.begin_window(180).unwrap();
        spool.cancel(180).unwrap();
        assert_eq!(
            (open(folder.path()).untold(), open(folder.path()).lost()),
            (0, 1)
        );
    }

    /// The window is stored, but the ledger does not count it yet.
    #[test]
    fn a_kill_between_window_and_ledger_loses_and_tells_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path());
        spool.begin_window(60).unwrap();
        drop(spool);
        let mut spool = open(folder.path());
        spool.begin_window(120).unwrap();
        let ledger = fs::read(folder.path().join("ledger.json")).unwrap();
        spool.keep(120, &window()).unwrap();
        fs::write(folder.path().join("ledger.json"), ledger).unwrap();
        let spool = open(folder.path());
        assert_eq!((spool.untold(), spool.lost()), (0, 1));
        assert_eq!(spool.windows().unwrap().len(), 1);
    }

    #[test]
    fn half_windows_and_half_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()));
        let half = folder.path().join("queue/.new-7");
        fs::create_dir(&half).unwrap();
        fs::write(half.join("0000,hosts,a"), "x").unwrap();
        fs::write(folder.path().join(".new-123456"), "x").unwrap();
        let spool = open(folder.path());
        assert!(!half.exists() && !folder.path().join(".new-123456").exists());
        assert!(spool.windows().unwrap().is_empty());
    }

    #[test]
    fn what_is_dropped_is_told_by_the_next_window_with_what_it_would_have_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path());
        spool.begin_window(0).unwrap();
        spool.lose(0);
        spool.keep(60, &window()).unwrap();
        assert!(spool.drop_oldest().unwrap());
        // The first one, and the window that reported it.
        assert_eq!((spool.untold(), spool.lost()), (2, 2));
        spool.keep(120, &window()).unwrap();
        let queued = spool.windows().unwrap()[0].clone();
        for _ in 0..2 {
            let (name, _) = spool.next_item(&queued).unwrap().unwrap();
            spool.sent(&queued, &name).unwrap();
        }
        // Its `hosts` row was uploaded, so both losses are reported.
        assert!(spool.drop_oldest().unwrap());
        assert_eq!((spool.untold(), spool.lost()), (1, 3));
        assert!(!spool.drop_oldest().unwrap());
    }

    #[test]
    fn a_kill_while_dropping_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path());
        spool.keep(60, &window()).unwrap();
        let name = spool.windows().unwrap()[0].name();
        spool
            .ledger
            .change(&spool.folder, |entries| {
                entries.lost += 1;
                entries.owed += 1;
                entries.dropping = Some(name);
            })
            .unwrap();
        let spool = open(folder.path());
        assert!(spool.windows().unwrap().is_empty());
        assert_eq!(spool.untold(), 1);
    }

    #[test]
    fn what_may_have_been_sent_is_not_sent_twice_to_a_server_that_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), true).unwrap();
        spool.keep(60, &window()).unwrap();
        let queued = spool.windows().unwrap()[0].clone();
        let (name, _) = spool.next_item(&queued).unwrap().unwrap();
        let sending = spool.begin_sending(&queued, name.clone()).unwrap();
        spool.put_back(&queued, &sending).unwrap();
        assert_eq!(spool.next_item(&queued).unwrap().unwrap().0, name);
        spool.begin_sending(&queued, name).unwrap();
        let spool = Spool::open(folder.path(), true).unwrap();
        assert_eq!(spool.next_item(&queued).unwrap().unwrap().1.name, "hosts/a");
        assert_eq!(spool.lost(), 1);
    }

    #[test]
    fn what_is_refused_stands_aside_with_the_reason_and_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = open(folder.path());
        spool.keep(60, &window()).unwrap();
        let queued = spool.windows().unwrap()[0].clone();
        let (name, _) = spool.next_item(&queued).unwrap().unwrap();
        spool.quarantine(&queued, &name, "status 400: no").unwrap();
        assert_eq!(spool.quarantined(), 1);
        let why = fs::read_dir(folder.path().join("quarantine"))
            .unwrap()
            .flatten();
        let why: Vec<_> = why
            .filter(|e| e.file_name().to_string_lossy().ends_with(WHY))
            .collect();
        assert_eq!(fs::read_to_string(why[0].path()).unwrap(), "status 400: no");
        while spool.quarantined() > 0 {
            spool.drop_oldest().unwrap();
        }
        assert_eq!(spool.windows().unwrap().len(), 1);
        assert_eq!(spool.lost(), 0);
    }

    #[test]
    fn nobody_else_may_read_it() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("spool");
        let mut spool = open(&root);
        spool.keep(60, &window()).unwrap();
        let mut folders = vec![root];
        while let Some(folder) = folders.pop() {
            assert_eq!(
                fs::metadata(&folder).unwrap().mode() & 0o077,
                0,
                "{folder:?}"
            );
            for entry in fs::read_dir(folder).unwrap().flatten() {
                assert_eq!(entry.metadata().unwrap().mode() & 0o077, 0, "{entry:?}");
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
    }
}
