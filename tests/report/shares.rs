//! Functions with known shares of CPU time have these shares in the report.

use crate::support::{Here, Report, c, c_with, check_share, measured, needs};

/// Functions of `shares.c` and their intended shares.
const SHARES: [(&str, f64); 3] = [
    ("burn_seventy", 0.7),
    ("burn_twenty", 0.2),
    ("burn_ten", 0.1),
];

fn check_shares(report: &Report) -> Result<(), String> {
    let event = report.only();
    let own = |name| event.self_share(name);
    // Program start, clock reads and interrupts count for the whole only.
    let other = 1.0 - SHARES.iter().map(|(name, _)| own(name)).sum::<f64>();
    for (name, share) in SHARES {
        check_share(name, own(name), share, event.samples, other)?;
        // Callees are only the clock and interrupts.
        check_share(name, event.total_share(name), share, event.samples, other)?;
    }
    Ok(())
}

#[test]
fn shares_of_70_20_10_percent_are_measured() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        here.record("-F 999 -g", &c("shares.c"), "2");
        let report = here.report("");
        check_shares(&report)?;
        let event = report.only();
        // All three, and nearly everything else, are below `do_round`.
        let outside = 1.0 - event.total_share("main");
        let round = event.total_share("do_round");
        check_share("do_round", round, 0.999, event.samples, outside)
    });
}

#[test]
fn shares_are_the_same_without_stacks() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        here.record("-F 999", &c("shares.c"), "1");
        check_shares(&here.report(""))
    });
}

#[test]
fn shares_are_the_same_in_a_recording_by_perf() {
    needs!(PerfEvents, Perf);
    measured(|| {
        let here = Here::new();
        here.perf_record("-e cpu-clock", &c("shares.c"), "1");
        check_shares(&here.report(""))
    });
}

#[test]
fn shares_are_the_same_however_the_program_is_linked() {
    needs!(PerfEvents);
    for flags in [["-no-pie"], ["-pie"], ["-static"]] {
        measured(|| {
            let here = Here::new();
            here.record("-F 999 -g", &c_with("shares.c", &flags), "0.5");
            check_shares(&here.report(""))
        });
    }
}

#[test]
fn shares_of_periods_and_of_samples_agree_on_a_clock() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -e cpu-clock", &c("shares.c"), "0.5");
    let by_period = here.report("--weight period");
    let by_samples = here.report("--weight samples");
    let (by_period, by_samples) = (by_period.only(), by_samples.only());
    assert_eq!(by_samples.weight, by_samples.samples);
    for (name, _) in SHARES {
        let samples = by_samples.row(name);
        assert_eq!(samples.own, samples.self_samples);
        assert_eq!(by_period.row(name).self_samples, samples.self_samples);
    }
}
