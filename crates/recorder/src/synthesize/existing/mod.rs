//! Synthesizes records for processes that existed before the recording.
//!
//! The kernel records only new processes, names and mappings. Existing ones are read from /proc
//! into the same records, while the processes run:
//!
//! ```text
//!   sideband on --> stamp, read process A --> stamp, read process B --> ... --> sampling on
//!       |                 |
//!       | a change here   | a change here has a record with a later time,
//!       | is read below   | and so replaces the reading, whatever it has
//! ```
//!
//! - A record gets the start time of its process's reading. Later changes have later records, and
//!   earlier ones are in the data. An exec meanwhile discards the data and records its own
//!   mappings.
//! - The kernel's records begin before sampling, so each sample has its mapping.
//! - A FORK record meanwhile may precede the parent's synthesized mappings. So new processes are
//!   read too, until there are no more.
//!
//! The merge treats these records as another CPU's, so the file is sorted. FORK records have
//! `PERF_RECORD_MISC_FORK_EXEC`, as in perf: the child has its own mappings, not copies.

mod timed_maps;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use rprof_launch::Target;
use rprof_launch::procfs::{MapsReader, Procfs, TaskStat};
use rprof_records::{
    AttrFlags, Comm, Endian, Misc, Mmap2, MmapIdentity, Record, SampleId, SampleLayout, Task,
};
use rprof_sampler::{Batch, Clock, Degradation, NO_CPU, Role, Session, Stream};
use timed_maps::{ReadMappings, TimedMaps};

const MAX_LOOKS: usize = 8;

/// Synthesized records and their counts.
#[derive(Clone, Debug, Default)]
pub struct Existing {
    /// The records, concatenated and sorted by time.
    pub records: Vec<u8>,
    /// Number of processes read.
    pub processes: usize,
    /// Number of threads named.
    pub threads: usize,
    /// Number of mappings.
    pub mappings: usize,
    /// Number of processes that ended while they were read.
    pub vanished: usize,
    /// Processes whose mappings this user may not read.
    pub refused: Vec<u32>,
    /// Processes read without build-ids, or not at all, because a file of theirs or of others timed
    /// out.
    pub hanging: Vec<u32>,
    /// Duration of the reading.
    pub took: Duration,
}

impl Existing {
    /// Returns the degradations for the session: unreadable mappings, and missing build-ids.
    pub fn degradations(&self) -> impl Iterator<Item = Degradation> {
        let refused = self.refused.first().map(|pid| Degradation::MapsRefused {
            count: self.refused.len(),
            example: *pid,
        });
        let hanging = self.hanging.first().map(|pid| Degradation::FilesHang {
            count: self.hanging.len(),
            example: *pid,
        });
        refused.into_iter().chain(hanging)
    }

    /// Returns the records as a sideband batch for the merge, with watermark 0.
    pub(crate) fn into_batch(self) -> Batch {
        Batch {
            cpu: NO_CPU,
            stream: Stream::Sideband,
            bytes: self.records,
            watermark: 0,
        }
    }
}

/// Reads the existing processes of a session's target: all for whole CPUs; for a command only its
/// namespaces, if requested. Call it between creation and start of the session.
pub fn read(session: &Session) -> Existing {
    let of_role = |event: &&rprof_sampler::EventIds| event.role == Role::Sideband;
    let Some(sideband) = session.events().iter().find(of_role) else {
        return Existing::default();
    };
    let layout = SampleLayout::new(&sideband.attr, Endian::NATIVE);
    let mut reading = Reading::new(Procfs::default(), layout);
    reading.clock = session.clock();
    reading.namespaces = sideband.attr.flags.contains(AttrFlags::NAMESPACES);
    let scope = match session.target() {
        Target::Command => {
            let child = session.child().map(|child| child.pid() as u32);
            let time = reading.clock.now_ns();
            (child.into_iter()).for_each(|pid| reading.namespaces_of(pid, pid, time));
            return reading.found;
        }
        target if target.is_by_cpu() => Scope::All,
        _ => {
            let mut pids: Vec<u32> = session.attached().iter().map(|thread| thread.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            Scope::These {
                pids,
                since: session.opened_at(),
                inherit: session.inherits(),
            }
        }
    };
    reading.run(&scope)
}

#[derive(Clone, Debug)]
enum Scope {
    All,
    /// These and, with `inherit`, their descendants created since the time `since` after boot.
    These {
        pids: Vec<u32>,
        since: Duration,
        inherit: bool,
    },
}

struct Reading {
    proc: Procfs,
    maps: TimedMaps<MapsReader>,
    layout: SampleLayout,
    clock: Clock,
    namespaces: bool,
    found: Existing,
    done: HashSet<u32>,
}

impl Reading {
    fn new(proc: Procfs, layout: SampleLayout) -> Reading {
        Reading {
            proc,
            maps: TimedMaps::new(MapsReader::new),
            layout,
            clock: Clock::default(),
            namespaces: false,
            found: Existing::default(),
            done: HashSet::new(),
        }
    }

    fn run(mut self, scope: &Scope) -> Existing {
        let began = Instant::now();
        for look in 0..MAX_LOOKS {
            let mut pids = match scope {
                Scope::All => self.proc.process_ids(),
                Scope::These { pids, .. } if look == 0 => pids.clone(),
                Scope::These { inherit: false, .. } => break,
                Scope::These { since, .. } => self.born_since(*since),
            };
            pids.retain(|pid| self.done.insert(*pid));
            if pids.is_empty() {
                break;
            }
            for pid in pids {
                self.process(pid);
            }
        }
        self.found.took = began.elapsed();
        self.found
    }

    /// Returns new processes whose parents were read, started at `since` after boot or later.
    fn born_since(&self, since: Duration) -> Vec<u32> {
        let is_new = |pid: &u32| {
            let stat = self.proc.stat(*pid);
            stat.is_some_and(|stat| self.done.contains(&stat.parent) && stat.started >= since)
        };
        let mut pids = self.proc.process_ids();
        pids.retain(|pid| !self.done.contains(pid) && is_new(pid));
        pids
    }

    /// Reads a process. If it ends meanwhile, the data read so far is kept.
    fn process(&mut self, pid: u32) {
        let time = self.clock.now_ns();
        let Some(stat) = self.proc.stat(pid) else {
            self.found.vanished += 1;
            return;
        };
        self.found.processes += 1;
        self.threads(pid, &stat, time);
        let ReadMappings {
            mappings,
            result,
            is_hanging,
        } = self.maps.read(match stat.has_ended {
            // The process may continue without its first thread.
            true => self.proc.id_with_memory(pid),
            false => pid,
        });
        if is_hanging {
            self.found.hanging.push(pid);
        }
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.found.refused.push(pid);
            }
            Err(_) => self.found.vanished += 1,
        }
        for mapping in &mappings {
            self.mapping(pid, mapping, time);
        }
        self.maps.reuse(mappings);
    }

    fn threads(&mut self, pid: u32, stat: &TaskStat, time: u64) {
        let mut tids = self.proc.thread_ids(pid);
        // The first thread comes first, because the records of others refer to its process.
        tids.sort_unstable_by_key(|tid| (*tid != pid, *tid));
        for tid in tids {
            let name = match tid == pid {
                true => Some(stat.comm.clone()),
                false => self.proc.comm(pid, tid),
            };
            let Some(name) = name else {
                continue;
            };
            let parent = if tid == pid { stat.parent } else { pid };
            let fork = Record::Fork(Task {
                pid: pid as i32,
                ppid: parent as i32,
                tid: tid as i32,
                ptid: parent as i32,
                time,
            });
            self.put(&fork, Misc::FORK_EXEC, pid, tid, time);
            let comm = Record::Comm(Comm {
                pid: pid as i32,
                tid: tid as i32,
                name: Cow::Owned(name),
            });
            self.put(&comm, Misc(0), pid, tid, time);
            self.namespaces_of(pid, tid, time);
            self.found.threads += 1;
        }
    }

    fn namespaces_of(&mut self, pid: u32, tid: u32, time: u64) {
        let links = self.namespaces.then(|| self.proc.namespaces(tid)).flatten();
        if let Some(links) = links {
            let (of_pid, of_tid) = (pid as i32, tid as i32);
            let record = Record::Namespaces {
                pid: of_pid,
                tid: of_tid,
                links,
            };
            self.put(&record, Misc(0), pid, tid, time);
        }
    }

    fn mapping(&mut self, pid: u32, mapping: &rprof_launch::ExistingMapping, time: u64) {
        let identity = match mapping.build_id {
            Some(id) => MmapIdentity::BuildId(id),
            None => MmapIdentity::Inode {
                major: mapping.device.0,
                minor: mapping.device.1,
                inode: mapping.inode,
                generation: 0,
            },
        };
        let record = Record::Mmap2(Mmap2 {
            pid: pid as i32,
            tid: pid as i32,
            start: mapping.start,
            len: mapping.end.saturating_sub(mapping.start),
            pgoff: mapping.offset,
            identity,
            prot: mapping.prot,
            flags: mapping.flags,
            path: Cow::Borrowed(&mapping.path),
        });
        self.put(&record, Misc::USER, pid, pid, time);
        self.found.mappings += 1;
    }

    /// Appends a record with the sideband event's trailer. The id is 0, as in all synthesized
    /// records.
    fn put(&mut self, record: &Record<'_>, misc: Misc, pid: u32, tid: u32, time: u64) {
        let id = SampleId {
            pid: Some(pid as i32),
            tid: Some(tid as i32),
            time: Some(time),
            ..SampleId::default()
        };
        // A path has at most 4,095 bytes, so it fits into a record.
        record
            .encode(misc, &self.layout, &id, &mut self.found.records)
            .ok();
    }
}

#[cfg(test)]
mod tests;
