//! Work shared out to all cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Cores this process may use.
pub(crate) fn available() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs `worker` on `threads` threads (one of them this one) and answers what
/// each returned. A worker asks its [`Queue`] for the next piece of work.
pub(crate) fn run<R: Send>(
    threads: usize,
    pieces: usize,
    worker: impl Fn(&Queue) -> R + Sync,
) -> Vec<R> {
    let queue = Queue {
        next: AtomicUsize::new(0),
        pieces,
    };
    let extra = threads.min(pieces).saturating_sub(1);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..extra)
            .filter_map(|_| {
                std::thread::Builder::new()
                    .name("rprof-analyse".into())
                    .spawn_scoped(scope, || worker(&queue))
                    // Without further threads this one does the work.
                    .ok()
            })
            .collect();
        let mut results = vec![worker(&queue)];
        for handle in handles {
            match handle.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// Ids of pieces of work, each handed out once.
pub(crate) struct Queue {
    next: AtomicUsize,
    pieces: usize,
}

impl Queue {
    /// The next piece, if any is left.
    pub(crate) fn next(&self) -> Option<usize> {
        let piece = self.next.fetch_add(1, Ordering::Relaxed);
        (piece < self.pieces).then_some(piece)
    }
}
