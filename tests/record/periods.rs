//! Fixed periods, `record -c N`.

use crate::support::{Here, c, needs};

#[test]
fn a_fixed_period_is_kept_by_software_events_as_by_perf() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    // 300 page faults, and those of the program's start.
    let program = c("events.c");
    let options = "record -q -c 10 -e page-faults:u";
    let perf = here.perf(options).words("-N -o perfs.data --");
    perf.arg(&program).ok();
    let rprof = here.rprof(options).words("-o ours.data --");
    rprof.arg(&program).ok();
    let periods = |name: &str| -> Vec<String> {
        let script = here.perf("script -F period -i").arg(name).ok().out();
        script.split_whitespace().map(String::from).collect()
    };
    let [theirs, ours] = ["perfs.data", "ours.data"].map(periods);
    for (whose, periods) in [("perf", &theirs), ("rprof", &ours)] {
        let is_tenth = (30..100).contains(&periods.len());
        assert!(is_tenth, "{} samples of {whose}", periods.len());
        assert!(periods.iter().all(|period| period == "10"), "{periods:?}");
    }
    let report = here.report("-i ours.data");
    assert_eq!(report.samples(), ours.len() as u64);
    assert_eq!(report.only().weight, 10 * report.samples());
}
