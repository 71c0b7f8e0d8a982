//! What is mapped now: the process map of a recording that goes on.
//!
//! A [`Timeline`](crate::Timeline) remembers everything, and grows with every record. A
//! recorder that runs for days needs only the present: here memory is bounded by the
//! processes that live and the images they ever mapped. What was learned of a
//! process goes when its last thread does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::builder::NewMapping;
use crate::ids::{ImageId, Pid, Tid};
use crate::image::{Image, ImageTable, Side};

/// A range of addresses backed by an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveMapping {
    /// First address (AVMA).
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Where in the image `start` lies, in bytes.
    pub file_offset: u64,
    /// What backs it.
    pub image: ImageId,
    /// Whether it was mapped with `PROT_EXEC`.
    pub executable: bool,
}

/// The mappings of one process, by ascending address, disjoint. Shared by a fork's
/// two sides until one of them changes.
type Mappings = Arc<Vec<LiveMapping>>;

#[derive(Debug, Default)]
struct LiveProcess {
    mappings: Mappings,
    /// Number of what is in `mappings`.
    generation: u64,
    threads: HashSet<i32>,
}

/// The mappings of all processes at the time of the record fed last.
///
/// Feed it the sideband in time order. No record makes any function here panic.
#[derive(Debug, Default)]
pub struct LiveMap {
    processes: HashMap<i32, LiveProcess>,
    images: ImageTable,
    /// The last number given to the mappings of a process. 0 is that of none.
    generations: u64,
}

impl LiveMap {
    /// Nothing but an empty machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// A process mapped a file or memory (MMAP, MMAP2); what it overlaps ends.
    pub fn handle_mmap(&mut self, pid: Pid, new: &NewMapping<'_>) {
        let end = new.start.saturating_add(new.len);
        if end <= new.start {
            return;
        }
        let mapping = LiveMapping {
            start: new.start,
            end,
            file_offset: new.file_offset,
            image: self.images.intern(Side::User, new.path, new.identity),
            executable: new.executable,
        };
        self.generations += 1;
        let process = self.processes.entry(pid.0).or_default();
        process.generation = self.generations;
        insert(Arc::make_mut(&mut process.mappings), mapping);
    }

    /// A process began a program (COMM with `PERF_RECORD_MISC_COMM_EXEC`): its
    /// mappings are gone.
    pub fn handle_exec(&mut self, pid: Pid, tid: Tid) {
        let process = self.processes.entry(pid.0).or_default();
        process.mappings = Mappings::default();
        process.generation = 0;
        // Only the thread that called exec is left, and it has the process's number.
        process.threads.clear();
        process.threads.insert(tid.0);
    }

    /// A thread (`pid == parent`) or a process was born (FORK); a new process has
    /// its parent's mappings.
    pub fn handle_fork(&mut self, pid: Pid, tid: Tid, parent: Pid) {
        if pid != parent {
            let parent = self.processes.get(&parent.0);
            let born = LiveProcess {
                mappings: parent.map(|p| p.mappings.clone()).unwrap_or_default(),
                generation: parent.map_or(0, |p| p.generation),
                threads: HashSet::new(),
            };
            self.processes.insert(pid.0, born);
        }
        self.handle_thread(pid, tid);
    }

    /// A thread is there that nobody saw being born.
    pub fn handle_thread(&mut self, pid: Pid, tid: Tid) {
        let process = self.processes.entry(pid.0).or_default();
        process.threads.insert(tid.0);
    }

    /// A thread ended (EXIT). Answers whether its process went with it.
    pub fn handle_exit(&mut self, pid: Pid, tid: Tid) -> bool {
        let Some(process) = self.processes.get_mut(&pid.0) else {
            return false;
        };
        process.threads.remove(&tid.0);
        let gone = process.threads.is_empty();
        if gone {
            self.processes.remove(&pid.0);
        }
        gone
    }

    /// What a process has mapped, by ascending address; nothing for one that is
    /// not known.
    pub fn mappings(&self, pid: Pid) -> &[LiveMapping] {
        let process = self.processes.get(&pid.0);
        process.map_or(&[], |process| &process.mappings[..])
    }

    /// A number for what a process has mapped. While it is the same, so are the mappings; processes
    /// that have the same number have the same mappings.
    pub fn generation(&self, pid: Pid) -> u64 {
        (self.processes.get(&pid.0)).map_or(0, |process| process.generation)
    }

    /// The mapping that covers an address.
    pub fn find(&self, pid: Pid, address: u64) -> Option<&LiveMapping> {
        find(self.mappings(pid), address)
    }

    /// All images so far; [`ImageId`] is the place in it.
    pub fn images(&self) -> &[Image] {
        self.images.as_slice()
    }

    /// Processes that live.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }
}

/// The mapping that covers an address, among disjoint ones by ascending address.
pub fn find(mappings: &[LiveMapping], address: u64) -> Option<&LiveMapping> {
    let after = mappings.partition_point(|m| m.start <= address);
    let mapping = mappings.get(after.checked_sub(1)?)?;
    (address < mapping.end).then_some(mapping)
}

/// Puts a mapping in; others are cut to what it leaves of them.
fn insert(mappings: &mut Vec<LiveMapping>, new: LiveMapping) {
    let first = mappings.partition_point(|m| m.end <= new.start);
    let last = mappings.partition_point(|m| m.start < new.end);
    let mut kept = [None; 3];
    if let Some(left) = mappings.get(first).filter(|m| m.start < new.start) {
        kept[0] = Some(LiveMapping {
            end: new.start,
            ..*left
        });
    }
    kept[1] = Some(new);
    let right = last.checked_sub(1).and_then(|at| mappings.get(at));
    if let Some(right) = right.filter(|m| m.end > new.end) {
        kept[2] = Some(LiveMapping {
            start: new.end,
            file_offset: right.file_offset.wrapping_add(new.end - right.start),
            ..*right
        });
    }
    // Where nothing overlaps, `first` may lie behind `last`.
    mappings.splice(first..last.max(first), kept.into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageIdentity;
    use proptest::prelude::*;

    fn map(map: &mut LiveMap, pid: i32, start: u64, len: u64, path: &str) {
        let new = NewMapping {
            start,
            len,
            file_offset: 0x1000,
            path: path.as_bytes(),
            identity: ImageIdentity::PathOnly,
            executable: true,
        };
        map.handle_mmap(Pid(pid), &new);
    }

    fn at(map: &LiveMap, pid: i32, address: u64) -> Option<(String, u64)> {
        let found = map.find(Pid(pid), address)?;
        let path = &map.images()[found.image.0 as usize].path;
        let offset = found.file_offset + (address - found.start);
        Some((String::from_utf8_lossy(path).into_owned(), offset))
    }

    #[test]
    fn a_new_mapping_cuts_what_it_covers() {
        let mut live = LiveMap::new();
        map(&mut live, 1, 0x1000, 0x9000, "/a");
        map(&mut live, 1, 0x3000, 0x1000, "/b");
        assert_eq!(at(&live, 1, 0x2fff), Some(("/a".into(), 0x2fff)));
        assert_eq!(at(&live, 1, 0x3000), Some(("/b".into(), 0x1000)));
        assert_eq!(at(&live, 1, 0x4000), Some(("/a".into(), 0x4000)));
        assert_eq!(at(&live, 1, 0xa000), None);
        assert_eq!(at(&live, 2, 0x3000), None);
    }

    #[test]
    fn forks_share_and_execs_forget() {
        let mut live = LiveMap::new();
        live.handle_thread(Pid(1), Tid(1));
        map(&mut live, 1, 0x1000, 0x1000, "/a");
        live.handle_fork(Pid(2), Tid(2), Pid(1));
        map(&mut live, 2, 0x5000, 0x1000, "/b");
        assert!(at(&live, 2, 0x1000).is_some() && at(&live, 1, 0x5000).is_none());
        live.handle_exec(Pid(2), Tid(2));
        assert!(at(&live, 2, 0x1000).is_none() && at(&live, 1, 0x1000).is_some());
    }

    #[test]
    fn a_process_goes_with_its_last_thread() {
        let mut live = LiveMap::new();
        live.handle_fork(Pid(2), Tid(2), Pid(1));
        live.handle_fork(Pid(2), Tid(3), Pid(2));
        map(&mut live, 2, 0x1000, 0x1000, "/a");
        assert!(!live.handle_exit(Pid(2), Tid(2)));
        assert!(at(&live, 2, 0x1000).is_some());
        assert!(live.handle_exit(Pid(2), Tid(3)));
        assert_eq!((live.processes(), at(&live, 2, 0x1000)), (0, None));
    }

    proptest! {
        /// Beside an array in which each address names the mapping made last.
        #[test]
        fn agrees_with_an_array(made in proptest::collection::vec((0u64..64, 0u64..20), 0..40)) {
            let mut live = LiveMap::new();
            let mut cells = [None; 96];
            for (n, (start, len)) in made.iter().enumerate() {
                map(&mut live, 1, *start, *len, &format!("/{n}"));
                for cell in &mut cells[*start as usize..(start + len) as usize] {
                    *cell = Some((format!("/{n}").leak() as &str, *start));
                }
            }
            for (address, cell) in cells.iter().enumerate() {
                let expected = cell.map(|(path, start)| {
                    (path.to_owned(), 0x1000 + address as u64 - start)
                });
                prop_assert_eq!(at(&live, 1, address as u64), expected);
            }
            let list = live.mappings(Pid(1));
            prop_assert!(list.windows(2).all(|w| w[0].end <= w[1].start));
        }
    }
}
