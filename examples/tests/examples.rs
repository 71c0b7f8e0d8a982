//! Runs the examples, and checks their output.

mod perf_event;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rprof_analysis::{LiveAnalysis, Options, analyse};
use rprof_launch::Launcher;
use rprof_perfdata::{EventDescription, PerfData, RecordWriter};
use rprof_profile::{Keys, Profile, TopFunctions, WeighBy};
use rprof_recorder::{RecordOptions, Recording};
use rprof_sampler::Session;
use rprof_symbols::Symbolizer;
use rprof_testing::needs;

/// Compiles `fixtures/shares.c`, which spends 70, 20 and 10 % of its CPU time in three functions.
fn shares(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/shares.c");
    let program = folder.join("shares");
    let flags = ["-O2", "-fno-omit-frame-pointer"];
    let flags = [&flags[..], &["-fno-optimize-sibling-calls", "-o"]].concat();
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.args(flags).arg(&program).arg(source);
    assert!(compile.status().unwrap().success(), "{compile:?}");
    program
}

fn recorded(folder: &Path, user_stack: Option<u32>) -> PathBuf {
    let path = folder.join("perf.data");
    let output = rprof_recorder::Output::File(path.clone());
    let options = RecordOptions::new(output, vec!["test".to_owned()]);
    let command = Launcher::new(shares(folder)).arg("0.5");
    let session = Session::builder().frequency(1999).user_stack(user_stack);
    let mut recording = Recording::start(session, &command, options).unwrap();
    recording.wait(None, None).unwrap();
    recording.finish().unwrap();
    path
}

fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, .. } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}");
    String::from_utf8(stdout).unwrap()
}

#[test]
fn live_top_shows_the_hottest_function_at_the_top() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_live_top"));
    let text = succeeded(command.arg(shares(folder.path())).arg("2.5"));
    let tables: Vec<&str> = text.split_inclusive(" samples\n").skip(1).collect();
    assert!(tables.len() >= 2, "once a second, and at the end: {text}");
    for table in tables {
        let hottest = table.lines().next().unwrap();
        let (percent, name) = hottest.trim().split_once("%  ").unwrap();
        assert_eq!(name, "burn_seventy", "{text}");
        let percent: f64 = percent.parse().unwrap();
        assert!((60.0..80.0).contains(&percent), "{text}");
    }
}

#[test]
fn by_hand_draws_the_frames() {
    let svg = succeeded(&mut Command::new(env!("CARGO_BIN_EXE_by_hand")));
    assert!(svg.contains("A kitchen"));
    for frame in [
        "main (100.0 ms, 100 samples, 100.00%)",
        "cook (90.0 ms, 90 samples, 90.00%)",
        "chop (60.0 ms, 60 samples, 60.00%)",
        "stir (30.0 ms, 30 samples, 30.00%)",
    ] {
        assert!(svg.contains(frame), "{frame}: {svg}");
    }
}

#[test]
fn in_order_is_sorted() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), None);
    let text = succeeded(Command::new(env!("CARGO_BIN_EXE_in_order")).arg(path));
    let times = text.lines().map(|line| line.split_once(' ').unwrap().0);
    let times: Vec<u64> = times.map(|time| time.parse().unwrap()).collect();
    assert!(times.is_sorted());
    assert!(times.len() > 100, "{text}");
    assert!(text.contains("SAMPLE"), "{text}");
}

fn rows(profile: &Profile) -> Vec<(String, String, [u64; 4])> {
    let event = profile.main_event().unwrap();
    let top = TopFunctions::of(profile, event, WeighBy::Period, Keys::FUNCTIONS);
    let row = top.rows.iter().map(|row| {
        let function = profile.function(row.key.function.unwrap());
        let counts = [
            row.self_samples,
            row.total_samples,
            row.self_weight,
            row.total_weight,
        ];
        let object = profile.object(function.object).name.to_string();
        (object, format!("{:?}", function.name), counts)
    });
    let mut rows: Vec<_> = row.collect();
    rows.sort();
    rows
}

/// A live analysis of single records agrees with the analysis of their file.
#[test]
fn a_live_analysis_agrees_with_that_of_a_file() {
    needs!(PerfEvents);
    for user_stack in [None, Some(8192)] {
        let folder = tempfile::tempdir().unwrap();
        let path = recorded(folder.path(), user_stack);
        let data = PerfData::open(&path).unwrap();
        let symbolizer = || Symbolizer::builder().build();
        let of_file = analyse(&data, &symbolizer(), &Options::default());

        let live = LiveAnalysis::new(symbolizer());
        let events = data.events().list().iter();
        let events: Vec<EventDescription> = events
            .map(|event| EventDescription {
                attr: event.attr.clone(),
                name: event.name.clone(),
                ids: event.ids.clone(),
            })
            .collect();
        let mut writer = live.writer(&events, data.features());
        let mut records = data.records_by_time();
        let mut count = 0;
        while let Some(record) = records.next_record().unwrap() {
            let raw = record.at.record;
            let mut bytes = Vec::new();
            bytes.extend(raw.kind.0.to_ne_bytes());
            bytes.extend(raw.misc.0.to_ne_bytes());
            bytes.extend((raw.size() as u16).to_ne_bytes());
            bytes.extend_from_slice(&raw.body.to_cow());
            writer.write_records(&bytes).unwrap();
            count += 1;
            // Also in the middle: cached lookups must stay valid.
            if count % 100 == 0 {
                live.profile();
            }
        }
        let of_records = live.profile();
        assert!(of_file.events[0].samples > 100);
        assert_eq!(rows(&of_records), rows(&of_file));
        let (live, file) = (&of_records.quality, &of_file.quality);
        assert_eq!(live.stacks, file.stacks);
        assert_eq!((live.frames, live.named), (file.frames, file.named));
        assert_eq!(of_records.time, of_file.time);
        let comms = |profile: &Profile| {
            let mut comms = profile.comms.clone();
            comms.sort();
            comms
        };
        assert_eq!(comms(&of_records), comms(&of_file));
        assert!(
            rows(&of_records)
                .iter()
                .any(|(_, name, _)| name == "Ok(\"burn_seventy\")")
        );
    }
}
