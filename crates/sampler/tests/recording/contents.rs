//! Contents of recordings.

use super::support::*;
use rprof_events::Event;
use rprof_launch::Launcher;
use rprof_records::{Misc, Record, RecordType};
use rprof_sampler::{
    Degradation, EventCount, OpenEventsError, Role, Session, SessionError, Stream,
};
use std::collections::HashSet;

#[test]
fn samples_and_sideband_of_a_shell_loop() {
    let Some(session) = launch(cpu_clock().frequency(999), &sh(LOOP)) else {
        return;
    };
    let pid = session.child().unwrap().pid();
    let cpus = session.cpus().to_vec();
    let ids: HashSet<u64> = session.events()[0].ids.iter().copied().collect();
    assert_eq!(ids.len(), cpus.len(), "an id for each CPU");
    let recorded = record(session);

    let mut samples = 0;
    for got in recorded.of(RecordType::SAMPLE) {
        let Record::Sample(sample) = recorded.decoded(got) else {
            panic!("a sample");
        };
        samples += 1;
        assert_eq!(got.stream, Stream::Samples);
        assert_eq!((sample.pid(), sample.cpu()), (Some(pid), Some(got.cpu)));
        assert!(ids.contains(&sample.id().unwrap()));
        assert!(sample.ip().unwrap() != 0 && sample.period().unwrap() > 0);
        assert!(!sample.callchain().unwrap().is_empty());
    }
    assert!(
        samples >= 20,
        "{samples} samples of a loop of tenths of a second"
    );
    let counted: u64 = (recorded.counts.cpus.iter())
        .flat_map(|cpu| &cpu.events)
        .filter_map(EventCount::value)
        .sum();
    println!(
        "{samples} samples in {} ms of cpu-clock",
        counted / 1_000_000
    );
    assert_eq!(recorded.counts.lost_samples().unwrap_or(0), 0);
    assert_eq!(recorded.counts.lost_sideband().unwrap_or(0), 0);

    let is_sh = |path: &[u8]| path.ends_with(b"sh");
    let exec = recorded.of(RecordType::COMM).any(|got| {
        let Record::Comm(comm) = recorded.decoded(got) else {
            return false;
        };
        comm.pid == pid && is_sh(&comm.name) && got.misc.has(Misc::COMM_EXEC)
    });
    assert!(exec, "the exec is told");
    let mapped: Vec<_> = (recorded.of(RecordType::MMAP2))
        .filter_map(|got| match recorded.decoded(got) {
            Record::Mmap2(map) if map.pid == pid => Some((got.misc, map.path.into_owned())),
            _ => None,
        })
        .collect();
    assert!(
        mapped
            .iter()
            .any(|(_, path)| is_sh(path) || path.ends_with(b"busybox")),
        "sh is mapped: {mapped:?}"
    );
    // Requested build-ids would also mark other listeners' records.
    assert!(!mapped.iter().any(|(misc, _)| misc.has(Misc::MMAP_BUILD_ID)));
    let exits = recorded.of(RecordType::EXIT);
    assert!(
        exits
            .into_iter()
            .any(|got| { matches!(recorded.decoded(got), Record::Exit(task) if task.pid == pid) })
    );
    for got in recorded
        .records
        .iter()
        .filter(|got| got.kind != RecordType::SAMPLE)
    {
        let sideband = got.stream == Stream::Sideband;
        let about_samples = [
            RecordType::THROTTLE,
            RecordType::UNTHROTTLE,
            RecordType::LOST,
        ];
        assert!(
            sideband || about_samples.contains(&got.kind),
            "{}",
            got.kind
        );
    }
}

#[test]
fn children_are_watched_and_told() {
    let script =
        "for n in 1 2 3 4 5; do ( i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done ) & done; wait";
    let Some(session) = launch(cpu_clock().frequency(4000), &sh(script)) else {
        return;
    };
    let pid = session.child().unwrap().pid();
    let recorded = record(session);
    let tasks = |kind| -> HashSet<i32> {
        (recorded.of(kind))
            .filter_map(|got| match recorded.decoded(got) {
                Record::Fork(task) if task.ppid == pid => Some(task.pid),
                Record::Exit(task) if task.pid != pid => Some(task.pid),
                _ => None,
            })
            .collect()
    };
    let (born, ended) = (tasks(RecordType::FORK), tasks(RecordType::EXIT));
    assert_eq!((born.len(), &ended), (5, &born));
    let sampled: HashSet<i32> = (recorded.of(RecordType::SAMPLE))
        .filter_map(|got| match recorded.decoded(got) {
            Record::Sample(sample) => sample.pid(),
            _ => None,
        })
        .collect();
    assert!(born.is_subset(&sampled), "{born:?} {sampled:?}");
}

#[test]
fn nothing_is_recorded_of_the_time_before_the_exec() {
    let Some(session) = launch(cpu_clock().period(100_000), &Launcher::new("true")) else {
        return;
    };
    let recorded = record(session);
    let first_exec = (recorded.of(RecordType::COMM))
        .filter(|got| got.misc.has(Misc::COMM_EXEC))
        .map(|got| got.time)
        .min()
        .unwrap();
    let mapped = recorded.of(RecordType::MMAP2);
    assert!(mapped.into_iter().all(|got| got.time >= first_exec));
    assert_eq!(recorded.of(RecordType::FORK).count(), 0);
}

#[test]
fn several_events_share_the_ring_of_their_cpu() {
    let builder = cpu_clock()
        .event(Event::parse("page-faults:u").unwrap())
        .period(1_000)
        .callchains(false)
        .exclude_kernel(true);
    let Some(session) = launch(builder.configure(|o| o.max_stack = None), &sh("true | cat")) else {
        return;
    };
    let events = session.events().to_vec();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["cpu-clock:u", "page-faults:u", "dummy:u"]);
    assert_eq!(events.last().unwrap().role, Role::Sideband);
    let recorded = record(session);
    for cpu in &recorded.counts.cpus {
        assert_eq!(cpu.events.len(), 2);
    }
    let faults: u64 = recorded
        .counts
        .cpus
        .iter()
        .filter_map(|cpu| cpu.events[1].value())
        .sum();
    assert!(faults > 10, "{faults} page faults of two processes");
}

#[test]
fn page_faults_are_sampled_one_by_one() {
    let faults = Event::parse("faults").unwrap();
    let Some(session) = launch(
        Session::builder().event(faults).period(1),
        &sh("true | cat"),
    ) else {
        return;
    };
    let recorded = record(session);
    let counted: u64 = recorded
        .counts
        .cpus
        .iter()
        .filter_map(|cpu| cpu.events[0].value())
        .sum();
    let lost = recorded.counts.lost_samples().unwrap_or(0);
    assert_eq!(
        recorded.of(RecordType::SAMPLE).count() as u64 + lost,
        counted
    );
}

#[test]
fn cycles_are_replaced_only_when_nobody_asked_for_them() {
    let explicit = Session::builder().event(Event::cycles());
    let missing = match explicit.launch(&Launcher::new("true")) {
        Err(SessionError::Open(error @ OpenEventsError::Event(_))) => error,
        Err(error) => return rprof_testing::skip(format!("needs perf events: {error}")),
        Ok(_) => return rprof_testing::inapplicable("needs a machine without hardware counters"),
    };
    assert!(missing.to_string().contains("cpu-clock"), "{missing}");
    let Some(session) = launch(Session::builder(), &Launcher::new("true")) else {
        return;
    };
    let mut steps = session.degradations().iter();
    assert!(steps.any(|step| matches!(step, Degradation::EventReplaced { .. })));
    assert!(session.events()[0].name.starts_with("cpu-clock"));
}
