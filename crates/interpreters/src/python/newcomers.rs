//! [`Newcomers`]: looks at threads that had no sample yet.
//!
//! A server may start a thread for each request. Such a thread ends before a sample could lead to a
//! look at it. So a watcher follows the interpreter's list of threads: from the state of a thread
//! with samples to the states of younger ones. One look at a thread tells its outermost functions,
//! which stay until its end, and so the threads whose places it shares.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rustc_hash::{FxHashMap, FxHashSet};

use super::live::{Look, Track};
use super::looks::{Looks, Origin};
use super::pace::FREQUENT;
use super::parts::Judge;
use super::watch::{Looker, PATIENCE, Proofs, locked};
use crate::{MemoryRead, ProcessMemory, Watcher};

/// Maximum number of younger threads that are followed.
const MAX_STATES: usize = 64;

/// Maximum number of threads without samples that a round looks at, the youngest first.
const MAX_NEWCOMERS: usize = 8;

/// Maximum number of rounds without a look at a thread that rests.
const MAX_PAUSE: u32 = 64;

/// Maximum number of looks that wait for samples. At the limit the oldest is dropped.
const MAX_LOOKS: usize = 256;

/// Maximum number of threads with samples, and of known origins. At the limit all are forgotten.
const MAX_THREADS: usize = 4096;

/// The reader's side.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    shared: Option<Arc<Mutex<Shared>>>,
    /// Thread from which younger ones are found.
    anchor: Option<u64>,
    /// Looks that were taken since the last sample, oldest first.
    arrived: Vec<Look>,
    /// Looks that are later than the last sample, oldest first.
    later: VecDeque<(Look, Origin)>,
    /// Beginning of the stacks of each thread that a look found, by its number.
    origins: FxHashMap<u64, Origin>,
}

#[derive(Debug)]
struct Shared {
    anchor: Option<Arc<Track>>,
    /// Time up to which looks are useful.
    until: u64,
    /// Time before which the next look is not.
    from: u64,
    interval: u64,
    /// Numbers of the threads that have watchers of their own.
    watched: FxHashSet<u64>,
    looks: VecDeque<Look>,
}

/// The watcher's side.
#[derive(Debug)]
struct NewcomersWatcher {
    shared: Arc<Mutex<Shared>>,
    /// States from the anchor's one to the youngest, as of the last round.
    states: Vec<u64>,
    threads: FxHashMap<u64, Newcomer>,
    proofs: Proofs,
}

#[derive(Debug, Default)]
struct Newcomer {
    owner: u64,
    looker: Looker,
    /// Rounds until the next look, and after the next look that finds no change.
    pause: u32,
    next_pause: u32,
}

impl Newcomers {
    /// Continues after a sample of a thread. Its number ends the looks at it. Returns a new watcher if
    /// there was none.
    pub(super) fn handle_sample(
        &mut self,
        (id, owner): (u64, Option<u64>),
        track: &Track,
        (time, interval): (u64, u64),
    ) -> Option<Box<dyn Watcher>> {
        let is_anchor = self.anchor.is_none_or(|anchor| id <= anchor);
        let mut watcher = None;
        let shared = self.shared.get_or_insert_with(|| {
            let shared = Arc::new(Mutex::new(Shared {
                anchor: None,
                until: 0,
                from: 0,
                interval: FREQUENT,
                watched: FxHashSet::default(),
                looks: VecDeque::new(),
            }));
            watcher = Some(NewcomersWatcher {
                shared: Arc::clone(&shared),
                states: Vec::new(),
                threads: FxHashMap::default(),
                proofs: Proofs::default(),
            });
            shared
        });
        let mut shared = locked(shared);
        if is_anchor {
            self.anchor = Some(id);
            shared.anchor = Some(Arc::new(track.clone()));
        }
        if shared.watched.len() >= MAX_THREADS {
            shared.watched.clear();
        }
        shared.watched.extend(owner);
        shared.until = shared.until.max(time.saturating_add(PATIENCE));
        shared.interval = interval;
        self.arrived.extend(shared.looks.drain(..));
        watcher.map(|watcher| Box::new(watcher) as Box<dyn Watcher>)
    }

    /// Returns the proofs of the looks since the last sample, with their times.
    pub(super) fn proofs(&self) -> impl Iterator<Item = (&[MemoryRead], u64)> {
        (self.arrived.iter()).map(|look| (look.proofs.as_slice(), look.proven))
    }

    /// Returns the code objects in the looks since the last sample.
    pub(super) fn codes(&self) -> impl Iterator<Item = u64> {
        let segments = self.arrived.iter().flat_map(|look| &look.segments);
        let frames = segments.flat_map(|segment| &segment.frames);
        frames.map(|frame| frame.code)
    }

    /// Adds the looks before a sample as evidence for callers, and the others against them.
    pub(super) fn observe(&mut self, time: u64, judge: &Judge<'_, '_>, callers: &mut Looks) {
        for look in std::mem::take(&mut self.arrived) {
            let Some(origin) = judge.origin(&look) else {
                continue;
            };
            if self.origins.len() >= MAX_THREADS {
                self.origins.clear();
            }
            self.origins.insert(look.owner, origin);
            if look.is_partial {
                continue;
            }
            if look.time >= time {
                callers.begin(look.owner, Some(origin));
                judge.contradict(&look, callers);
            }
            self.later.push_back((look, origin));
        }
        while let Some((look, origin)) = self.later.pop_front_if(|(look, _)| look.time < time) {
            callers.begin(look.owner, Some(origin));
            judge.observe(&look, false, callers);
        }
        let oldest = self.later.len().saturating_sub(MAX_LOOKS);
        self.later.drain(..oldest);
    }

    /// Returns where the stacks of the thread with this number begin, if a look found it.
    pub(super) fn origin(&self, owner: u64) -> Option<Origin> {
        self.origins.get(&owner).copied()
    }

    /// Forgets a thread that has ended.
    pub(super) fn forget_thread(&mut self, id: u64, owner: u64) {
        self.origins.remove(&owner);
        let Some(shared) = &self.shared else {
            return;
        };
        let mut shared = locked(shared);
        shared.watched.remove(&owner);
        if self.anchor == Some(id) {
            self.anchor = None;
            shared.anchor = None;
        }
    }
}

impl Watcher for NewcomersWatcher {
    fn due(&self) -> Range<u64> {
        let shared = locked(&self.shared);
        let until = shared.anchor.as_ref().map_or(0, |_| shared.until);
        shared.from..until
    }

    fn is_over(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    fn look(&mut self, memory: &mut dyn ProcessMemory) {
        let (anchor, watched) = {
            let shared = locked(&self.shared);
            (shared.anchor.clone(), shared.watched.clone())
        };
        let Some(anchor) = anchor else {
            return;
        };
        let states = anchor.younger(&self.states, MAX_STATES, memory);
        let mut looks = Vec::new();
        let new = states.iter().rev();
        let new = new.filter(|(_, owner)| !watched.contains(owner));
        for (state, owner) in new.take(MAX_NEWCOMERS) {
            let thread = self.threads.entry(*state).or_default();
            if thread.owner != *owner {
                *thread = Newcomer {
                    owner: *owner,
                    ..Newcomer::default()
                };
            }
            let track = anchor.of_state(*state);
            looks.extend(thread.look(&track, &mut self.proofs, memory));
        }
        self.states = states.into_iter().map(|(state, _)| state).collect();
        if self.threads.len() > 2 * MAX_STATES {
            let states = &self.states;
            self.threads.retain(|state, _| states.contains(state));
        }
        let mut shared = locked(&self.shared);
        shared.from = memory.time().saturating_add(shared.interval);
        if memory.is_confirmed() {
            shared.looks.extend(looks);
            let oldest = shared.looks.len().saturating_sub(MAX_LOOKS);
            shared.looks.drain(..oldest);
        }
    }
}

impl Newcomer {
    fn look(
        &mut self,
        track: &Track,
        proofs: &mut Proofs,
        memory: &mut dyn ProcessMemory,
    ) -> Option<Look> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let look = self.looker.look(track, &[], proofs, memory)?;
        self.next_pause = match !look.is_partial && self.looker.is_unchanged() {
            true => (2 * self.next_pause + 1).min(MAX_PAUSE),
            false => 0,
        };
        self.pause = self.next_pause;
        Some(look).filter(|look| look.owner == self.owner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Layout;
    use super::super::watch::tests::{CFRAME, ENTRY, INNER, Process, STATE};
    use super::*;

    const YOUNGER: u64 = STATE + 0x400;
    const NUMBER: u64 = 77;

    #[test]
    fn a_thread_without_samples_is_looked_at() {
        let (mut process, track) = Process::with_thread();
        let layout = Layout::of(12).unwrap();
        // Its native frame is beyond the one of the track.
        let far = 0x10_0000;
        let words = [
            (STATE + layout.younger, YOUNGER),
            (YOUNGER + layout.older, STATE),
            (YOUNGER + layout.thread_id, NUMBER),
            (YOUNGER + layout.thread, CFRAME + far),
            (CFRAME + far, INNER),
            // Frame in the native frame: its owner is the native stack.
            (ENTRY + far + 64, 3 << 48),
        ];
        process.words.extend(words);
        let outer = process.words[&(INNER + 8)];
        process.words.insert(outer + 8, ENTRY + far);
        let mut newcomers = Newcomers::default();
        let mut watcher = newcomers
            .handle_sample((5, Some(5)), &track, (0, 0))
            .unwrap();
        let mut found = |newcomers: &mut Newcomers, process: &mut Process| {
            watcher.look(process);
            assert!(
                newcomers
                    .handle_sample((5, Some(5)), &track, (0, 0))
                    .is_none()
            );
            let looks = std::mem::take(&mut newcomers.arrived);
            let frames = |look: &Look| look.segments.iter().map(|one| one.frames.len()).sum();
            let found = looks.iter().map(|look| (look.owner, frames(look)));
            found.collect::<Vec<(u64, usize)>>()
        };
        assert_eq!(found(&mut newcomers, &mut process), [(NUMBER, 2)]);
        // Another thread begins there.
        process.words.insert(YOUNGER + layout.thread_id, NUMBER + 1);
        assert_eq!(found(&mut newcomers, &mut process), [(NUMBER + 1, 2)]);
        // A list that changes is not followed.
        process.words.insert(YOUNGER + layout.older, 0);
        assert_eq!(found(&mut newcomers, &mut process), []);
        process.words.insert(YOUNGER + layout.older, STATE);
        process.words.insert(YOUNGER + layout.thread_id, NUMBER + 2);
        newcomers.handle_sample((NUMBER + 2, Some(NUMBER + 2)), &track, (0, 0));
        assert_eq!(found(&mut newcomers, &mut process), [], "has a watcher");
        newcomers.forget_thread(NUMBER + 2, NUMBER + 2);
        assert_eq!(found(&mut newcomers, &mut process), [(NUMBER + 2, 2)]);
        newcomers.forget_thread(5, 5);
        assert!(watcher.due().is_empty(), "no thread leads to others");
    }
}
