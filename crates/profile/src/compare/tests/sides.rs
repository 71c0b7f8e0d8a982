//! Amounts of the sides: runs, divisors, and incomparable sides.

use super::*;

#[test]
fn one_run_a_side_is_suspected_at_most_unless_the_noise_is_known() {
    let (old, new) = (
        of(&[("main;f", 2000), ("main;g", 3000)]),
        of(&[("main;f", 4000), ("main;g", 3000)]),
    );
    let sides = [[old], [new]];
    let diff = compare(&sides[0], &sides[1], &CompareOptions::default()).unwrap();
    assert_eq!(row(&diff, "f").own.verdict, Verdict::Suspected);
    assert_eq!(
        (diff.outcome, diff.gate()),
        (Outcome::Suspected, Gate::Inconclusive)
    );
    assert!(matches!(diff.noise, Noise::Assumed(_)));
    let known = CompareOptions {
        noise: Some(0.02),
        ..CompareOptions::default()
    };
    let diff = compare(&sides[0], &sides[1], &known).unwrap();
    assert_eq!(row(&diff, "f").own.verdict, Verdict::Regressed);
    assert_eq!(diff.gate(), Gate::Regressed);
    let reserved = CompareOptions {
        reservations: vec!["other machines".into()],
        ..known
    };
    let diff = compare(&sides[0], &sides[1], &reserved).unwrap();
    assert_eq!(
        (row(&diff, "f").own.verdict, diff.gate()),
        (Verdict::Suspected, Gate::Inconclusive)
    );
    let same = compare(&sides[0], &sides[0], &CompareOptions::default()).unwrap();
    assert_eq!((same.outcome, same.gate()), (Outcome::Same, Gate::Passed));
}

#[test]
fn amounts_are_per_unit_of_work() {
    let (old, new) = ([of(&[("main;f", 1000)])], [of(&[("main;f", 2000)])]);
    let per = |work| {
        let options = CompareOptions {
            work,
            ..CompareOptions::default()
        };
        let diff = compare(&old, &new, &options);
        diff.map(|diff| {
            let f = row(&diff, "f");
            (f.own.old, f.own.new)
        })
    };
    assert_eq!(per(Work::Run), Ok((1e9, 2e9)));
    assert_eq!(
        per(Work::Units {
            old: 10.0,
            new: 20.0
        }),
        Ok((1e8, 1e8))
    );
    assert_eq!(per(Work::Share), Ok((1.0, 1.0)));
    assert!(matches!(
        per(Work::Seconds),
        Err(CompareError::NoWork { .. })
    ));
}

#[test]
fn shares_that_noise_hides_are_not_called_unchanged() {
    let runs = |amounts: [u64; 3]| amounts.map(|n| of(&[("main;f", n), ("main;g", 2000)]));
    let options = CompareOptions {
        work: Work::Share,
        ..CompareOptions::default()
    };
    let sides = [runs([1000, 3000, 500]), runs([2500, 800, 1500])];
    let diff = compare(&sides[0], &sides[1], &options).unwrap();
    assert_eq!(row(&diff, "f").own.verdict, Verdict::Inconclusive);
    assert_eq!(
        (diff.outcome, diff.whole_deviation),
        (Outcome::Inconclusive, None)
    );
    let diff = compare(&sides[0], &sides[1], &CompareOptions::default()).unwrap();
    assert!(diff.whole_deviation.unwrap() > 0.2, "{diff:?}");
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let options = CompareOptions::default();
    let some = [of(&[("main", 10)])];
    assert_eq!(compare(&[], &some, &options), Err(CompareError::NoProfiles));
    let empty = [of(&[])];
    assert!(matches!(
        compare(&some, &empty, &options),
        Err(CompareError::NoSamples { .. })
    ));
    let other = |name: &str| {
        let mut profile = of(&[("main", 10)]);
        profile.events[0].name = name.into();
        [profile]
    };
    assert!(matches!(
        compare(&some, &other("cpu-clock:u"), &options),
        Err(CompareError::OtherEvent { .. })
    ));
    assert!(matches!(
        compare(&some, &other("cycles"), &options),
        Err(CompareError::OtherEvent { .. })
    ));
    assert!(compare(&other("cycles:upp"), &other("cycles:u"), &options).is_ok());
    assert!(compare(&other("cycles:k"), &other("cycles:u"), &options).is_err());
}

#[test]
fn stacks_of_both_sides_are_one_where_their_functions_are() {
    let options = CompareOptions {
        stacks: true,
        ..CompareOptions::default()
    };
    let old = [of(&[("main;f.cold", 2), ("main;f", 3), ("main;g", 1)])];
    let new = [of(&[("main;f", 4)]), of(&[("main;f", 8)])];
    let diff = compare(&old, &new, &options).unwrap();
    let mut stacks: Vec<_> = (diff.stacks.iter())
        .map(|stack| {
            let names = stack
                .rows
                .iter()
                .map(|row| diff.functions[*row as usize].name.as_deref());
            (
                names.flatten().collect::<Vec<_>>().join(";"),
                stack.weights,
                stack.amounts,
            )
        })
        .collect();
    stacks.sort_by(|a, b| a.0.cmp(&b.0));
    let ms = |n: u64| n * MS;
    assert_eq!(
        stacks,
        [
            ("main;f".into(), [ms(5), ms(12)], [5e6, 6e6]),
            ("main;g".into(), [ms(1), 0], [1e6, 0.0]),
        ]
    );
    assert_eq!(diff.comms, ["app"]);
}
