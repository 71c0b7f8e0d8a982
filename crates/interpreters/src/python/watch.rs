//! [`Watch`]: looks at a thread that another thread takes, and their order in time.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::codes::{SETTLED, is_pointer};
use super::layout::CODE_BYTES;
use super::live::{Look, Segment, Track};
use super::looking::{FirstReads, LastLook};
use super::pace::FREQUENT;
use super::recent::RecentAddresses;
use crate::{MemoryRead, ProcessMemory, Watcher};

/// Nanoseconds for which looks continue after a sample. The reader sees samples up to 32 ms later.
const PATIENCE: u64 = 60_000_000;

/// Maximum number of looks that wait for samples. At the limit the oldest is dropped.
const MAX_LOOKS: usize = 64;

/// Maximum number of attempts to find the thread at rest.
const ATTEMPTS: usize = 2;

/// Interval in nanoseconds of proofs of settled code objects: half of their validity.
const PROOFS: u64 = 25_000_000;

/// Maximum number of proofs of a look.
const MAX_PROOFS: usize = 16;

/// Maximum number of places of frames that are read first.
const MAX_PLACES: usize = 24;

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
    /// Code objects of the last samples.
    codes: Vec<u64>,
    looks: VecDeque<Look>,
}

/// The watcher's side.
#[derive(Debug)]
struct PythonWatcher {
    shared: Arc<Mutex<Shared>>,
    /// Places of frames in the last looks. Most of them have frames in the next one.
    places: RecentAddresses<MAX_PLACES>,
    last: LastLook,
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
            codes: Vec::new(),
            looks: VecDeque::new(),
        }));
        let watcher = PythonWatcher {
            shared: Arc::clone(&shared),
            places: RecentAddresses::default(),
            last: LastLook::default(),
            codes: FxHashMap::default(),
        };
        (Self(shared), Box::new(watcher))
    }

    /// Continues after a sample of this time, at an interval in nanoseconds. Also proves these code
    /// objects.
    pub(super) fn handle_sample(&self, track: Track, time: u64, interval: u64, codes: &[u64]) {
        let mut shared = locked(&self.0);
        shared.track = Arc::new(track);
        shared.until = shared.until.max(time.saturating_add(PATIENCE));
        shared.interval = interval;
        shared.codes.clear();
        shared.codes.extend_from_slice(codes);
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
        let (track, sampled) = {
            let shared = locked(&self.shared);
            (Arc::clone(&shared.track), shared.codes.clone())
        };
        let now = memory.time();
        let found = (0..ATTEMPTS).find_map(|_| {
            let places = self.places.get();
            let mut first = FirstReads::new(&track, &self.last, places, memory);
            self.places.retain(|place| first.has(place));
            let segments = first.walk(&track, memory)?;
            let proofs = self.proofs(&segments, &sampled, first.began());
            first.confirm(&track, segments, proofs, &mut self.last, memory)
        });
        let Some(look) = found.filter(|_| memory.is_confirmed()) else {
            let after = memory.time().max(now);
            locked(&self.shared).from = after.saturating_add(FREQUENT);
            return;
        };
        self.places.add(&track.places(&look.segments));
        let mut shared = locked(&self.shared);
        if shared.looks.len() >= MAX_LOOKS {
            shared.looks.pop_front();
        }
        shared.from = look.time.saturating_add(shared.interval);
        shared.looks.push_back(look);
    }
}

impl PythonWatcher {
    /// Returns reads of the code objects that are new, or whose last proof is old: of frames, and of
    /// the last samples.
    fn proofs(&mut self, segments: &[Segment], sampled: &[u64], now: u64) -> Vec<MemoryRead> {
        if self.codes.len() > MAX_CODES {
            self.codes.clear();
        }
        let frames = segments.iter().flat_map(|segment| &segment.frames);
        let codes = frames.map(|frame| frame.code).chain(sampled.iter().copied());
        let mut reads = Vec::new();
        for code in codes.filter(|code| is_pointer(*code)) {
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
