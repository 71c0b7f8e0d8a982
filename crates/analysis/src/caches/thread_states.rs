//! Threads by number, each for as long as nothing about it changes.

use rprof_processes::{MapState, Moment, Pid, SpaceId, Tid, Timeline};
use rustc_hash::FxHashMap;

use crate::jit::Runtimes;

/// Threads that are kept at hand; a power of two.
const SLOTS: usize = 256;

/// What decides what the addresses of a thread's samples mean, and where they are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    user: Option<MapState>,
    kernel: MapState,
    comm: Option<u32>,
    /// What its runtime had told by then.
    made: u64,
    /// Anonymous memory is told apart by process.
    pid: Pid,
    tid: Tid,
}

#[derive(Clone, Copy)]
struct Slot {
    pid: Pid,
    tid: Tid,
    moment: Moment,
    made: u64,
    number: u32,
}

/// Ids of threads in spans of time in which nothing about them changes: neither their
/// mappings, nor their name.
pub(crate) struct ThreadStateCache {
    slots: Box<[Slot]>,
    numbers: FxHashMap<Key, u32>,
    /// Whether threads of the same name are told apart.
    apart: bool,
}

impl ThreadStateCache {
    /// With `apart`, threads of the same process and name have numbers of their own.
    pub(crate) fn new(apart: bool) -> ThreadStateCache {
        let empty = Slot {
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
                // Holds at no time.
                since: u64::MAX,
                last: 0,
            },
            made: 0,
            number: 0,
        };
        ThreadStateCache {
            slots: vec![empty; SLOTS].into(),
            numbers: FxHashMap::default(),
            apart,
        }
    }

    /// The number of a thread at a time, and what is known of it.
    /// That of thread 0, the idle task, has no name.
    #[inline]
    pub(crate) fn at(
        &mut self,
        timeline: &Timeline,
        runtimes: &Runtimes<'_>,
        pid: Pid,
        tid: Tid,
        time: u64,
    ) -> (u32, Moment) {
        let slot = &mut self.slots[tid.0.cast_unsigned() as usize % SLOTS];
        let made = runtimes.epoch(pid.0, time);
        let holds = made == slot.made && (slot.moment.since..=slot.moment.last).contains(&time);
        if !holds || (slot.pid, slot.tid) != (pid, tid) {
            let mut moment = timeline.moment(pid, tid, time);
            // Thread 0 is the idle task, whichever process the sample names.
            moment.comm = moment.comm.filter(|_| tid.0 != 0);
            let key = Key {
                user: moment.user,
                kernel: moment.kernel,
                comm: moment.comm.map(|c| c.0),
                made,
                pid,
                // A thread without a name is called by its number.
                tid: match self.apart || moment.comm.is_none() {
                    true => tid,
                    false => Tid(0),
                },
            };
            let next = self.numbers.len() as u32;
            *slot = Slot {
                pid,
                tid,
                moment,
                made,
                number: *self.numbers.entry(key).or_insert(next),
            };
        }
        (slot.number, slot.moment)
    }
}
