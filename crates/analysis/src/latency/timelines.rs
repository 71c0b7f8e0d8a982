//! [`Timelines`]: number of running threads by group and time, and the latency of waits.

use rustc_hash::{FxHashMap, FxHashSet};

use super::changes::{Change, Changes, Kind};
use crate::sideband_pass::Index;

#[derive(Debug, Default)]
pub(crate) struct Timelines {
    groups: FxHashMap<i32, usize>,
    /// By group.
    running: Vec<Vec<Step>>,
    /// Waits by thread, in the order of time.
    waits: FxHashMap<i32, Vec<Wait>>,
    /// Length of each wait for a CPU after a wakeup, by thread and end.
    awake: FxHashMap<(i32, u64), u64>,
}

/// Number of running threads from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    time: u64,
    running: u32,
}

/// Time of a thread off the CPUs, in nanoseconds of the recording's clock.
#[derive(Clone, Copy, Debug)]
struct Wait {
    start: u64,
    end: u64,
    /// Total length of the thread's earlier waits.
    length_before: u64,
    /// Start of the part on the group's way; `end` if there is none.
    on_the_way_from: u64,
    /// Number of waits that share this part.
    sharing: u32,
    /// Total latency of the thread's earlier waits.
    latency_before: u64,
}

impl Wait {
    fn latency_until(&self, time: u64) -> u64 {
        let part = time.min(self.end).saturating_sub(self.on_the_way_from);
        self.latency_before + part / u64::from(self.sharing.max(1))
    }
}

impl Timelines {
    pub(crate) fn of(index: &Index<'_>) -> Timelines {
        Timelines::from_changes(Changes::of(index))
    }

    fn from_changes(changes: Changes) -> Timelines {
        let (first, last) = changes.time.unwrap_or((0, 0));
        let mut follower = Follower::default();
        follower.group_processes(&changes.sorted);
        follower.begin(&changes.sorted, first);
        (changes.sorted.iter()).for_each(|change| follower.handle(change, first));
        follower.finish(last, changes.awake)
    }

    /// Returns the number of running threads of the thread's group, with the thread itself. At
    /// least 1.
    pub(crate) fn parallelism(&self, pid: i32, tid: i32, time: u64) -> u32 {
        let group = self.groups.get(&pid);
        let Some(steps) = group.and_then(|group| self.running.get(*group)) else {
            return 1;
        };
        let until = steps.partition_point(|step| step.time <= time);
        let running = until.checked_sub(1).map_or(0, |at| steps[at].running);
        // A sample proves that its thread runs, even if a record was lost or late.
        let own = u32::from(self.is_waiting(tid, time));
        running.saturating_add(own).max(1)
    }

    fn is_waiting(&self, tid: i32, time: u64) -> bool {
        let Some(waits) = self.waits.get(&tid) else {
            return false;
        };
        let until = waits.partition_point(|wait| wait.start <= time);
        until > 0 && time < waits[until - 1].end
    }

    /// Returns the latency in nanoseconds of a wait that ended at `end`. A sample may sum several
    /// waits: its `length` covers the thread's last waiting time before `end`. `is_awake` is true
    /// for a wait for a CPU after a wakeup, which was recorded with the wait before it.
    pub(crate) fn latency_of_wait(&self, tid: i32, end: u64, length: u64, is_awake: bool) -> u64 {
        let Some(waits) = self.waits.get(&tid) else {
            return 0;
        };
        let length_until = |time: u64| {
            let until = waits.partition_point(|wait| wait.start < time);
            until.checked_sub(1).map_or(0, |at| {
                let wait = &waits[at];
                wait.length_before + time.min(wait.end).saturating_sub(wait.start)
            })
        };
        let latency_at = |length: u64| {
            let until = waits.partition_point(|wait| wait.length_before <= length);
            until.checked_sub(1).map_or(0, |at| {
                let wait = &waits[at];
                wait.latency_until(wait.start.saturating_add(length - wait.length_before))
            })
        };
        let after = match is_awake {
            true => 0,
            false => self.awake.get(&(tid, end)).copied().unwrap_or(0),
        };
        let to = length_until(end).saturating_sub(after);
        latency_at(to).saturating_sub(latency_at(to.saturating_sub(length)))
    }
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    group: usize,
    /// Start of the current wait; `None` while it runs.
    waits_since: Option<u64>,
}

#[derive(Debug, Default)]
struct Group {
    running: u32,
    steps: Vec<Step>,
    /// Time since which no thread runs.
    standstill: Option<u64>,
}

impl Group {
    fn change(&mut self, time: u64, by: i32) {
        self.running = self.running.saturating_add_signed(by);
        let running = self.running;
        match self.steps.last_mut() {
            Some(last) if last.time == time => last.running = running,
            Some(last) if last.running == running => {}
            _ => self.steps.push(Step { time, running }),
        }
        match running {
            0 => {
                self.standstill.get_or_insert(time);
            }
            _ => self.standstill = None,
        }
    }
}

#[derive(Debug, Default)]
struct Follower {
    /// Ended threads, whose late records do not count.
    ended: FxHashSet<i32>,
    threads: FxHashMap<i32, Thread>,
    group_of: FxHashMap<i32, usize>,
    groups: Vec<Group>,
    waits: FxHashMap<i32, Vec<Wait>>,
}

impl Follower {
    /// Puts each process into its parent's group, if the recording shows its birth.
    fn group_processes(&mut self, changes: &[Change]) {
        for change in changes {
            if let Kind::Born { parent_pid } = change.kind
                && parent_pid != change.pid
            {
                let group = self.group(parent_pid);
                self.group_of.insert(change.pid, group);
            }
        }
    }

    fn group(&mut self, pid: i32) -> usize {
        let groups = &mut self.groups;
        *self.group_of.entry(pid).or_insert_with(|| {
            groups.push(Group::default());
            groups.len() - 1
        })
    }

    /// Sets the state of threads before their first change: they ran until a switch out or an end,
    /// and waited for a switch in.
    fn begin(&mut self, changes: &[Change], first: u64) {
        let mut seen: FxHashSet<i32> = FxHashSet::default();
        for change in changes {
            if change.kind == Kind::Found || !seen.insert(change.tid) {
                continue;
            }
            match change.kind {
                Kind::In => self.begin_wait(change.pid, change.tid, first),
                Kind::Out | Kind::Ended => self.run(change.pid, change.tid, first),
                Kind::Born { .. } | Kind::Found => {}
            }
        }
    }

    fn begin_wait(&mut self, pid: i32, tid: i32, time: u64) {
        let group = self.group(pid);
        let thread = Thread {
            group,
            waits_since: Some(time),
        };
        match self.threads.insert(tid, thread) {
            Some(Thread {
                group,
                waits_since: None,
            }) => self.groups[group].change(time, -1),
            // Lost records: the earlier wait continues.
            Some(Thread {
                group,
                waits_since: Some(since),
            }) => {
                let waits_since = Some(since);
                self.threads.insert(tid, Thread { group, waits_since });
            }
            // A process that starts with a wait stands still from then on.
            None => self.groups[group].change(time, 0),
        }
    }

    fn run(&mut self, pid: i32, tid: i32, time: u64) {
        let group = match self.threads.get(&tid) {
            Some(Thread {
                waits_since: None, ..
            }) => return,
            Some(thread) => thread.group,
            None => self.group(pid),
        };
        let running = Thread {
            group,
            waits_since: None,
        };
        let before = self.threads.insert(tid, running);
        if let Some(since) = before.and_then(|thread| thread.waits_since) {
            // The thread that ends a standstill was on the way of its group.
            let standstill = self.groups[group].standstill;
            let from = standstill.map_or(time, |from| from.max(since));
            self.end_wait(tid, since, time, (from, 1));
        }
        self.groups[group].change(time, 1);
    }

    fn end_wait(&mut self, tid: i32, start: u64, end: u64, (from, sharing): (u64, u32)) {
        if start >= end {
            return;
        }
        let waits = self.waits.entry(tid).or_default();
        let (length_before, latency_before) = waits.last().map_or((0, 0), |last| {
            let length = last.length_before + (last.end - last.start);
            (length, last.latency_until(last.end))
        });
        waits.push(Wait {
            start,
            end,
            length_before,
            on_the_way_from: from.min(end),
            sharing,
            latency_before,
        });
    }

    fn handle(&mut self, change: &Change, first: u64) {
        let Change {
            time,
            pid,
            tid,
            kind,
        } = *change;
        let time = time.max(first);
        match kind {
            Kind::Found => {
                if !self.threads.contains_key(&tid) {
                    self.begin_wait(pid, tid, time);
                }
            }
            Kind::Born { .. } => {
                self.end(tid, time);
                self.ended.remove(&tid);
                self.begin_wait(pid, tid, time);
            }
            Kind::In | Kind::Out if self.ended.contains(&tid) => {}
            Kind::In => self.run(pid, tid, time),
            Kind::Out => self.begin_wait(pid, tid, time),
            Kind::Ended => {
                self.end(tid, time);
                self.ended.insert(tid);
            }
        }
    }

    fn end(&mut self, tid: i32, time: u64) {
        match self.threads.remove(&tid) {
            Some(Thread {
                group,
                waits_since: None,
            }) => self.groups[group].change(time, -1),
            Some(Thread {
                waits_since: Some(since),
                ..
            }) => self.end_wait(tid, since, time, (time, 1)),
            None => {}
        }
    }

    fn finish(mut self, last: u64, awake: FxHashMap<(i32, u64), u64>) -> Timelines {
        // All waits share a last standstill: nothing shows which would have ended it.
        let mut sharing = vec![0u32; self.groups.len()];
        for thread in self.threads.values() {
            sharing[thread.group] += u32::from(thread.waits_since.is_some());
        }
        let threads = std::mem::take(&mut self.threads);
        for (tid, thread) in threads {
            let Some(since) = thread.waits_since else {
                continue;
            };
            let standstill = self.groups[thread.group].standstill;
            let from = standstill.map_or(last, |from| from.max(since));
            self.end_wait(tid, since, last, (from, sharing[thread.group]));
        }
        Timelines {
            groups: self.group_of,
            running: self.groups.into_iter().map(|group| group.steps).collect(),
            waits: self.waits,
            awake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes changes `(time, tid, kind)`. Threads 1 to 9 are process 1, thread 10 is process 10.
    fn timelines(changes: &[(u64, i32, Kind)], last: u64) -> Timelines {
        let sorted: Vec<Change> = (changes.iter())
            .map(|(time, tid, kind)| Change {
                time: *time,
                pid: if *tid < 10 { 1 } else { *tid },
                tid: *tid,
                kind: *kind,
            })
            .collect();
        let first = sorted.first().map_or(0, |change| change.time);
        Timelines::from_changes(Changes {
            sorted,
            time: Some((first, last)),
            awake: FxHashMap::default(),
        })
    }

    const BORN: Kind = Kind::Born { parent_pid: 1 };

    #[test]
    fn running_threads_are_counted_by_process_group() {
        let found = timelines(
            &[
                (100, 1, Kind::In),
                (110, 2, BORN),
                (120, 2, Kind::In),
                (125, 10, BORN),
                (130, 10, Kind::In),
                (132, 20, Kind::In),
                (140, 1, Kind::Out),
                (150, 2, Kind::Ended),
                (160, 10, Kind::Ended),
            ],
            200,
        );
        let running = |time| found.parallelism(1, 1, time);
        let expected = [(105, 1), (119, 1), (120, 2), (131, 3), (135, 3)];
        for (time, threads) in expected {
            assert_eq!(running(time), threads, "{time}");
        }
        assert_eq!(running(145), 3);
        assert_eq!(found.parallelism(1, 2, 145), 2);
        assert_eq!(found.parallelism(10, 10, 155), 1);
        assert_eq!(found.parallelism(20, 20, 135), 1);
        assert_eq!(found.parallelism(7, 7, 135), 1);
        assert_eq!(found.parallelism(1, 1, 0), 1);
    }

    #[test]
    fn first_record_of_a_thread_shows_its_earlier_state() {
        let found = timelines(
            &[
                (100, 3, Kind::Found),
                (150, 1, Kind::Out),
                (160, 2, Kind::In),
            ],
            200,
        );
        assert_eq!(found.parallelism(1, 1, 120), 1);
        assert_eq!(found.parallelism(1, 2, 120), 2);
        assert_eq!(found.parallelism(1, 3, 120), 2);
    }

    #[test]
    fn standstill_belongs_to_the_wait_that_ends_it() {
        let found = timelines(
            &[
                (100, 1, Kind::In),
                (100, 2, Kind::In),
                (110, 1, Kind::Out),
                (120, 2, Kind::Out),
                (150, 2, Kind::In),
                (160, 1, Kind::In),
                (170, 1, Kind::Out),
                (180, 2, Kind::Out),
            ],
            200,
        );
        let latency = |tid, end, length| found.latency_of_wait(tid, end, length, false);
        // Nothing ran from 120 to 150. Thread 2 ended that, thread 1 woke later.
        assert_eq!(latency(2, 150, 30), 30);
        assert_eq!(latency(1, 160, 50), 0);
        assert_eq!(latency(2, 150, 10), 10);
        assert_eq!(latency(2, 140, 20), 20);
        assert_eq!(latency(1, 200, 30) + latency(2, 200, 20), 20);
        assert_eq!(latency(2, 200, 20), 10);
        assert_eq!(latency(2, 200, 50), 40);
        assert_eq!(latency(9, 200, 50), 0);
    }

    #[test]
    fn wait_for_a_cpu_after_a_wakeup_follows_the_wait_before_it() {
        let mut found = timelines(
            &[(100, 1, Kind::In), (110, 1, Kind::Out), (150, 1, Kind::In)],
            200,
        );
        found.awake.insert((1, 150), 15);
        assert_eq!(found.latency_of_wait(1, 150, 15, true), 15);
        assert_eq!(found.latency_of_wait(1, 150, 25, false), 25);
        assert_eq!(found.latency_of_wait(1, 150, 40, true), 40);
    }

    #[test]
    fn repeated_and_missing_records_change_no_count_twice() {
        let found = timelines(
            &[
                (100, 1, Kind::In),
                (105, 1, Kind::In),
                (110, 1, Kind::Out),
                (115, 1, Kind::Out),
                (120, 1, Kind::In),
                (130, 1, Kind::Ended),
                (131, 1, Kind::Ended),
                (140, 1, BORN),
                (150, 1, Kind::In),
            ],
            160,
        );
        assert_eq!(found.parallelism(1, 1, 107), 1);
        assert_eq!(found.parallelism(1, 1, 155), 1);
        assert_eq!(found.latency_of_wait(1, 120, 10, false), 10);
        assert_eq!(found.latency_of_wait(1, 150, 10, false), 10);
    }
}
