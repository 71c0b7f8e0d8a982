//! [`Spool`]: windows that wait for a destination, bounded in bytes.
//!
//! ```text
//!   FOLDER/NAME/ledger.json                      Ledger
//!   FOLDER/NAME/queue/00001700000000000000-3-1/  a window; lost windows that all up to it tell of, and that it tells of
//!       0000,samples,date=…,hour=…,….parquet     what is sent, in this order; `,` stands for `/`
//!   FOLDER/NAME/quarantine/…                     what was refused, each with NAME.why
//! ```
//!
//! A window appears by one rename, so that it is whole or not there. Files are 0600, folders 0700.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rprof_output::Folder;

use crate::ledger::{Ledger, TEMPORARY};

/// End of the name of a file that is being sent to a server that would count it twice.
const SENDING: &str = ".sending";

/// End of the name of a file that says why another is in quarantine.
const WHY: &str = ".why";

/// File of a window: a name, with `/` between its parts, and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Name by which a destination knows it.
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
    /// True if a file that may have been sent must not be sent again.
    sends_once: bool,
}

/// Window that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Queued {
    /// Begin, in microseconds since 1970.
    pub start: i64,
    /// Number of lost windows that are told of with it and those before.
    told: u64,
    /// Part of these that it tells of itself.
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
    /// Opens a spool, and finishes what a crash left: half windows are removed, the window that was being recorded and files that
    /// may have been sent are counted as lost.
    ///
    /// # Errors
    /// The folders cannot be made, read or written.
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

    /// Notes that a window is being recorded: if this is not taken back, it was lost.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn begin_window(&mut self, start: i64) -> io::Result<()> {
        self.ledger
            .change(&self.folder, |entries| entries.open.push(start))
    }

    /// Takes back that a window is being recorded: nothing was.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn cancel(&mut self, start: i64) -> io::Result<()> {
        self.ledger.change(&self.folder, |entries| {
            entries.open.retain(|open| *open != start);
        })
    }

    /// Counts a window that could not be kept.
    pub fn lose(&mut self, start: i64) {
        let lose = |entries: &mut crate::ledger::Entries| {
            entries.lost += 1;
            entries.owed += 1;
            entries.open.retain(|open| *open != start);
        };
        // On a full disk the window stays open, and is counted when this begins anew.
        self.ledger.change(&self.folder, lose).ok();
    }

    /// Returns the number of lost windows that no window tells of yet.
    pub fn untold(&self) -> u64 {
        let entries = self.ledger.entries();
        entries.owed.saturating_sub(entries.told)
    }

    /// Returns the number of lost windows since ever.
    pub fn lost(&self) -> u64 {
        self.ledger.entries().lost
    }

    /// Keeps a window, which tells of all [untold](Spool::untold) ones.
    ///
    /// # Errors
    /// It cannot be written; nothing of it is there then.
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

    /// Returns the windows that wait, the oldest first.
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

    /// Returns the next file of a window, under its name in the spool, and what is in it.
    ///
    /// # Errors
    /// It cannot be read.
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

    /// Notes that a file is about to be sent, where it must not be twice. Returns its name from then on.
    ///
    /// # Errors
    /// It cannot be renamed.
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

    /// Takes back that a file is about to be sent: the server said that it did not take it.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub fn put_back(&self, window: &Queued, name: &OsStr) -> io::Result<()> {
        let text = name.to_string_lossy();
        let Some(before) = text.strip_suffix(SENDING) else {
            return Ok(());
        };
        let folder = self.queue().join(window.name());
        fs::rename(folder.join(name), folder.join(before))
    }

    /// Removes a file that was sent, and its window with the last.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn sent(&self, window: &Queued, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.queue().join(window.name()).join(name))?;
        self.remove_if_empty(window).map(drop)
    }

    /// Removes a window that has no files. Returns whether it is gone.
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

    /// Moves a file that was refused out of the way, with the words of the server beside it.
    ///
    /// # Errors
    /// It cannot be moved.
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

    /// Returns the number of files that were refused.
    pub fn quarantined(&self) -> usize {
        let names = fs::read_dir(self.path.join("quarantine"))
            .into_iter()
            .flatten()
            .flatten();
        names
            .filter(|entry| !entry.file_name().to_string_lossy().ends_with(WHY))
            .count()
    }

    /// Returns the bytes of all that is kept.
    pub fn bytes(&self) -> u64 {
        bytes_below(&self.path)
    }

    /// Drops the oldest of what is kept: what was refused before what waits. A window is counted as lost, with those that it would have
    /// told of. Returns false if there is nothing.
    ///
    /// # Errors
    /// It cannot be removed, or counted.
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

    /// Returns the number of lost windows that nobody is told of if a window is dropped: none once its row of `hosts` was sent.
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

/// Returns the bytes of all files below a folder.
pub(crate) fn bytes_below(path: &Path) -> u64 {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// Returns the percent of a disk that are free for everybody.
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
        // Nothing was recorded in between.
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

    /// The window is there, but the ledger does not say so yet.
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
        // The first one, and that which told of it.
        assert_eq!((spool.untold(), spool.lost()), (2, 2));
        spool.keep(120, &window()).unwrap();
        let queued = spool.windows().unwrap()[0].clone();
        for _ in 0..2 {
            let (name, _) = spool.next_item(&queued).unwrap().unwrap();
            spool.sent(&queued, &name).unwrap();
        }
        // Its row of hosts was sent: both are told.
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
