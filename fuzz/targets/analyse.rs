//! Analyses a recording, and exports it in every format.
//!
//! Input: a perf.data file. Its images are not opened: see [`without_paths`].

use std::io::Write;
use std::path::Path;

use rprof_analysis::{Index, Options, Samples, analyse};
use rprof_export::{FORMATS, ReportOptions, RowOptions, TreeOptions, folded, verdict};
use rprof_perfdata::PerfData;
use rprof_profile::views::call_tree::Growth;
use rprof_profile::{Keys, Profile, WeighBy};
use rprof_script::{self as script, FieldList, OutputField, Script, SideRecords};
use rprof_symbols::Symbolizer;

/// Kernel symbols, independent of the fuzzing machine.
const KERNEL: &[u8] = b"\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81001000 T do_syscall_64
ffffffff81002000 T \x1b[31mred
ffffffff82000000 T _etext
ffffffffc0000000 t in_module\t[module]
";

/// The only folder in paths. It does not exist.
const NOWHERE: &[u8] = b"/nonexistent/";

/// Maximum size in bytes. Larger recordings only repeat themselves.
const MAX_BYTES: u64 = 1 << 20;

pub(crate) fn run(data: &[u8]) {
    let bytes = without_paths(data);
    let Ok(read) = PerfData::read(&bytes[..], Path::new("fuzz")) else {
        return;
    };
    let len: u64 = (read.blocks().filter_map(Result::ok))
        .map(|b| b.bytes.len() as u64)
        .take(3)
        .sum();
    // Compressed records could contain paths too.
    let paths = |index: &Index<'_>| -> bool {
        let images = index.timeline.images();
        (images.iter()).all(|i| i.path.first() != Some(&b'/') || i.path.starts_with(NOWHERE))
    };
    if len > MAX_BYTES || !paths(&Index::build(&read)) {
        return;
    }
    let symbolizer = Symbolizer::builder()
        .kernel_list(KERNEL.to_vec())
        .debug_dirs(Vec::new())
        .perf_cache(None)
        .build();
    let analysis = Options {
        by_thread: data.len() % 2 == 1,
        by_line: data.len() % 3 == 1,
        columns: data.len() % 5 == 1,
        streams: data.len() % 5 < 2,
        threads: 1,
        ..Options::default()
    };
    let profile = analyse(&read, &symbolizer, &analysis);
    sums(&profile);
    exports(&profile);
    let by_latency = Options {
        latency: true,
        ..analysis.clone()
    };
    sums(&analyse(&read, &symbolizer, &by_latency));
    let all: u64 = profile.events.iter().map(|e| e.samples).sum();
    for options in [script::ScriptOptions::default(), everything(&read)] {
        let script = Script::new(&read, &options).expect("fields that there are");
        let samples = Samples::read_with(&read, &symbolizer, &analysis.filter, &script.details());
        safe("script", |out| {
            script.write(&samples, out).expect("memory takes all");
        });
        assert_eq!(samples.iter().count() as u64, all);
    }
}

/// Selects every sample field that the recording can have, and every record.
fn everything(read: &PerfData) -> script::ScriptOptions {
    let mut options = script::ScriptOptions {
        nanoseconds: true,
        side: SideRecords {
            lost: true,
            mmap: true,
            task: true,
            switch: true,
            read: true,
            aux: true,
            namespaces: true,
            bpf: true,
            cgroup: true,
            text_poke: true,
        },
        ..script::ScriptOptions::default()
    };
    for name in OutputField::names() {
        let before = options.fields.clone();
        let list = FieldList::parse(&format!("+{name}")).expect("a field");
        options.fields.apply(&list);
        if Script::new(read, &options).is_err() {
            options.fields = before;
        }
    }
    options
}

/// Replaces every `/` outside of [`NOWHERE`], so that the input cannot name a file of the fuzzing
/// machine.
fn without_paths(data: &[u8]) -> Vec<u8> {
    let mut out = data.to_vec();
    let mut at = 0;
    while let Some(byte) = out.get_mut(at) {
        if *byte == b'/' && data[at..].starts_with(NOWHERE) {
            at += NOWHERE.len();
            continue;
        }
        if *byte == b'/' {
            *byte = b'|';
        }
        at += 1;
    }
    out
}

fn sums(profile: &Profile) {
    let q = &profile.quality;
    assert!(q.named <= q.frames);
    assert_eq!(q.frames - q.named, q.unnamed.values().sum::<u64>());
    assert!((0.0..=1.0).contains(&q.named_share()));
    assert!((0.0..=1.0).contains(&q.complete_share()));
    for (number, event) in profile.events.iter().enumerate() {
        let entries = || profile.aggregated.iter().filter(|e| e.event == number);
        assert_eq!(entries().map(|e| e.samples).sum::<u64>(), event.samples);
        let weight = entries().fold(0u64, |sum, e| sum.saturating_add(e.weight));
        assert_eq!(weight, event.weight);
        for weight in [WeighBy::Samples, WeighBy::Period] {
            let folded = folded::fold(profile, number, weight);
            let sum = folded.weights().fold(0u64, u64::saturating_add);
            let all = match weight {
                WeighBy::Samples => event.samples,
                WeighBy::Period => event.weight,
            };
            // A sample without an address has no stack.
            assert!(sum <= all);
        }
    }
}

fn exports(profile: &Profile) {
    for finding in verdict::findings(profile) {
        let line = finding.to_string();
        assert!(!line.is_empty());
    }
    let all = RowOptions {
        by_total: true,
        trees: Some(TreeOptions {
            growth: Growth::Callers,
            percent_limit: 0.0,
        }),
        keys: Keys {
            comm: true,
            pid: true,
            tid: true,
            state: true,
            language: true,
            object: true,
            symbol: true,
            line: true,
        },
        ..RowOptions::default()
    };
    for rows in [RowOptions::default(), all] {
        let options = ReportOptions {
            rows,
            ..ReportOptions::default()
        };
        for format in FORMATS {
            if format.name == "svg" && !is_drawable(profile) {
                continue;
            }
            let write = |out: &mut dyn Write| {
                (format.write)(profile, &options, out).expect("memory takes all");
            };
            // Gzip, or packets of a trace, instead of text.
            let start: &[u8] = match format.name {
                "pprof" | "otlp" | "firefox" => &[0x1f, 0x8b],
                "perfetto" => &[0x0a],
                _ => &[],
            };
            if !start.is_empty() {
                let mut out = Vec::new();
                write(&mut out);
                assert!(out.starts_with(start));
                continue;
            }
            let text = safe(format.name, write);
            match format.name {
                "json" => {
                    let _: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
                }
                "folded" => assert_folded(&text),
                _ => {}
            }
        }
    }
    // The formats above contain only the main event, weighted by period.
    for event in 0..profile.events.len() {
        for weight in [WeighBy::Samples, WeighBy::Period] {
            assert_folded(&safe("folded", |out| {
                folded::write(profile, event, weight, out).expect("memory takes all");
            }));
        }
    }
}

fn assert_folded(text: &str) {
    for line in text.lines() {
        let (stack, weight) = line.rsplit_once(' ').expect("a weight");
        assert!(
            stack.contains(';') && weight.parse::<u64>().is_ok(),
            "{line:?}"
        );
    }
}

/// Returns true if there are stacks to draw, and their weight is neither 0 nor so large that their
/// sum overflows in inferno.
fn is_drawable(profile: &Profile) -> bool {
    profile.main_event().is_some_and(|event| {
        let weight = profile.events[event].weight;
        weight > 0
            && weight <= i64::MAX as u64
            && !folded::fold(profile, event, WeighBy::Period).is_empty()
    })
}

/// Asserts that the output is text without control characters, for any names.
fn safe(what: &str, write: impl FnOnce(&mut dyn Write)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    let text = String::from_utf8(out).expect("text");
    let bad = (text.chars()).find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    assert_eq!(bad, None, "{what} has a control character");
    text
}
