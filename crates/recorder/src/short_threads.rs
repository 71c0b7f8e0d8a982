//! [`ShortThreads`]: samples of threads and processes that end within a sampling period.
//!
//! The kernel begins a period anew for each thread, so the end of each has no sample, and a thread
//! shorter than a period has none. While that is much of the CPU time, the threads that start the
//! others get a second event with a shorter period. What they start inherits it. A sample stands for
//! the CPU time since the one before, so an ordinary sample that finer ones cover is dropped:
//!
//! ```text
//!   thread       |------------------------------------|
//!   ordinary     |---------------x---------------x----     x: a sample, the rest of the last period
//!   finer        |---x---x---x---x---x---x---x---x---x        has none
//! ```

use std::time::{Duration, Instant};

use rprof_records::{Endian, ProcessEvent, RecordType, SampleLayout, SampleType};
use rprof_sampler::{EventIds, FinerEvents, FinerSampling, Role, Session, Stream};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cpu_time;
use crate::pipeline::merge::Released;

/// Minimum time between two looks at the missing CPU time.
const LOOK: Duration = Duration::from_millis(30);

/// Minimum number of threads that ended between two looks.
const MIN_ENDED: u32 = 8;

/// Minimum missing part of the CPU time, as its denominator.
const MUCH_MISSING: u32 = 5;

/// Minimum number of missing periods.
const MIN_PERIODS: u32 = 8;

/// Finest part of an ordinary period, as its denominator.
const FINEST: u32 = 16;

/// Shortest period: the kernel allows 10 us, and a sample takes some.
const SHORTEST: Duration = Duration::from_micros(50);

/// Maximum number of threads with a second event of their own.
const MAX_STARTERS: usize = 8;

/// A thread with this many ordinary periods of finer samples is not short.
const LONG: u32 = 8;

/// Successive looks with finer samples of long threads, almost only, until the second events end.
const MAX_USELESS: u32 = 8;

/// First pause after second events were useless or too much; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// Finds out that much CPU time is missing, and samples short threads more often.
#[derive(Debug)]
pub(crate) struct ShortThreads {
    sampling: FinerSampling,
    layout: SampleLayout,
    /// Ids of the sampled event.
    ids: FxHashSet<u64>,
    period: Duration,
    finer: Vec<FinerEvents>,
    /// Living threads that have or inherited a second event.
    covered: FxHashSet<i32>,
    /// Threads with finer samples.
    threads: FxHashMap<i32, Finer>,
    /// CPU time that the kept samples stand for.
    sampled: Duration,
    seen: Look,
    counted: Duration,
    missing: Duration,
    /// Time of the last look, or the end of a pause.
    looked: Instant,
    useless: u32,
    pause: Duration,
}

/// Finer samples of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Finer {
    all: Duration,
    since_ordinary: Duration,
}

/// Counts since the last look.
#[derive(Debug, Default)]
struct Look {
    ended: u32,
    /// The ring was full.
    has_lost: bool,
    started_by: FxHashMap<i32, u32>,
    finer: Duration,
    of_long: Duration,
}

impl ShortThreads {
    /// Returns `None` unless the session samples the CPU time of threads and of those that they
    /// start, at a frequency.
    pub(crate) fn of(session: &Session) -> Option<ShortThreads> {
        let mut events = session.events().iter();
        let event = events.find(|event| event.role == Role::Samples)?;
        let period = cpu_time::period_of_clock(&event.attr)?;
        let sampling = session.finer_sampling().filter(|_| period > SHORTEST * 2)?;
        Some(ShortThreads {
            sampling,
            layout: EventIds::layout(session.events(), Role::Samples),
            ids: event.ids.iter().copied().collect(),
            period,
            finer: Vec::new(),
            covered: FxHashSet::default(),
            threads: FxHashMap::default(),
            sampled: Duration::ZERO,
            seen: Look::default(),
            counted: Duration::ZERO,
            missing: Duration::ZERO,
            looked: Instant::now(),
            useless: 0,
            pause: PAUSE,
        })
    }

    /// Returns the CPU time that the samples stand for, without lost ones.
    pub(crate) fn sampled(&self) -> Duration {
        self.sampled
    }

    /// Returns false for an ordinary sample that finer ones cover.
    pub(crate) fn accepts(&mut self, record: &Released<'_>) -> bool {
        if record.stream == Stream::Samples {
            let kind = record.raw().map(|raw| raw.kind);
            self.seen.has_lost |= kind == Some(RecordType::LOST);
        }
        let Some((tid, period)) = self.sample(record) else {
            return true;
        };
        let accepts = self.accepts_sample(tid, period);
        if accepts {
            self.sampled += period;
        }
        accepts
    }

    fn accepts_sample(&mut self, tid: i32, period: Duration) -> bool {
        if period < self.period {
            let finer = self.threads.entry(tid).or_default();
            finer.all += period;
            finer.since_ordinary += period;
            self.seen.finer += period;
            if finer.all > self.period * LONG {
                self.seen.of_long += period;
            }
            return true;
        }
        match self.threads.get_mut(&tid) {
            Some(finer) => std::mem::take(&mut finer.since_ordinary) < self.period / 2,
            None => true,
        }
    }

    /// Returns the thread and the period of a sample of CPU time.
    fn sample(&self, record: &Released<'_>) -> Option<(i32, Duration)> {
        if record.stream != Stream::Samples {
            return None;
        }
        let raw = record.raw()?;
        if raw.kind != RecordType::SAMPLE {
            return None;
        }
        let word = |at: usize| raw.body.u64(at, Endian::NATIVE);
        let id = word(self.layout.sample_id_offset()?)?;
        if !self.ids.contains(&id) {
            return None;
        }
        let thread = self.layout.fixed_offset(SampleType::TID)? + 4;
        let period = word(self.layout.fixed_offset(SampleType::PERIOD)?)?;
        let tid = raw.body.u32(thread, Endian::NATIVE)?.cast_signed();
        Some((tid, Duration::from_nanos(period)))
    }

    /// Follows the start and the end of threads.
    pub(crate) fn handle(&mut self, event: &ProcessEvent<'_>) {
        match event {
            ProcessEvent::Forked {
                tid, parent_tid, ..
            } => {
                *self.seen.started_by.entry(*parent_tid).or_default() += 1;
                if self.covered.contains(parent_tid) {
                    self.covered.insert(*tid);
                }
            }
            ProcessEvent::Ended { tid, .. } => {
                self.seen.ended += 1;
                self.covered.remove(tid);
                self.threads.remove(tid);
            }
            _ => {}
        }
    }

    /// Compares the counted with the sampled CPU time, now and then, and begins or ends second
    /// events.
    pub(crate) fn look(&mut self) {
        let is_idle = self.seen.ended == 0 && self.finer.is_empty();
        if is_idle || self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let seen = std::mem::take(&mut self.seen);
        // Samples arrive later than counts.
        let counted = std::mem::replace(&mut self.counted, self.sampling.counted());
        let missing = counted.saturating_sub(self.sampled);
        let grown = missing.saturating_sub(std::mem::replace(&mut self.missing, missing));
        let ran = self.counted.saturating_sub(counted);
        if self.ends(&seen) || seen.has_lost {
            return;
        }
        // No thread loses more than a period on each CPU, and most run on one.
        let grown = grown.min(self.period * seen.ended);
        if seen.ended >= MIN_ENDED
            && grown * MUCH_MISSING >= ran
            && grown >= self.period * MIN_PERIODS
        {
            self.begin(&seen, grown / seen.ended / 4);
        }
    }

    fn begin(&mut self, seen: &Look, period: Duration) {
        let period = period.clamp(SHORTEST.max(self.period / FINEST), self.period / 2);
        let mut starters: Vec<_> = (seen.started_by.iter())
            .filter(|(tid, _)| !self.covered.contains(tid))
            .map(|(tid, started)| (*started, *tid))
            .filter(|(started, _)| *started * 8 >= seen.ended)
            .collect();
        starters.sort_unstable();
        for (_, tid) in starters.into_iter().rev() {
            if self.finer.len() == MAX_STARTERS {
                break;
            }
            // Most errors are threads that have ended.
            if let Ok(events) = self.sampling.begin(tid.cast_unsigned(), period) {
                self.finer.push(events);
                self.covered.insert(tid);
            }
        }
    }

    /// Ends second events that only long threads have, or that fill the rings. Returns true if it
    /// did.
    fn ends(&mut self, seen: &Look) -> bool {
        if self.finer.is_empty() {
            return false;
        }
        match seen.of_long * 5 > seen.finer * 4 {
            true => self.useless += 1,
            false if seen.finer.is_zero() => {}
            false => self.useless = 0,
        }
        if self.useless < MAX_USELESS && !seen.has_lost {
            return false;
        }
        self.finer.clear();
        self.covered.clear();
        self.threads.clear();
        self.useless = 0;
        self.looked += self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}
