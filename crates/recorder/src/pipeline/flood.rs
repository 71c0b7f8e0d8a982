//! [`FloodFilter`]: drops COMM and mapping records of processes that flood them.
//!
//! A loop of `mmap` or `prctl(PR_SET_NAME)` writes hundreds of thousands of records per second,
//! which would delay all samples. So each process has a byte allowance. It shares another one with
//! its descendants, because it could fork when its own is used up. FORK, EXIT and exec records
//! always pass: the process map needs them, and they cost the process more than the recorder.

use rprof_image::{Allowance, Rate};
use rprof_records::{Endian, Misc, RawRecord, RecordType};
use rustc_hash::FxHashMap;

/// Allowance of a process in bytes: a burst of some 16,000 mappings, the maximum followed per
/// process, and 1,500 per second.
const PROCESS: Rate = Rate {
    most: 4 << 20,
    a_second: 256 << 10,
};

/// Allowance of a process and its descendants in bytes, per CPU. It suffices for 3,000 new
/// processes per second.
const FAMILY: Rate = Rate {
    most: 16 << 20,
    a_second: 4 << 20,
};

/// Minimum cost of a record in bytes: the cost of handling it.
const MINIMUM: u64 = 128;

const MAX_PROCESSES: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct FloodFilter {
    family_rate: Rate,
    processes: FxHashMap<i32, Member>,
    families: FxHashMap<i32, Allowance>,
    rejected: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    left: Allowance,
    /// Oldest known ancestor.
    family: i32,
}

impl FloodFilter {
    pub(super) fn new(cpus: usize) -> FloodFilter {
        let cpus = cpus.max(1) as u64;
        FloodFilter {
            family_rate: Rate {
                most: FAMILY.most.saturating_mul(cpus),
                a_second: FAMILY.a_second.saturating_mul(cpus),
            },
            processes: FxHashMap::default(),
            families: FxHashMap::default(),
            rejected: 0,
        }
    }

    /// Returns true if a sideband record passes. Records of each CPU arrive sorted by time.
    pub(super) fn accepts(&mut self, record: &RawRecord<'_>, time: u64) -> bool {
        let number = |at| record.body.u32(at, Endian::NATIVE).map(u32::cast_signed);
        let Some(pid) = number(0) else {
            return true;
        };
        match record.kind {
            RecordType::FORK => {
                if let Some(parent) = number(4).filter(|parent| *parent != pid) {
                    self.fork(pid, parent, time);
                }
                return true;
            }
            RecordType::EXIT => {
                if number(8) == Some(pid) {
                    self.processes.remove(&pid);
                }
                return true;
            }
            RecordType::COMM if record.misc.0 & Misc::COMM_EXEC.0 != 0 => return true,
            RecordType::COMM | RecordType::MMAP | RecordType::MMAP2 => {}
            _ => return true,
        }
        // Mappings of the kernel belong to no process.
        if pid < 0 {
            return true;
        }
        let bytes = (record.size() as u64).max(MINIMUM);
        self.make_room(time);
        let new = Member {
            left: Allowance::new(PROCESS, time),
            family: pid,
        };
        let member = self.processes.entry(pid).or_insert(new);
        let rate = self.family_rate;
        let family = self.families.entry(member.family);
        let family = family.or_insert(Allowance::new(rate, time));
        let passes = member.left.at(PROCESS, time) >= bytes && family.at(rate, time) >= bytes;
        match passes {
            true => {
                member.left.spend(PROCESS, bytes, time);
                family.spend(rate, bytes, time);
            }
            false => self.rejected += 1,
        }
        passes
    }

    pub(super) fn rejected(&self) -> u64 {
        self.rejected
    }

    fn fork(&mut self, pid: i32, parent: i32, time: u64) {
        self.make_room(time);
        let family = self.processes.get(&parent).map_or(parent, |m| m.family);
        let left = Allowance::new(PROCESS, time);
        self.processes.insert(pid, Member { left, family });
    }

    /// Removes unused entries if there are too many. Such a process then becomes its own family.
    fn make_room(&mut self, time: u64) {
        if self.processes.len() >= MAX_PROCESSES {
            self.processes
                .retain(|_, member| member.left.at(PROCESS, time) < PROCESS.most);
        }
        if self.processes.len() >= MAX_PROCESSES {
            self.processes.clear();
        }
        if self.families.len() >= MAX_PROCESSES {
            let rate = self.family_rate;
            self.families
                .retain(|_, left| left.at(rate, time) < rate.most);
        }
        if self.families.len() >= MAX_PROCESSES {
            self.families.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{
        Attr, AttrFlags, Comm, RawBytes, Record, SampleId, SampleLayout, SampleType, Task,
    };

    fn passes(filter: &mut FloodFilter, record: &Record<'_>, misc: Misc, time: u64) -> bool {
        let attr = Attr {
            sample_type: SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..Attr::default()
        };
        let layout = SampleLayout::new(&attr, Endian::NATIVE);
        let mut bytes = Vec::new();
        let id = SampleId::default();
        record.encode(misc, &layout, &id, &mut bytes).unwrap();
        let raw = RawRecord::parse(RawBytes::from(&bytes[..]), Endian::NATIVE).unwrap();
        filter.accepts(&raw, time)
    }

    fn name(pid: i32) -> Record<'static> {
        Record::Comm(Comm {
            pid,
            tid: pid,
            name: b"name".as_slice().into(),
        })
    }

    fn task(pid: i32, ppid: i32) -> Task {
        Task {
            pid,
            ppid,
            tid: pid,
            ptid: ppid,
            time: 0,
        }
    }

    fn names(filter: &mut FloodFilter, pid: i32, many: usize, time: u64) -> usize {
        let name = name(pid);
        (0..many)
            .filter(|_| passes(filter, &name, Misc(0), time))
            .count()
    }

    #[test]
    fn who_floods_loses_their_own_and_no_births_ends_or_execs() {
        let mut filter = FloodFilter::new(2);
        let most = (PROCESS.most / MINIMUM) as usize;
        assert_eq!(names(&mut filter, 7, most + 1000, 0), most);
        assert_eq!(filter.rejected(), 1000);
        for record in [Record::Fork(task(9, 7)), Record::Exit(task(9, 7))] {
            assert!(passes(&mut filter, &record, Misc(0), 0));
        }
        assert!(passes(&mut filter, &name(7), Misc::COMM_EXEC, 0));
        assert_eq!(names(&mut filter, 8, 1000, 0), 1000);
        let a_second = (PROCESS.a_second / MINIMUM) as usize;
        assert_eq!(names(&mut filter, 7, most, 1_000_000_000), a_second);
    }

    #[test]
    fn children_have_no_more_together_than_a_family_may() {
        let mut filter = FloodFilter::new(1);
        let mut all = 0;
        for child in 100..200 {
            passes(&mut filter, &Record::Fork(task(child, 7)), Misc(0), 0);
            all += names(&mut filter, child, 5_000, 0);
            passes(&mut filter, &Record::Exit(task(child, 7)), Misc(0), 0);
        }
        assert_eq!(all as u64, FAMILY.most / MINIMUM);
        assert_eq!(names(&mut filter, 300, 10, 0), 10);
        assert!(filter.processes.len() < 10);
    }

    #[test]
    fn processes_without_end_take_bounded_memory() {
        let mut filter = FloodFilter::new(1);
        for pid in 1..200_000 {
            assert_eq!(
                names(&mut filter, pid, 1, u64::from(pid.cast_unsigned())),
                1
            );
        }
        assert!(filter.processes.len() <= MAX_PROCESSES);
        assert!(filter.families.len() <= MAX_PROCESSES);
    }
}
