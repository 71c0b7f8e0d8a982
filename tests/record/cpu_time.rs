//! Used CPU time compared with sampled CPU time, and waiting.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use super::waits::noted_as;
use crate::support::{
    Here, Report, Run, c, check, folded, inapplicable, measured, needs, wait_until,
};

fn figures(here: &Here) -> [f64; 3] {
    let run = here.rprof("report --format json --no-inline").run();
    if run.code() == Some(1) {
        // Without samples, the error message has the figures.
        let text = run.err();
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "cover");
        let seconds = |offset: usize| words[at.expect("CPU time") + offset].parse().unwrap();
        return [seconds(3), seconds(1), f64::NAN];
    }
    let quality = Report::parse(run.exits(0)).quality;
    ["used", "sampled", "wall"].map(|name| {
        let time: &Value = &quality["cpu_time"][name];
        time.as_f64()
            .unwrap_or_else(|| panic!("no {name} in {quality:#}"))
            / 1e9
    })
}

/// The script's last line prints the shell's `times`. Returns those CPU seconds.
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
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let (run, truth) = record(&here, "-F 999", "\"$0\" 0.5; sleep 1.2");
    let [used, sampled, wall] = figures(&here);
    assert!(
        (used / truth - 1.0).abs() < 0.03 + 0.04 / truth,
        "{used} of {truth} s\n{run}"
    );
    assert!(
        sampled <= 1.02 * used && wall > used + 1.1,
        "{used} {sampled} {wall}\n{run}"
    );
    run.says(" s waiting for a CPU").says(" s asleep");
    assert!(!run.err().contains("samples cover"), "{run}");
    here.rprof("report").ok().prints(" s asleep");
}

#[test]
fn a_stopped_process_was_not_asleep() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let script = "\"$0\" 0.2; sh -c 'kill -STOP $$' & sleep 1.2; kill -CONT $!; wait";
    let (run, _) = record(&here, "-F 999", script);
    run.says(" s stopped by a signal, a debugger or the cgroup freezer");
    let report = Report::parse(&here.rprof("report --format json").ok());
    let time = &report.quality["cpu_time"];
    let [stopped, wall] = ["stopped", "wall"].map(|name| time[name].as_f64().unwrap_or_default());
    // A change of the state is seen half a second late at most.
    assert!((0.6e9..wall).contains(&stopped), "{time:#}\n{run}");
    here.rprof("explain").ok().prints("had stopped the program");
}

#[test]
fn many_short_processes_are_told_of_with_what_helps() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done";
    // A frequency finds most of them.
    let (run, _) = record(&here, "-F 999", script);
    let [used, sampled, _] = figures(&here);
    assert!(
        (0.5 * used..=used).contains(&sampled),
        "{sampled} of {used} s\n{run}"
    );
    let (run, truth) = record(&here, "-c 10101010", script);
    let [used, sampled, _] = figures(&here);
    assert!(
        (used / truth - 1.0).abs() < 0.03 + 0.04 / truth,
        "{used} of {truth} s\n{run}"
    );
    assert!(sampled < 0.9 * used, "{sampled} of {used} s\n{run}");
    run.says("samples cover").says("`-F 20000`");
    let (run, _) = record(&here, "-F 20000 --call-graph none", script);
    let [used, more, _] = figures(&here);
    assert!(
        more / used > 2.0 * sampled / used,
        "{more} of {used} s\n{run}"
    );
}

/// The kernel begins a period anew for each thread: without finer samples, 2 % instead of 55.
#[test]
fn functions_of_short_threads_have_their_share() {
    needs!(PerfEvents, Kernel);
    for (options, args) in [
        ("-e cpu-clock:u -F 999", "short 0.8 0.0006 2000"),
        (
            "-e cpu-clock:u -F 499 --call-graph fp",
            "short 0.5 0.001 700",
        ),
    ] {
        measured(|| {
            let here = Here::new();
            let run = here.rprof("record -q").words(options).arg("--");
            let run = run.arg(c("phases.c")).words(args).ok();
            let printed: Vec<f64> = (run.out().split_whitespace())
                .map(|word| word.parse().expect("seconds"))
                .collect();
            let report = here.report("");
            let event = report.only();
            let [long, short] = ["serial", "parallel"].map(|name| event.total_share(name));
            let (found, truth) = (
                short / (short + long),
                printed[1] / (printed[0] + printed[1]),
            );
            // Most of the error is the time until the recorder finds out.
            check((found - truth).abs() < 0.08, || {
                format!("{args}: {found}, not {truth}")
            })?;
            let sampled = event.weight as f64 / 1e9;
            check(sampled < 1.1 * (printed[0] + printed[1]), || {
                format!("{args}: {sampled} s, twice?")
            })
        });
    }
}

/// Work at a process's end appears only in the kernel's accounting.
#[test]
fn cpu_time_of_what_ends_and_of_what_goes_on_is_counted() {
    needs!(PerfEvents, Kernel);
    let here = Here::new();
    let script = "i=0; while [ $i -lt 400 ]; do (:); i=$((i+1)); done";
    let (run, truth) = record(&here, "-F 999", script);
    let [used, ..] = figures(&here);
    assert!(
        (used / truth - 1.0).abs() < 0.03 + 0.04 / truth,
        "{used} of {truth} s\n{run}"
    );
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
    run.says("slept");
    assert!(!run.err().contains("-F"), "{run}");
    // If it runs for less than a period, a higher frequency is suggested, unless it mostly waited
    // for a CPU.
    let record = here.rprof("record -F 1 -e cpu-clock --");
    let run = record.arg(c("shares.c")).words("0.1").ok();
    run.says("no samples:");
    if noted_as(&here, "duration.ns") < 900_000_000 {
        run.says("try a higher -F");
    }
}

#[test]
fn what_is_attached_is_judged_by_its_own_time() {
    needs!(PerfEvents, Kernel);
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
    // The system counts clock ticks, too coarse for less than a second.
    here.rprof("record -q -e cpu-clock -d 0.1 -C 0").ok();
    let is_told = !here.report("").quality["cpu_time"].is_null();
    assert_eq!(is_told, noted_as(&here, "duration.ns") >= 1_000_000_000);
    here.rprof("record -q -e cpu-clock -d 1.1 -a").ok();
    let quality = here.report("").quality;
    let time = &quality["cpu_time"];
    assert!(time["wall"].is_null(), "{time}");
    assert!(time["used"].as_f64() > Some(2e8), "{time}");
    assert!(time["sampled"].as_f64() > Some(1e8), "{time}");
}

fn seconds_before(run: &Run, text: &str) -> f64 {
    let said = run.err();
    // The sum of a time that may be either comes first, and may stand alone.
    let said = match said.split_once(" s asleep or waiting for a CPU") {
        Some((_, rest)) => match rest.split_once("at least ") {
            Some((_, least)) => least,
            None => return 0.0,
        },
        None => &said,
    };
    let (before, _) = said
        .split_once(text)
        .unwrap_or_else(|| panic!("no {text:?}: {run}"));
    let number = before.rsplit([' ', '(']).next().unwrap_or_default();
    number
        .parse()
        .unwrap_or_else(|_| panic!("{number:?}: {run}"))
}

/// Returns the waiting time and the time asleep; the least ones, if most of the time may be either.
fn off_cpu(run: &Run) -> [f64; 2] {
    [" s waiting", " s asleep"].map(|text| seconds_before(run, text))
}

#[test]
fn program_that_lacks_a_cpu_is_told_from_one_that_sleeps() {
    needs!(PerfEvents, Tool("taskset"));
    let here = Here::new();
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let taskset = here.command("taskset").words("-c 0");
            let mut running = taskset.arg(c("endless.c")).start();
            running.line();
            running
        })
        .collect();
    // Other programs and disks make all of them wait as well.
    measured(|| {
        let lacks = |run: &Run| {
            let [waiting, asleep] = off_cpu(run);
            // Processes that begin and end between two readings may have waited or slept.
            let may_be_either = waiting < 0.1 && asleep < 0.1;
            check(may_be_either || waiting > 2.0 * asleep, || {
                format!("{waiting} {asleep} {run}")
            })?;
            if !may_be_either {
                run.says("other programs kept the CPUs busy");
            }
            Ok(())
        };
        for program in ["\"$0\" 0.3", "\"$0\" 0.1; \"$0\" 0.1; \"$0\" 0.1"] {
            let record = here.command("taskset").words("-c 0");
            let record = record.arg(env!("CARGO_BIN_EXE_rprof"));
            let record = record.words("record -e cpu-clock -o lacks.data -- sh -c");
            lacks(&record.arg(program).arg(c("shares.c")).ok())?;
        }
        let attached = here.rprof("record -e cpu-clock -d 1 -o attached.data -p");
        let pid = busy[0].pid().as_raw_nonzero();
        let attached = attached.arg(pid.to_string()).ok();
        match attached.err().contains("asleep") {
            true => lacks(&attached),
            false => Ok(()),
        }
    });
    for running in busy {
        running.signal(Signal::KILL);
        running.end();
    }
    let report = here.rprof("report -i lacks.data").ok();
    report.prints("waiting for a CPU");

    measured(|| {
        let sleeps = here.rprof("record -e cpu-clock -o sleeps.data -- sh -c");
        let run = sleeps.arg("\"$0\" 0.05; sleep 1").arg(c("shares.c")).ok();
        let [waiting, asleep] = off_cpu(&run);
        assert!(asleep > 0.5, "{asleep} {run}");
        check(waiting < asleep, || format!("{waiting} {asleep} {run}"))?;
        run.says("`rprof record --off-cpu` shows where");
        Ok(())
    });
}

/// Their waits at the same time are not added up.
#[test]
fn program_whose_processes_compete_and_then_sleep_was_not_waiting_all_the_time() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = "for i in 1 2 3 4 5 6 7 8; do \"$0\" 0.05 & done; wait; sleep 1.5";
    let record = here.rprof("record -e cpu-clock -- sh -c").arg(script);
    let run = record.arg(c("shares.c")).ok();
    let [_, _, wall] = figures(&here);
    let [waiting, _] = off_cpu(&run);
    assert!(waiting + 1.45 <= wall, "{waiting} of {wall}\n{run}");
}

#[test]
fn quota_of_a_control_group_is_named_as_the_cause() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    // A tenth of a CPU. Exits with 77 without cgroups.
    let script = "
        v1=/sys/fs/cgroup/cpu v2=/sys/fs/cgroup name=rprof-test-$$
        if mkdir $v1/$name; then
            group=$v1/$name; echo 10000 > $group/cpu.cfs_quota_us || exit 77
        elif grep -qw cpu $v2/cgroup.subtree_control && mkdir $v2/$name; then
            group=$v2/$name; echo '10000 100000' > $group/cpu.max || exit 77
        else
            exit 77
        fi 2> /dev/null
        sh -c 'echo $$ > \"$0\"/cgroup.procs; exec \"$@\"' $group \"$1\" 0.1
        status=$?
        rmdir $group
        exit $status
    ";
    let record = here
        .rprof("record -e cpu-clock -- sh -c")
        .arg(script)
        .arg("sh");
    let run = record.arg(c("shares.c")).run();
    if run.code() == Some(77) {
        inapplicable("control groups with a quota of CPU time cannot be made here");
        return;
    }
    run.exits(0);
    run.says("(control group throttled for ").says("`cpu.max`");
    let [waiting, asleep] = off_cpu(&run);
    assert!(waiting > asleep, "{waiting} {asleep} {run}");
}

/// Started by a shell, or by an attached process.
#[test]
fn programs_that_change_privileges_are_the_cause_of_missing_samples() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    here.copy(&c("shares.c"), "privileged");
    let path = here.path("privileged");
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
    let cause = "the kernel stopped recording 1 program that changed privileges on start";
    let run = here.rprof("record -e cpu-clock -F 999 -- sh -c");
    let run = run
        .arg("\"$0\" 0.2; ./privileged 0.4; true")
        .arg(c("shares.c"));
    run.ok().says(cause);
    here.rprof("report").ok().prints(cause);
    let script = "until [ -e go ]; do sleep 0.01; done; exec ./privileged 0.3";
    let shell = here.sh(script).start();
    let recorder = here.rprof("record -e cpu-clock -F 999 -o attached.data -p");
    let recorder = recorder
        .arg(shell.pid().as_raw_nonzero().to_string())
        .start();
    wait_until("rprof records", || {
        (here.path("attached.data").metadata()).is_ok_and(|file| file.len() > 0)
    });
    std::fs::write(here.path("go"), "").unwrap();
    recorder.end().says(cause);
    // Events of whole CPUs stay.
    let run = here
        .rprof("record -a -e cpu-clock -F 999 -- ./privileged 0.3")
        .ok();
    assert!(!run.err().contains("privileges"), "{run}");
    let report = here.report("--comm privileged");
    assert!(report.samples() > 100, "{run}");
}

/// An exec that changes privileges has an EXIT record, although its thread lives on.
#[test]
fn programs_that_change_privileges_have_waits_and_latency_of_whole_cpus() {
    needs!(PerfEvents, Root, Kernel);
    let here = Here::new();
    for (name, owner, mode) in [("raised", 65534, 0o4755), ("plain", 0, 0o755)] {
        let path = here.path(name);
        std::fs::copy("/bin/sleep", &path).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let run = here.rprof("record -a -e cpu-clock -F 499 --off-cpu --latency -- sh -c");
    let run = run.arg("./raised 0.2; ./plain 0.2; true").ok();
    for options in ["", "--latency"] {
        for name in ["raised", "plain"] {
            let collapse = here.rprof("collapse --wall -q").words(options);
            let stacks = folded(&collapse.arg("--comm").arg(name).ok());
            let asleep = stacks
                .iter()
                .filter(|(stack, _)| stack.ends_with("[sleep]"));
            let asleep: u64 = asleep.map(|(_, nanoseconds)| nanoseconds).sum();
            assert!(asleep > 150_000_000, "{name} {options}: {asleep}\n{run}");
        }
    }
}
