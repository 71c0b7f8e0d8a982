//! Tests of comparisons in every format, with hostile names.

use rprof_profile::compare::{CompareOptions, ProfileDiff, compare};
use rprof_profile::{Profile, ProfileBuilder, WeightUnit};

use super::*;
use crate::svg::SvgOptions;

fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut builder = ProfileBuilder::new().source("x.data");
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let object = builder.intern_object("/usr/bin/app");
    let thread = builder.intern_thread_name("app 1");
    for (stack, samples) in stacks {
        let frames: Vec<_> = (stack.split(';'))
            .map(|name| builder.intern_function(Ok(name), object))
            .collect();
        let stack = builder.intern_stack(&frames);
        builder.add_samples(event, thread, stack, *samples, samples * 1_000_000);
    }
    builder.finish()
}

fn diff(old: &[(&str, u64)], new: &[(&str, u64)]) -> ProfileDiff {
    let options = CompareOptions {
        noise: Some(0.02),
        stacks: true,
        ..CompareOptions::default()
    };
    compare(&[profile(old)], &[profile(new)], &options).unwrap()
}

/// Returns a comparison with a slower, a removed, a new and an unchanged function.
fn changed() -> ProfileDiff {
    diff(
        &[
            ("main;parse", 2000),
            ("main;ascii", 300),
            ("main;rest", 6000),
            ("main;run;leaf", 900),
        ],
        &[
            ("main;parse", 3000),
            ("main;utf8", 500),
            ("main;rest", 6010),
            ("main;run;leaf", 905),
        ],
    )
}

fn text_of(diff: &ProfileDiff, name: &str, options: &DiffOptions) -> String {
    let format = DiffFormat::by_name(name).unwrap();
    let mut out = Vec::new();
    (format.write)(diff, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn row_of<'t>(text: &'t str, name: &str) -> &'t str {
    let is_row = |line: &&str| !line.starts_with('#') && line.contains(name);
    let row = text.lines().find(is_row);
    row.unwrap_or_else(|| panic!("no {name}: {text}"))
}

#[test]
fn what_functions_call_is_named_where_none_changed_by_itself() {
    // Each has a small increase.
    let stacks = |more: u64| -> Vec<(String, u64)> {
        let parts = (0..30).map(|n| (format!("start;main;eval;part{n:02}"), 40 + more));
        let rest = (0..4).map(|n| (format!("start;main;rest{n}"), 5000));
        parts.chain(rest).collect()
    };
    let [old, new] = [stacks(0), stacks(12)];
    let [old, new] = [&old, &new]
        .map(|side| -> Vec<(&str, u64)> { side.iter().map(|(stack, n)| (&**stack, *n)).collect() });
    let text = text_of(&diff(&old, &new), "text", &DiffOptions::default());
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with(
            "# REGRESSED: no single function is certain to take more CPU time, but eval with its \
             callees: 1.20 s → 1.56 s"
        ),
        "{text}"
    );
    assert!(row_of(&text, "eval").contains('·'), "{text}");
}

#[test]
fn each_state_between_equal_and_more_has_words_of_its_own() {
    // The means of six runs a side that deviate by 0.2 % deviate by 0.163 %. Student's t with ten
    // degrees of freedom is 2.23.
    let side = |factor: f64| -> Vec<Profile> {
        [-2.0, -1.0, 0.0, 0.0, 1.0, 2.0]
            .map(|noise| {
                let amount = |n: f64| (n * factor * (1.0 + 0.002 * noise)) as u64;
                profile(&[
                    ("main;alpha", amount(200_000.0)),
                    ("main;beta", amount(80_000.0)),
                ])
            })
            .into()
    };
    let said = |rise: f64, threshold: f64| {
        let options = CompareOptions {
            threshold,
            ..CompareOptions::default()
        };
        let diff = compare(&side(1.0), &side(1.0 + rise), &options).unwrap();
        (
            words::headline(&diff),
            text_of(&diff, "json", &DiffOptions::default()),
        )
    };
    for (rise, threshold, expected, verdict) in [
        (
            0.0005,
            0.05,
            "UNCHANGED: no change of the program of 5 % or more",
            "unchanged",
        ),
        (
            0.03,
            0.05,
            "MORE, BELOW 5 %: the program takes +3.0 % [+2.6 %, +3.4 %] CPU time",
            "below_threshold",
        ),
        (
            -0.03,
            0.0525,
            "LESS, BELOW 4.99 %: the program takes -3.0 % [-3.4 %, -2.6 %] CPU time",
            "below_threshold",
        ),
        (
            0.05,
            0.05,
            "MORE, INCONCLUSIVE ABOUT 5 %: the program takes +5.0 % [+4.6 %, +5.4 %] CPU time",
            "inconclusive",
        ),
        (
            -0.3325,
            0.5,
            "LESS, INCONCLUSIVE ABOUT 33.33 %: the program takes -33 % [",
            "inconclusive",
        ),
        (
            0.0001,
            0.002,
            "INCONCLUSIVE: the program takes ",
            "inconclusive",
        ),
        (0.2, 0.05, "REGRESSED: 2 functions take more", "regressed"),
    ] {
        let (headline, json) = said(rise, threshold);
        assert!(
            headline.starts_with(expected),
            "{rise} {threshold}: {headline}"
        );
        assert!(
            json.contains(&format!("\"verdict\": \"{verdict}\"")),
            "{headline}: {json}"
        );
    }
    let (may, _) = said(0.0001, 0.002);
    assert!(may.contains(": no change, or a "), "{may}");
}

#[test]
fn the_table_begins_with_the_verdict_and_has_what_changed() {
    let text = text_of(&changed(), "text", &DiffOptions::default());
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("REGRESSED") && first.contains("parse"),
        "{text}"
    );
    let row = |name: &str| row_of(&text, name);
    let parse = row("  parse");
    let shown = ["2.00 s", "3.00 s", "+50 %", "▲"];
    assert!(shown.iter().all(|part| parse.contains(part)), "{parse}");
    assert!(row("utf8").contains("new") && row("ascii").contains("gone"));
    assert!(
        !text.contains(" main ") && !text.contains(" rest "),
        "{text}"
    );
    assert!(text.contains("\n1 functions not shown"), "{text}");
    assert!(text.contains("functions not shown"), "{text}");
    let all = DiffOptions {
        all: true,
        ..DiffOptions::default()
    };
    let text = text_of(&changed(), "text", &all);
    assert!(
        text.contains(" rest ") && row_of(&text, "main").contains('·'),
        "{text}"
    );
    for width in [60, 100] {
        let narrow = DiffOptions {
            width: Some(width),
            bare: true,
            ..DiffOptions::default()
        };
        let long = "x".repeat(500);
        let names = diff(&[(&long, 100), ("a", 900)], &[(&long, 900), ("a", 900)]);
        for line in text_of(&names, "text", &narrow).lines() {
            assert!(line.chars().count() <= width.max(90), "{line}");
        }
    }
}

#[test]
fn equal_sides_say_so_and_show_nothing() {
    let stacks = [("main;a", 500), ("main;b", 700)];
    let text = text_of(&diff(&stacks, &stacks), "text", &DiffOptions::default());
    assert!(text.starts_with("# SAME"), "{text}");
    assert!(
        text.lines()
            .all(|line| line.starts_with('#') || line.contains("not shown")),
        "{text}"
    );
}

#[test]
fn json_has_every_number() {
    let text = text_of(&changed(), "json", &DiffOptions::default());
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["version"], &json["verdict"]),
        (&1.into(), &"regressed".into())
    );
    assert_eq!(json["unit"], "ns");
    let rows = json["functions"].as_array().unwrap();
    let parse = rows.iter().find(|row| row["function"] == "parse").unwrap();
    assert_eq!(parse["self"]["old"], 2e9);
    assert_eq!(parse["self"]["new"], 3e9);
    assert_eq!(parse["self"]["verdict"], "regressed");
    assert!(parse["self"]["interval"][0].as_f64().unwrap() > 1.2);
    let gone = rows.iter().find(|row| row["function"] == "ascii").unwrap();
    // The caller takes more, so other functions do the work: moved, not improved.
    assert_eq!(gone["self"]["verdict"], "moved");
    assert_eq!(
        (&gone["presence"], &gone["self"]["new"]),
        (&"old".into(), &0.0.into())
    );
    assert_eq!(rows.len(), changed().functions.len());
}

#[test]
fn folded_stacks_have_two_weights() {
    let mut out = Vec::new();
    folded::write(&changed(), &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "app_1;main;ascii 300000000 0\n\
         app_1;main;parse 2000000000 3000000000\n\
         app_1;main;rest 6000000000 6010000000\n\
         app_1;main;run;leaf 900000000 905000000\n\
         app_1;main;utf8 0 500000000\n"
    );
}

#[test]
fn the_picture_has_two_panels_on_one_scale() {
    let mut out = Vec::new();
    svg::write(&changed(), &SvgOptions::default(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let frame = |title: &str| {
        let at = text
            .find(&format!("<title>{title}"))
            .unwrap_or_else(|| panic!("no {title}: {text}"));
        let rest = &text[at..];
        &rest[..rest.find("</g>").unwrap()]
    };
    let width = |title: &str| {
        let part = frame(title).split(" width=\"").nth(1).unwrap();
        part.split('%').next().unwrap().parse::<f64>().unwrap()
    };
    // 10.415 s on the new side.
    assert!((width("parse ") - 100.0 * 3000.0 / 10_415.0).abs() < 0.01);
    assert!((width("ascii ") - 100.0 * 300.0 / 10_415.0).abs() < 0.01);
    assert!((width("only in the old side ") - width("ascii ")).abs() < 1e-9);
    assert!(frame("parse ").contains("2.00 s to 3.00 s, +50 %"));
    assert!(frame("utf8 ").contains("url(#new)") && frame("utf8 ").contains(", new)"));
    assert!(frame("ascii ").contains("url(#gone)"));
    // Callers of slower functions are coloured, noise is grey.
    assert!(!frame("main ").contains("#d4d4d4"), "{}", frame("main "));
    assert!(frame("rest ").contains("#d4d4d4") && frame("run ").contains("#d4d4d4"));
    assert!(!text.contains("<title>run (0.90 s gone"));
}

#[test]
fn no_form_lets_hostile_names_through() {
    let name = "a\x1b[2J\u{202e}<script>\"&|`*";
    let stacks = |n| [(name, n), ("=1+1", 400), ("main", 500)];
    let diff = diff(&stacks(100), &stacks(900));
    for format in DIFF_FORMATS {
        let text = text_of(
            &diff,
            format.name,
            &DiffOptions {
                all: true,
                ..DiffOptions::default()
            },
        );
        assert!(
            !text.contains(['\x1b', '\u{202e}']),
            "{}: {text}",
            format.name
        );
        assert!(
            !text.contains(",=1+1") && !text.contains("\n=1+1"),
            "{text}"
        );
        assert!(
            format.name != "markdown" || !text.contains("<script>"),
            "{text}"
        );
    }
    let mut out = Vec::new();
    svg::write(&diff, &SvgOptions::default(), &mut out).unwrap();
    folded::write(&diff, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains(['\x1b', '\u{202e}']));
    assert!(!text[..text.find("</svg></svg>").unwrap()].contains("<script>\"&|"));
}
