//! Every reading command reports missing parts of a recording, in every format.

use rprof_records::RecordType;

use super::bomb::rewrite;
use crate::support::{Here, c, needs};

/// Commands with a placeholder for the recording.
const COMMANDS: [&str; 17] = [
    "report -i FILE",
    "report --format markdown -i FILE",
    "report --format json -i FILE",
    "report --format csv -i FILE",
    "script -i FILE",
    "collapse -i FILE",
    "diff FILE FILE",
    "diff --format json FILE FILE",
    "annotate -i FILE burn_seventy",
    "annotate --format json -i FILE burn_seventy",
    "export --format pprof -o - -i FILE",
    "export --format otlp -o - -i FILE",
    "export --format firefox -o - -i FILE",
    "export --format speedscope -o - -i FILE",
    "export --format folded -o - -i FILE",
    "flamegraph -o x.svg -i FILE",
    "html -o x.html -i FILE",
];

/// Checks that all commands report a text, on standard error or in the output for people, and that
/// JSON has it.
fn is_told(here: &Here, file: &str, told: &str) {
    for command in COMMANDS {
        let run = here.rprof(&command.replace("FILE", file)).ok();
        let is_for_people = command == COMMANDS[0] || command == COMMANDS[1];
        let text = match is_for_people {
            true => run.out(),
            false => run.err(),
        };
        // Lines are wrapped on terminals only. Markdown escapes characters.
        assert!(text.replace('\\', "").contains(told), "{told:?} in\n{run}");
    }
    let json = here
        .rprof(&format!("report --format json -i {file}"))
        .ok()
        .out();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let warnings = json.to_string();
    assert!(warnings.contains(told), "{told:?} in {warnings}");
}

fn recording(options: &str) -> Here {
    let here = Here::new();
    here.record(options, &c("shares.c"), "0.2");
    here
}

/// `change` gets the index of each sample.
fn with_samples(here: &Here, mut change: impl FnMut(usize, &mut Vec<u8>)) {
    rewrite(here, "x.data", |data, write, _| {
        let mut nth = 0;
        for block in data.blocks() {
            for walked in block.expect("it is whole").walk() {
                let mut bytes = walked.bytes.to_vec();
                if walked.record.kind == RecordType::SAMPLE {
                    change(nth, &mut bytes);
                    nth += 1;
                }
                write(&bytes);
            }
        }
    });
}

#[test]
fn records_of_unknown_types_are_told_by_every_command() {
    needs!(PerfEvents);
    let here = recording("-F 999 -g");
    for kind in [0, 63, 87, 255, 0x7fff_ffff, u32::MAX] {
        with_samples(&here, |nth, bytes| {
            if nth == 3 {
                bytes[..4].copy_from_slice(&u32::to_ne_bytes(kind));
            }
        });
        is_told(
            &here,
            "x.data",
            &format!("skipped 1 record of unknown type ({kind})"),
        );
    }
}

#[test]
fn sizes_that_lie_are_told_by_every_command() {
    needs!(PerfEvents);
    let here = recording("-F 999 -g");
    with_samples(&here, |nth, bytes| {
        if nth == 3 {
            let size = bytes.len() as u16 + 8;
            bytes.extend([0; 8]);
            bytes[6..8].copy_from_slice(&size.to_ne_bytes());
        }
    });
    is_told(&here, "x.data", "1 sample whose fields contradict the size");
}

#[test]
fn a_record_without_a_size_is_told_by_every_command() {
    needs!(PerfEvents);
    let here = recording("-F 999 -g");
    with_samples(&here, |nth, bytes| {
        if nth == 60 {
            bytes[6..8].fill(0);
        }
    });
    is_told(&here, "x.data", "damaged at byte");
}

#[test]
fn sections_of_unknown_kinds_are_told_by_every_command() {
    needs!(PerfEvents);
    let here = recording("-F 999 -g");
    rewrite(&here, "x.data", |data, write, features| {
        features.insert(rprof_perfdata::Feature(99), vec![1; 8]);
        write(&super::bomb::records(data).0);
    });
    is_told(
        &here,
        "x.data",
        "skipped 1 header section of unknown type (99)",
    );
}

/// Samples without fields have no function to annotate.
#[test]
fn samples_without_fields_are_told() {
    needs!(PerfEvents);
    let here = recording("-F 999");
    let mut bytes = std::fs::read(here.path("perf.data")).expect("a recording");
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    // `sample_type` follows type, size, config and period.
    let (size, at, len) = (word(16), word(24) as usize, word(32));
    for nth in 0..len / size {
        let at = at + (nth * size) as usize + 24;
        bytes[at..at + 8].fill(0);
    }
    std::fs::write(here.path("x.data"), bytes).expect("it can be written");
    for command in [
        "report --format json",
        "report --format csv",
        "script",
        "collapse",
    ] {
        let run = here.rprof(command).words("-i x.data").ok();
        run.says("without any field: unknown code");
    }
    let run = here.rprof("report -i x.data").ok();
    run.prints("without any field: unknown code");
}

/// A copy that was cut lacks the data that the report explains with.
#[test]
fn cut_recordings_are_not_explained_by_other_causes() {
    needs!(PerfEvents);
    let here = recording("-F 999 -g");
    let whole = std::fs::read(here.path("perf.data")).expect("a recording");
    let word =
        |at: usize| u64::from_ne_bytes(whole[at..at + 8].try_into().expect("8 bytes")) as usize;
    let (data_at, data_len) = (word(40), word(48));
    for len in [data_at + data_len / 2, data_at + data_len] {
        let cut = &whole[..len];
        std::fs::write(here.path("x.data"), cut).expect("it can be written");
        let run = here.rprof("report -i x.data").ok();
        run.prints("are missing");
        for cause in [
            "frame pointers",
            "another machine",
            "another kernel",
            "reach their root",
        ] {
            assert!(!run.out().contains(cause), "{cause:?} in\n{run}");
        }
        let explained = here.rprof("explain x.data").ok();
        assert!(!explained.out().contains("frame pointers"), "{explained}");
        let drawn = here.rprof("flamegraph -o - -i x.data").ok();
        assert!(!drawn.out().contains("of stacks complete"), "{drawn}");
    }
}
