//! Mutated inputs of every importer: each is read or rejected without a panic, within the reading
//! budget.
//!
//! The inputs are small profiles of other tools (`fixtures/profiles`), the corpus of the fuzz
//! target, and the texts below. The seed is fixed, so that failures are reproducible. The fuzz
//! target's own checks run too (`fuzz/targets/import.rs`).

#![allow(clippy::print_stdout)]

use std::fs;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rprof_import::{Detected, Format, ImportOptions, Opened, ReadingBudget, read};
use rprof_testing::Random;

#[path = "../../../fuzz/targets/import.rs"]
mod import;

const SEED: u64 = 0x5eed_1234;

const BUDGET: u64 = 32 << 20;

/// Maximum resident memory of the test, in KiB: twice the budget for allocator overhead, plus the
/// test itself.
const MAX_RESIDENT: u64 = 192 << 10;

/// Output of `perf script` with all kinds of lines.
const PERF_SCRIPT: &str = "# captured on: Sat Nov 28 10:00:00 2026\n\
    web 17/18 [001] 12.000001: 1000 cycles:P: \n\t401000 parse+0x10 (/usr/bin/web)\n\t  401200 main (/usr/bin/web)\n\n\
    web 17/18 [001] 12.000002: 1000 cycles:P: \n\tffffffff81000010 [unknown] ([kernel.kallsyms])\n\t401300 inner (inlined)\n\
    \t401300 outer+0x4 (/usr/bin/web)\n  web.c:12\n\n\
    swapper 0/0 [000] 12.000003: sched:sched_switch: prev_comm=a b prev_pid=1 ==> next_comm=c next_pid=2\n\t0 x ([unknown])\n\n\
    :-1 -1/-1 12.5: 18446744073709551615 page-faults: 7f0000001000 [unknown] (/tmp/a b (deleted))\n";

/// Folded stacks with fractions, annotations and an invalid line.
const FOLDED: &str = "main;work;deep_[k] 12\nmain;work 3.5\nmain;;empty 1\n# no stack\nmain;a;b;a;b 18446744073709551614\n";

/// speedscope profile of start and end events.
const EVENTED: &str = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json",
    "shared":{"frames":[{"name":"main","file":"a.c","line":1},{"name":"work"}]},
    "profiles":[{"type":"evented","name":"t","unit":"nanoseconds","startValue":0,"endValue":9,
    "events":[{"type":"O","frame":0,"at":0},{"type":"O","frame":1,"at":2},{"type":"C","frame":1,"at":5},{"type":"C","frame":0,"at":9}]},
    {"type":"sampled","name":"u","unit":"none","startValue":0,"endValue":2,"samples":[[0,1],[0]],"weights":[1,1]}]}"#;

/// Firefox Profiler profile with tables per thread.
const FIREFOX: &str = r#"{"meta":{"preprocessedProfileVersion":48,"interval":1},"libs":[{"name":"web","path":"/usr/bin/web"}],
    "threads":[{"name":"t","pid":"7","tid":8,"stringArray":["main","work","web"],
    "samples":{"length":3,"stack":[1,0,null],"time":[0.5,1.5,2.5],"weight":[1,2,3],"weightType":"samples"},
    "stackTable":{"length":2,"frame":[0,1],"prefix":[null,0]},
    "frameTable":{"length":2,"func":[0,1],"address":[4096,-1],"line":[3,null],"inlineDepth":[0,0]},
    "funcTable":{"length":2,"name":[0,1],"resource":[0,-1]},"resourceTable":{"length":1,"lib":[0],"name":[2],"type":[1]}}]}"#;

/// A profile of another tool, as stored and decompressed.
struct Input {
    name: String,
    format: Format,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Input {
    fn new(name: String, packed: Vec<u8>) -> Input {
        let opened = Opened::new(Cursor::new(packed.clone())).expect("it can be unpacked");
        let Detected::Profile(format) = *opened.detected() else {
            panic!("{name} is no profile: {:?}", opened.detected());
        };
        let mut unpacked = Vec::new();
        std::io::Read::read_to_end(&mut opened.into_stream(), &mut unpacked)
            .expect("it can be unpacked");
        Input {
            name,
            format,
            packed,
            unpacked,
        }
    }
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let entries = fs::read_dir(&folder).expect("a folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

/// Returns all inputs, at least one of each format.
fn inputs() -> Vec<Input> {
    let mut inputs = Vec::new();
    for path in files("fixtures/profiles") {
        let is_profile = path.extension().is_some_and(|end| {
            ["gz", "pb", "prof", "folded", "json"]
                .iter()
                .any(|e| end == *e)
        });
        if is_profile {
            let bytes = fs::read(&path).expect("a file");
            inputs.push(Input::new(path.display().to_string(), bytes));
        }
    }
    for input in rprof_testing::fuzz_corpus("import") {
        // The first byte selects the format in the fuzz target.
        inputs.push(Input::new(input.name, input.bytes[1..].to_vec()));
    }
    for (name, text) in [
        ("perf script", PERF_SCRIPT),
        ("folded", FOLDED),
        ("evented", EVENTED),
        ("firefox", FIREFOX),
    ] {
        inputs.push(Input::new(name.to_owned(), text.as_bytes().to_vec()));
        let packed = zstd::encode_all(text.as_bytes(), 1).expect("memory takes it");
        inputs.push(Input::new(format!("{name}.zst"), packed));
    }
    for format in FORMATS {
        let has = inputs.iter().any(|input| input.format == format);
        assert!(has, "no input of {format:?}");
    }
    inputs
}

/// Formats in the fuzz target's order.
const FORMATS: [Format; 5] = [
    Format::Pprof,
    Format::PerfScript,
    Format::Json,
    Format::Folded,
    Format::Gperftools,
];

/// Returns an overflowing number as text, words, or varint.
fn huge_number(random: &mut Random) -> Vec<u8> {
    const TEXTS: [&str; 6] = [
        "18446744073709551615",
        "-9223372036854775808",
        "99999999999999999999999",
        "1e308",
        "4294967296",
        "0xffffffffffffffff",
    ];
    const WORDS: [u64; 6] = [0, 0xff, 0x7fff_ffff, 1 << 32, 1 << 63, u64::MAX];
    match random.below(3) {
        0 => TEXTS[random.index(TEXTS.len())].as_bytes().to_vec(),
        1 => WORDS[random.index(WORDS.len())].to_le_bytes().to_vec(),
        _ => {
            let mut bytes = vec![0xff; 1 + random.index(9)];
            bytes.push(1);
            bytes
        }
    }
}

fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.index(bytes.len());
        let block = |random: &mut Random, bytes: &[u8]| {
            let from = random.index(bytes.len());
            let len = 1 + random.index(256);
            bytes[from..bytes.len().min(from + len)].to_vec()
        };
        match random.below(8) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.next_u31() as u8,
            3 => bytes.truncate(at),
            4 => {
                let end = bytes.len().min(at + 1 + random.index(64));
                bytes.drain(at..end);
            }
            5 => {
                let part = block(random, &bytes).repeat(1 + random.index(8));
                bytes.splice(at..at, part);
            }
            6 => {
                let number = huge_number(random);
                bytes.splice(at..at, number);
            }
            // Replaces digits, or anything else.
            _ => {
                let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit());
                let end = at + digits.count().max(1);
                let number = huge_number(random);
                bytes.splice(at..end, number);
            }
        }
    }
    bytes
}

/// Reads a file as the commands do, and checks its use of the budget. Returns whether it was read.
fn read_file(bytes: Vec<u8>) -> bool {
    let Ok(opened) = Opened::new(Cursor::new(bytes)) else {
        return false;
    };
    let Detected::Profile(format) = *opened.detected() else {
        return false;
    };
    let options = ImportOptions {
        columns: true,
        budget: ReadingBudget::new(BUDGET),
        ..ImportOptions::default()
    };
    let result = read(format, opened.into_stream(), Path::new("x"), &options);
    assert!(options.budget.memory() <= BUDGET);
    match result {
        Ok(profile) => profile.main_event().is_some(),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// Returns the peak memory of this process in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number
        .and_then(|number| number.trim().parse().ok())
        .expect("a number")
}

/// Reads `count` mutated inputs.
fn mutated(count: usize) {
    let inputs = inputs();
    let mut random = Random::new(SEED);
    let (mut failed, mut are_read) = (Vec::new(), 0);
    for nth in 0..count {
        let input = &inputs[nth % inputs.len()];
        // A changed byte in a compressed file seldom reaches the importer.
        let is_unpacked = random.below(4) > 0;
        let whole = match is_unpacked {
            true => &input.unpacked,
            false => &input.packed,
        };
        let bytes = mutate(whole, &mut random);
        let format = FORMATS.iter().position(|format| *format == input.format);
        let flags = random.next_u31() as u8 & 0xc0;
        let what = flags | format.expect("a number") as u8;
        let result = catch_unwind(AssertUnwindSafe(|| {
            if is_unpacked {
                import::run(&[&[what], &bytes[..]].concat());
            }
            read_file(bytes.clone())
        }));
        are_read += usize::from(matches!(result, Ok(true)));
        if result.is_err() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutated-{nth}"));
            fs::write(&kept, &bytes).expect("it can be written");
            failed.push(format!(
                "{} of {}, kept as {}",
                nth,
                input.name,
                kept.display()
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let peak = peak();
    println!("{count} mutated inputs, {are_read} of them read: at most {peak} KiB");
    // Mutations that break everything or nothing would test little.
    assert!(
        (count / 10..count * 9 / 10).contains(&are_read),
        "{are_read}"
    );
    assert!(peak < MAX_RESIDENT, "{peak} KiB");
}

#[test]
fn mutated_profiles_are_read_or_refused() {
    mutated(2_000);
}

#[test]
#[ignore = "takes longer: see .ci/slow"]
fn ten_thousand_mutated_profiles_are_read_or_refused() {
    mutated(10_000);
}
