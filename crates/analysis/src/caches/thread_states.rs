//! Thread state cache: an id for each (thread, mapping state, name, JIT epoch).
//!
//! Within one thread state, addresses resolve alike and samples group alike.

use std::ops::AddAssign;

use rprof_processes::{MapState, Moment, Pid, SpaceId, Tid, Timeline};
use rustc_hash::FxHashMap;

use crate::jit::Runtimes;

/// Number of slots; a power of two.
const SLOTS: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct StateKey {
    user: Option<MapState>,
    kernel: MapState,
    comm: Option<u32>,
    /// See [`Runtimes::epoch`].
    jit_epoch: u64,
    /// Locations in anonymous memory differ by process.
    pid: Pid,
    tid: Tid,
}

#[derive(Clone, Copy)]
struct Slot {
    pid: Pid,
    tid: Tid,
    moment: Moment,
    jit_epoch: u64,
    id: u32,
}

impl Slot {
    fn is_vacant(&self) -> bool {
        self.moment.since > self.moment.last
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadStateCacheStats {
    pub(crate) hits: u64,
    /// Misses in an empty slot.
    pub(crate) vacant: u64,
    pub(crate) other_thread: u64,
    /// Misses outside the span of constant mappings and thread name.
    pub(crate) other_span: u64,
    pub(crate) other_jit_epoch: u64,
}

impl AddAssign for ThreadStateCacheStats {
    fn add_assign(&mut self, other: ThreadStateCacheStats) {
        self.hits += other.hits;
        self.vacant += other.vacant;
        self.other_thread += other.other_thread;
        self.other_span += other.other_span;
        self.other_jit_epoch += other.other_jit_epoch;
    }
}

/// Ids of thread states. A direct-mapped cache holds each thread's latest one.
pub(crate) struct ThreadStateCache {
    slots: Box<[Slot]>,
    ids: FxHashMap<StateKey, u32>,
    by_thread: bool,
    stats: ThreadStateCacheStats,
}

impl ThreadStateCache {
    /// Creates an empty cache. `by_thread` separates threads of one process and name.
    pub(crate) fn new(by_thread: bool) -> ThreadStateCache {
        let vacant = Slot {
            pid: Pid(0),
            tid: Tid(0),
            moment: Moment {
                space: None,
                user: None,
                kernel: MapState {
                    space: SpaceId::KERNEL,
                    epoch: 0,
                },
                comm: None,
                since: u64::MAX,
                last: 0,
            },
            jit_epoch: 0,
            id: 0,
        };
        ThreadStateCache {
            slots: vec![vacant; SLOTS].into(),
            ids: FxHashMap::default(),
            by_thread,
            stats: ThreadStateCacheStats::default(),
        }
    }

    /// Returns the id of a thread's state at a time. Thread 0, the idle task, has no name.
    #[inline]
    pub(crate) fn state_at(
        &mut self,
        timeline: &Timeline,
        runtimes: &Runtimes<'_>,
        pid: Pid,
        tid: Tid,
        time: u64,
    ) -> (u32, Moment) {
        let jit_epoch = runtimes.epoch(pid.0, time);
        self.get(pid, tid, time, jit_epoch, || {
            timeline.moment(pid, tid, time)
        })
    }

    /// Returns the state in the thread's slot. Calls `moment` on a miss.
    #[inline]
    fn get(
        &mut self,
        pid: Pid,
        tid: Tid,
        time: u64,
        jit_epoch: u64,
        moment: impl FnOnce() -> Moment,
    ) -> (u32, Moment) {
        let slot = &mut self.slots[tid.0.cast_unsigned() as usize % SLOTS];
        let is_in_span = (slot.moment.since..=slot.moment.last).contains(&time);
        if is_in_span && jit_epoch == slot.jit_epoch && (slot.pid, slot.tid) == (pid, tid) {
            self.stats.hits += 1;
        } else {
            match () {
                () if slot.is_vacant() => self.stats.vacant += 1,
                () if (slot.pid, slot.tid) != (pid, tid) => self.stats.other_thread += 1,
                () if !is_in_span => self.stats.other_span += 1,
                () => self.stats.other_jit_epoch += 1,
            }
            let mut moment = moment();
            // Thread 0 is the idle task of its CPU, in any process.
            moment.comm = moment.comm.filter(|_| tid.0 != 0);
            let key = StateKey {
                user: moment.user,
                kernel: moment.kernel,
                comm: moment.comm.map(|c| c.0),
                jit_epoch,
                pid,
                // The id represents a thread without a name.
                tid: match self.by_thread || moment.comm.is_none() {
                    true => tid,
                    false => Tid(0),
                },
            };
            let next = self.ids.len() as u32;
            *slot = Slot {
                pid,
                tid,
                moment,
                jit_epoch,
                id: *self.ids.entry(key).or_insert(next),
            };
        }
        (slot.id, slot.moment)
    }

    pub(crate) fn stats(&self) -> ThreadStateCacheStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use rprof_processes::CommId;

    use super::*;

    fn moment(since: u64, last: u64) -> Moment {
        Moment {
            space: None,
            user: None,
            kernel: MapState {
                space: SpaceId::KERNEL,
                epoch: 0,
            },
            comm: Some(CommId(1)),
            since,
            last,
        }
    }

    #[test]
    fn each_miss_is_counted_by_its_reason() {
        let mut cache = ThreadStateCache::new(true);
        let mut get = |tid, time, jit_epoch, span: (u64, u64)| {
            cache
                .get(Pid(1), Tid(tid), time, jit_epoch, || moment(span.0, span.1))
                .0
        };
        let first = get(5, 10, 0, (0, 19));
        assert_eq!(get(5, 19, 0, (0, 0)), first);
        assert_eq!(get(5, 20, 0, (20, 29)), first);
        assert_ne!(get(5, 21, 1, (20, 29)), first);
        assert_ne!(get(5 + SLOTS as i32, 21, 1, (20, 29)), first);
        assert_eq!(get(5, 20, 0, (20, 29)), first);
        let expected = ThreadStateCacheStats {
            hits: 1,
            vacant: 1,
            other_thread: 2,
            other_span: 1,
            other_jit_epoch: 1,
        };
        assert_eq!(cache.stats(), expected);
        let mut sum = expected;
        sum += expected;
        assert_eq!((sum.hits, sum.other_thread), (2, 4));
    }
}
