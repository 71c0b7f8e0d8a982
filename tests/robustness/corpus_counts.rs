//! Compares counts by rprof and perf for every recording of the corpus; see `corpus.rs`.
//!
//! A table lists all allowed differences with their reasons. To print it: `cargo test -p rprof
//! --test integration corpus_counts -- --nocapture`.

use std::collections::BTreeMap;

use rprof_testing::corpus_file;

use super::corpus::{Capture, captures};
use crate::support::{Here, Report, Run, Shell, needs};

const COMPRESSED2: &str = "perf 6.12 does not know COMPRESSED2 records";
const SIMPLEPERF_RECORD: &str = "perf refuses records of simpleperf's own";
const FORMATS: &str = "perf finds no formats of tracepoints where it looks, and needs them";
const NO_EVENT: &str = "no event is described; perf ends without a sample and without an error";

/// Samples by perf 6.12 and by rprof (`None` if rejected), and the reason.
type Different = (&'static str, Option<u64>, Option<u64>, &'static str);

const DIFFERENT: [Different; 15] = [
    (
        "quipper/perf.data.intel_pt-4.14",
        Some(146),
        Some(15),
        "perf decodes the trace and makes up samples, and errors, of what ran",
    ),
    (
        "linux-perf-data/fibo.compressed2.pipe.data",
        None,
        Some(547),
        COMPRESSED2,
    ),
    (
        "linux-perf-data/sleep.compressed2.data",
        None,
        Some(7),
        COMPRESSED2,
    ),
    (
        "linux-perf-data/sleep.compressed2.pipe.data",
        None,
        Some(7),
        COMPRESSED2,
    ),
    (
        "simpleperf/debug_unwind_small_map_range.data",
        None,
        Some(1),
        FORMATS,
    ),
    (
        "simpleperf/perf_for_build_id_check.data",
        None,
        Some(4408),
        SIMPLEPERF_RECORD,
    ),
    (
        "simpleperf/perf_with_callchain_record.data",
        None,
        Some(21),
        SIMPLEPERF_RECORD,
    ),
    (
        "simpleperf/perf_sched_stat_runtime.data",
        None,
        Some(2430),
        FORMATS,
    ),
    (
        "simpleperf/perf_with_trace_offcpu_v2.data",
        None,
        Some(304),
        FORMATS,
    ),
    (
        "simpleperf/perf_with_tracepoint_event_dynamic_field.data",
        None,
        Some(10),
        FORMATS,
    ),
    (
        "simpleperf/perf_for_small_binary.data",
        None,
        Some(0),
        "perf 6.12 crashes over the trace",
    ),
    (
        "quipper/poc-3be2b745d86f9b6e8491a391f14200007b6841fb5c25b010752c87f1e53af9b5",
        None,
        Some(0),
        "perf refuses all of a damaged stream; rprof shows what stands before the damage",
    ),
    (
        "quipper/clusterfuzz-testcase-minimized-quipper_perf_reader_read_fuzzer-4883679740166144",
        Some(0),
        None,
        NO_EVENT,
    ),
    (
        "quipper/poc-6811aac63baf66b46afe603c99b882dfeca9bda96e0c0fc6ba9d807ae9370309",
        Some(0),
        None,
        NO_EVENT,
    ),
    (
        "quipper/poc-95cc7524c6b55c7d26365fdacc8a04e7a8aae7bb2ae2c367e08d2e2872212b9d",
        Some(0),
        None,
        NO_EVENT,
    ),
];

const OTHER_STACKS: [(&str, &str); 1] = [(
    "perfparser/vector_static_gcc.perf.lbr.data",
    "where the processor had no record of calls, perf takes what stands behind it for an address",
)];

/// Returns samples by event; `None` for a rejection with one clear message.
fn report(here: &Here, capture: &Capture, options: &str) -> Option<Report> {
    let shell = here.rprof("report --format json").words(options);
    let run = shell.arg("-i").arg(&capture.path).run();
    match run.code() {
        Some(0) => Some(Report::parse(&run)),
        Some(1) if run.err().contains(" has no samples: ") => Some(Report::without_events()),
        Some(1) if run.err().lines().count() == 1 => None,
        _ => panic!("neither read nor refused:\n{run}"),
    }
}

fn text(count: Option<u64>) -> String {
    count.map_or("refused".into(), |n| n.to_string())
}

#[allow(
    clippy::print_stdout,
    reason = "what a test prints is kept by the harness"
)]
fn show(line: &str) {
    println!("{line}");
}

#[test]
fn samples_are_as_many_as_perf_counts() {
    let Some(folder) = corpus_file("perfdata") else {
        return;
    };
    let here = Here::new();
    let (mut wrong, mut known) = (Vec::new(), 0);
    show("file | perf 6.12 | rprof | by event | reason");
    for capture in captures(&folder) {
        let events = report(&here, &capture, "").map(|r| r.events);
        let by_rprof = events
            .as_ref()
            .map(|all| all.iter().map(|e| e.samples).sum::<u64>());
        let found = DIFFERENT.iter().find(|d| d.0 == capture.file);
        let (by_perf, expected, reason) = match found {
            Some(&(_, by_perf, by_rprof, reason)) => (by_perf, by_rprof, reason),
            None => (capture.by_perf, capture.by_perf, ""),
        };
        known += usize::from(found.is_some());
        let by_event: Vec<_> = (events.iter().flatten())
            .map(|e| format!("{} {}", e.name, e.samples))
            .collect();
        let row = format!(
            "{} | {} | {} | {} | {reason}",
            capture.file,
            text(capture.by_perf),
            text(by_rprof),
            by_event.join(", ")
        );
        show(&row);
        // Without a count by perf, compares with uncompressed records.
        let by_records = match capture.by_perf {
            None if !capture.is_compressed => by_rprof.is_none_or(|n| n == capture.samples),
            _ => true,
        };
        if capture.by_perf != by_perf || by_rprof != expected || !by_records {
            wrong.push(row);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(known, DIFFERENT.len(), "files of the table that are gone");
}

/// Thread name, thread and time, addresses.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Line {
    name: String,
    thread: String,
    time: String,
    addresses: Vec<u64>,
}

const FIELDS: &str = "script -F comm,tid,time,ip";

fn lines(run: &Run, has_dumps: bool) -> Vec<Line> {
    let address = |word: &str| {
        let parsed = u64::from_str_radix(word, 16);
        parsed.unwrap_or_else(|e| panic!("{word:?}: {e} in\n{run}"))
    };
    let mut samples: Vec<Line> = Vec::new();
    for line in run.out().lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        if let Some(sample) = samples.last_mut().filter(|_| line.starts_with('\t')) {
            sample.addresses.push(address(words[0]));
            continue;
        }
        let time = words
            .iter()
            .rposition(|w| w.ends_with(':') && w.contains('.'));
        let Some((time, thread)) = time.and_then(|t| Some((t, t.checked_sub(1)?))) else {
            panic!("{line:?} is no sample in\n{run}");
        };
        samples.push(Line {
            name: words[..thread].join(" "),
            thread: words[thread].into(),
            time: words[time].into(),
            addresses: words
                .get(time + 1)
                .map(|w| address(w))
                .into_iter()
                .collect(),
        });
    }
    if has_dumps {
        // User stacks from dumps depend on the available images.
        for sample in &mut samples {
            sample.addresses.retain(|address| *address >= 1 << 63);
        }
    }
    // perf prints the leaf of some tracepoints of old kernels twice.
    for sample in &mut samples {
        if let [leaf, caller, ..] = sample.addresses[..]
            && leaf == caller
            && leaf >= 1 << 63
        {
            sample.addresses.remove(0);
        }
    }
    samples.sort();
    samples
}

fn names<'a>(all: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<&'a str, u64> {
    let mut counts = BTreeMap::new();
    for (name, count) in all {
        *counts.entry(name).or_default() += count;
    }
    counts
}

#[test]
fn threads_and_stacks_are_those_of_perf() {
    let Some(folder) = corpus_file("perfdata") else {
        return;
    };
    needs!(Perf);
    let here = Here::new();
    let mut compared = 0;
    for capture in captures(&folder) {
        let file = &capture.file;
        if DIFFERENT.iter().any(|d| d.0 == file) || capture.by_perf.is_none() {
            continue;
        }
        let input = |shell: Shell| shell.arg("-i").arg(&capture.path).run();
        let by_perf = input(here.perf(FIELDS).arg("--no-inline"));
        // perf versions before 6.12 reject more files.
        if by_perf.code() != Some(0) {
            continue;
        }
        compared += 1;
        let theirs = lines(&by_perf, capture.has_dumps);
        let of_threads = names(theirs.iter().map(|line| (&*line.name, 1)));
        let report = report(&here, &capture, "--sort comm").expect("perf read it");
        let rows = report.events.iter().flat_map(|e| &e.rows);
        let ours = names(rows.map(|row| (row.comm.trim(), row.self_samples)));
        assert_eq!(ours, of_threads, "{file}: samples by thread name");

        if let Some((_, reason)) = OTHER_STACKS.iter().find(|(f, _)| f == file) {
            show(&format!("{file}: stacks not compared: {reason}"));
            continue;
        }
        let ours = lines(&input(here.rprof(FIELDS)), capture.has_dumps);
        let what = match capture.has_dumps {
            true => "addresses of the kernel",
            false => "addresses",
        };
        let addresses: usize = ours.iter().map(|line| line.addresses.len()).sum();
        show(&format!(
            "{file}: {} names, {} samples, {addresses} {what}",
            of_threads.len(),
            ours.len(),
        ));
        let differ = theirs.iter().zip(&ours).find(|(a, b)| a != b);
        assert!(
            differ.is_none() && theirs.len() == ours.len(),
            "{file}: {differ:x?}"
        );
    }
    assert!(compared > 0, "perf reads none of the recordings");
}
