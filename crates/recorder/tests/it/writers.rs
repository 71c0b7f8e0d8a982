//! Recordings with a writer of the caller instead of a file.

use rprof_launch::Launcher;
use rprof_perfdata::{Feature, PerfData};
use rprof_recorder::{Output, RecordError, Recording, Replay, WriterState, replay};
use rprof_records::{
    Attr, Endian, Misc, ProcessEvent, RawBytes, RawRecord, RecordType, RegisterValues,
    SampleFields, SampleLayout, SampleType,
};
use rprof_sampler::drain::buffers::make;
use rprof_sampler::{Batch, EventIds, Role, Stream};
use rprof_testing::needs;

use crate::support::{BUSY, Collector, options, record, session};

/// Calls `each` for each record.
fn for_each<'a>(mut records: &'a [u8], mut each: impl FnMut(RawRecord<'a>)) {
    while !records.is_empty() {
        let raw = RawRecord::parse(RawBytes::from(records), Endian::NATIVE).unwrap();
        records = &records[raw.size()..];
        each(raw);
    }
}

#[test]
fn a_writer_gets_what_a_file_would() {
    needs!(PerfEvents);
    let (output, collected) = Collector::output(u64::MAX);
    let summary = record(BUSY, options(output));
    let collected = collected.lock().unwrap();
    assert!(summary.samples > 10, "{summary:?}");
    assert_eq!(summary.file_bytes, collected.records.len() as u64);
    assert!(summary.files.is_empty());
    let features = collected.features.as_ref().expect("it was finished");
    assert!(features.get(Feature::BUILD_ID).is_some());
    assert!(collected.checkpoints > 0 || summary.duration.as_millis() < 150);

    // Events and records match: no stack bytes remain to unwind.
    let sampled = &collected.events[0];
    let dumps = SampleType::REGS_USER | SampleType::STACK_USER;
    assert!(!sampled.attr.sample_type.intersects(dumps));
    let layout = SampleLayout::new(&sampled.attr, Endian::NATIVE);
    let sideband = collected.events.last().unwrap();
    let sideband = SampleLayout::new(&sideband.attr, Endian::NATIVE);
    let (mut samples, mut times, mut execs) = (0, Vec::new(), Vec::new());
    for_each(&collected.records, |raw| {
        if raw.kind == RecordType::SAMPLE {
            samples += 1;
            times.push(layout.sample_time(&raw.body).unwrap());
        } else if let Some(event) = ProcessEvent::decode(&raw, Some(&sideband)).unwrap() {
            times.push(ProcessEvent::time_of(&raw, Some(&sideband)));
            if let ProcessEvent::Executed { name, .. } = event {
                execs.push(name.into_owned());
            }
        }
    });
    assert_eq!(samples, summary.samples);
    assert_eq!(execs, [b"sh"]);
    assert!(times.is_sorted());
}

#[test]
fn a_failing_writer_ends_the_recording() {
    needs!(PerfEvents);
    let (output, collected) = Collector::output(20_000);
    let command = Launcher::new("sh").args(["-c", "while :; do :; done"]);
    let tether = rprof_testing::Tether::new();
    let (name, value) = tether.variable();
    let command = command.env(name, value);
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut with_notice = options(output);
    with_notice.notify = Some(theirs);
    let mut recording = Recording::start(session(), &command, with_notice).unwrap();
    // A byte arrives on a state change; the command itself never ends.
    std::io::Read::read_exact(&mut &ours, &mut [0]).unwrap();
    assert_eq!(recording.writer(), WriterState::Failed);
    let error = recording.finish().unwrap_err();
    assert!(
        matches!(&error, RecordError::Write { source, .. } if source.to_string() == "that is enough"),
        "{error}"
    );
    let collected = collected.lock().unwrap();
    assert!(collected.records.len() <= 20_000 && collected.features.is_none());
    drop(tether);
}

#[test]
fn a_writer_that_cannot_be_created_stops_the_command() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("ran");
    let output = Output::writer(|_, _| {
        let none: Result<Collector, _> = Err(std::io::Error::other("none today"));
        none
    });
    let command = Launcher::new("touch").args([&witness]);
    let error = Recording::start(session(), &command, options(output)).unwrap_err();
    assert!(matches!(error, RecordError::Write { .. }), "{error}");
    assert!(!witness.exists());
}

#[test]
fn a_file_has_what_was_recorded() {
    needs!(PerfEvents);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let summary = record(BUSY, options(Output::File(path.clone())));
    let data = PerfData::open(&path).unwrap();
    let mut samples = 0;
    for block in data.blocks() {
        for walked in block.unwrap().walk() {
            samples += u64::from(walked.record.kind == RecordType::SAMPLE);
        }
    }
    assert_eq!(samples, summary.samples);
    assert_eq!(summary.path, path);
    assert_eq!(summary.events.len(), 1);
}

/// perf stops at a sample whose event the file does not describe, so none may reach the file.
#[test]
fn samples_of_unknown_events_are_dropped_and_counted() {
    let with_stack = Attr {
        sample_type: SampleType::IDENTIFIER
            | SampleType::TID
            | SampleType::TIME
            | SampleType::REGS_USER
            | SampleType::STACK_USER,
        sample_regs_user: 1,
        sample_stack_user: 4096,
        ..Attr::default()
    };
    let without = Attr {
        sample_type: SampleType::IDENTIFIER | SampleType::TID | SampleType::TIME,
        ..Attr::default()
    };
    let event = |attr: &Attr, id| EventIds {
        role: Role::Samples,
        attr: attr.clone(),
        name: format!("event {id}"),
        ids: vec![id],
    };
    let (mut bytes, mut damaged) = (Vec::new(), 0);
    for (time, attr, id) in [
        (1, &with_stack, 10),
        (2, &with_stack, 99),
        (3, &without, 20),
    ] {
        let fields = SampleFields {
            id,
            time,
            regs_user: RegisterValues {
                abi: 2,
                values: vec![5],
            },
            stack_user: vec![0; 800],
            stack_user_reserved: 4096,
            ..SampleFields::default()
        };
        let start = bytes.len();
        let layout = SampleLayout::new(attr, Endian::NATIVE);
        fields.encode(Misc::USER, &layout, &mut bytes).unwrap();
        if id == 99 {
            damaged = (bytes.len() - start) as u64;
        }
    }
    let (sender, batches) = crossbeam_channel::unbounded();
    let batch = Batch {
        cpu: 0,
        stream: Stream::Samples,
        bytes,
        watermark: u64::MAX,
    };
    sender.send(batch).unwrap();
    drop(sender);
    let replayed = replay(Replay {
        cpus: vec![0],
        events: vec![event(&with_stack, 10), event(&without, 20)],
        batches,
        recycler: make(&[0], 1, 1, 0).1,
        file: tempfile::tempfile().unwrap(),
    })
    .unwrap();
    assert_eq!((replayed.samples, replayed.damaged_bytes), (2, damaged));
}
