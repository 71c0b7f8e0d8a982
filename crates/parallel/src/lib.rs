//! Work shared out to scoped threads.
//!
//! [`run`] starts workers that take pieces of work from a [`Queue`]; [`map_chunks`] and [`map_ranges`]
//! are for lists whose results are wanted in order. Two promises hold for all of them:
//!
//! - **The number of threads is bounded by the outermost call.** A worker that shares out work itself
//!   gets threads only as others of the same outermost call end, or were never started. So the
//!   images that are symbolized on n cores may each be cut up for n cores, and n threads run.
//! - **No thread is needed.** Where the system refuses one (`RLIMIT_NPROC`, a cgroup's `pids.max`, no
//!   memory), the threads there are do all of the work; nothing panics.
//!
//! [`DetachedCalls`] is for what may never return: its threads are not waited for without end.
//!
//! Threads end with the call. rayon bounds nested work as well, by one pool for the whole process, but
//! its global pool panics where its threads are refused, and its tasks keep nothing from piece to
//! piece, which workers of a [`Queue`] do: tables of their own, merged at the end.
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

/// Time after which the number of cores is read again: the limits of a control group change while a process lives.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// Returns the number of cores that this process may use, as it was within the last minute: to find the limits of the control group
/// six files are opened.
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

/// Numbers of pieces of work, each handed out once. One worker's view of it.
pub struct Queue<'a> {
    next: &'a AtomicUsize,
    pieces: usize,
    /// Starts further workers if some can be had by now. Only the calling thread does.
    recruit: Option<&'a dyn Fn()>,
}

impl Queue<'_> {
    /// Returns the number of the next piece, if any is left.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        if let Some(recruit) = self.recruit {
            recruit();
        }
        let piece = self.next.fetch_add(1, Ordering::Relaxed);
        (piece < self.pieces).then_some(piece)
    }
}

/// Runs `worker` on up to `threads` threads, one of them this one, and returns what each returned,
/// in no order; at least one. A worker takes numbers below `pieces` from the [`Queue`] until there
/// are none.
///
/// # Panics
/// If a worker does.
pub fn run<R: Send>(
    threads: usize,
    pieces: usize,
    worker: impl Fn(&Queue<'_>) -> R + Sync,
) -> Vec<R> {
    run_with(Builder::new, threads, pieces, worker)
}

/// Does [`run`] on threads as `builder` makes them.
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
                    // It would most likely be refused again.
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
            // This thread only waits from here on: calls within the others may have another.
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

/// Cuts `list` into chunks of `size` items, the last of which may be shorter, and returns what
/// `work` returned for each, in the order of the list. Uses up to `threads` threads.
///
/// # Panics
/// If `work` does.
pub fn map_chunks<T: Sync, R: Send>(
    threads: usize,
    list: &[T],
    size: usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let chunks: Vec<&[T]> = list.chunks(size.max(1)).collect();
    map_each(threads, chunks.len(), |number| work(chunks[number]))
}

/// Cuts `0..len` into one range for each core, but none shorter than `least` unless it is the last,
/// and returns what `work` returned for each, in order. Calls it once, for `0..0`, if `len` is 0.
///
/// # Panics
/// If `work` does.
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
