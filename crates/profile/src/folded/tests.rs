use std::collections::BTreeMap;

use super::line::LONGEST_LINE;
use super::*;

fn profile(text: &[u8]) -> Result<Profile, FoldedError> {
    read(text, Path::new("x.folded"), &Filter::default())
}

fn stacks(profile: &Profile) -> BTreeMap<String, u64> {
    let of = |entry: &crate::AggregatedStack| {
        let names = (profile.stack(entry.stack))
            .map(|id| profile.function(id).name.as_deref().unwrap())
            .collect::<Vec<_>>();
        assert_eq!(entry.samples, entry.weight);
        (names.join(";"), entry.samples)
    };
    profile.aggregated.iter().map(of).collect()
}

fn expected<const N: usize>(stacks: [(&str, u64); N]) -> BTreeMap<String, u64> {
    stacks.map(|(stack, n)| (stack.to_owned(), n)).into()
}

#[test]
fn stacks_and_names_come_out_as_they_went_in() {
    let text = "main;f(int) const;operator new 3\n\n# a comment\nalone 2\n\
                main;f(int) const;operator new 4\r\n;;x 1\n#pragma 5";
    let profile = profile(text.as_bytes()).unwrap();
    let of = expected([
        ("main;f(int) const;operator new", 7),
        ("alone", 2),
        (";;x", 1),
        ("#pragma", 5),
    ]);
    assert_eq!(stacks(&profile), of);
    assert_eq!(
        (profile.events[0].samples, profile.events[0].weight),
        (15, 15)
    );
    assert_eq!(profile.events[0].unit, WeightUnit::Samples);
    assert!(profile.has_callchains);
    assert_eq!(profile.quality, Quality::default());
}

#[test]
fn of_two_counts_the_last_one_counts_as_in_inferno() {
    let profile = profile(b"a;b 10 5\na;c 3\na;d 2.0\n").unwrap();
    let of = expected([("a;b", 5), ("a;c", 3), ("a;d", 2)]);
    assert_eq!(stacks(&profile), of);
    let [two] = &profile.quality.warnings[..] else {
        panic!("{:?}", profile.quality.warnings);
    };
    assert!(
        two.starts_with("line 1 of x.folded with two counts"),
        "{two}"
    );
}

#[test]
fn fractions_keep_their_shares() {
    for (text, wanted, told) in [
        (
            "a;b 0.5\na;c 0.25\n",
            [("a;b", 50), ("a;c", 25)],
            "multiplied by 100",
        ),
        (
            "a;b 3\na;c 1.5\n",
            [("a;b", 30), ("a;c", 15)],
            "multiplied by 10 ",
        ),
        (
            "a;b 2.\na;c 0.000001\n",
            [("a;b", 2_000_000), ("a;c", 1)],
            "by 1000000",
        ),
        (
            "a;b\t1\na;c\t0.1234567\n",
            [("a;b", 1_000_000), ("a;c", 123_456)],
            "by 1000000",
        ),
        (
            "a;b 18446744073709551610\na;c 1.5\n",
            [("a;b", u64::MAX - 5), ("a;c", 1)],
            "only the first 6 decimals",
        ),
    ] {
        let profile = profile(text.as_bytes()).unwrap();
        assert_eq!(stacks(&profile), expected(wanted), "{text}");
        let sum = wanted.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(
            (profile.events[0].samples, profile.events[0].weight),
            (sum, sum)
        );
        let warnings = profile.quality.warnings.join("\n");
        assert!(warnings.contains(told), "{warnings}");
    }
}

#[test]
fn a_tab_stands_before_a_count_as_a_space_does() {
    let profile = profile(b"a;b\t12\na;c \t 8\na;operator new\t3\n").unwrap();
    let of = expected([("a;b", 12), ("a;c", 8), ("a;operator new", 3)]);
    assert_eq!(stacks(&profile), of);
    assert_eq!(profile.quality, Quality::default());
}

#[test]
fn of_a_stack_without_end_the_callers_are_left_out() {
    let text = format!("{}leaf 3\n", "f;".repeat(1 << 20));
    let profile = profile(text.as_bytes()).unwrap();
    let [entry] = &profile.aggregated[..] else {
        panic!("{:?}", profile.aggregated);
    };
    assert_eq!(profile.depth(entry.stack), MAX_FRAMES);
    let leaf = profile.stack(entry.stack).last().unwrap();
    assert_eq!(profile.function(leaf).name.as_deref(), Ok("leaf"));
    assert!(profile.quality.warnings[0].contains("more than 4096 frames"));
}

#[test]
fn memory_is_bounded_by_the_budget() {
    let text: String = (0..40_000).map(|n| format!("main;f{n};g{n} 1\n")).collect();
    let of = |bytes| {
        read_within(
            text.as_bytes(),
            Path::new("x"),
            &Filter::default(),
            &ReadingBudget::new(bytes),
        )
    };
    let error = of(1 << 20).unwrap_err();
    assert!(matches!(error, FoldedError::OverLimit { .. }), "{error}");
    assert!(error.to_string().contains("more than 1 MiB"), "{error}");
    assert_eq!(of(64 << 20).unwrap().aggregated.len(), 40_000);
}

#[test]
fn samples_without_frames_count() {
    let profile = profile(b"a;b 1\n 3\n\t 2\n7\n").unwrap();
    assert_eq!(stacks(&profile), expected([("a;b", 1), ("[unknown]", 5)]));
    assert!(profile.quality.warnings[0].contains("line 4"));
}

#[test]
fn wrong_lines_are_counted_and_the_others_kept() {
    let mut text = b"a;b 1\nno count\n\xff;b 2\na;c 18446744073709551615\n".to_vec();
    text.extend(vec![b'x'; LONGEST_LINE]);
    text.extend(b" 1\na;b 99999999999999999999\na;c 4");
    let profile = profile(&text).unwrap();
    assert_eq!(stacks(&profile), expected([("a;b", 1), ("a;c", 4)]));
    let warnings = &profile.quality.warnings;
    assert_eq!(
        warnings[..],
        [
            "5 lines (the first is line 2) of x.folded skipped: line 2 does not end in a \
             count; the format is `FRAME;FRAME COUNT`"
        ]
    );
}

#[test]
fn each_damage_is_told() {
    for (text, damage) in [
        (&b"\n\nmain;work"[..], "line 3 does not end in a count"),
        (b"main;work -3", "line 1 does not end in a count"),
        (b"main;work .5", "line 1 does not end in a count"),
        (
            b"main;work 99999999999999999999",
            "line 1 has a count that overflows",
        ),
        (b"7", "line 1 does not end in a count"),
        (b"main;\xff 3", "line 1 is not UTF-8"),
        (b"# only\n\n", "all lines are blank or comments"),
        (
            &vec![b'x'; LONGEST_LINE + 1],
            "line 1 is longer than 16 MiB",
        ),
    ] {
        let error = profile(text).unwrap_err().to_string();
        assert!(
            error.starts_with("x.folded has no folded stack: "),
            "{error}"
        );
        assert!(error.contains(damage), "{error}");
    }
}

#[test]
fn leaves_are_chosen_by_name() {
    let text = b"main;work 3\nmain 2\nwork;main 1\n";
    let filter = Filter {
        symbols: vec!["main".to_owned()],
        ..Filter::default()
    };
    let profile = read(&text[..], Path::new("x"), &filter).unwrap();
    assert_eq!(stacks(&profile), expected([("main", 2), ("work;main", 1)]));
    let filter = Filter {
        focus: vec!["w?rk".to_owned()],
        ..Filter::default()
    };
    let profile = read(&text[..], Path::new("x"), &filter).unwrap();
    let focused = [("main;work", 3), ("work;main", 1)];
    assert_eq!(stacks(&profile), expected(focused));
}
