//! Distributes work to scoped threads.
//!
//! With [`run`], workers take pieces of work from a [`Queue`]. [`map_chunks`] and [`map_ranges`]
//! process lists and return the results in order. All of them guarantee:
//!
//! - **The outermost call bounds the number of threads.** A nested call gets only threads that the
//!   outermost call has not started, or that have ended. On n cores, n images can each be split
//!   into n parts, and still only n threads run.
//! - **Threads are optional.** If the system refuses a thread (`RLIMIT_NPROC`, a cgroup's
//!   `pids.max`, out of memory), the existing threads do all of the work. Nothing panics.
//!
//! [`DetachedCalls`] runs calls that may never return, with a timeout.
//!
//! Threads end with the call. rayon also bounds nested work, with one pool per process. But its
//! global pool panics if threads are refused, and its tasks keep no state between pieces. Workers
//! of a [`Queue`] keep tables and merge them at the end.
//!
//! ```
//! let squares = rprof_parallel::map_chunks(2, &[1, 2, 3, 4, 5], 2, |some| {
//!     some.iter().map(|n| n * n).sum::<i32>()
//! });
//! assert_eq!(squares, [5, 25, 25]);
//! ```

mod budget;
mod detached;

use budget::{Budget, Permit};
pub use detached::{DetachedCalls, NoAnswer};
use std::cell::{Cell, RefCell};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Control group limits can change, so the number of cores is read again after this time.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// Returns the number of usable cores, cached for a minute. Finding the limits of the control group
/// opens six files.
#[must_use]
pub fn available() -> usize {
    static KNOWN: Mutex<Option<(Instant, usize)>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match *known {
        Some((read, cores)) if read.elapsed() < KNOWN_FOR => cores,
        _ => {
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            *known = Some((Instant::now(), cores));
            cores
        }
    }
}

/// Worker's view of a queue of numbered pieces. Each number is handed out once.
pub struct Queue<'a> {
    next: &'a AtomicUsize,
    pieces: usize,
    /// Tries to start more workers. Set only for the calling thread.
    recruit: Option<&'a dyn Fn()>,
}

impl Queue<'_> {
    /// Returns the number of the next piece; `None` at the end.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        if let Some(recruit) = self.recruit {
            recruit();
        }
        let piece = self.next.fetch_add(1, Ordering::Relaxed);
        (piece < self.pieces).then_some(piece)
    }
}

/// Runs `worker` on up to `threads` threads, including this one. Returns their results unordered,
/// at least one. Workers take numbers below `pieces` from the [`Queue`].
///
/// # Panics
/// Panics if a worker does.
pub fn run<R: Send>(
    threads: usize,
    pieces: usize,
    worker: impl Fn(&Queue<'_>) -> R + Sync,
) -> Vec<R> {
    run_with(Builder::new, threads, pieces, worker)
}

/// Implements [`run`] with threads from `builder`.
fn run_with<R: Send>(
    builder: impl Fn() -> Builder,
    threads: usize,
    pieces: usize,
    worker: impl Fn(&Queue<'_>) -> R + Sync,
) -> Vec<R> {
    let (budget, is_outermost) = Budget::of_caller(threads);
    let next = AtomicUsize::new(0);
    let work = |_permit: Permit| {
        worker(&Queue {
            next: &next,
            pieces,
            recruit: None,
        })
    };
    let work = &work;
    std::thread::scope(|scope| {
        let wanted = Cell::new(threads.min(pieces).saturating_sub(1));
        let handles = RefCell::new(Vec::new());
        let recruit = || {
            while wanted.get() > 0 {
                // One piece is for this thread.
                let left = pieces.saturating_sub(next.load(Ordering::Relaxed));
                let Some(permit) = (left > 1).then(|| budget.acquire()).flatten() else {
                    return;
                };
                wanted.set(wanted.get() - 1);
                let thread = builder().name("rprof-worker".into());
                match thread.spawn_scoped(scope, move || permit.enter(work)) {
                    Ok(handle) => handles.borrow_mut().push(handle),
                    // Later attempts would most likely fail as well.
                    Err(_) => wanted.set(0),
                }
            }
        };
        recruit();
        let queue = Queue {
            next: &next,
            pieces,
            recruit: Some(&recruit),
        };
        let mut results = vec![budget.enter(|| worker(&queue))];
        if is_outermost {
            // This thread only waits now, so nested calls may use its permit.
            budget.lend();
        }
        for handle in handles.take() {
            match handle.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// Runs `work` on chunks of `size` items (the last may be shorter), and returns the results in
/// order. Uses up to `threads` threads.
///
/// # Panics
/// Panics if `work` does.
pub fn map_chunks<T: Sync, R: Send>(
    threads: usize,
    list: &[T],
    size: usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let chunks: Vec<&[T]> = list.chunks(size.max(1)).collect();
    map_each(threads, chunks.len(), |number| work(chunks[number]))
}

/// Splits `0..len` into one range per core, of at least `least` except the last. Returns the
/// results of `work` in order. If `len` is 0, calls `work` once with `0..0`.
///
/// # Panics
/// Panics if `work` does.
pub fn map_ranges<R: Send>(
    len: usize,
    least: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
) -> Vec<R> {
    let cores = available();
    let size = len.div_ceil(cores).max(least).max(1);
    let ranges = len.div_ceil(size).max(1);
    map_each(cores, ranges, |number| {
        work(number * size..len.min((number + 1) * size))
    })
}

fn map_each<R: Send>(threads: usize, pieces: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    if threads.min(pieces) <= 1 {
        return (0..pieces).map(work).collect();
    }
    let done = run(threads, pieces, |queue| {
        let pieces = std::iter::from_fn(|| queue.next());
        pieces.map(|piece| (piece, work(piece))).collect::<Vec<_>>()
    });
    let mut done: Vec<(usize, R)> = done.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(piece, _)| *piece);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests;
