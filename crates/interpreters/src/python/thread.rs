//! [`Thread`]: looks and learned locations of one thread.

use std::collections::VecDeque;

use super::current::{Finder, LearnedFrames};
use super::layout::{FrameKind, Layout};
use super::live::{Look, Track};
use super::looks::Origin;
use super::slots::Location;
use super::watch::Watch;
use crate::{ProcessMemory, Watcher};

/// Maximum number of searches for the thread state.
const MAX_SEARCHES: u32 = 512;

/// Maximum number of looks without result in a row.
const MAX_FAILED: u32 = 32;

/// Nanoseconds after a look until samples have looks of their own. Looks at a thread whose functions
/// change come more often.
const WATCHED: u64 = 25_000_000;

/// Knowledge of one thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Beginning of the stacks of the thread. `None` until a look has found four frames.
    pub(super) origin: Option<Origin>,
    /// Address of the thread state, once found.
    state: Option<u64>,
    /// Number of searches for it.
    searches: u32,
    /// Last look.
    pub(super) look: Look,
    /// Looks between samples, once the state is known.
    watch: Option<Watch>,
    /// Looks of the watch that are later than the last sample, oldest first.
    pub(super) later: VecDeque<Look>,
    /// Time of the last look between samples.
    watched: u64,
    /// Number of looks without result in a row.
    failed: u32,
    /// Number of the thread in its thread state, once looks before a sample have told it.
    owner: Option<u64>,
    /// Number of the thread as the process sees it.
    number: Option<u64>,
}

impl Thread {
    /// Has looks taken for a sample at this time, at an interval in nanoseconds, with proofs of
    /// these code objects. Returns a new watcher.
    pub(super) fn watch(
        &mut self,
        track: &Track,
        time: u64,
        (interval, codes): (u64, &[u64]),
    ) -> Option<Box<dyn Watcher>> {
        match &self.watch {
            Some(watch) => {
                watch.handle_sample(track.clone(), time, interval, codes);
                None
            }
            None => {
                let (watch, watcher) = Watch::new(track.clone(), time);
                self.watch = Some(watch);
                Some(watcher)
            }
        }
    }

    /// Returns the looks that were taken since the last sample and before this one. The first one
    /// since this one becomes the current look; then the second value is true. Looks at
    /// another thread do not count.
    pub(super) fn take_looks(&mut self, time: u64) -> (Vec<Look>, bool) {
        let Some(watch) = &self.watch else {
            return (Vec::new(), false);
        };
        watch.take(&mut self.later);
        if self.look.time >= time {
            return (Vec::new(), false);
        }
        let earlier = self.later.partition_point(|look| look.time < time);
        let mut earlier: Vec<Look> = self.later.drain(..earlier).collect();
        self.learn_owner(&earlier);
        let owner = self.owner();
        earlier.retain(|look| look.owner == owner);
        if self.owner.is_some() {
            self.later.retain(|look| look.owner == owner);
        }
        let is_own = (self.later.front()).is_some_and(|look| look.owner == owner);
        let next = is_own.then(|| self.later.pop_front()).flatten();
        self.watched = earlier.last().map_or(self.watched, |look| look.time);
        let is_new = next.is_some();
        if let Some(next) = next {
            if self.number == Some(next.owner) {
                self.owner = self.number;
            }
            self.watched = next.time;
            self.look = next;
        } else if self.is_watched(time) {
            // The next sample may have one.
            self.look = Look::default();
        }
        (earlier, is_new)
    }

    /// Learns which number the thread state has for this thread. Looks before a sample are of the
    /// thread itself. Later ones are not if it has ended meanwhile: the next thread gets its thread
    /// state and its native stack.
    fn learn_owner(&mut self, earlier: &[Look]) {
        let number = self.number.unwrap_or(0);
        let has_own = |look: &&Look| look.owner == number;
        let own = earlier.iter().find(has_own).or(earlier.last());
        if let Some(own) = own.filter(|own| self.owner.is_none() || own.owner == number) {
            self.owner = Some(own.owner);
        }
    }

    /// Returns the number that the thread state of this thread has.
    pub(super) fn owner(&self) -> u64 {
        self.owner.or(self.number).unwrap_or(0)
    }

    /// Asks for the number of this thread once.
    pub(super) fn set_number(&mut self, id: u64, memory: &mut dyn ProcessMemory) {
        self.number.get_or_insert_with(|| memory.number_inside(id));
    }

    /// Returns true if the thread was watched shortly before a time.
    pub(super) const fn is_watched(&self, time: u64) -> bool {
        time.saturating_sub(self.watched) < WATCHED
    }

    /// Forgets a thread state after many looks without result: it was another object.
    pub(super) fn check_state(&mut self) {
        self.failed = match self.look.segments.is_empty() {
            true => self.failed + 1,
            false => 0,
        };
        if self.failed >= MAX_FAILED {
            (self.state, self.failed, self.watch) = (None, 0, None);
            self.later.clear();
        }
    }
}

/// Returns the thread's position, once its state is known. Before 3.11 each native frame has its
/// own frame object, and there is nothing to follow.
pub(super) fn track(
    layout: &Layout,
    finder: &Finder<'_, '_>,
    learned: &LearnedFrames,
    thread: &mut Thread,
    memory: &mut dyn ProcessMemory,
) -> Option<Track> {
    let inner = finder.evals.first()?;
    let cframe = learned.cframe_of(inner);
    let below = match layout.kind {
        FrameKind::Objects => return None,
        FrameKind::CFrames { .. } => inner.cfa.checked_sub(cframe?)?,
        FrameKind::Entries => match learned.entry.everywhere()? {
            Location::Slot(below) => below,
            Location::Register(_) => return None,
        },
    };
    if thread.state.is_none() && thread.searches < MAX_SEARCHES {
        thread.searches += 1;
        thread.state = match cframe {
            Some(cframe) => finder.thread_state(cframe, memory),
            None => finder.thread_state_of_entries(below, memory),
        };
    }
    Track::new(layout, thread.state?, below, finder.evals)
}

/// Learns where an entry of the interpreter keeps its frame, if a look shows the innermost one.
pub(super) fn learn_entry(finder: &Finder<'_, '_>, look: &Look, learned: &mut LearnedFrames) {
    if finder.layout.kind == FrameKind::Entries
        && let Some(segment) = look.segments.first()
        && finder.evals.first().map(|eval| eval.cfa) == Some(segment.part.native)
        && let Some(frame) = segment.frames.first()
    {
        finder.learn_seen(frame.address, learned);
    }
}

#[cfg(test)]
mod tests {
    use super::super::watch::tests::{Process, STATE};
    use super::*;

    #[test]
    fn looks_at_the_next_thread_with_the_thread_state_do_not_count() {
        let (mut process, track) = Process::with_thread();
        let number = STATE + track.layout.thread_id;
        let mut thread = Thread::default();
        thread.set_number(5, &mut process);
        let mut watcher = thread.watch(&track, 10, (0, &[])).unwrap();
        let mut look = |process: &mut Process, owner: u64, time: u64| {
            process.words.insert(number, owner);
            process.time = time;
            watcher.look(process);
        };
        look(&mut process, 5, 11);
        assert!(thread.take_looks(10).1, "its own");
        look(&mut process, 6, 21);
        let (earlier, is_new) = thread.take_looks(20);
        assert!(earlier.is_empty() && !is_new, "of the next thread");
        assert!(thread.take_looks(30).0.is_empty());
    }

    #[test]
    fn looks_before_a_sample_tell_an_unexpected_number() {
        let (mut process, track) = Process::with_thread();
        // As after a fork without the interpreter's knowledge.
        process.words.insert(STATE + track.layout.thread_id, 9);
        let mut thread = Thread::default();
        thread.set_number(5, &mut process);
        let mut watcher = thread.watch(&track, 10, (0, &[])).unwrap();
        process.time = 11;
        watcher.look(&mut process);
        assert!(!thread.take_looks(10).1, "it may have ended");
        let (earlier, _) = thread.take_looks(20);
        assert_eq!((earlier.len(), thread.owner()), (1, 9));
    }
}
