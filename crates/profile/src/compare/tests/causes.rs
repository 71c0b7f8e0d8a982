//! Attribution of callers' changes to the changed function.

use super::*;

fn three(stacks: &[(&str, u64)]) -> [Profile; 3] {
    [0, 3, 7].map(|more| {
        let stacks: Vec<_> = stacks.iter().map(|(stack, n)| (*stack, n + more)).collect();
        of(&stacks)
    })
}

fn cause<'d>(diff: &'d ProfileDiff, name: &str) -> Option<&'d str> {
    let cause = row(diff, name).explained_by?;
    diff.functions[cause].name.as_deref()
}

#[test]
fn callers_of_what_changed_are_led_to_it() {
    let old = [
        ("start;main;run;eval;f;eval;sort", 2000),
        ("start;main;run;eval;f", 1000),
        ("start;main;run;eval;other", 4000),
        ("start;main;load", 3000),
    ];
    let mut new = old;
    new[0].1 = 4000;
    let diff = compare(&three(&old), &three(&new), &CompareOptions::default()).unwrap();
    assert_eq!(row(&diff, "sort").own.verdict, Verdict::Regressed);
    // `eval` calls itself, and is above `f`.
    let led = ["start", "main", "run", "eval", "f", "sort", "load"].map(|name| cause(&diff, name));
    let expected = ["main", "run", "eval", "f", "sort"].map(Some);
    assert_eq!(led[..5], expected);
    assert_eq!(led[5..], [None, None]);
    let failing: Vec<_> = diff.failing().map(|row| row.name.as_deref()).collect();
    assert_eq!(failing, [Some("sort")]);
    let back = compare(&three(&new), &three(&old), &CompareOptions::default()).unwrap();
    for (there, back) in diff.functions.iter().zip(&back.functions) {
        assert_eq!(there.explained_by, back.explained_by, "{:?}", there.name);
    }
}

#[test]
fn a_caller_that_calls_a_common_function_more_often_is_a_finding() {
    let old = [
        ("main;f;copy", 1000),
        ("main;g;copy", 3000),
        ("main;h;copy", 3000),
        ("main;load", 3000),
    ];
    let mut new = old;
    new[0].1 = 4000;
    let diff = compare(&three(&old), &three(&new), &CompareOptions::default()).unwrap();
    assert_eq!(row(&diff, "copy").own.verdict, Verdict::Regressed);
    assert_eq!((cause(&diff, "f"), cause(&diff, "main")), (None, Some("f")));
}

#[test]
fn functions_that_call_each_other_are_never_all_explained() {
    let old = [("a;b;x", 500), ("b;a;y", 500), ("c", 9000)];
    let new = [("a;b;x", 900), ("b;a;y", 900), ("c", 9000)];
    let diff = compare(&three(&old), &three(&new), &CompareOptions::default()).unwrap();
    let left = diff.functions.iter();
    let left = left.filter(|row| row.is_marked() && row.explained_by.is_none());
    assert!(left.count() >= 1);
    for row in &diff.functions {
        let next = |at: &FunctionDiff| at.explained_by.map(|cause| diff.functions[cause].clone());
        let chain = std::iter::successors(next(row), next);
        assert!(chain.take(10).count() < 10, "{:?}", row.name);
    }
}

#[test]
fn a_function_without_time_of_its_own_that_goes_has_moved() {
    // `wrapper` was inlined, so `run` calls its callees directly.
    let old = [
        ("main;run;wrapper;x", 1000),
        ("main;run;wrapper;y", 1000),
        ("main;rest", 6000),
    ];
    let new = [
        ("main;run;x", 1000),
        ("main;run;y", 1000),
        ("main;rest", 6000),
    ];
    for (old, new) in [(old, new), (new, old)] {
        let diff = compare(&three(&old), &three(&new), &CompareOptions::default()).unwrap();
        assert_eq!(row(&diff, "wrapper").total.verdict, Verdict::Moved);
        assert_eq!((diff.outcome, diff.gate()), (Outcome::Moved, Gate::Passed));
    }
    let named = |root: &str| {
        let stacks = [("x", 3000), ("y", 4000), ("z", 2000)];
        let stacks = stacks.map(|(name, n)| (format!("{root};{name}"), n));
        three(&stacks.each_ref().map(|(stack, n)| (&**stack, *n)))
    };
    let diff = compare(
        &named("_start"),
        &named("_init"),
        &CompareOptions::default(),
    )
    .unwrap();
    assert_eq!(diff.outcome, Outcome::Moved);
    let new = [
        ("main;run;wrapper;x", 1000),
        ("main;run;wrapper;y", 1000),
        ("main;run;added;z", 1000),
        ("main;rest", 6000),
    ];
    let diff = compare(&three(&old), &three(&new), &CompareOptions::default()).unwrap();
    assert_eq!(row(&diff, "added").total.verdict, Verdict::Regressed);
    assert_eq!(diff.gate(), Gate::Regressed);
}
