//! CPU time that was used, beside that which samples stand for, and waiting.

use serde_json::Value;

use crate::support::{Here, Need, Report, Run, c, has, needs};

/// Figures of perf.data in seconds: used, sampled, wall.
fn figures(here: &Here) -> [f64; 3] {
    let run = here.rprof("report --format json --no-inline").run();
    if run.code() == Some(1) {
        // No sample at all: the message has the figures.
        let text = run.err();
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "stand");
        let seconds = |offset: usize| words[at.expect("CPU time") + offset].parse().unwrap();
        return [seconds(4), seconds(2), f64::NAN];
    }
    let quality = Report::parse(run.exits(0)).quality;
    ["used", "sampled", "wall"].map(|name| {
        let time: &Value = &quality["cpu_time"][name];
        time.as_f64()
            .unwrap_or_else(|| panic!("no {name} in {quality:#}"))
            / 1e9
    })
}

/// Records a script of the shell; the script's last line prints what the shell's `times` prints. Returns
/// the CPU seconds that the system itself accounted to the shell and to its children.
fn record(here: &Here, options: &str, script: &str) -> (Run, f64) {
    let record = here.rprof("record -e cpu-clock").words(options);
    let run = record
        .words("-- sh -c")
        .arg(format!("{script}\ntimes"))
        .arg(c("shares.c"))
        .ok();
    let minutes = |word: &str| -> Option<f64> {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    };
    let truth = run.out().split_whitespace().filter_map(minutes).sum();
    (run, truth)
}

#[test]
fn cpu_time_is_that_of_the_system_and_waiting_is_told() {
    needs!(PerfEvents);
    let here = Here::new();
    let (run, truth) = record(&here, "-F 999", "\"$0\" 0.5; sleep 1.2");
    let [used, sampled, wall] = figures(&here);
    // Times are told in hundredths of a second, four of them.
    assert!(
        (used / truth - 1.0).abs() < 0.03 + 0.04 / truth,
        "{used} of {truth} s\n{run}"
    );
    assert!(
        sampled <= 1.02 * used && wall > used + 1.1,
        "{used} {sampled} {wall}\n{run}"
    );
    run.says("of the time it waited").says("--off-cpu");
    assert!(!run.err().contains("samples stand for"), "{run}");
    here.rprof("report").ok().prints("of the time it waited");
}

#[test]
fn many_short_processes_are_told_of_with_what_helps() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done";
    let (run, truth) = record(&here, "-F 99", script);
    let [used, sampled, _] = figures(&here);
    assert!(
        (used / truth - 1.0).abs() < 0.03 + 0.04 / truth,
        "{used} of {truth} s\n{run}"
    );
    assert!(sampled < 0.9 * used, "{sampled} of {used} s\n{run}");
    run.says("samples stand for").says("`-F 20000`");
    // Which does help.
    let (run, _) = record(&here, "-F 20000 --call-graph none", script);
    let [used, more, _] = figures(&here);
    assert!(
        more / used > 2.0 * sampled / used,
        "{more} of {used} s\n{run}"
    );
}

/// What a process does when it ends, and what outlives the command, is in the kernel's accounts alone.
#[test]
fn cpu_time_of_what_ends_and_of_what_goes_on_is_counted() {
    needs!(PerfEvents);
    let here = Here::new();
    // 400 processes that do nothing but end: much of their time comes after their events are taken from them.
    let script = "i=0; while [ $i -lt 400 ]; do (:); i=$((i+1)); done";
    let (run, truth) = record(&here, "-F 999", script);
    let [used, ..] = figures(&here);
    assert!(
        (used / truth - 1.0).abs() < 0.03 + 0.04 / truth,
        "{used} of {truth} s\n{run}"
    );
    // A daemon works for half a second, and is there when the command ends.
    let daemon = "(\"$0\" 0.5; touch done; until [ -e go ]; do sleep 0.01; done) & \
                  until [ -e done ]; do sleep 0.01; done";
    let run = here
        .rprof("record -q -e cpu-clock -- sh -c")
        .arg(daemon)
        .arg(c("shares.c"))
        .ok();
    std::fs::write(here.path("go"), "").unwrap();
    let [used, sampled, _] = figures(&here);
    assert!(
        used > 0.5 && sampled < 1.02 * used,
        "{used} {sampled}\n{run}"
    );
}

#[test]
fn a_program_that_sleeps_hears_that_it_slept() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = here.rprof("record -F 99 -e cpu-clock -- sleep 0.3").ok();
    run.says("waited all the time");
    assert!(!run.err().contains("-F"), "{run}");
    // One that runs for less than a period is told of a higher frequency.
    let run = here
        .rprof("record -F 1 -e cpu-clock --")
        .arg(c("shares.c"))
        .words("0.1")
        .ok();
    run.says("try a higher -F");
}

#[test]
fn what_is_attached_is_judged_by_its_own_time() {
    needs!(PerfEvents);
    let here = Here::new();
    let mut program = here.command(c("endless.c")).start();
    program.line();
    let pid = program.pid().as_raw_nonzero().to_string();
    let run = here.rprof("record -e cpu-clock -d 0.5 -p").arg(&pid).ok();
    let [used, sampled, wall] = figures(&here);
    assert!(
        used <= 1.02 * wall && used > 0.0 && sampled <= 1.02 * used,
        "{used} {sampled} {wall}\n{run}"
    );
    // Whole CPUs never wait, and nothing is said of them.
    if has(Need::Kernel) {
        // What the system counts in clock ticks says nothing of so short a time.
        here.rprof("record -q -e cpu-clock -d 0.1 -C 0").ok();
        assert!(here.report("").quality["cpu_time"].is_null());
        here.rprof("record -q -e cpu-clock -d 1.1 -a").ok();
        let quality = here.report("").quality;
        let time = &quality["cpu_time"];
        assert!(time["wall"].is_null(), "{time}");
        // The program alone uses much of it.
        assert!(time["used"].as_f64() > Some(2e8), "{time}");
        assert!(time["sampled"].as_f64() > Some(1e8), "{time}");
    }
}
