//! Names of JIT code from its runtime's files: valid at the right time, and never from a file of
//! another user.

use std::path::Path;

use crate::support::{
    Here, PerfFrame, Report, c, check, check_share, inapplicable, measured, needs, perf_samples,
    python_with_trampolines,
};

fn shares(report: &Report) -> (f64, f64) {
    let only = report.only();
    (
        only.self_share("made one"),
        only.self_share("made::two(int, int)"),
    )
}

/// Checks for three quarters and one quarter. Other code in user mode must be little.
fn check_quarters(report: &Report, (one, two): (f64, f64), what: &str) -> Result<(), String> {
    let (samples, other) = (report.only().samples, 1.0 - one - two);
    check(other < 0.1, || {
        format!("{other} of {samples} samples are elsewhere in {what}")
    })?;
    check_share(what, one, 0.75, samples, other)?;
    check_share(what, two, 0.25, samples, other)
}

#[test]
fn a_perf_map_is_embedded_while_recording() {
    needs!(PerfEvents);
    for options in [
        "-F 999 -e cpu-clock:u",
        "-F 999 -e cpu-clock:u -g",
        "-e cpu-clock:u -z",
    ] {
        measured(|| {
            let here = Here::new();
            here.record(options, &c("jit.c"), "map 0.4");
            let report = here.report("--no-by-language");
            check_quarters(&report, shares(&report), options)
        });
    }
}

#[test]
fn a_perf_map_is_embedded_in_a_stream() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record -q -e cpu-clock:u -o - --");
        let record = record.arg(c("jit.c"));
        let report = here.rprof("report --format json -i -");
        let run = record.words("map 0.4").pipe(report);
        let report = Report::parse(&run);
        check_quarters(&report, shares(&report), "a stream")
    });
}

#[test]
fn a_perf_map_is_embedded_in_each_file_of_a_rotation() {
    needs!(PerfEvents);
    let here = Here::new();
    let options = "-F 1999 -e cpu-clock --switch-output=16K -o x.data";
    here.record(options, &c("jit.c"), "map 1");
    let mut files = 0;
    for entry in std::fs::read_dir(here.path(".")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("x.data.") {
            continue;
        }
        let report = here.report(&format!("-i {name}"));
        if report.samples() < 50 {
            continue;
        }
        files += 1;
        let (one, two) = shares(&report);
        assert!(one + two > 0.3, "{one} and {two} in {name}");
        let reasons = &report.quality["frames"]["unnamed_by_reason"];
        assert!(reasons["jit_without_map"].is_null(), "{reasons} in {name}");
    }
    assert!(files >= 3, "{files} files");
}

/// perf embeds no maps. (Without `-B`, perf 6.1 fails an assertion about the build-id of a perf
/// map.)
#[test]
fn a_perf_map_in_tmp_is_read_as_by_perf() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    let record = here
        .perf("record -q -N -B -F 999 -e cpu-clock --")
        .arg(c("jit.c"));
    let run = record.words("map 0.4 keep").ok();
    let map = run.out().trim().to_owned();
    let by_perf = here.perf("script -F comm,time,event,ip,sym").run();
    let by_rprof = here.rprof("script -F comm,time,event,ip,sym").ok();
    std::fs::remove_file(Path::new(&map)).unwrap();
    let named = |text: &str| {
        // perf does not name a last entry without a size.
        let all = text.lines().filter(|line| line.contains("made one"));
        all.map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let expected = named(&by_perf.out());
    assert!(expected.len() > 50, "{by_perf}");
    assert_eq!(named(&by_rprof.out()), expected);
    let (one, two) = shares(&here.report("--no-by-language"));
    assert_eq!((one, two), (0.0, 0.0));
}

fn moments(script: &str) -> Vec<(u64, String)> {
    let one = |line: &str| {
        let (time, name) = line.trim().split_once(' ')?;
        let (seconds, nanos) = time.trim_end_matches(':').split_once('.')?;
        let time = seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
        let name = name.trim().split_once(' ')?.1.trim();
        let is_made = ["first come", "late comer"].contains(&name);
        is_made.then(|| (time, name.to_owned()))
    };
    script.lines().filter_map(one).collect()
}

#[test]
fn jit_code_that_moves_is_named_by_the_time_of_the_sample() {
    needs!(PerfEvents);
    check_moves("env", "env", 0);
}

/// The dump has times of the namespace, and records have the kernel's.
#[test]
fn jit_code_of_another_time_namespace_is_named_by_the_time_of_the_sample() {
    needs!(PerfEvents, Root, Tool("unshare"));
    for ahead in [100_000, -5] {
        let namespace = format!("unshare -T --monotonic {ahead} --boottime {ahead} --fork");
        check_moves("env", &namespace, ahead);
        check_moves(&namespace, "env", ahead);
    }
}

/// Records code that moves. `around` starts rprof, and `within` the program, whose clock is `ahead`
/// seconds of the kernel's.
fn check_moves(around: &str, within: &str, ahead: i64) {
    let here = Here::new();
    let folder = here.path(".").display().to_string();
    let record = here.command("env").words(around);
    let record = record.arg(env!("CARGO_BIN_EXE_rprof"));
    let record = record.words("record -F 999 --no-call-graph -e cpu-clock --");
    let record = record.words(within).arg(c("jit.c"));
    let run = record.words(&format!("dump 0.8 {folder}")).ok();
    assert!(!run.err().contains("out of order"), "{run}");
    let said = run.out();
    let mut times = said.split_whitespace().map(|n| n.parse::<i64>().unwrap());
    let mut time = || (times.next().unwrap() - ahead * 1_000_000_000).cast_unsigned();
    let [left, came, back] = [time(), time(), time()];
    // The runtime's file is in the recording, so it can be deleted.
    for entry in std::fs::read_dir(here.path(".")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "dump") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let script = here.rprof("script --ns -F time,ip,sym").ok();
    let moments = moments(&script.out());
    let mut counts = [0; 3];
    for (time, name) in &moments {
        let (phase, expected) = match *time {
            time if time < left => (0, "first come"),
            time if time < came => continue,
            time if time < back => (1, "late comer"),
            _ => (2, "first come"),
        };
        counts[phase] += 1;
        assert_eq!(name, expected, "at {time}: {left} {came} {back}");
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    let lines = here.rprof("script -F ip,sym,srcline").ok();
    lines.prints("first come\n  made.x:12");
    let report = here.report("--no-by-language");
    let named = report.only().rows.iter();
    let mut named = named.filter(|row| ["first come", "late comer"].contains(&&*row.symbol));
    assert!(named.clone().count() > 0);
    assert!(
        named.all(|row| {
            let is_here = row.object.starts_with(folder.trim_end_matches('.'));
            is_here && row.object.ends_with(".dump")
        }),
        "{:#?}",
        report.only().rows
    );
}

#[test]
fn jit_code_moves_are_those_of_perf_inject() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    let folder = here.path(".").display().to_string();
    let record = here.perf("record -q -N -k mono -F 999 -e cpu-clock -o p.data --");
    let record = record.arg(c("jit.c"));
    record.words(&format!("dump 0.8 {folder}")).ok();
    here.perf("inject --jit -i p.data -o injected.data").ok();
    let by_perf = here
        .perf("script --ns -F time,ip,sym -i injected.data")
        .ok();
    let expected = moments(&by_perf.out());
    let late = expected.iter().filter(|(_, name)| name == "late comer");
    assert!(expected.len() > 100 && late.count() > 20, "{by_perf}");
    // From the dump, and from perf's images of it.
    for file in ["p.data", "injected.data"] {
        let script = here.rprof("script --ns -F time,ip,sym -i").arg(file).ok();
        assert_eq!(moments(&script.out()), expected, "{file}");
    }
    // With another clock, the times cannot be compared.
    let record = here.perf("record -q -N -F 999 -e cpu-clock -o q.data --");
    let record = record.arg(c("jit.c"));
    record.words(&format!("dump 0.3 {folder}")).ok();
    let report = here.rprof("report -i q.data").ok();
    report.prints("perf record needs -k mono");
}

#[test]
fn untrusted_perf_maps_are_refused_while_recording() {
    needs!(PerfEvents, Root);
    for (kind, why) in [
        ("symlink", "it is a symbolic link"),
        ("sparse", "it has 10737418240 bytes"),
        ("fifo", "it is not a regular file"),
        ("foreign", "it belongs to user 12345"),
        ("link", "it has 2 hard links"),
    ] {
        let here = Here::new();
        let record = here.rprof("record -F 999 -e cpu-clock --").arg(c("jit.c"));
        let run = record.words(&format!("{kind} 0.3")).ok();
        run.says("perf-").says(".map is not embedded: ").says(why);
        let told = run.err().matches(".map is not embedded").count();
        assert_eq!(told, 1, "{run}");
        let report = here.report("--no-by-language");
        assert_eq!(shares(&report), (0.0, 0.0), "{kind}");
        let reasons = &report.quality["frames"]["unnamed_by_reason"];
        assert!(reasons["jit_without_map"].as_u64() > Some(50), "{reasons}");
    }
}

#[test]
fn untrusted_perf_maps_are_refused_by_the_report() {
    needs!(PerfEvents, Perf, Root);
    let here = Here::new();
    let record = here
        .perf("record -q -N -B -F 999 -e cpu-clock --")
        .arg(c("jit.c"));
    let run = record.words("map 0.3 keep").ok();
    let map = run.out().trim().to_owned();
    for (make, why) in [
        ("mv $0 $0.other; ln -s $0.other $0", "it is a symbolic link"),
        ("truncate -s 10G $0", "it has 10737418240 bytes"),
        // perf record would block on it.
        ("mkfifo $0", "it is not a regular file"),
        ("mkdir $0", "it is not a regular file"),
        ("chown 12345 $0", "it belongs to user 12345"),
        ("ln $0 $0.other", "it has 2 hard links"),
    ] {
        let is_new = make.starts_with("mk");
        here.sh(&format!(
            "cp $0 $0.good; {}{make}",
            if is_new { "rm $0; " } else { "" }
        ))
        .arg(&map)
        .ok();
        let report = here.rprof("report --format json").run();
        let text = here.rprof("script -F ip,sym").run();
        here.sh("rm -rf $0 $0.other; mv $0.good $0").arg(&map).ok();
        let message = format!("{map} is not used: {why}");
        report.exits(0).prints(&message);
        text.exits(0).says(&message);
        assert_eq!(shares(&Report::parse(&report)), (0.0, 0.0), "{make}");
    }
    // The valid map is a copy by now.
    let late = here.rprof("report --format json").ok();
    late.prints("it is newer than the recording");
    assert_eq!(shares(&Report::parse(&late)), (0.0, 0.0));
    here.sh("touch perf.data").ok();
    // Only the timestamp was wrong.
    let (one, two) = shares(&here.report("--no-by-language"));
    std::fs::remove_file(Path::new(&map)).unwrap();
    // Entries without a size have names too.
    assert!(one > two && two > 0.0, "{one} and {two} by a good map");
}

#[test]
fn bad_lines_of_a_perf_map_cost_only_themselves() {
    needs!(PerfEvents);
    let mut here = Here::new();
    measured(|| {
        here = Here::new();
        let record = here
            .rprof("record -F 999 -e cpu-clock:u --")
            .arg(c("jit.c"));
        let record = record.words("control 0.4").ok();
        record.says("3 invalid lines were skipped");
        let report = here.report("--no-by-language");
        let (_, two) = shares(&report);
        let evil = "evil \u{fffd}[2J\u{fffd};<script>\u{fffd} one";
        let one = report.only().self_share(evil);
        check_quarters(&report, (one, two), "a map with bad lines")
    });
    for command in ["report", "collapse", "script", "flamegraph -o -"] {
        here.rprof(command).ok().is_clean();
    }
    let svg = here.rprof("flamegraph -o -").ok();
    assert!(!svg.out().contains("<script>\u{fffd}"), "{svg}");
}

const NODE: &str = "
function hot_loop(n) { let s = 0; for (let i = 0; i < n; i++) { s = (s * 31 + i) | 0; } return s; }
const end = process.cpuUsage().user + 1e6;
let x = 0;
while (process.cpuUsage().user < end) x ^= hot_loop(1e6);
console.log(x & 1);
";

#[test]
fn node_functions_are_named_by_perf_map_and_jitdump() {
    needs!(PerfEvents, Node);
    for flags in [
        "--perf-basic-prof",
        "--perf-prof",
        "--perf-prof --perf-prof-unwinding-info",
    ] {
        // The compilers' share depends on the machine.
        measured(|| node(flags));
    }
}

fn node(flags: &str) -> Result<(), String> {
    let here = Here::new();
    std::fs::write(here.path("hot.js"), NODE).unwrap();
    let record = here.rprof("record -q -F 999 -g -e cpu-clock -- node");
    record.words(flags).arg("hot.js").ok();
    let report = here.report("--no-by-language");
    let rows = report.only().rows.iter();
    let hot = rows.filter(|row| row.symbol.contains("hot_loop"));
    let share = hot.map(|row| row.own).sum::<u64>() as f64 / report.only().weight as f64;
    check(share > 0.6, || format!("{share} with {flags}"))?;
    let frames = &report.quality["frames"];
    let (named, total) = (frames["named"].as_f64(), frames["total"].as_f64());
    let named = named.unwrap() / total.unwrap();
    check(named > 0.99, || format!("{named} with {flags}: {frames}"))?;
    let stacks = &report.quality["stacks"];
    let complete = stacks["complete"].as_f64().unwrap() / stacks["total"].as_f64().unwrap();
    check(complete > 0.97, || {
        format!("{complete} with {flags}: {stacks}")
    })
}

/// The interpreter is copied for each function.
#[test]
fn node_interpreted_functions_are_named() {
    needs!(PerfEvents, Node);
    let slow = NODE.replace("hot_loop(1e6)", "hot_loop(1e4)");
    for flag in ["--perf-basic-prof", "--perf-prof"] {
        let here = Here::new();
        std::fs::write(here.path("slow.js"), &slow).unwrap();
        let record = here.rprof("record -q -F 999 -g -e cpu-clock -- node --no-opt");
        let record = record.words("--no-sparkplug --interpreted-frames-native-stack");
        record.arg(flag).arg("slow.js").ok();
        let report = here.report("--no-by-language");
        // V8's mark for interpreted functions.
        let rows = report.only().rows.iter();
        let row = rows.filter(|row| row.symbol.contains("~hot_loop "));
        let share = row.map(|row| row.total).sum::<u64>() as f64 / report.only().weight as f64;
        assert!(share > 0.3, "{share} with {flag}");
    }
}

const PYTHON: &str = "
import time
def inner_work(n):
    s = 0
    for i in range(n): s += i * i
    return s
def outer_work():
    end = time.process_time() + 0.6
    while time.process_time() < end: inner_work(1000)
outer_work()
";

/// Trampolines without unwinding information have neither frame pointers nor code to analyse.
#[test]
fn python_functions_are_named_by_perf_map_and_jitdump() {
    needs!(PerfEvents);
    for (kind, options) in [
        ("perf", "-g"),
        ("perf_jit", "-g"),
        ("perf_jit", "--call-graph dwarf,32768"),
    ] {
        // Newer than the oldest supported system.
        let Some(python) = python_with_trampolines(kind) else {
            inapplicable(format!(
                "needs a Python with -X {kind}, which Debian 12 has not"
            ));
            continue;
        };
        measured(|| {
            let here = Here::new();
            std::fs::write(here.path("hot.py"), PYTHON).unwrap();
            let record = here.rprof("record -q -F 999 -e cpu-clock").words(options);
            let record = record.arg("--").arg(&python);
            record.words(&format!("-X {kind} hot.py")).ok();
            let report = here.report("--no-by-language");
            let (only, what) = (report.only(), format!("{kind} with {options}"));
            for name in ["inner_work", "outer_work"] {
                let rows = only.rows.iter();
                let row = rows.filter(|row| row.symbol.starts_with(&format!("py::{name}:")));
                let share = row.map(|row| row.total).sum::<u64>() as f64 / only.weight as f64;
                check(share > 0.7, || format!("{share} in {name}, {what}"))?;
            }
            let stacks = &report.quality["stacks"];
            let complete = stacks["complete"].as_f64().unwrap() / stacks["total"].as_f64().unwrap();
            check(complete > 0.97, || {
                format!("{complete} of the stacks, {what}")
            })
        });
    }
}

const JAVA: &str = "
public class Hot {
    static int hotLoop(int n) { int s = 0; for (int i = 0; i < n; i++) s = s * 31 + i; return s; }
    public static void main(String[] a) {
        // By the thread's own clock: a busy machine may leave it little of the time.
        var clock = java.lang.management.ManagementFactory.getThreadMXBean();
        long end = clock.getCurrentThreadCpuTime() + 2000000000L;
        int x = 0;
        while (clock.getCurrentThreadCpuTime() < end) x ^= hotLoop(1000000);
        System.out.println(x & 1);
    }
}
";

/// JVMs write a map from version 17 on.
#[test]
fn java_methods_are_named_by_perf_map() {
    needs!(PerfEvents, Java);
    let here = Here::new();
    std::fs::write(here.path("Hot.java"), JAVA).unwrap();
    here.command("javac").arg("Hot.java").ok();
    let record = here.rprof("record -q -F 499 -g -e cpu-clock -- java");
    let flags = "-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer";
    record.words(flags).arg("Hot").ok();
    let report = here.report("--no-by-language");
    let rows = report.only().rows.iter();
    let hot =
        rows.filter(|row| row.symbol.contains("Hot.hotLoop") || row.symbol.contains("Hot.main"));
    let share = hot.map(|row| row.own).sum::<u64>() as f64 / report.only().weight as f64;
    assert!(share > 0.3, "{share}");
}

/// Each sample has one frame or a stack. Times are the record timestamps.
#[test]
fn stacks_through_jit_code_are_complete() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("jit.c"), "map 0.6");
    let samples = perf_samples(&here.rprof("script").ok());
    for made in ["made one", "made::two(int, int)"] {
        let names = |frames: &[PerfFrame]| -> Vec<String> {
            frames.iter().map(|frame| frame.name.clone()).collect()
        };
        let stacks = samples.iter().map(|sample| names(&sample.frames));
        let (mut inside, mut whole) = (0, 0);
        for stack in stacks.filter(|stack| stack.iter().any(|name| name == made)) {
            inside += 1;
            whole += usize::from(stack.starts_with(&[made, "work", "main"].map(String::from)));
        }
        println!("{whole} of {inside} stacks are whole in {made}");
        // The first and last instructions of a function have no frame.
        assert!(
            inside > 10 && whole * 100 >= inside * 90,
            "{whole} of {inside} in {made}"
        );
    }
}

/// Pids are used again, and old files stay in /tmp.
#[test]
fn a_perf_map_that_is_older_than_its_process_names_nothing() {
    needs!(PerfEvents, Node);
    let here = Here::new();
    std::fs::write(here.path("hot.js"), NODE).unwrap();
    let script = "echo $$ >pid
        echo '0 ffffffffffff stale_function' >/tmp/perf-$$.map
        touch -d \"$1\" /tmp/perf-$$.map
        exec node hot.js";
    let run = |keep: &str, age: &str| {
        let record = format!("record -q -F 999 -g -e cpu-clock {keep} -- sh -c");
        let record = here.rprof(&record).arg(script).arg("sh").arg(age);
        record.ok();
        let report = here.report("--no-by-language");
        let pid = std::fs::read_to_string(here.path("pid")).unwrap();
        std::fs::remove_file(format!("/tmp/perf-{}.map", pid.trim())).unwrap();
        (report.only().rows.iter()).any(|row| row.symbol == "stale_function")
    };
    for keep in ["", "--keep none"] {
        assert!(run(keep, "now"), "{keep}: the map is used");
        assert!(!run(keep, "2 days ago"), "{keep}: the map is not used");
    }
}

/// perf's default clock counts from the start of the machine.
#[test]
fn an_older_perf_map_names_nothing_in_a_recording_of_perf() {
    needs!(PerfEvents, Perf, Node);
    let here = Here::new();
    std::fs::write(here.path("hot.js"), NODE).unwrap();
    let script = "echo $$ >pid
        echo '0 ffffffffffff stale_function' >/tmp/perf-$$.map
        touch -d \"$1\" /tmp/perf-$$.map
        exec node hot.js";
    std::fs::write(here.path("run.sh"), script).unwrap();
    let run = |age: &str, touched: &str| {
        let record = "record -q -F 999 -g -e cpu-clock:u -o perf.data -- sh run.sh";
        here.perf(record).arg(age).ok();
        let touched = here.sh(&format!("touch -d '{touched}' perf.data"));
        touched.ok();
        let report = here.report("--no-by-language");
        let pid = std::fs::read_to_string(here.path("pid")).unwrap();
        std::fs::remove_file(format!("/tmp/perf-{}.map", pid.trim())).unwrap();
        (report.only().rows.iter()).any(|row| row.symbol == "stale_function")
    };
    assert!(run("now", "now"), "the map is used");
    for touched in ["now", "1 hour"] {
        assert!(!run("2 days ago", touched), "the map is not used");
    }
}
