use super::completer::{MAX_CUT_POINTS, MAX_FRAMES};
use super::*;
use crate::{FoundBy, FrameKind, Root, StackFrame};

const MS: u64 = 1_000_000;
const ROOT: Root = Root::UndefinedReturnAddress;

/// A function has ten addresses. All code is in one image.
struct Tens {
    base: u64,
}

impl CodeLookup for Tens {
    fn function_of(&self, frame: &StackFrame) -> Option<u64> {
        Some(frame.address / 10 * 10)
    }

    fn image_offset(&self, address: u64) -> Option<(u64, u64)> {
        Some((1, address - self.base))
    }
}

const HERE: Tens = Tens { base: 0 };

/// Frames of 16 bytes, innermost first.
fn stack(addresses: &[u64], top: u64) -> Vec<StackFrame> {
    let depth = addresses.len() as u64;
    let frame = |(n, address): (usize, &u64)| StackFrame {
        address: *address,
        sp: top - 0x10 * (depth - n as u64),
        slot: top - 0x10 * (depth - n as u64) - 8,
        kind: FrameKind::Caller,
        found_by: FoundBy::Cfi,
    };
    addresses.iter().enumerate().map(frame).collect()
}

const TOP: u64 = 0x80_0000;

/// One thread. Its stacks are cut after two frames.
struct Watched {
    stacks: DeepStackCompleter,
    thread: u64,
    functions: Tens,
    top: u64,
}

impl Watched {
    fn new() -> Watched {
        Watched {
            stacks: DeepStackCompleter::new(),
            thread: 7,
            functions: HERE,
            top: TOP,
        }
    }

    fn cut_point(&self, addresses: &[u64]) -> CutPoint {
        let frames = stack(addresses, self.top);
        CutPoint {
            slot: frames[2].slot,
            function: self.functions.function_of(&frames[1]).unwrap(),
        }
    }

    fn sample(&mut self, addresses: &[u64], time: u64) -> CutPoint {
        let cut = self.cut_point(addresses);
        let frames = stack(addresses, self.top);
        (self.stacks).register_cut(self.thread, cut, &frames[..2], time, &self.functions);
        cut
    }

    fn look(&mut self, addresses: &[u64], time: u64) {
        let frames = stack(addresses, self.top);
        let sighting = StackObservation {
            frames: &frames,
            observed_from: 2,
            root: ROOT,
            begun: time,
            time,
        };
        self.stacks.observe(self.thread, sighting, &self.functions);
    }

    fn whole(&mut self, addresses: &[u64], time: u64) {
        let frames = stack(addresses, self.top);
        let sighting = StackObservation {
            frames: &frames,
            observed_from: 0,
            root: ROOT,
            begun: time,
            time,
        };
        self.stacks.observe(self.thread, sighting, &self.functions);
    }

    /// Samples every millisecond and reads the memory half a millisecond later.
    fn run(&mut self, addresses: &[u64], from: u64, to: u64) {
        for ms in from..to {
            self.sample(addresses, ms * MS);
            self.look(addresses, ms * MS + MS / 2);
        }
    }

    fn completed(&self, cut: CutPoint, time: u64) -> Option<Vec<u64>> {
        match self.stacks.complete(self.thread, cut, time, u64::MAX) {
            Completion::Callers(callers, _) => Some(callers.iter().map(|f| f.address).collect()),
            Completion::Pending | Completion::Unknown => None,
        }
    }
}

const A: &[u64] = &[91, 82, 33, 22, 11];
const B: &[u64] = &[91, 82, 44, 22, 11];

#[test]
fn is_believed_when_it_was_seen_on_both_sides() {
    let mut thread = Watched::new();
    thread.run(A, 0, 6);
    let cut = thread.cut_point(A);
    assert_eq!(thread.completed(cut, 3 * MS), Some(vec![33, 22, 11]));
    let early = thread.stacks.complete(7, cut, 3 * MS, 5 * MS);
    assert_eq!(early, Completion::Pending);
    let Completion::Callers(callers, root) = thread.stacks.complete(7, cut, 3 * MS, 203 * MS)
    else {
        panic!("not known");
    };
    assert!(
        callers
            .iter()
            .all(|frame| frame.found_by == FoundBy::OtherSample)
            && root == ROOT
    );
    assert_eq!(
        thread.stacks.complete(8, cut, 3 * MS, u64::MAX),
        Completion::Unknown
    );
    let inner = CutPoint {
        slot: cut.slot - 8,
        ..cut
    };
    assert_eq!(thread.completed(inner, 3 * MS), None);
    thread.stacks.forget(7);
    assert_eq!(
        (thread.completed(cut, 3 * MS), thread.stacks.frames),
        (None, 0)
    );
}

#[test]
fn is_not_believed_for_few_looks() {
    let mut thread = Watched::new();
    thread.run(A, 0, 3);
    let cut = thread.cut_point(A);
    assert_eq!(thread.completed(cut, MS), None);
    // Many looks do not help while the thread does not run.
    for n in 0..100 {
        thread.look(A, 3 * MS + n * MS);
        thread
            .stacks
            .recheck(7, cut, true, 3 * MS + n * MS, 3 * MS + n * MS + MS / 2);
    }
    assert_eq!(thread.completed(cut, MS), None);
    thread.run(A, 200, 201);
    assert!(thread.completed(cut, MS).is_some());
}

#[test]
fn is_never_believed_where_callers_change() {
    let mut thread = Watched::new();
    thread.run(A, 0, 20);
    let cut = thread.cut_point(A);
    assert_eq!(thread.cut_point(B), cut);
    assert!(thread.completed(cut, 10 * MS).is_some());
    thread.run(B, 20, 21);
    assert_eq!(thread.completed(cut, 10 * MS), None);
    thread.run(A, 21, 60);
    assert_eq!(thread.completed(cut, 40 * MS), None);
    let mut thread = Watched::new();
    thread.run(A, 0, 20);
    thread.whole(B, 5 * MS);
    assert_eq!(thread.completed(cut, 10 * MS), None);
    let other: &[u64] = &[91, 72, 44, 22, 11];
    let mut thread = Watched::new();
    thread.run(A, 0, 20);
    thread.run(other, 20, 40);
    assert!(thread.completed(cut, 10 * MS).is_some());
    assert!(thread.completed(thread.cut_point(other), 30 * MS).is_some());
}

#[test]
fn other_callers_count_unless_the_cut_point_has_gone_for_good() {
    let another_function: &[u64] = &[91, 73, 44, 22, 11];
    let known = Some(vec![33, 22, 11]);
    let cases: [(&[u64], &[u64], _); 3] = [
        (A, another_function, None),
        (another_function, A, None),
        (another_function, another_function, known),
    ];
    for (next, then, callers) in cases {
        let mut thread = Watched::new();
        thread.run(A, 0, 6);
        let cut = thread.sample(A, 6 * MS);
        thread.look(B, 6 * MS + MS / 2);
        assert_eq!(thread.completed(cut, 3 * MS), None, "undecided");
        thread.sample(next, 7 * MS);
        thread.sample(then, 8 * MS);
        assert_eq!(thread.completed(cut, 3 * MS), callers);
        assert_eq!(
            thread.completed(cut, 6 * MS),
            None,
            "the other callers may be of this stack"
        );
    }
}

#[test]
fn one_side_is_enough_if_it_is_near() {
    let mut thread = Watched::new();
    let cut = thread.sample(A, 0);
    thread.sample(A, 5 * MS);
    thread.run(A, 10, 20);
    assert_eq!(thread.completed(cut, 0), None, "the first look came late");
    assert!(thread.completed(cut, 5 * MS).is_some());
    assert!(thread.completed(cut, 29 * MS).is_some());
    assert_eq!(thread.completed(cut, 31 * MS), None);
    thread.whole(&[5, 4, 3], 25 * MS);
    assert!(thread.completed(cut, 24 * MS).is_some());
    assert_eq!(thread.completed(cut, 26 * MS), None);
}

#[test]
fn one_side_is_not_enough_for_functions_that_are_called_from_everywhere() {
    let mut thread = Watched::new();
    thread.run(A, 10, 20);
    let cut = thread.cut_point(A);
    assert!(thread.completed(cut, 5 * MS).is_some());
    for outer in [[15, 16, 17].as_slice(), &[15, 16, 17, 18]] {
        let at = |caller: u64| [&[91, 82, caller], outer].concat();
        thread.run(&at(33), 30, 32);
        thread.run(&at(44), 32, 34);
    }
    assert_eq!(thread.completed(cut, 5 * MS), None);
    assert!(thread.completed(cut, 15 * MS).is_some());
}

#[test]
fn threads_that_are_alike_tell_of_each_other() {
    let started = |stacks: DeepStackCompleter, n: u64| Watched {
        stacks,
        thread: n,
        functions: Tens { base: n * 1000 },
        top: TOP + n * 0x10_0000,
    };
    let moved = |addresses: &[u64], n: u64| -> Vec<u64> {
        addresses.iter().map(|address| address + n * 1000).collect()
    };
    let mut stacks = DeepStackCompleter::new();
    let mut completed = Vec::new();
    for n in 0..4 {
        let mut thread = started(stacks, n);
        let stack = moved(A, n);
        thread.run(&stack, 0, 3);
        let cut = thread.cut_point(&stack);
        completed.push(thread.completed(cut, 200 * MS).is_some());
        stacks = thread.stacks;
    }
    assert_eq!(completed, [false, true, true, true]);
    let mut thread = started(stacks, 4);
    let cut = thread.sample(&moved(A, 4), 0);
    assert_eq!(thread.completed(cut, 0), None);
    let stack = moved(B, 4);
    thread.run(&stack, 0, 2);
    let mut thread = started(thread.stacks, 5);
    let stack = moved(A, 5);
    thread.run(&stack, 0, 2);
    assert_eq!(thread.completed(thread.cut_point(&stack), 0), None);
}

#[test]
fn keeps_no_more_than_it_should() {
    let mut thread = Watched::new();
    let deep: Vec<u64> = (0..10_000).collect();
    for n in 0..100 {
        thread.thread = n;
        thread.whole(&deep, n);
        assert!(thread.stacks.frames <= MAX_FRAMES + deep.len());
    }
    for n in 0..10_000 {
        let cut = CutPoint {
            slot: n * 8,
            function: n,
        };
        thread.stacks.register_cut(1, cut, &[], n, &HERE);
    }
    assert!(thread.stacks.threads[&1].cut_points.len() <= 4 * MAX_CUT_POINTS);
}

/// Frames of 16 bytes. The second has an array below the third's callers.
fn beneath_array(addresses: &[u64], array: u64) -> Vec<StackFrame> {
    let mut frames = stack(addresses, TOP);
    for frame in &mut frames[..2] {
        frame.sp -= array;
        frame.slot -= array;
    }
    frames
}

/// Paths A and B alternate. While B runs, memory has a return address of A below B's array, and B's
/// callers above it.
#[test]
fn late_looks_at_what_was_popped_are_no_evidence() {
    let mixed: &[u64] = &[91, 82, 33, 22, 55, 11];
    let short: &[u64] = &[91, 82, 33, 22, 44, 11];
    let long = beneath_array(&[71, 62, 55, 11], 0x100);
    let long_cut = CutPoint {
        slot: long[2].slot,
        function: 60,
    };
    let mut thread = Watched::new();
    let cut = thread.cut_point(short);
    assert!(long[1].slot < cut.slot && cut.slot < long_cut.slot);
    for turn in 0..20 {
        thread.sample(short, 5 * turn * MS);
        for n in 1..5 {
            thread.look(mixed, (5 * turn + n) * MS - MS / 2);
            let (stacks, at) = (&mut thread.stacks, (5 * turn + n) * MS);
            stacks.register_cut(7, long_cut, &long[..2], at, &HERE);
        }
    }
    assert!(thread.stacks.callers_at(7, cut).is_some());
    for turn in 0..20 {
        assert_eq!(thread.completed(cut, 5 * turn * MS), None, "{turn}");
    }
    let mut thread = Watched::new();
    for turn in 0..20 {
        thread.sample(short, 5 * turn * MS);
        thread.look(mixed, 5 * turn * MS + MS);
        thread.whole(&[55, 11], 5 * turn * MS + 2 * MS);
    }
    assert_eq!(thread.completed(cut, 50 * MS), None);
    let mut thread = Watched::new();
    thread.run(short, 0, 20);
    assert_eq!(thread.completed(cut, 10 * MS), Some(vec![33, 22, 44, 11]));
}

#[test]
fn nobody_looks_for_callers_while_the_thread_is_elsewhere() {
    let mut thread = Watched::new();
    thread.run(A, 0, 6);
    let cut = thread.cut_point(A);
    let wants = |thread: &Watched, ms: u64| thread.stacks.wants_recheck(7, cut, ms * MS);
    assert!(!wants(&thread, 5), "just looked");
    assert!(wants(&thread, 8));
    thread.whole(&[99, 98], 9 * MS);
    assert!(!wants(&thread, 12));
    thread.sample(A, 13 * MS);
    assert!(wants(&thread, 15));
}

/// The recorder is late: it processes the samples after the look.
#[test]
fn samples_that_are_known_late_disprove_looks_as_well() {
    for (other, expected) in [(A, true), (&[99, 98, 97, 22, 11][..], false)] {
        let mut thread = Watched::new();
        thread.run(A, 0, 6);
        let cut = thread.cut_point(A);
        thread.sample(A, 20 * MS);
        thread.look(A, 40 * MS);
        // Taken before that look.
        thread.sample(other, 21 * MS);
        thread.sample(other, 41 * MS);
        let late = thread.completed(cut, 39 * MS).is_some();
        assert_eq!(late, expected, "{other:?}");
    }
}

/// The look is proven after negative looks, and the nearest of these has been dropped.
#[test]
fn a_look_that_is_proven_late_does_not_hide_those_after_it() {
    let mut thread = Watched::new();
    thread.run(A, 0, 6);
    let cut = thread.cut_point(A);
    for (ms, stood) in [(7, false), (8, true), (9, false), (10, false), (11, false)] {
        (thread.stacks).recheck(7, cut, stood, ms * MS, ms * MS);
    }
    thread.sample(A, 12 * MS);
    assert_eq!(thread.completed(cut, 10 * MS + 1), None);
}

/// A sample arrives during the read of memory. Neither neighbour may have another stack.
#[test]
fn looks_that_take_long_are_of_all_their_time() {
    let other: &[u64] = &[99, 98, 97, 22, 11];
    for (before, after, expected) in [(A, A, true), (other, A, false), (A, other, false)] {
        let mut thread = Watched::new();
        thread.run(A, 0, 6);
        let cut = thread.sample(A, 30 * MS);
        thread.sample(before, 38 * MS);
        let frames = stack(A, TOP);
        let slow = StackObservation {
            frames: &frames,
            observed_from: 2,
            root: ROOT,
            begun: 39 * MS,
            time: 41 * MS,
        };
        thread.stacks.observe(7, slow, &HERE);
        thread.sample(A, 40 * MS);
        thread.sample(after, 42 * MS);
        let is_known = thread.completed(cut, 39 * MS).is_some();
        assert_eq!(is_known, expected, "{before:?} {after:?}");
    }
}

proptest::proptest! {
    /// A stack gets no unobserved callers, and none if they are ambiguous, for any order of
    /// observations.
    #[test]
    fn only_what_was_seen_is_told(
        seen in proptest::collection::vec((0u64..4, 0u64..400, proptest::bool::ANY), 1..60),
        asked in 0u64..400,
    ) {
        let mut thread = Watched::new();
        let kinds = |n: u64| [91, 82, 33 + n % 2, 22 + n / 2 * 7, 11];
        let mut found = std::collections::BTreeSet::new();
        let cut = thread.sample(&kinds(0), 0);
        for (kind, ms, is_whole) in &seen {
            thread.sample(&kinds(*kind), ms * MS);
            match is_whole {
                true => thread.whole(&kinds(*kind), ms * MS),
                false => thread.look(&kinds(*kind), ms * MS + 1),
            }
            found.insert(kinds(*kind)[2..].to_vec());
        }
        let completed = thread.completed(cut, asked * MS);
        proptest::prop_assert!(completed.is_none_or(|it| found.len() == 1 && found.contains(&it)));
    }
}
