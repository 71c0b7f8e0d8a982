//! Each file of a rotated recording is self-contained.

use std::time::Duration;

use rprof_perfdata::PerfData;
use rprof_processes::LiveMap;
use rprof_recorder::{Output, RotationPolicy};
use rprof_records::{ProcessEvent, RecordType};
use rprof_testing::needs;

use crate::support::{BUSY, options, record};

#[test]
fn every_file_names_and_maps_what_lives() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let mut rotated = options(Output::File(folder.path().join("perf.data")));
    rotated.rotation = Some(RotationPolicy {
        bytes: Some(12_000),
        ..RotationPolicy::default()
    });
    let summary = record(&format!("{BUSY}; {BUSY}; {BUSY}"), rotated);
    assert!(summary.files.len() > 2, "{summary:?}");
    let mut all = 0;
    for path in &summary.files {
        let data = PerfData::open(path).unwrap();
        let events = data.events();
        let mut live: LiveMap = LiveMap::new();
        let (mut samples, mut mapped) = (0, 0);
        for block in data.blocks() {
            let block = block.unwrap();
            for walked in block.walk() {
                let raw = walked.record;
                if raw.kind == RecordType::SAMPLE {
                    let layout = events.layout_of(&raw).unwrap();
                    let sample = rprof_records::Sample::parse(raw.body, layout).unwrap();
                    let pid = rprof_processes::Pid(sample.pid().unwrap());
                    samples += 1;
                    mapped += u64::from(live.find(pid, sample.ip().unwrap()).is_some());
                } else if let Ok(Some(event)) = ProcessEvent::decode(&raw, events.layout_of(&raw)) {
                    live.handle(&event);
                }
            }
        }
        // Some samples may be in the kernel or in the exec.
        assert!(
            mapped * 10 >= samples * 5,
            "{path:?}: {mapped} of {samples}"
        );
        all += samples;
    }
    assert_eq!(all, summary.samples);
}

#[test]
fn the_latest_files_are_kept_and_sort_by_age() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let mut rotated = options(Output::File(folder.path().join("perf.data")));
    rotated.rotation = Some(RotationPolicy {
        // Faster than the hundredths of seconds in the file names.
        every: Some(Duration::from_millis(2)),
        max_files: Some(2),
        ..RotationPolicy::default()
    });
    let summary = record(BUSY, rotated);
    assert_eq!(summary.files.len(), 2);
    let mut there: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    there.sort();
    assert_eq!(there, summary.files);
}
