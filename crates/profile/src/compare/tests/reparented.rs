//! Totals that change because calls have another caller, or because of more work below.

use super::*;

fn five(stacks: &[(&str, u64)]) -> Vec<Profile> {
    [0, 7, 3, 10, 5]
        .map(|more| {
            let stacks: Vec<_> = (stacks.iter().zip(0..))
                .map(|((stack, n), at)| (*stack, n + n * ((more + 3 * at) % 11) / 1000))
                .collect();
            of(&stacks)
        })
        .into()
}

fn diff(old: &[(&str, u64)], new: &[(&str, u64)]) -> ProfileDiff {
    compare(&five(old), &five(new), &CompareOptions::default()).unwrap()
}

fn failing(diff: &ProfileDiff) -> Vec<&str> {
    let names = diff.failing().filter_map(|row| row.name.as_deref());
    names.collect()
}

/// A program that folds on its main thread, and reads on another one.
const BEFORE: [(&str, u64); 5] = [
    ("_start;main;run;fold;hash", 1500),
    ("_start;main;run;write", 500),
    ("clone3;start_thread;run::{closure};decode", 1000),
    ("clone3;start_thread;run::{closure};fold;hash", 500),
    ("clone3;start_thread;run::{closure}", 20),
];

#[test]
fn work_that_another_thread_takes_over_has_moved() {
    let after = [
        ("_start;main;run;fold;hash", 300),
        ("_start;main;run;write", 500),
        ("clone3;start_thread;reader::{closure};decode", 1000),
        ("clone3;start_thread;reader::{closure};fold;hash", 1500),
        ("clone3;start_thread;reader::{closure}", 20),
    ];
    let [there, back] = [diff(&BEFORE, &after), diff(&after, &BEFORE)];
    for found in [&there, &back] {
        for name in [
            "reader::{closure}",
            "run::{closure}",
            "start_thread",
            "main",
        ] {
            let verdict = row(found, name).total.verdict;
            assert_eq!(verdict, Verdict::Moved, "{name}");
        }
    }
    assert_eq!(
        (there.outcome, failing(&there)),
        (Outcome::Improved, vec![])
    );
    assert_ne!(there.gate(), Gate::Regressed);
    assert_eq!(failing(&back), ["hash"]);
}

#[test]
fn what_takes_more_below_a_new_wrapper_is_found_and_the_wrapper_is_not() {
    let after = [
        ("_start;main;run;fold;hash", 300),
        ("_start;main;run;write", 500),
        ("clone3;start_thread;reader::{closure};decode", 1200),
        ("clone3;start_thread;reader::{closure};fold;hash", 1700),
        ("clone3;start_thread;reader::{closure}", 20),
    ];
    let found = diff(&BEFORE, &after);
    assert_eq!(failing(&found), ["decode"]);
    let wrapper = row(&found, "reader::{closure}");
    assert_eq!(wrapper.total.verdict, Verdict::Moved);
    assert_eq!(found.gate(), Gate::Regressed);
}

#[test]
fn a_new_wrapper_is_found_if_what_it_calls_was_not_done_before() {
    // Each function below is too small for a verdict.
    let names: Vec<String> = (0..12)
        .map(|n| format!("_start;main;run;check;small{n}"))
        .collect();
    let mut after: Vec<(&str, u64)> = BEFORE.to_vec();
    after.extend(names.iter().map(|name| (&**name, 25)));
    let found = diff(&BEFORE, &after);
    assert_eq!(row(&found, "check").total.verdict, Verdict::Regressed);
    assert_eq!(found.gate(), Gate::Regressed);
    // More calls of an existing function are also more work.
    let mut after: Vec<(&str, u64)> = BEFORE.to_vec();
    after.push(("_start;main;run;check;hash", 400));
    let found = diff(&BEFORE, &after);
    assert_eq!(row(&found, "hash").own.verdict, Verdict::Regressed);
    assert!(row(&found, "check").total.verdict == Verdict::Regressed);
}

#[test]
fn calls_that_one_function_makes_for_another_have_moved() {
    let program = |parse: u64, print: u64| {
        [
            ("main;run;parse;copy", parse),
            ("main;run;load;parse", 1000),
            ("main;end;print;copy", print),
            ("main;end;print;format", 1000),
        ]
    };
    let found = diff(&program(800, 1600), &program(1600, 800));
    for name in ["parse", "print", "run", "end"] {
        let verdict = row(&found, name).total.verdict;
        assert_eq!(verdict, Verdict::Moved, "{name}");
    }
    assert_eq!(
        (found.outcome, found.gate()),
        (Outcome::Moved, Gate::Passed)
    );
    // If the other function continues as before, there is more work.
    let found = diff(&program(800, 1600), &program(1600, 1600));
    assert_eq!(row(&found, "copy").own.verdict, Verdict::Regressed);
    assert_eq!(row(&found, "parse").total.verdict, Verdict::Regressed);
}

#[test]
fn a_new_caller_of_a_function_that_differs_by_itself_is_suspected() {
    // `copy` may take 5 % more, so the calls from `check` may be new.
    let program = |[copy, check, rest]: [u64; 3]| -> Vec<Profile> {
        let runs = [0, 100, 200, 50, 150].map(|more| {
            of(&[
                ("main;run;copy", copy + more),
                ("main;run;check;copy", check),
                ("main;run;a", 2000),
                ("main;b", rest + more),
                ("main;c", 2000),
            ])
        });
        runs.into()
    };
    let old = program([900, 0, 2000]);
    for (new, expected) in [
        ([700, 200, 2000], Verdict::Moved),
        ([830, 200, 2080], Verdict::Suspected),
    ] {
        let diff = compare(&old, &program(new), &CompareOptions::default()).unwrap();
        let verdict = row(&diff, "check").total.verdict;
        assert_eq!(verdict, expected, "{new:?}");
        assert!(!failing(&diff).contains(&"check"), "{new:?}");
    }
}

#[test]
fn a_function_that_wraps_what_others_called_before_is_no_regression_where_runs_differ() {
    // Leaves differ by half between runs, so each may have changed by the amount below `count`.
    let runs = |stacks: &[(String, u64)], turn: u64| -> Vec<Profile> {
        (0..5u64)
            .map(|run| {
                let stacks: Vec<_> = (stacks.iter().zip(0u64..))
                    .map(|((stack, n), at)| {
                        let noise = (run * 7 + at * 5 + turn * 3) % 11;
                        (stack.clone(), n * (30 + 14 * noise) / 100)
                    })
                    .collect();
                profile(&stacks)
            })
            .collect()
    };
    let leaves = |path: &str, n| -> Vec<(String, u64)> {
        let stack = |leaf| (format!("{path};leaf{leaf}"), n);
        (0..8).map(stack).collect()
    };
    let before = [
        leaves("main;run", 500),
        leaves("main;setup;count", 8),
        leaves("main;rest", 400),
    ];
    let after = [
        leaves("main;exec;count", 508),
        leaves("main;rest", 400),
        leaves("main;setup", 8),
    ];
    let diff = compare(
        &runs(&before.concat(), 0),
        &runs(&after.concat(), 1),
        &CompareOptions::default(),
    )
    .unwrap();
    let count = row(&diff, "count");
    assert!(count.total.old < 100.0 * MS as f64 && count.total.new > 3000.0 * MS as f64);
    assert!(
        matches!(
            count.total.verdict,
            Verdict::Suspected | Verdict::Moved | Verdict::Inconclusive
        ),
        "{count:?}"
    );
    assert_eq!(failing(&diff), Vec::<&str>::new());
}
