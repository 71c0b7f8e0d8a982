//! [`Watchers`]: a thread that looks at interpreters between their samples.
//!
//! A sample of an interpreter needs reads of memory soon after it. If the writer thread made each
//! of them, it would wake up for every sample, and hand the read to a thread that may hang. This
//! thread may hang, too. It wakes up by itself and keeps what it finds, and the writer thread takes
//! several samples together.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Thread};
use std::time::Duration;

use rprof_interpreters::{MemoryRead, ProcessMemory, Watcher};
use rprof_sampler::monotonic_ns;

use super::memory_file::MemoryFile;
use super::process_memory::fitting;

/// Minimum pause in nanoseconds after a round, and as a multiple of its duration.
const PAUSE: u64 = 200_000;
const PAUSES: u64 = 4;

/// Maximum number of looks in a round.
const MAX_LOOKS: usize = 32;

/// Maximum number of watched threads. Further ones have looks for each sample.
const MAX_WATCHED: usize = 4096;

/// Maximum duration of a look in nanoseconds. A thread that takes longer is left behind.
const HANGS: u64 = 500_000_000;

/// Maximum number of threads left behind. At the limit there are no more looks.
const MAX_HANGING: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Watchers {
    shared: Arc<Shared>,
    thread: Option<Looker>,
}

#[derive(Debug, Default)]
struct Shared {
    watched: Mutex<Vec<Arc<Watched>>>,
    /// Number of threads that hang.
    hanging: AtomicUsize,
}

#[derive(Debug)]
struct Watched {
    memory: Arc<MemoryFile>,
    watcher: Mutex<Box<dyn Watcher>>,
    /// True if a look hung.
    hangs: AtomicBool,
}

/// A running thread.
#[derive(Debug)]
struct Looker {
    thread: Thread,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_asleep: AtomicBool,
    /// True if the thread must end.
    is_over: AtomicBool,
    /// True if it must because it hangs.
    hangs: AtomicBool,
    /// Begin of the current look in nanoseconds of CLOCK_MONOTONIC; 0 for none.
    since: AtomicU64,
    current: Mutex<Option<Arc<Watched>>>,
}

impl Watchers {
    /// Has the thread run a watcher of a process with this memory.
    pub(super) fn add(&mut self, watcher: Box<dyn Watcher>, memory: Arc<MemoryFile>) {
        let mut watched = locked(&self.shared.watched);
        if watched.len() < MAX_WATCHED {
            watched.push(Arc::new(Watched {
                memory,
                watcher: Mutex::new(watcher),
                hangs: AtomicBool::new(false),
            }));
        }
    }

    /// Wakes the thread after a sample of a watched process. Replaces it if it hangs.
    pub(super) fn handle_sample(&mut self) {
        if let Some(looker) = &self.thread {
            let since = looker.state.since.load(Ordering::Relaxed);
            if since != 0 && monotonic_ns().saturating_sub(since) > HANGS {
                self.leave_behind();
            }
        }
        if self.thread.is_none() && !locked(&self.shared.watched).is_empty() {
            self.thread = self.start();
        }
        if let Some(looker) = &self.thread
            && looker.state.is_asleep.swap(false, Ordering::Relaxed)
        {
            looker.thread.unpark();
        }
    }

    fn leave_behind(&mut self) {
        let Some(looker) = self.thread.take() else {
            return;
        };
        self.shared.hanging.fetch_add(1, Ordering::Relaxed);
        looker.state.hangs.store(true, Ordering::Relaxed);
        looker.state.is_over.store(true, Ordering::Release);
        if let Some(current) = locked(&looker.state.current).take() {
            current.hangs.store(true, Ordering::Relaxed);
        }
        let hangs = |watched: &Arc<Watched>| watched.hangs.load(Ordering::Relaxed);
        locked(&self.shared.watched).retain(|watched| !hangs(watched));
    }

    fn start(&self) -> Option<Looker> {
        if self.shared.hanging.load(Ordering::Relaxed) >= MAX_HANGING {
            return None;
        }
        let state = Arc::new(State::default());
        let (shared, of_thread) = (Arc::clone(&self.shared), Arc::clone(&state));
        let run = move || {
            // Looks are short, and late ones find another stack.
            rprof_sampler::prefer_this_thread();
            let mut earliest = 0;
            while !of_thread.is_over.load(Ordering::Acquire) {
                shared.look(&of_thread, &mut earliest);
            }
            if of_thread.hangs.load(Ordering::Relaxed) {
                shared.hanging.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let thread = Builder::new().name("rprof-looks".into()).spawn(run).ok()?;
        Some(Looker {
            thread: thread.thread().clone(),
            state,
        })
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        if let Some(looker) = &self.thread {
            looker.state.is_over.store(true, Ordering::Relaxed);
            looker.thread.unpark();
        }
    }
}

impl Shared {
    /// Makes a round of looks, not before `earliest`, or sleeps until the next one: for long if no
    /// samples are expected.
    fn look(&self, state: &State, earliest: &mut u64) {
        let began = monotonic_ns();
        let (due, next) = self.due(began);
        let next = match due.is_empty() {
            true => next.map(|next| next.max(*earliest)),
            false => Some(*earliest),
        };
        match next {
            None => {
                state.is_asleep.store(true, Ordering::Relaxed);
                std::thread::park();
                return;
            }
            Some(next) if next > began => {
                std::thread::sleep(Duration::from_nanos(next - began));
                return;
            }
            Some(_) => {}
        }
        for watched in due {
            let mut memory = DirectMemory::new(&watched.memory);
            *locked(&state.current) = Some(Arc::clone(&watched));
            state.since.store(monotonic_ns(), Ordering::Relaxed);
            locked(&watched.watcher).look(&mut memory);
            if state.is_over.load(Ordering::Relaxed) {
                return;
            }
            state.since.store(0, Ordering::Relaxed);
        }
        let ended = monotonic_ns();
        let took = ended.saturating_sub(began);
        *earliest = ended.saturating_add(PAUSE.max(took.saturating_mul(PAUSES)));
    }

    /// Returns the watched threads whose look is due, and the time when the next one is. Forgets
    /// threads that have ended.
    fn due(&self, now: u64) -> (Vec<Arc<Watched>>, Option<u64>) {
        let mut watched = locked(&self.watched);
        // A thread left behind may still hold the watcher that hung, which is not in the list.
        let (mut due, mut next) = (Vec::new(), None);
        watched.retain(|one| {
            let watcher = locked(&one.watcher);
            let when = watcher.due();
            if when.contains(&now) && due.len() < MAX_LOOKS {
                due.push(Arc::clone(one));
            } else if now < when.start && when.start < when.end {
                next = Some(next.unwrap_or(u64::MAX).min(when.start));
            }
            !watcher.is_over()
        });
        (due, next)
    }
}

/// Memory of a process, read by the calling thread.
struct DirectMemory<'a> {
    file: &'a MemoryFile,
    began: u64,
    ended: u64,
    /// Address of a read that succeeded.
    last: Option<u64>,
}

impl DirectMemory<'_> {
    const fn new(file: &MemoryFile) -> DirectMemory<'_> {
        DirectMemory {
            file,
            began: 0,
            ended: 0,
            last: None,
        }
    }
}

impl ProcessMemory for DirectMemory<'_> {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        self.began = monotonic_ns();
        let fits = fitting(reads);
        (self.file).read_unconfirmed(reads.get_mut(..fits).unwrap_or_default());
        self.ended = monotonic_ns();
        if let Some(read) = reads.iter().find(|read| read.is_read) {
            self.last = Some(read.address);
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_nanos(self.ended.saturating_sub(self.began))
    }

    fn time(&self) -> u64 {
        self.began
    }

    fn is_confirmed(&self) -> bool {
        self.last.is_some_and(|avma| self.file.exists(avma))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_processes::Pid;
    use std::ops::Range;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Waits for a message in each look, then sends one.
    #[derive(Debug)]
    struct Scripted {
        wait: Option<Receiver<()>>,
        looked: Sender<u64>,
    }

    impl Watcher for Scripted {
        fn due(&self) -> Range<u64> {
            0..u64::MAX
        }

        fn is_over(&self) -> bool {
            false
        }

        fn look(&mut self, memory: &mut dyn ProcessMemory) {
            if let Some(wait) = &self.wait {
                wait.recv().ok();
            }
            let mut read = [MemoryRead::new((&raw const HERE).addr() as u64, 8)];
            memory.read(&mut read);
            self.looked.send(read[0].u64(0).unwrap_or(0)).ok();
        }
    }

    static HERE: u64 = 0x5eed;

    #[test]
    fn a_thread_that_hangs_is_replaced_without_the_watcher_that_hung() {
        let memory = Arc::new(MemoryFile::open(Pid(std::process::id().cast_signed())).unwrap());
        let mut watchers = Watchers::default();
        let ((go_on, wait), (looked, looks)) = (channel(), channel());
        let (hung, after_hang) = channel();
        let hanging = Scripted {
            wait: Some(wait),
            looked: hung,
        };
        watchers.add(Box::new(hanging), Arc::clone(&memory));
        watchers.handle_sample();
        let other = Scripted { wait: None, looked };
        watchers.add(Box::new(other), memory);
        let seen = loop {
            watchers.handle_sample();
            match looks.recv_timeout(Duration::from_millis(10)) {
                Ok(seen) => break seen,
                Err(error) => assert_eq!(error.to_string(), "timed out waiting on channel"),
            }
        };
        assert_eq!(seen, HERE);
        assert_eq!(watchers.shared.hanging.load(Ordering::Relaxed), 1);
        assert_eq!(locked(&watchers.shared.watched).len(), 1);
        // The thread comes back, and ends.
        drop(go_on);
        assert_eq!(after_hang.recv(), Ok(HERE));
        assert!(after_hang.recv().is_err(), "the watcher is gone");
    }
}
