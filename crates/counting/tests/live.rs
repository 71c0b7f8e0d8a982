//! Counting on the running kernel.

use rprof_counting::{CountError, CountingSession, EventState, Part, Per, SessionOptions};
use rprof_events::Event;
use rprof_launch::{Launcher, Target, WaitOutcome};
use rprof_perf_event::Limits;
use rprof_testing::skip;
use std::time::Duration;

/// Timeout of each test step.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Returns false, and reports a skip, if this user may not count kernel mode of own programs.
fn may_count() -> bool {
    let limits = Limits::read();
    let may = is_root() || limits.paranoid.is_none_or(|level| level <= 1);
    if !may {
        skip("the kernel's side may not be counted here");
    }
    may
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self")
        .is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

fn options(events: &str) -> SessionOptions {
    SessionOptions::new(Event::parse_list(events).unwrap())
}

fn shell(script: &str) -> Launcher {
    Launcher::new("sh").args(["-c", script])
}

#[test]
fn a_command_is_counted_with_all_that_it_starts() {
    if !may_count() {
        return;
    }
    let script = "for i in 1 2 3; do /bin/true; done; exit 4";
    let mut session =
        CountingSession::launch(&options("task-clock,page-faults,dummy"), &shell(script)).unwrap();
    session.start().unwrap();
    let WaitOutcome::Exited(status) = session.wait_or(None, LONG).unwrap() else {
        panic!("the command did not end");
    };
    assert_eq!(status.code(), Some(4));
    let table = session.read().table(Per::All);
    let exact = |event| {
        table
            .count(Part::All, event)
            .and_then(|count| count.exact())
    };
    // Each program faults in some pages of its own.
    assert!(exact(0).unwrap() > 0 && exact(1).unwrap() > 4 * 20);
    assert_eq!(exact(2), Some(0));
    let usage = session.usage().unwrap();
    // Both cover the same processes. Only one includes failed faults.
    assert!(2 * (usage.minor_faults + usage.major_faults) >= exact(1).unwrap());
}

#[test]
fn cpus_add_up_to_the_whole() {
    if !may_count() {
        return;
    }
    let mut by_cpu = options("task-clock");
    by_cpu.per = Per::Cpu;
    let mut session = CountingSession::launch(
        &by_cpu,
        &shell("i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done"),
    )
    .unwrap();
    session.start().unwrap();
    session.wait_or(None, LONG).unwrap();
    let read = session.read();
    let table = read.table(Per::Cpu);
    let sum: u64 = (table.parts())
        .filter_map(|part| table.count(part, 0)?.exact())
        .sum();
    assert_eq!(
        Some(sum),
        read.table(Per::All).count(Part::All, 0).unwrap().exact()
    );
    assert!(sum > 0 && table.parts().all(|part| matches!(part, Part::Cpu(_))));
    let nodes: Vec<Part> = read.table(Per::Node).parts().collect();
    assert!(
        nodes.iter().all(|part| matches!(part, Part::Node(_))),
        "{nodes:?}"
    );
}

#[test]
fn an_interval_is_what_happened_in_it() {
    if !may_count() {
        return;
    }
    // Counts this thread's events between two readings.
    let mut own = options("page-faults");
    own.target = Target::Threads(vec![std::process::id()]);
    let mut session = match CountingSession::attach(&own) {
        Ok(session) => session,
        Err(error) => panic!("{error}"),
    };
    session.start().unwrap();
    let first = session.read();
    let second = session.read();
    let count = second
        .since(&first)
        .table(Per::All)
        .count(Part::All, 0)
        .unwrap();
    assert!(count.is_exact());
    let total = second.table(Per::All).count(Part::All, 0).unwrap();
    assert!(total.raw >= count.raw);
}

#[test]
fn what_the_machine_lacks_is_told_and_the_rest_is_counted() {
    if !may_count() {
        return;
    }
    // A PMU type that no kernel has.
    let mut session =
        CountingSession::launch(&options("{page-faults,99999:1}"), &shell("exit 0")).unwrap();
    session.start().unwrap();
    session.wait_or(None, LONG).unwrap();
    let [faults, missing] = session.events() else {
        panic!("two events");
    };
    assert!(faults.state.is_counted());
    let EventState::Refused(error) = &missing.state else {
        panic!("{:?}", missing.state);
    };
    assert!(error.to_string().contains("99999:1"), "{error}");
    let table = session.read().table(Per::All);
    assert!(table.count(Part::All, 0).is_some() && table.count(Part::All, 1).is_none());
}

#[test]
fn a_target_that_is_not_there_is_an_error() {
    let mut gone = options("dummy");
    // Above the largest process id (proc_sys_kernel(5), pid_max).
    gone.target = Target::Processes(vec![1 << 22 | 1]);
    assert!(matches!(
        CountingSession::attach(&gone),
        Err(CountError::NoTarget { .. })
    ));
}
