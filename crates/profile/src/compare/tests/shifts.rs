//! Changes of one function, and cost that moved between functions.

use super::*;

#[test]
fn one_hot_function_that_rises_is_named() {
    // It takes nine tenths, so the others hardly prove that they did not change.
    let runs = |hot: u64| {
        [0, 5, 10].map(|more| {
            of(&[
                ("main;hot", hot + more),
                ("main;a", 400),
                ("main;b", 300 + more),
                ("main;c", 300),
            ])
        })
    };
    let diff = compare(&runs(9000), &runs(13_500), &CompareOptions::default()).unwrap();
    assert_eq!(named(&diff), ["hot"]);
    assert_eq!(
        (diff.outcome, diff.gate()),
        (Outcome::Regressed, Gate::Regressed)
    );
    let hot = row(&diff, "hot");
    assert!(hot.own.interval.unwrap().contains(1.5));
    assert!(hot.own.visible.unwrap() < 0.3);
    assert_eq!(row(&diff, "main").own.verdict, Verdict::TooSmall);
    assert_eq!(row(&diff, "main").total.verdict, Verdict::Regressed);
}

#[test]
fn cost_that_moves_under_one_caller_is_no_regression() {
    let runs = |stacks: &[(&str, u64)]| {
        [0, 3, 7].map(|more| {
            let stacks: Vec<_> = stacks.iter().map(|(stack, n)| (*stack, n + more)).collect();
            of(&stacks)
        })
    };
    let old = runs(&[
        ("main;parse;ascii", 2000),
        ("main;parse;token", 3000),
        ("main;rest", 5000),
    ]);
    let new = runs(&[
        ("main;parse;utf8", 2050),
        ("main;parse;token", 3000),
        ("main;rest", 5000),
    ]);
    let options = CompareOptions::default();
    let diff = compare(&old, &new, &options).unwrap();
    let [utf8, ascii] = ["utf8", "ascii"].map(|name| row(&diff, name));
    assert_eq!(
        (utf8.own.verdict, ascii.own.verdict),
        (Verdict::Moved, Verdict::Moved)
    );
    assert_eq!(
        (utf8.presence, ascii.presence),
        (Presence::OnlyNew, Presence::OnlyOld)
    );
    let counterpart = &diff.functions[utf8.counterpart.unwrap()];
    assert_eq!(counterpart.name.as_deref(), Some("ascii"));
    assert_ne!(diff.gate(), Gate::Regressed);
    let new = runs(&[
        ("main;parse", 2000),
        ("main;parse;token", 3000),
        ("main;rest", 5000),
    ]);
    let diff = compare(&old, &new, &options).unwrap();
    assert_eq!(row(&diff, "parse").own.verdict, Verdict::Moved);
    assert_eq!(row(&diff, "ascii").own.verdict, Verdict::Moved);
    let new = runs(&[
        ("main;parse;ascii", 2000),
        ("main;parse;utf8", 2000),
        ("main;parse;token", 3000),
        ("main;rest", 5000),
    ]);
    let diff = compare(&old, &new, &options).unwrap();
    assert_eq!(row(&diff, "parse").total.verdict, Verdict::Regressed);
    assert_eq!(row(&diff, "utf8").own.verdict, Verdict::Regressed);
}
