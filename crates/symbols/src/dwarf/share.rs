//! Work on a list, shared by threads.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Cuts `list` into pieces of at most `piece` items and hands them to `work`, on up to
/// `threads` threads; results come in the order of the list. With a short list, or
/// one thread, no thread is started.
pub(crate) fn share<T: Sync, R: Send>(
    threads: usize,
    list: &[T],
    piece: usize,
    work: impl Fn(&[T]) -> R + Sync,
) -> Vec<R> {
    let pieces: Vec<&[T]> = list.chunks(piece.max(1)).collect();
    let threads = threads.min(pieces.len());
    if threads <= 1 {
        return pieces.into_iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(index) else {
                return done;
            };
            done.push((index, work(piece)));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for other in others {
            match other.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
