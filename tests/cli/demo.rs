//! `rprof demo`: the first run of a new user.

use crate::support::{Here, check_share, measured, needs, well_formed};

#[test]
fn demo_shows_the_shares_that_its_program_has() {
    needs!(PerfEvents);
    measured(show_shares);
}

fn show_shares() -> Result<(), String> {
    let here = Here::new();
    let run = here.rprof("demo --seconds 1").ok();
    let out = run.out();
    // `# event cpu-clock: 2002 samples, 2.004 s`
    let samples = out.lines().find_map(|line| {
        let rest = line.strip_prefix("# event ")?.split(": ").nth(1)?;
        rest.split(' ').next()?.parse::<u64>().ok()
    });
    let samples = samples.unwrap_or_else(|| panic!("no number of samples in\n{run}"));
    // `     40%   40.12%  hash_blocks`, below a header.
    let below = out
        .lines()
        .skip_while(|line| !line.starts_with("# expected, and measured"))
        .skip(1);
    let shares: Vec<(f64, f64, &str)> = below
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let mut share = || words.next()?.strip_suffix('%')?.parse::<f64>().ok();
            Some((share()? / 100.0, share()? / 100.0, words.next()?))
        })
        .collect();
    assert_eq!(shares.len(), 4, "functions below the table of\n{run}");
    let other = 1.0 - shares.iter().map(|s| s.1).sum::<f64>();
    for (made, measured, name) in shares {
        check_share(name, measured, made, samples, other + 0.0001)?;
        assert!(
            out.lines()
                .any(|l| l.contains("workload::") && l.contains(name)),
            "{name} in\n{run}"
        );
    }
    let svg = std::fs::read_to_string(here.path("flamegraph.svg")).expect("flamegraph.svg");
    let titles = well_formed(&svg);
    for name in [
        "hash_blocks",
        "sort_numbers",
        "parse_text",
        "walk_list",
        "demo-left",
        "demo-right",
    ] {
        assert!(
            titles.iter().any(|t| t.contains(name)),
            "{name} is not among {titles:#?}"
        );
    }
    assert!(
        !here.path("perf.data").exists(),
        "the demo leaves only its picture"
    );
    Ok(())
}
