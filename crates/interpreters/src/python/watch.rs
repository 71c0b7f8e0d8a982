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
use super::snapshot::RecentAddresses;
use crate::{MemoryRead, ProcessMemory, Watcher};

/// Nanoseconds for which looks continue after a sample. The reader sees samples up to 32 ms later.
pub(super) const PATIENCE: u64 = 60_000_000;

/// Maximum number of looks that wait for samples. At the limit the oldest is dropped.
const MAX_LOOKS: usize = 64;

/// Maximum number of attempts to find the thread at rest.
const ATTEMPTS: usize = 2;

/// Interval in nanoseconds of proofs of settled code objects: half of their validity.
const PROOFS: u64 = 25_000_000;

/// Maximum number of proofs of a look.
const MAX_PROOFS: usize = 16;

/// Maximum factor of the interval while the thread does not run, or runs the same functions.
const MAX_REST: u64 = 4;

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
    looker: Looker,
    /// Factor of the interval, which doubles with each look that finds no change.
    rest: u64,
    proofs: Proofs,
}

/// Takes looks at one thread.
#[derive(Debug, Default)]
pub(super) struct Looker {
    /// Places of frames in the last looks. Most of them have frames in the next one.
    places: RecentAddresses<MAX_PLACES>,
    last: LastLook,
}

/// Code objects that looks have read.
#[derive(Debug, Default)]
pub(super) struct Proofs {
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
            looker: Looker::default(),
            rest: 1,
            proofs: Proofs::default(),
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

    /// Moves all looks to the end of a queue. At its limit the oldest are dropped.
    pub(super) fn take(&self, looks: &mut VecDeque<Look>) {
        looks.append(&mut locked(&self.0).looks);
        looks.drain(..looks.len().saturating_sub(MAX_LOOKS));
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
        let found = (self.looker).look(&track, &sampled, &mut self.proofs, memory);
        let found = found.filter(|look| !look.is_partial && memory.is_confirmed());
        let Some(look) = found else {
            locked(&self.shared).from = memory.time().saturating_add(FREQUENT);
            return;
        };
        self.rest = match self.looker.is_unchanged() {
            true => (2 * self.rest).min(MAX_REST),
            false => 1,
        };
        let mut shared = locked(&self.shared);
        if shared.looks.len() >= MAX_LOOKS {
            shared.looks.pop_front();
        }
        shared.from = look
            .time
            .saturating_add(self.rest.saturating_mul(shared.interval));
        shared.looks.push_back(look);
    }
}

impl Looker {
    /// Looks at the thread of a track, and proves the code objects of its frames and these ones.
    pub(super) fn look(
        &mut self,
        track: &Track,
        sampled: &[u64],
        proofs: &mut Proofs,
        memory: &mut dyn ProcessMemory,
    ) -> Option<Look> {
        let mut partial = None;
        let look = (0..ATTEMPTS).find_map(|_| {
            let places = self.places.get();
            let mut first = FirstReads::new(track, &self.last, places, memory);
            self.places.retain(|place| first.has(place));
            let segments = first.walk(track, memory)?;
            let proofs = proofs.reads(&segments, sampled, first.began());
            let look = first.confirm(track, segments, proofs, &mut self.last, memory)?;
            match look.is_partial {
                true => partial = Some(look),
                false => return Some(look),
            }
            None
        });
        if let Some(look) = &look {
            self.places.add(&track.places(&look.segments));
        }
        look.or(partial)
    }

    /// Returns true if the last look found the same as the one before.
    pub(super) const fn is_unchanged(&self) -> bool {
        self.last.is_unchanged
    }
}

impl Proofs {
    /// Returns reads of the code objects that are new, or whose last proof is old: of frames, and of
    /// the last samples.
    fn reads(&mut self, segments: &[Segment], sampled: &[u64], now: u64) -> Vec<MemoryRead> {
        if self.codes.len() > MAX_CODES {
            self.codes.clear();
        }
        let frames = segments.iter().flat_map(|segment| &segment.frames);
        let codes = frames
            .map(|frame| frame.code)
            .chain(sampled.iter().copied());
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

pub(super) fn locked<Of>(shared: &Mutex<Of>) -> MutexGuard<'_, Of> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::current::EvalFrame;
    use super::super::layout::Layout;
    use super::super::slots::Site;
    use super::super::snapshot::PAGE;
    use super::*;

    pub(crate) const STATE: u64 = 0x10_0000;
    pub(crate) const STACK: u64 = 0x7ffc_0000_1000;
    /// `_PyCFrame`, and the frame before the outermost Python frame, both in the native frame.
    pub(crate) const CFRAME: u64 = STACK + 0x100;
    pub(crate) const ENTRY: u64 = STACK + 0x140;
    pub(crate) const OUTER: u64 = 0x20_0000;
    pub(crate) const INNER: u64 = OUTER + 0x60;

    /// A process by its words. Pages with any word are readable.
    pub(crate) struct Process {
        pub(crate) words: FxHashMap<u64, u64>,
        batches: usize,
        is_confirmed: bool,
        pub(crate) time: u64,
    }

    impl ProcessMemory for Process {
        fn read(&mut self, reads: &mut [MemoryRead]) {
            self.batches += 1;
            for read in reads {
                let page = read.address / PAGE;
                read.is_read = self.words.keys().any(|address| address / PAGE == page);
                for (at, byte) in (read.address..).zip(&mut read.bytes) {
                    let word = self.words.get(&(at - at % 8)).unwrap_or(&0);
                    *byte = word.to_le_bytes()[(at % 8) as usize];
                }
            }
        }

        fn is_confirmed(&self) -> bool {
            self.is_confirmed
        }

        fn time(&self) -> u64 {
            self.time
        }
    }

    impl Process {
        /// Returns a process of 3.12 with a thread at [`STATE`] that runs two functions, and its track.
        pub(crate) fn with_thread() -> (Self, Track) {
            let layout = Layout::of(12).unwrap();
            let words = [
                (STATE + layout.thread, CFRAME),
                (CFRAME, INNER),
                (INNER, 0x30_0000),
                (INNER + 8, OUTER),
                (OUTER, 0x30_0100),
                (OUTER + 8, ENTRY),
            ];
            let process = Self {
                words: words.into_iter().collect(),
                batches: 0,
                is_confirmed: true,
                time: 0,
            };
            let (sp, cfa) = (STACK, STACK + 0x200);
            let eval = EvalFrame {
                index: 0,
                site: Site::Running,
                is_starting: false,
                sp,
                cfa,
            };
            let track = Track::new(&layout, STATE, cfa - CFRAME, &[eval]).unwrap();
            (process, track)
        }
    }

    #[test]
    fn a_thread_at_the_place_of_the_last_look_costs_one_batch() {
        let (mut process, track) = Process::with_thread();
        let (watch, mut watcher) = Watch::new(track, 0);
        let mut look = |process: &mut Process| {
            let before = process.batches;
            watcher.look(process);
            let mut looks = VecDeque::new();
            watch.take(&mut looks);
            let found = looks.pop_front().map(|look| {
                let frames = look.segments.iter().map(|one| one.frames.len());
                (frames.sum::<usize>(), look.is_repeat)
            });
            (found, process.batches - before)
        };
        let (found, batches) = look(&mut process);
        assert!(found == Some((2, false)) && batches > 1, "{batches}");
        assert_eq!(look(&mut process), (Some((2, true)), 1));
        process.words.insert(CFRAME, OUTER);
        assert_eq!(look(&mut process), (Some((1, false)), 2), "read twice");
        process.is_confirmed = false;
        assert_eq!(look(&mut process).0, None, "of another process");
    }
}
