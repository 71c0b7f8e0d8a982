use super::*;
use crate::{FoundBy, FrameKind};

const MS: u64 = 1_000_000;
const ROOT: Root = Root::UndefinedReturnAddress;

/// Addresses are of the function that their tens tell, and all are of one image.
struct Tens {
    /// Where the image is.
    base: u64,
}

impl Functions for Tens {
    fn function_of(&self, frame: &Frame) -> Option<u64> {
        Some(frame.address / 10 * 10)
    }

    fn in_file(&self, address: u64) -> Option<(u64, u64)> {
        Some((1, address - self.base))
    }
}

const HERE: Tens = Tens { base: 0 };

/// Frames, the innermost first, of 16 bytes each.
fn stack(addresses: &[u64], top: u64) -> Vec<Frame> {
    let depth = addresses.len() as u64;
    let frame = |(n, address): (usize, &u64)| Frame {
        address: *address,
        sp: top - 0x10 * (depth - n as u64),
        slot: top - 0x10 * (depth - n as u64) - 8,
        kind: FrameKind::Caller,
        by: FoundBy::Cfi,
    };
    addresses.iter().enumerate().map(frame).collect()
}

const TOP: u64 = 0x80_0000;

/// One thread, whose stacks are cut behind their first two frames.
struct Watched {
    outer: OuterFrames,
    thread: u64,
    functions: Tens,
    top: u64,
}

impl Watched {
    fn new() -> Watched {
        Watched {
            outer: OuterFrames::new(),
            thread: 7,
            functions: HERE,
            top: TOP,
        }
    }

    /// The place where such a stack is cut.
    fn place(&self, addresses: &[u64]) -> Place {
        let frames = stack(addresses, self.top);
        Place {
            slot: frames[2].slot,
            function: self.functions.function_of(&frames[1]).unwrap(),
        }
    }

    /// A sample is taken, and cut.
    fn sample(&mut self, addresses: &[u64], time: u64) -> Place {
        let place = self.place(addresses);
        (self.outer).cut(self.thread, place, time, &self.functions);
        place
    }

    /// The memory has this stack at a time.
    fn look(&mut self, addresses: &[u64], time: u64) {
        let frames = stack(addresses, self.top);
        let sighting = Sighting {
            frames: &frames,
            from: 2,
            root: ROOT,
            time,
        };
        self.outer.saw(self.thread, sighting, &self.functions);
    }

    /// A sample whose copy reaches the root.
    fn whole(&mut self, addresses: &[u64], time: u64) {
        let frames = stack(addresses, self.top);
        let sighting = Sighting {
            frames: &frames,
            from: 0,
            root: ROOT,
            time,
        };
        self.outer.saw(self.thread, sighting, &self.functions);
    }

    /// A sample each millisecond, and a look half a one later.
    fn run(&mut self, addresses: &[u64], from: u64, to: u64) {
        for ms in from..to {
            self.sample(addresses, ms * MS);
            self.look(addresses, ms * MS + MS / 2);
        }
    }

    /// The callers that a sample is given in the end.
    fn judged(&self, place: Place, time: u64) -> Option<Vec<u64>> {
        match self.outer.judge(self.thread, place, time, u64::MAX) {
            Verdict::Callers(callers, _) => Some(callers.iter().map(|f| f.address).collect()),
            Verdict::Wait | Verdict::Unknown => None,
        }
    }
}

const A: &[u64] = &[91, 82, 33, 22, 11];
const B: &[u64] = &[91, 82, 44, 22, 11];

#[test]
fn is_believed_when_it_was_seen_on_both_sides() {
    let mut thread = Watched::new();
    thread.run(A, 0, 6);
    let place = thread.place(A);
    assert_eq!(thread.judged(place, 3 * MS), Some(vec![33, 22, 11]));
    // Not before its time.
    let early = thread.outer.judge(7, place, 3 * MS, 5 * MS);
    assert_eq!(early, Verdict::Wait);
    let Verdict::Callers(callers, root) = thread.outer.judge(7, place, 3 * MS, 203 * MS) else {
        panic!("not known");
    };
    assert!(callers.iter().all(|frame| frame.by == FoundBy::Memory) && root == ROOT);
    // Of another thread and another place nothing is known.
    assert_eq!(
        thread.outer.judge(8, place, 3 * MS, u64::MAX),
        Verdict::Unknown
    );
    let inner = Place {
        slot: place.slot - 8,
        ..place
    };
    assert_eq!(thread.judged(inner, 3 * MS), None);
    thread.outer.forget(7);
    assert_eq!(
        (thread.judged(place, 3 * MS), thread.outer.frames),
        (None, 0)
    );
}

#[test]
fn is_not_believed_for_few_looks() {
    let mut thread = Watched::new();
    thread.run(A, 0, 3);
    let place = thread.place(A);
    assert_eq!(thread.judged(place, MS), None);
    // Nor for many while the thread did not run.
    for n in 0..100 {
        thread.look(A, 3 * MS + n * MS);
        thread.outer.stood(7, place, true, 3 * MS + n * MS + MS / 2);
    }
    assert_eq!(thread.judged(place, MS), None);
    thread.run(A, 200, 201);
    assert!(thread.judged(place, MS).is_some());
}

#[test]
fn is_never_believed_where_callers_change() {
    let mut thread = Watched::new();
    thread.run(A, 0, 20);
    let place = thread.place(A);
    assert_eq!(thread.place(B), place);
    assert!(thread.judged(place, 10 * MS).is_some());
    // What comes later counts as well.
    thread.run(B, 20, 21);
    assert_eq!(thread.judged(place, 10 * MS), None);
    thread.run(A, 21, 60);
    assert_eq!(thread.judged(place, 40 * MS), None);
    // A stack that was whole tells it, too.
    let mut thread = Watched::new();
    thread.run(A, 0, 20);
    thread.whole(B, 5 * MS);
    assert_eq!(thread.judged(place, 10 * MS), None);
    // Inside of another function they may be others.
    let other: &[u64] = &[91, 72, 44, 22, 11];
    let mut thread = Watched::new();
    thread.run(A, 0, 20);
    thread.run(other, 20, 40);
    assert!(thread.judged(place, 10 * MS).is_some());
    assert!(thread.judged(thread.place(other), 30 * MS).is_some());
}

#[test]
fn one_side_is_enough_if_it_is_near() {
    let mut thread = Watched::new();
    let place = thread.sample(A, 0);
    thread.sample(A, 5 * MS);
    thread.run(A, 10, 20);
    assert_eq!(thread.judged(place, 0), None, "the first look came late");
    assert!(thread.judged(place, 5 * MS).is_some());
    assert!(thread.judged(place, 29 * MS).is_some());
    assert_eq!(thread.judged(place, 31 * MS), None);
    // Something else stood there after.
    thread.whole(&[5, 4, 3], 25 * MS);
    assert!(thread.judged(place, 24 * MS).is_some());
    assert_eq!(thread.judged(place, 26 * MS), None);
}

#[test]
fn one_side_is_not_enough_for_functions_that_are_called_from_everywhere() {
    let mut thread = Watched::new();
    thread.run(A, 10, 20);
    let place = thread.place(A);
    assert!(thread.judged(place, 5 * MS).is_some());
    // The same function, deeper.
    for outer in [[15, 16, 17].as_slice(), &[15, 16, 17, 18]] {
        let at = |caller: u64| [&[91, 82, caller], outer].concat();
        thread.run(&at(33), 30, 32);
        thread.run(&at(44), 32, 34);
    }
    assert_eq!(thread.judged(place, 5 * MS), None);
    assert!(thread.judged(place, 15 * MS).is_some());
}

#[test]
fn threads_that_are_alike_tell_of_each_other() {
    // The same program, started again and again.
    let started = |outer: OuterFrames, n: u64| Watched {
        outer,
        thread: n,
        functions: Tens { base: n * 1000 },
        top: TOP + n * 0x10_0000,
    };
    let moved = |addresses: &[u64], n: u64| -> Vec<u64> {
        addresses.iter().map(|address| address + n * 1000).collect()
    };
    let mut outer = OuterFrames::new();
    let mut judged = Vec::new();
    for n in 0..4 {
        let mut thread = started(outer, n);
        let stack = moved(A, n);
        thread.run(&stack, 0, 2);
        let place = thread.place(&stack);
        judged.push(thread.judged(place, 200 * MS).is_some());
        outer = thread.outer;
    }
    assert_eq!(judged, [false, true, true, true]);
    // Not if nothing was seen of this one.
    let mut thread = started(outer, 4);
    let place = thread.sample(&moved(A, 4), 0);
    assert_eq!(thread.judged(place, 0), None);
    // One of them shows that there are others.
    let stack = moved(B, 4);
    thread.run(&stack, 0, 2);
    let mut thread = started(thread.outer, 5);
    let stack = moved(A, 5);
    thread.run(&stack, 0, 2);
    assert_eq!(thread.judged(thread.place(&stack), 0), None);
}

#[test]
fn keeps_no_more_than_it_should() {
    let mut thread = Watched::new();
    let deep: Vec<u64> = (0..10_000).collect();
    for n in 0..100 {
        thread.thread = n;
        thread.whole(&deep, n);
        assert!(thread.outer.frames <= MAX_FRAMES + deep.len());
    }
    for n in 0..10_000 {
        let place = Place {
            slot: n * 8,
            function: n,
        };
        thread.outer.cut(1, place, n, &HERE);
    }
    assert!(thread.outer.threads[&1].places.len() <= 4 * MAX_PLACES);
}

proptest::proptest! {
    /// Whatever is seen, in whatever order: nobody gets callers that were not seen at its place, and none
    /// where two kinds were.
    #[test]
    fn only_what_was_seen_is_told(
        seen in proptest::collection::vec((0u64..4, 0u64..400, proptest::bool::ANY), 1..60),
        asked in 0u64..400,
    ) {
        let mut thread = Watched::new();
        let kinds = |n: u64| [91, 82, 33 + n % 2, 22 + n / 2 * 7, 11];
        let mut found = std::collections::BTreeSet::new();
        let place = thread.sample(&kinds(0), 0);
        for (kind, ms, is_whole) in &seen {
            thread.sample(&kinds(*kind), ms * MS);
            match is_whole {
                true => thread.whole(&kinds(*kind), ms * MS),
                false => thread.look(&kinds(*kind), ms * MS + 1),
            }
            found.insert(kinds(*kind)[2..].to_vec());
        }
        let judged = thread.judged(place, asked * MS);
        proptest::prop_assert!(judged.is_none_or(|it| found.len() == 1 && found.contains(&it)));
    }
}
