//! [`Watch`]: looks at a thread that another thread takes, and their order in time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::codes::{SETTLED, is_pointer};
use super::layout::CODE_BYTES;
use super::live::{Look, Segment, Track};
use super::looking::look_directly;
use crate::{MemoryRead, ProcessMemory, Watcher};

/// Nanoseconds for which looks continue after a sample. The reader sees samples up to 32 ms later.
const PATIENCE: u64 = 60_000_000;

/// Intervals of looks in nanoseconds: while evidence is missing, less than the time until the
/// reader sees a sample, and otherwise.
const FREQUENT: u64 = 800_000;
const RELAXED: u64 = 2_400_000;

/// Maximum number of looks that wait for samples. At the limit the oldest is dropped.
const MAX_LOOKS: usize = 64;

/// Maximum number of attempts to find the thread at rest.
const ATTEMPTS: usize = 2;

/// Interval in nanoseconds of proofs of settled code objects: half of their validity.
const PROOFS: u64 = 25_000_000;

/// Maximum number of proofs of a look.
const MAX_PROOFS: usize = 16;

/// Maximum number of known code objects. At the limit all are forgotten.
const MAX_CODES: usize = 4096;

/// The reader's side of a watched thread.
#[derive(Debug)]
pub(super) struct Watch(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    track: Arc<Track>,
    /// Time up to which looks are useful.
    until: u64,
    /// Time before which the next look is not.
    from: u64,
    interval: u64,
    looks: VecDeque<Look>,
}

/// The watcher's side.
#[derive(Debug)]
struct PythonWatcher {
    shared: Arc<Mutex<Shared>>,
    /// Frames of the last look.
    last: Vec<Segment>,
    codes: FxHashMap<u64, Seen>,
}

/// Times of the first and the last proof of a code object.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: u64,
    last: u64,
}

impl Watch {
    /// Begins to watch a thread that had a sample at this time.
    pub(super) fn new(track: Track, time: u64) -> (Self, Box<dyn Watcher>) {
        let shared = Arc::new(Mutex::new(Shared {
            track: Arc::new(track),
            until: time.saturating_add(PATIENCE),
            from: 0,
            interval: FREQUENT,
            looks: VecDeque::new(),
        }));
        let watcher = PythonWatcher {
            shared: Arc::clone(&shared),
            last: Vec::new(),
            codes: FxHashMap::default(),
        };
        (Self(shared), Box::new(watcher))
    }

    /// Continues after a sample of this time.
    pub(super) fn handle_sample(&self, track: Track, time: u64, is_incomplete: bool) {
        let mut shared = locked(&self.0);
        shared.track = Arc::new(track);
        shared.until = shared.until.max(time.saturating_add(PATIENCE));
        shared.interval = if is_incomplete { FREQUENT } else { RELAXED };
    }

    /// Removes the looks before a time, and the first one since then.
    pub(super) fn take(&self, time: u64) -> (Vec<Look>, Option<Look>) {
        let mut shared = locked(&self.0);
        let earlier = shared.looks.partition_point(|look| look.time < time);
        let earlier = shared.looks.drain(..earlier).collect();
        (earlier, shared.looks.pop_front())
    }
}

impl Watcher for PythonWatcher {
    fn due(&self) -> Range<u64> {
        let shared = locked(&self.shared);
        shared.from..shared.until
    }

    fn is_over(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }

    fn look(&mut self, memory: &mut dyn ProcessMemory) {
        // The reader must not wait for the reads.
        let track = Arc::clone(&locked(&self.shared).track);
        let last = std::mem::take(&mut self.last);
        let look = (0..ATTEMPTS).find_map(|_| look_directly(&track, &last, memory));
        let Some(mut look) = look else {
            locked(&self.shared).from = memory.time().saturating_add(FREQUENT);
            return;
        };
        self.last.clone_from(&look.segments);
        look.proofs = self.proofs(&look.segments, look.time);
        memory.read(&mut look.proofs);
        look.proven = memory.time();
        let mut shared = locked(&self.shared);
        if shared.looks.len() >= MAX_LOOKS {
            shared.looks.pop_front();
        }
        shared.from = look.time.saturating_add(shared.interval);
        shared.looks.push_back(look);
    }
}

impl PythonWatcher {
    /// Returns reads of the code objects that are new, or whose last proof is old.
    fn proofs(&mut self, segments: &[Segment], now: u64) -> Vec<MemoryRead> {
        if self.codes.len() > MAX_CODES {
            self.codes.clear();
        }
        let frames = segments.iter().flat_map(|segment| &segment.frames);
        let mut reads = Vec::new();
        for code in frames
            .map(|frame| frame.code)
            .filter(|code| is_pointer(*code))
        {
            if reads.len() == MAX_PROOFS {
                break;
            }
            let (first, last) = (now, 0);
            let seen = self.codes.entry(code).or_insert(Seen { first, last });
            let is_settled = seen.last.saturating_sub(seen.first) >= SETTLED;
            if seen.last != now && !(is_settled && now.saturating_sub(seen.last) < PROOFS) {
                seen.last = now;
                reads.push(MemoryRead::new(code, CODE_BYTES));
            }
        }
        reads
    }
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
