//! [`Looks`]: the thread that looks at the resident pages of the recorded processes.
//!
//! A look costs the recorder CPU time, and the process the lock of its address space. So looks take
//! at most 1 % of a CPU, after the first [`FREE`] of it, and are rare while memory does not change. The thread may hang in the
//! kernel, so no other thread waits for it longer than [`PATIENCE`].

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rprof_sampler::Clock;

use super::reader::{PageReader, Reading};

/// Time before the first look at a command. A program maps its libraries first.
const BEFORE_FIRST: Duration = Duration::from_millis(5);

/// Minimum time between two rounds of looks.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// Maximum time between two rounds while a process does not change.
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// CPU time without a limit, so that short programs get several looks.
const FREE: Duration = Duration::from_millis(50);

/// Wall time for each unit of CPU time beyond [`FREE`].
const WALL_OF_COST: u32 = 100;

/// Maximum time for the last round.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Looks {
    clock: Clock,
    page_bytes: u64,
    /// Number of looks in `State::begun`, to avoid the lock.
    begun: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pids: BTreeSet<i32>,
    /// Looks in order of their beginning.
    begun: VecDeque<Begun>,
    next: u64,
    is_stopping: bool,
    is_done: bool,
    /// True once the writer takes no more looks.
    is_closed: bool,
    refusal: Option<io::ErrorKind>,
}

#[derive(Debug)]
struct Begun {
    number: u64,
    /// Time of the recording's clock.
    time: u64,
    /// `None` while the look continues, then the result, or `None` if it failed.
    result: Option<Option<Reading>>,
}

impl Looks {
    pub(super) fn new(clock: Clock, page_bytes: u64, pids: impl IntoIterator<Item = i32>) -> Looks {
        Looks {
            clock,
            page_bytes,
            begun: AtomicUsize::new(0),
            state: Mutex::new(State {
                pids: pids.into_iter().collect(),
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread. `at_once` is true for processes that run already.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(crate) fn start(looks: &Arc<Looks>, at_once: bool) -> io::Result<JoinHandle<()>> {
        let looks = Arc::clone(looks);
        let thread = std::thread::Builder::new().name("rprof-memory".into());
        thread.spawn(move || looks.run(at_once))
    }

    fn run(&self, at_once: bool) {
        let mut reader = PageReader::new(self.page_bytes);
        let mut pause = BEFORE_FIRST;
        if !at_once {
            self.sleep(pause);
        }
        let (mut resident, started) = (0, Instant::now());
        loop {
            let is_last = self.state().is_stopping;
            let before = std::mem::take(&mut resident);
            // The writer takes looks when records arrive; without any, nothing changed.
            if is_last || self.begun.load(Ordering::SeqCst) == 0 {
                resident = self.round(&mut reader, is_last);
            }
            if is_last {
                self.state().is_done = true;
                self.changed.notify_all();
                return;
            }
            let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let used = Duration::try_from(used).unwrap_or_default();
            let due = used.saturating_sub(FREE) * WALL_OF_COST;
            let least = due.saturating_sub(started.elapsed()).max(LEAST_PAUSE);
            pause = match resident == before {
                true => (pause * 2).min(MOST_PAUSE).max(least),
                false => least,
            };
            self.sleep(pause);
        }
    }

    /// Looks at all processes. Returns the sum of their resident bytes.
    fn round(&self, reader: &mut PageReader, is_last: bool) -> u64 {
        let pids: Vec<i32> = self.state().pids.iter().copied().collect();
        let mut resident = 0;
        for pid in pids {
            let number = {
                let mut state = self.state();
                if state.is_stopping && !is_last || state.is_closed {
                    break;
                }
                // Before the clock is read: a record with a later time must find it.
                self.begun.fetch_add(1, Ordering::SeqCst);
                let (number, time) = (state.next, self.clock.now_ns());
                state.next += 1;
                state.begun.push_back(Begun {
                    number,
                    time,
                    result: None,
                });
                number
            };
            let reading = reader.read(pid);
            let mut state = self.state();
            match &reading {
                Ok(reading) => resident += reading.resident,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    state.refusal = Some(error.kind());
                }
                // The process has ended.
                Err(_) => {}
            }
            if let Some(begun) = (state.begun.iter_mut()).find(|begun| begun.number == number) {
                let until = self.clock.now_ns();
                begun.result = Some(reading.ok().map(|reading| Reading { until, ..reading }));
            }
        }
        resident
    }

    fn sleep(&self, pause: Duration) {
        let state = self.state();
        let is_running = |state: &mut State| !state.is_stopping;
        drop(self.changed.wait_timeout_while(state, pause, is_running));
    }

    /// Takes a last round, and ends the thread. Returns false if it did not end in time.
    pub(crate) fn stop(&self) -> bool {
        let mut state = self.state();
        state.is_stopping = true;
        self.changed.notify_all();
        let is_working = |state: &mut State| !state.is_done;
        let waited = (self.changed).wait_timeout_while(state, PATIENCE, is_working);
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    pub(super) fn watch(&self, pid: i32) {
        self.state().pids.insert(pid);
    }

    pub(super) fn forget(&self, pid: i32) {
        self.state().pids.remove(&pid);
    }

    /// Returns true if a look began before `time` and was not taken yet.
    pub(super) fn is_before(&self, time: u64) -> bool {
        self.begun.load(Ordering::SeqCst) > 0
            && (self.state().begun.front()).is_some_and(|begun| begun.time < time)
    }

    /// Returns when the earliest look began that was not taken yet.
    pub(super) fn earliest(&self) -> Option<u64> {
        match self.begun.load(Ordering::SeqCst) {
            0 => None,
            _ => self.state().begun.front().map(|begun| begun.time),
        }
    }

    /// Takes the earliest look, if it ended before `now`. Returns the time when it began, and the
    /// look, or `None` if it failed.
    pub(super) fn next_complete(&self, now: u64) -> Option<(u64, Option<Reading>)> {
        if self.begun.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut state = self.state();
        let is_due = |begun: &mut Begun| match &begun.result {
            Some(reading) => (reading.as_ref()).map_or(begun.time, |reading| reading.until) < now,
            None => false,
        };
        let begun = state.begun.pop_front_if(is_due)?;
        self.begun.fetch_sub(1, Ordering::SeqCst);
        Some((begun.time, begun.result.flatten()))
    }

    /// Gives up all looks that are not complete.
    pub(super) fn give_up(&self) {
        let mut state = self.state();
        state.begun.retain(|begun| begun.result.is_some());
        self.begun.store(state.begun.len(), Ordering::SeqCst);
    }

    /// Gives up looks that are not complete, and takes no more.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.give_up();
    }

    /// Returns why looks were refused, if they were.
    pub(super) fn refusal(&self) -> Option<io::ErrorKind> {
        self.state().refusal
    }
}
