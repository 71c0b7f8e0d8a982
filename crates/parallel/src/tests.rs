use super::*;
use std::sync::Barrier;
use std::sync::atomic::AtomicIsize;

/// Thread with a stack that is too large for any system.
fn refused() -> Builder {
    Builder::new().stack_size(1 << 46)
}

/// Number of threads within a call: now, and at most.
#[derive(Default)]
struct Inside {
    now: AtomicIsize,
    most: AtomicIsize,
}

impl Inside {
    fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let result = work();
        self.now.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

#[test]
fn each_piece_is_handed_out_once() {
    for threads in [0, 1, 2, 7] {
        for pieces in [0, 1, 5, 1000] {
            let taken = run(threads, pieces, |queue| {
                std::iter::from_fn(|| queue.next()).collect::<Vec<_>>()
            });
            assert!((1..=threads.max(1)).contains(&taken.len()));
            let mut taken = taken.concat();
            taken.sort_unstable();
            assert_eq!(taken, (0..pieces).collect::<Vec<_>>());
        }
    }
}

#[test]
fn as_many_threads_run_as_were_asked_for() {
    // All wait for each other.
    let barrier = Barrier::new(4);
    let results = run(4, 4, |queue| {
        let taken = queue.next();
        barrier.wait();
        taken
    });
    assert_eq!(results.len(), 4);
}

#[test]
fn results_come_in_the_order_of_the_list() {
    let list: Vec<usize> = (0..1000).collect();
    for threads in [1, 3] {
        let chunks = map_chunks(threads, &list, 7, <[usize]>::to_vec);
        assert_eq!(chunks.len(), 1000_usize.div_ceil(7));
        assert_eq!(chunks.concat(), list);
    }
    assert!(map_chunks(4, &list[..0], 0, <[usize]>::len).is_empty());
    for (len, least) in [(0, 5), (4, 5), (1000, 1), (1000, 0)] {
        let ranges = map_ranges(len, least, |range| range);
        assert!((1..=available()).contains(&ranges.len()));
        let all: Vec<usize> = ranges.into_iter().flatten().collect();
        assert_eq!(all, (0..len).collect::<Vec<_>>());
    }
}

#[test]
fn nested_calls_share_the_threads_of_the_outermost() {
    let inside = Inside::default();
    run(3, 9, |outer| {
        while outer.next().is_some() {
            let middle = |_: &[i32]| {
                let inner = |_: &[i32]| {
                    inside.during(|| std::thread::sleep(Duration::from_micros(300)));
                };
                map_chunks(8, &[0; 8], 1, inner);
            };
            map_chunks(8, &[0; 4], 1, middle);
        }
    });
    let most = inside.most.into_inner();
    assert!((2..=3).contains(&most), "{most} threads");
}

#[test]
fn threads_that_end_serve_calls_that_still_run() {
    // Two pieces. One ends at once, and the other gets its thread for nested pieces.
    let served = run(2, 2, |queue| {
        let mut threads = 0;
        while let Some(piece) = queue.next() {
            if piece == 0 {
                // Ends when a second thread arrives. There are more than enough pieces for that.
                let come = AtomicUsize::new(0);
                let found = run(2, usize::MAX, |pieces| {
                    come.fetch_add(1, Ordering::SeqCst);
                    while pieces.next().is_some() && come.load(Ordering::SeqCst) < 2 {
                        std::thread::yield_now();
                    }
                });
                threads += found.len();
            }
        }
        threads
    });
    assert_eq!(served.into_iter().sum::<usize>(), 2);
}

#[test]
fn the_calling_thread_does_all_where_no_thread_can_be_had() {
    let refusals = AtomicUsize::new(0);
    let builder = || {
        refusals.fetch_add(1, Ordering::Relaxed);
        refused()
    };
    let here = std::thread::current().id();
    let done = run_with(builder, 4, 100, |queue| {
        assert_eq!(std::thread::current().id(), here);
        std::iter::from_fn(|| queue.next()).count()
    });
    assert_eq!(done, [100]);
    assert_eq!(refusals.into_inner(), 1, "asked again");
}

#[test]
fn a_refused_thread_is_one_for_others() {
    let outer = run(2, 1, |_| {
        run_with(refused, 2, 2, |queue| while queue.next().is_some() {});
        let barrier = Barrier::new(2);
        run(2, 2, |queue| {
            let piece = queue.next();
            barrier.wait();
            piece
        })
    });
    assert_eq!(outer.concat().len(), 2);
}

#[test]
fn a_panic_of_a_worker_is_one_of_the_caller() {
    let caught = std::panic::catch_unwind(|| {
        map_chunks(2, &[1, 2, 3, 4], 1, |some| assert_ne!(some, [3]));
    });
    assert!(caught.is_err());
    // The failure leaves no state on this thread.
    assert_eq!(
        run(3, 3, |queue| while queue.next().is_some() {})
            .len()
            .min(1),
        1
    );
    as_many_threads_run_as_were_asked_for();
}
