//! Tables and JSON lines for each interval.

use serde_json::Value;

use crate::support::{Here, Run, c, check_share, measured, needs};

/// Functions of `shares.c`, and their intended shares.
const SHARES: [(&str, f64); 3] = [
    ("burn_seventy", 0.7),
    ("burn_twenty", 0.2),
    ("burn_ten", 0.1),
];

fn lines(run: &Run) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    run.out().lines().map(parse).collect()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

fn check_shares(samples: u64, share: impl Fn(&str) -> f64) -> Result<(), String> {
    let other = 1.0 - SHARES.iter().map(|(name, _)| share(name)).sum::<f64>();
    for (name, expected) in SHARES {
        check_share(name, share(name), expected, samples, other)?;
    }
    Ok(())
}

/// Returns a function's share in the window, or since the start.
fn share(look: &Value, name: &str, since_start: bool) -> f64 {
    let rows = look["rows"].as_array().expect("rows");
    let rows = rows.iter().filter(|row| row["symbol"] == name);
    let own = rows.map(|row| match since_start {
        true => number(&row["since_start"]["self"]),
        false => number(&row["self"]),
    });
    let whole = match since_start {
        true => &look["since_start_weight_total"],
        false => &look["weight_total"],
    };
    own.sum::<u64>() as f64 / number(whole) as f64
}

#[test]
fn shares_of_70_20_10_percent_are_measured_in_each_interval_and_since_the_start() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        let run = here
            .rprof("top -q -F 999 -e cpu-clock -d 1 -n 2 --no-inline --format json --")
            .arg(c("shares.c"))
            .arg("100")
            .ok();
        let looks = lines(&run);
        assert_eq!(looks.len(), 2);
        let (mut all, mut weight) = (0, 0);
        for (look, number_of_look) in looks.iter().zip(1..) {
            assert_eq!(
                (number(&look["version"]), number(&look["number"])),
                (1, number_of_look)
            );
            assert_eq!(look["event"], "cpu-clock");
            assert_eq!(number(&look["forgotten"]), 0);
            let samples = number(&look["samples"]);
            all += samples;
            check_shares(samples, |name| share(look, name, false))?;
            check_shares(all, |name| share(look, name, true))?;
            weight += number(&look["weight_total"]);
            assert_eq!(number(&look["since_start_weight_total"]), weight);
        }
        Ok(())
    });
}

#[test]
fn a_command_that_ends_has_its_rest_printed_and_its_status_kept() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = format!("{} 0.3; exit 7", c("shares.c").display());
    let run = here.rprof("top -q -F 999 -e cpu-clock -d 1000 --batch -- sh -c");
    let run = run.arg(script).exits(7);
    let text = run.out();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains("event cpu-clock: ") && lines[0].contains("lost 0"),
        "{text}"
    );
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert!(words[0].ends_with('%') && words[3] == words[0], "{text}");
    assert!(
        words[5] == "burn_seventy" && words[6].ends_with("/shares"),
        "{text}"
    );
}

#[test]
fn a_storm_of_forks_is_shown() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here
        .rprof("top -q -F 999 -e cpu-clock -d 1 -n 3 --format json --")
        .arg(c("storm.c"))
        .words("fork 3000")
        .ok();
    let looks = lines(&run);
    assert_eq!(looks.len(), 3);
    let samples: u64 = looks.iter().map(|look| number(&look["samples"])).sum();
    assert!(samples > 0);
    for look in &looks {
        assert_eq!(number(&look["forgotten"]), 0);
        let rows = look["rows"].as_array().expect("rows").iter();
        let own: u64 = rows.map(|row| number(&row["self"])).sum();
        assert_eq!(own, number(&look["weight_total"]));
    }
}

#[test]
fn code_made_at_run_time_has_names() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        let run = here
            .rprof("top -q -F 999 -e cpu-clock:u -d 0.2 --format json --")
            .arg(c("jit.c"))
            .words("map 1")
            .ok();
        let looks = lines(&run);
        let look = looks.last().expect("a look");
        let of = |name| share(look, name, true);
        let (one, two) = (of("made one"), of("made::two(int, int)"));
        let samples = number(&look["samples"]);
        let other = 1.0 - one - two;
        check_share("the first", one, 0.75, samples, other)?;
        check_share("the second", two, 0.25, samples, other)
    });
}

#[test]
fn the_whole_system_is_shown_where_nothing_is_named() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let mut busy = here.command(c("endless.c")).start();
    busy.line();
    // Fails if the last look comes before a look with the program.
    let mut top = here.rprof("top -F 499 -e cpu-clock -d 0.5 -n 100").start();
    while !top.line().contains("endless") {}
}

#[test]
fn what_means_nothing_here_is_refused() {
    let here = Here::new();
    for (options, told) in [
        ("--call-graph dwarf", "auto"),
        ("--call-graph lbr", "fp"),
        ("-D 100", "`z`"),
        ("-d 0.01", "100ms"),
        ("-a -p 1", "cannot be used with"),
    ] {
        here.rprof("top")
            .words(options)
            .words("-- true")
            .exits(2)
            .says(told);
    }
}
