//! Compares the output with `perf script`, line by line.
//!
//! Covers fields, columns, side records, and the text of tracepoints. Other tests compare symbols.

use std::path::{Path, PathBuf};
use std::process::Command;

use rprof_analysis::Samples;
use rprof_perfdata::PerfData;
use rprof_script::{FieldList, Script, ScriptOptions, SideRecords};
use rprof_symbols::Symbolizer;
use rprof_testing::{Need, corpus_file, has, skip};

/// A long command for many samples, and a short one for few.
const LONG: &str = "ls -lR /usr/include";
const SHORT: &str = "ls -l /usr/lib";

/// Recording file, deleted on drop.
struct Recording(PathBuf);

impl Drop for Recording {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// Records a command. Returns `None`, and skips the test, if perf cannot.
#[track_caller]
fn record(name: &str, options: &str, command_line: &str) -> Option<Recording> {
    if !has(Need::Perf) {
        return None;
    }
    let path = std::env::temp_dir().join(format!("rprof-{name}-{}.data", std::process::id()));
    let recording = Recording(path);
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-o"]).arg(&recording.0);
    command.args(options.split(' '));
    command.arg("--").args(command_line.split(' '));
    let mut output = command.output().unwrap();
    // perf can fail in util/build-id.c while another program records whole CPUs: see
    // `tests/support/exclusive.rs`.
    let was_met = |stderr: &[u8]| String::from_utf8_lossy(stderr).contains("util/build-id.c");
    for _ in 0..20 {
        if output.status.success() || !was_met(&output.stderr) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        output = command.output().unwrap();
    }
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        skip(format!("needs perf to record {options}: {why}"));
        return None;
    }
    Some(recording)
}

fn of_perf(path: &Path, arguments: &str) -> Vec<String> {
    let mut command = Command::new("perf");
    // Other tests cover inlined calls, for which perf takes minutes.
    command
        .args(["script", "-f", "--no-inline", "-i"])
        .arg(path);
    let output = command.args(arguments.split_whitespace()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    text.lines().map(str::to_owned).collect()
}

fn ours(path: &Path, options: &ScriptOptions) -> Vec<String> {
    let data = PerfData::open(path).unwrap();
    let script = Script::new(&data, options).unwrap();
    let symbolizer = Symbolizer::builder().inlines(false).lines(false).build();
    let samples = Samples::read_with(&data, &symbolizer, &Default::default(), &script.details());
    let mut out = Vec::new();
    script.write(&samples, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn with_fields(list: &str) -> ScriptOptions {
    let mut options = ScriptOptions::default();
    options.fields.apply(&FieldList::parse(list).unwrap());
    options
}

#[track_caller]
fn assert_same(perf: &[String], ours: &[String]) {
    let differing = perf.iter().zip(ours).find(|(p, o)| p != o);
    assert_eq!(differing, None);
    assert_eq!(perf.len(), ours.len());
    assert!(perf.len() > 10, "{perf:?}");
}

#[test]
fn fields_have_perfs_columns() {
    let Some(r) = record(
        "fields",
        "-e cpu-clock,page-faults -F 999 -d --sample-cpu",
        LONG,
    ) else {
        return;
    };
    for list in [
        "comm,pid,tid,cpu,time,event,period,ip",
        "comm,time,event,misc",
        "pid,ip,period",
        "tid,event,data_src",
    ] {
        assert_same(
            &of_perf(&r.0, &format!("-F {list}")),
            &ours(&r.0, &with_fields(list)),
        );
    }
    let options = ScriptOptions {
        nanoseconds: true,
        ..with_fields("-ip,-period")
    };
    assert_same(&of_perf(&r.0, "--ns -F -period,-ip"), &ours(&r.0, &options));
}

#[test]
fn stacks_have_perfs_layout() {
    let Some(r) = record(
        "stacks",
        "-e cpu-clock:u -F 4999 -g --user-regs=ip,sp",
        LONG,
    ) else {
        return;
    };
    let options = ScriptOptions {
        max_stack: 3,
        ..with_fields("comm,tid,time,ip,dso,uregs")
    };
    let arguments = "--max-stack 3 -F comm,tid,time,ip,dso,uregs";
    let (perf, ours_) = (of_perf(&r.0, arguments), ours(&r.0, &options));
    let (perf, ours_) = (stacks(&perf), stacks(&ours_));
    assert_eq!(perf.len(), ours_.len());
    let differing = perf.iter().zip(&ours_).filter(|(p, o)| p != o);
    // If the kernel recorded garbage, perf shows no stack: only the sample's line and the
    // registers.
    let is_garbage = |perf: &[&String]| !perf.iter().any(|line| is_frame(line));
    let other = (differing.clone()).find(|(p, o)| !is_garbage(p) || is_garbage(o));
    assert_eq!(other, None);
    let differing = differing.count();
    assert!(
        perf.len() > 3 && differing * 2 < perf.len(),
        "{differing} of {}",
        perf.len()
    );
    let options = ScriptOptions {
        hide_callchains: true,
        ..with_fields("comm,tid,time,ip,dso,uregs")
    };
    let arguments = "-G -F comm,tid,time,ip,dso,uregs";
    assert_same(&of_perf(&r.0, arguments), &ours(&r.0, &options));
}

/// Groups the lines by sample. Only the first line of a sample is not indented.
fn stacks(lines: &[String]) -> Vec<Vec<&String>> {
    let mut samples: Vec<Vec<&String>> = Vec::new();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        match samples.last_mut() {
            Some(sample) if line.starts_with([' ', '\t']) => sample.push(line),
            _ => samples.push(vec![line]),
        }
    }
    samples
}

/// Returns true for an address with its object: `7f0000001234 (/usr/bin/ls)`.
fn is_frame(line: &str) -> bool {
    line.starts_with('\t') && line.ends_with(')')
}

#[test]
fn records_stand_between_samples() {
    let options = "-e cpu-clock:u -F 999 --switch-events";
    let Some(r) = record("side", options, LONG) else {
        return;
    };
    let options = ScriptOptions {
        side: SideRecords {
            mmap: true,
            task: true,
            switch: true,
            lost: true,
            ..SideRecords::default()
        },
        ..with_fields("comm,tid,time,misc,ip")
    };
    let arguments = "-F comm,tid,time,misc,ip --show-mmap-events --show-task-events \
                     --show-switch-events --show-lost-events";
    assert_same(&of_perf(&r.0, arguments), &ours(&r.0, &options));
}

#[test]
fn tracepoints_read_as_perf_prints_them() {
    let events = "sched:sched_switch,sched:sched_process_exec,syscalls:sys_enter_openat,\
                  syscalls:sys_exit_openat,kmem:kmalloc,kmem:kfree,signal:signal_deliver,\
                  raw_syscalls:sys_enter,task:task_rename";
    let Some(r) = record("trace", &format!("-e {events}"), SHORT) else {
        return;
    };
    let (perf, ours_) = (of_perf(&r.0, ""), ours(&r.0, &ScriptOptions::default()));
    // A thread that exits has only a known process. perf names neither.
    let known = |lines: Vec<String>| -> Vec<String> {
        lines
            .into_iter()
            .filter(|l| !l.contains("  -1 ["))
            .collect()
    };
    let (perf, ours_) = (known(perf), known(ours_));
    assert_same(&perf, &ours_);
    for name in ["sched_process_exec: ", "sys_exit_openat: 0x", "call_site="] {
        assert!(ours_.iter().any(|l| l.contains(name)), "no {name}");
    }
}

#[test]
fn pieces_of_traces_read_as_perf_dumps_them() {
    let Some(file) = corpus_file("perfdata/quipper/perf.data.intel_pt-4.14") else {
        return;
    };
    if !has(Need::Perf) {
        return;
    }
    let of_trace = |lines: Vec<String>| -> Vec<String> {
        let kinds = ["PERF_RECORD_AUX ", "PERF_RECORD_ITRACE_START "];
        let found = |line: &String| {
            let at = kinds.iter().find_map(|kind| line.find(kind))?;
            Some(line[at..].trim_end().to_owned())
        };
        lines.iter().filter_map(found).collect()
    };
    let options = ScriptOptions {
        side: SideRecords {
            aux: true,
            ..SideRecords::default()
        },
        ..with_fields("comm,tid,time")
    };
    let ours = of_trace(ours(&file, &options));
    assert_eq!(ours, of_trace(of_perf(&file, "-D")));
    assert!(ours.len() > 10, "{ours:?}");
}

#[test]
fn a_missing_field_is_named_with_its_event() {
    let Some(r) = record("missing", "-e cpu-clock:u -F 99", SHORT) else {
        return;
    };
    let data = PerfData::open(&r.0).unwrap();
    let error = Script::new(&data, &with_fields("comm,phys_addr")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("'cpu-clock:u'") && text.contains("'phys_addr'"),
        "{text}"
    );
    // Missing fields that were not requested by name, such as `cpu`, are dropped silently.
    assert!(Script::new(&data, &ScriptOptions::default()).is_ok());
}
