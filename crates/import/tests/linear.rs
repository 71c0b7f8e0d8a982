//! The cost of reading is linear: twice as many events, threads, functions, lines, stacks or
//! samples take at most twice the memory and work. The budget counts both, so the test does not
//! measure time.

#![allow(clippy::print_stdout)]

use std::fmt::Write;
use std::path::Path;

use rprof_import::{Format, ImportOptions, ReadingBudget, read};

const PARTS: usize = 700;

/// Returns memory and work to read an input, in bytes.
fn cost(format: Format, input: &[u8]) -> (u64, u64) {
    let options = ImportOptions {
        by_thread: true,
        columns: true,
        budget: ReadingBudget::default(),
        ..ImportOptions::default()
    };
    let profile = read(format, input, Path::new("x"), &options).expect("it is right");
    assert!(profile.events.iter().any(|event| event.samples > 0));
    (options.budget.peak(), options.budget.work())
}

/// Checks that twice as many parts cost at most twice as much, plus a constant.
fn is_linear(name: &str, format: Format, input: impl Fn(usize) -> Vec<u8>) {
    let [once, twice, fourfold] = [1, 2, 4].map(|times| cost(format, &input(times * PARTS)));
    println!("{name}: {once:?} {twice:?} {fourfold:?}");
    // The budget is reserved in steps of 64 KiB, and work has constant parts.
    let step = 128 << 10;
    for [small, large] in [[once, twice], [twice, fourfold]] {
        assert!(large.0 <= 2 * small.0 + step, "{name}: {small:?} {large:?}");
        assert!(large.1 <= 2 * small.1 + step, "{name}: {small:?} {large:?}");
    }
}

fn text(parts: usize, part: impl Fn(usize) -> String) -> Vec<u8> {
    (0..parts).map(part).collect::<String>().into_bytes()
}

#[test]
fn folded_stacks() {
    let of = |name: &str, part: fn(usize) -> String| {
        is_linear(name, Format::Folded, |parts| text(parts, part));
    };
    of("functions", |nth| format!("main;f{nth} 1\n"));
    of("stacks", |nth| {
        format!("main;a{};b{};c{} 1\n", nth % 7, nth / 7, nth % 3)
    });
    of("fractions", |nth| format!("main;f{} 1.{nth}\n", nth % 5));
    of("wrong lines", |nth| {
        format!("main;work {}\n", if nth % 2 == 0 { "1" } else { "x" })
    });
    is_linear("depth", Format::Folded, |parts| {
        let mut text = "f;".repeat(4 * parts);
        text += "leaf 1\n";
        text.into_bytes()
    });
}

#[test]
fn text_of_perf_script() {
    let of = |name: &str, part: fn(usize) -> String| {
        is_linear(name, Format::PerfScript, |parts| text(parts, part));
    };
    // Events beyond the limit are free.
    of("events", |nth| {
        format!("w 7 1.5: 1 ev{nth}: \n\t 10 f (/w)\n\n")
    });
    of("threads", |nth| {
        format!("w{nth} {nth} 1.5: 1 cycles: \n\t 10 f (/w)\n\n")
    });
    of("functions", |nth| {
        format!("w 7 1.5: 1 cycles: \n\t 10 f{nth} (/w)\n\n")
    });
    of("objects", |nth| {
        format!("w 7 1.5: 1 cycles: \n\t 10 f (/w{nth})\n\n")
    });
    of("addresses", |nth| {
        format!("w 7 1.5: 1 cycles: \n\t {nth:x} f (/w)\n\t 10 main (/w)\n\n")
    });
    of("samples", |nth| {
        format!("w 7 1.{nth:06}: 1 cycles: \n\t 10 f (/w)\n\n")
    });
    of("inlined calls", |nth| {
        format!("w 7 1.5: 1 cycles: \n\t 10 f{nth} (inlined)\n\t 10 g (/w)\n\n")
    });
    of("unreadable lines", |nth| {
        format!("w 7 1.5: 1 cycles: \n  x.c:{nth}\n\t 10 f (/w)\n\n")
    });
}

/// Returns a Firefox Profiler document of these sizes.
fn firefox(functions: usize, stacks: usize, samples: usize, threads: usize) -> Vec<u8> {
    let list = |count: usize, of: &dyn Fn(usize) -> String| -> String {
        (0..count).map(of).collect::<Vec<_>>().join(",")
    };
    let number = |nth: usize| nth.to_string();
    let zeros = |count: usize| list(count, &|_| "0".to_owned());
    let mut text = format!(
        r#"{{"meta":{{"preprocessedProfileVersion":60}},"shared":{{"stringArray":[{}],"funcTable":{{"name":[{}]}},
           "frameTable":{{"func":[{}],"address":[{}],"inlineDepth":[{}]}},"stackTable":{{"frame":[{}],"prefix":[{}]}}}},"threads":["#,
        list(functions, &|nth| format!("\"f{nth}\"")),
        list(functions, &number),
        list(functions, &number),
        list(functions, &number),
        zeros(functions),
        list(stacks, &|nth| (nth % functions).to_string()),
        list(stacks, &|nth| if nth < 8 {
            "null".to_owned()
        } else {
            (nth % 8).to_string()
        }),
    );
    for thread in 0..threads {
        let comma = if thread > 0 { "," } else { "" };
        let stacks = list(samples, &|nth| (nth % stacks).to_string());
        write!(
            text,
            r#"{comma}{{"name":"t{thread}","tid":{thread},"samples":{{"stack":[{stacks}]}}}}"#
        )
        .expect("memory takes it");
    }
    text += "]}";
    text.into_bytes()
}

#[test]
fn firefox_profiles() {
    let of = |name: &str, input: fn(usize) -> Vec<u8>| is_linear(name, Format::Json, input);
    of("functions", |parts| firefox(parts, parts, parts, 1));
    of("stacks", |parts| firefox(16, parts, parts, 1));
    of("samples", |parts| firefox(16, 16, 4 * parts, 1));
    of("threads", |parts| firefox(16, 16, 2, parts));
}

#[test]
fn profiles_of_speedscope() {
    let document = |functions: usize, profiles: &str| {
        let frames: Vec<_> = (0..functions)
            .map(|nth| format!(r#"{{"name":"f{nth}"}}"#))
            .collect();
        format!(
            r#"{{"shared":{{"frames":[{}]}},"profiles":[{profiles}]}}"#,
            frames.join(",")
        )
        .into_bytes()
    };
    let of = |name: &str, input: &dyn Fn(usize) -> Vec<u8>| is_linear(name, Format::Json, input);
    let sampled = |samples: Vec<String>| {
        let weights = vec!["1"; samples.len()].join(",");
        let samples = samples.join(",");
        format!(r#"{{"type":"sampled","unit":"none","samples":[{samples}],"weights":[{weights}]}}"#)
    };
    of("functions", &|parts| {
        document(
            parts,
            &sampled((0..parts).map(|nth| format!("[{nth}]")).collect()),
        )
    });
    of("samples", &|parts| {
        document(4, &sampled(vec!["[0,1]".to_owned(); parts]))
    });
    of("threads", &|parts| {
        document(4, &vec![sampled(vec!["[0,1]".to_owned()]); parts].join(","))
    });
    of("calls", &|parts| {
        let call = |nth: usize| {
            let at = 2 * nth;
            let end = at + 1;
            let frame = nth % 4;
            format!(
                r#"{{"type":"O","frame":{frame},"at":{at}}},{{"type":"C","frame":{frame},"at":{end}}}"#
            )
        };
        let calls: Vec<_> = (0..parts).map(call).collect();
        document(
            4,
            &format!(
                r#"{{"type":"evented","unit":"none","events":[{}]}}"#,
                calls.join(",")
            ),
        )
    });
}

fn number(mut value: usize, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Encodes a message from numbers and parts by tag.
fn message(numbers: &[(usize, usize)], parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in numbers {
        number(tag << 3, &mut out);
        number(*value, &mut out);
    }
    for (tag, bytes) in parts {
        number(tag << 3 | 2, &mut out);
        number(bytes.len(), &mut out);
        out.extend(*bytes);
    }
    out
}

/// Returns a pprof profile: functions with one or more names, a location and a sample of each, and
/// labels of as many threads.
fn pprof(functions: usize, names: usize, samples: usize, threads: usize) -> Vec<u8> {
    let field = |tag: usize, bytes: &[u8]| message(&[], &[(tag, bytes)]);
    let mut out = field(1, &message(&[(1, 1), (2, 2)], &[]));
    for text in ["", "samples", "count", "comm"] {
        out.extend(field(6, text.as_bytes()));
    }
    // The name is long, so that repeated reads would show in the cost.
    let name = |nth: usize| format!("f{nth:0>1000}");
    (0..names).for_each(|nth| out.extend(field(6, name(nth).as_bytes())));
    let first_thread = 4 + names;
    (0..threads).for_each(|nth| out.extend(field(6, format!("t{nth:0>500}").as_bytes())));
    for id in 1..=functions {
        out.extend(field(5, &message(&[(1, id), (2, 4 + id % names)], &[])));
        let line = message(&[(1, id), (2, id)], &[]);
        out.extend(field(4, &message(&[(1, id), (3, id)], &[(4, &line)])));
    }
    for nth in 0..samples {
        let mut location = Vec::new();
        number(1 + nth % functions, &mut location);
        let label = message(&[(1, 3), (2, first_thread + nth % threads)], &[]);
        out.extend(field(
            2,
            &message(&[], &[(1, &location), (2, &[1]), (3, &label)]),
        ));
    }
    out
}

#[test]
fn profiles_of_pprof() {
    let of = |name: &str, input: fn(usize) -> Vec<u8>| is_linear(name, Format::Pprof, input);
    of("functions of a name", |parts| pprof(parts, 1, parts, 1));
    of("functions of names", |parts| pprof(parts, parts, parts, 1));
    of("samples", |parts| pprof(4, 4, 4 * parts, 1));
    of("threads", |parts| pprof(4, 4, parts, parts));
    of("labels of few threads", |parts| pprof(4, 4, 4 * parts, 2));
    of("lines", |parts| {
        let mut out = pprof(1, 1, 1, 1);
        let line = message(&[(1, 1), (2, 1)], &[]);
        let lines: Vec<(usize, &[u8])> = vec![(4, &line[..]); parts];
        out.extend(message(&[], &[(4, &message(&[(1, 2), (3, 9)], &lines))]));
        let sample = message(&[], &[(1, &[2]), (2, &[1])]);
        out.extend(message(&[], &[(2, &sample)]));
        out
    });
}
