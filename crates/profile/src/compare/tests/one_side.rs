//! New and removed functions, and sides with very few samples.

use super::*;

fn runs<const N: usize>(stacks: &[(&str, [u64; N])]) -> Vec<Profile> {
    (0..N)
        .map(|run| {
            let stacks: Vec<_> = (stacks.iter())
                .map(|(stack, samples)| (*stack, samples[run]))
                .collect();
            of(&stacks)
        })
        .collect()
}

/// Small functions below `alloc`, too small for a verdict.
const SMALL: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn allocator(below: &str, samples: u64, rest: [u64; 5]) -> Vec<Profile> {
    let own = [100, 101, 99, 102, 98];
    let small: Vec<String> = (SMALL.iter())
        .map(|name| format!("main;run;alloc;{below};{name}"))
        .collect();
    let one = format!("main;run;alloc;{below};int_malloc");
    let mut stacks = vec![
        ("main;run;alloc", own),
        ("main;run;eval", [3000, 3020, 2990, 3010, 2980]),
        ("main;rest", rest),
    ];
    match below {
        "malloc" => stacks.push((&one, [samples; 5])),
        _ => stacks.extend(small.iter().map(|stack| (&**stack, [samples / 12; 5]))),
    }
    runs(&stacks)
}

const STEADY: [u64; 5] = [4000, 3990, 4020, 4010, 3980];

fn verdicts(old: &[Profile], new: &[Profile], name: &str) -> (Verdict, Outcome, Gate) {
    // A gate on functions only, because noise of the whole program is out of scope here.
    let options = CompareOptions {
        rules: GateRules {
            scope: Scope::Own,
            ..GateRules::default()
        },
        ..CompareOptions::default()
    };
    let diff = compare(old, new, &options).unwrap();
    (row(&diff, name).own.verdict, diff.outcome, diff.gate())
}

#[test]
fn a_part_that_is_gone_has_moved_if_what_it_lay_in_takes_as_much() {
    let old = allocator("malloc", 300, STEADY);
    // The others together take as much, or slightly more.
    for samples in [300, 324] {
        let new = allocator("je_malloc", samples, STEADY);
        let (verdict, outcome, _) = verdicts(&old, &new, "int_malloc");
        assert_eq!((verdict, outcome), (Verdict::Moved, Outcome::Moved));
        let (verdict, _, gate) = verdicts(&new, &old, "int_malloc");
        assert_eq!((verdict, gate), (Verdict::Moved, Gate::Passed));
    }
}

#[test]
fn a_part_of_which_one_run_has_a_sample_is_as_good_as_new() {
    // Inlined nearly everywhere in the old build, and nowhere in the new one.
    let program = |drop: [u64; 5], inlined: u64| {
        runs(&[
            ("main;run;drop;free", drop),
            ("main;run;free", [inlined; 5]),
            ("main;rest", STEADY),
        ])
    };
    let old = program([1, 0, 0, 0, 0], 400);
    let new = program([200, 201, 199, 200, 202], 200);
    let diff = compare(&old, &new, &CompareOptions::default()).unwrap();
    assert_eq!(row(&diff, "drop").total.verdict, Verdict::Moved);
    assert_eq!((diff.outcome, diff.gate()), (Outcome::Moved, Gate::Passed));
}

#[test]
fn what_is_left_of_a_caller_encloses_nothing() {
    // Other functions do the same work below another closure.
    let program = |call: &str, small: &str, left: [u64; 5]| {
        let stacks: Vec<String> = (0..12)
            .map(|n| format!("main;thread;{call};{call}::{{closure}};{small}{n}"))
            .collect();
        let mut all: Vec<(&str, [u64; 5])> = vec![
            ("main;thread;call", left),
            ("main;thread;read", STEADY),
            ("main;rest", STEADY),
        ];
        all.extend(stacks.iter().map(|stack| (&**stack, [25; 5])));
        runs(&all)
    };
    let old = program("call", "a", [0; 5]);
    let new = program("do_call", "b", [0, 1, 0, 0, 0]);
    for (old, new) in [(&old, &new), (&new, &old)] {
        let diff = compare(old, new, &CompareOptions::default()).unwrap();
        let verdict = row(&diff, "call::{closure}").total.verdict;
        assert_eq!((verdict, diff.outcome), (Verdict::Moved, Outcome::Moved));
    }
}

#[test]
fn a_part_that_is_gone_is_an_improvement_if_what_it_lay_in_takes_less() {
    let (old, new) = (
        allocator("malloc", 300, STEADY),
        allocator("je_malloc", 24, STEADY),
    );
    let (verdict, outcome, _) = verdicts(&old, &new, "int_malloc");
    assert_eq!((verdict, outcome), (Verdict::Improved, Outcome::Improved));
    let (verdict, outcome, gate) = verdicts(&new, &old, "int_malloc");
    assert_eq!(
        (verdict, outcome, gate),
        (Verdict::Regressed, Outcome::Regressed, Gate::Regressed)
    );
}

#[test]
fn what_is_new_is_suspected_where_what_it_lies_in_may_differ_by_chance() {
    // The noise of `run` far exceeds the new function.
    let program = |added: u64, by: [u64; 5]| {
        runs(&[
            ("main;run", by),
            ("main;run;added", [added; 5]),
            ("main;a", STEADY),
            ("main;b", STEADY),
            ("main;c", STEADY),
        ])
    };
    let old = program(0, [900, 1300, 1000, 1250, 1050]);
    let new = program(150, [1300, 910, 1240, 1040, 1010]);
    let (verdict, outcome, gate) = verdicts(&old, &new, "added");
    assert_eq!(
        (verdict, outcome, gate),
        (Verdict::Suspected, Outcome::Suspected, Gate::Inconclusive)
    );
    let (verdict, _, gate) = verdicts(&new, &old, "added");
    assert_eq!((verdict, gate), (Verdict::Suspected, Gate::Passed));
}

#[test]
fn a_part_with_many_callers_is_judged_by_what_encloses_most_of_it() {
    // Ten functions call `old_copy`, each for a small part of its weight, and later `new_copy`.
    let program = |copy: &str| {
        let stacks: Vec<_> = (0..10)
            .flat_map(|caller| {
                let stack = format!("main;f{caller}");
                [(format!("{stack};{copy}"), 40), (stack, 400)]
            })
            .collect();
        let owned: Vec<_> = (stacks.iter())
            .map(|(stack, n)| (&**stack, [*n, n + 1, *n, n + 2, *n]))
            .collect();
        runs(&owned)
    };
    let (verdict, outcome, _) = verdicts(&program("old_copy"), &program("new_copy"), "new_copy");
    assert_eq!((verdict, outcome), (Verdict::Moved, Outcome::Moved));
}

#[test]
fn a_side_with_next_to_no_samples_is_not_judged() {
    let (empty, full) = (
        runs(&[("main", [1, 2, 1, 1, 2])]),
        runs(&[("main", [300, 301, 299, 302, 300])]),
    );
    for (old, new, side) in [(&empty, &full, Side::Old), (&full, &empty, Side::New)] {
        let diff = compare(old, new, &CompareOptions::default()).unwrap();
        assert_eq!(diff.cautions, [Caution::FewSamples(side, 1.4)]);
        assert_eq!(
            (diff.outcome, diff.gate()),
            (Outcome::Suspected, Gate::Inconclusive)
        );
    }
    let small = runs(&[("main", [8, 9, 8, 8, 9])]);
    let diff = compare(&small, &full, &CompareOptions::default()).unwrap();
    assert_eq!((diff.cautions.len(), diff.gate()), (0, Gate::Regressed));
}
