//! Attaching to running processes.

use super::support::*;
use rprof_events::Event;
use rprof_launch::{Launcher, Target, WaitOutcome};
use rprof_records::{AttrFlags, Record, RecordType};
use rprof_sampler::{OpenEventsError, Session, SessionBuilder, SessionError, Stream};
use std::collections::HashSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A process that ends with the test.
struct Program(Child);

impl Program {
    fn sh(script: &str) -> Program {
        let mut command = Command::new("sh");
        Program(
            command
                .args(["-c", script])
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for another 50 ms of CPU time.
    fn work(&self) {
        let used = || -> u64 {
            let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid()));
            let used = text
                .ok()
                .and_then(|text| text.split(' ').next()?.parse().ok());
            used.expect("CPU time in nanoseconds")
        };
        let enough = used() + 50_000_000;
        while used() < enough {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn end(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// Attaches. Skips the test without permission.
#[track_caller]
fn attach(builder: SessionBuilder) -> Option<Session> {
    permitted(builder.attach())
}

/// Receives until there is enough, without a time limit for busy machines.
fn record_until(mut session: Session, is_enough: impl Fn(&Recorded) -> bool) -> Recorded {
    session.start().unwrap();
    let mut recorded = Recorded::new(session.events());
    while !is_enough(&recorded) {
        let nap = Some(Duration::from_millis(50));
        assert_eq!(session.wait_or(None, nap).unwrap(), WaitOutcome::Timeout);
        while let Ok(batch) = session.batches().try_recv() {
            recorded.add(&batch);
            session.recycle(batch);
        }
    }
    recorded.counts = session.stop();
    for batch in session.batches() {
        recorded.add(&batch);
    }
    recorded
}

fn stopped(mut session: Session) -> Recorded {
    let mut recorded = Recorded::new(session.events());
    recorded.counts = session.stop();
    for batch in session.batches() {
        recorded.add(&batch);
    }
    recorded
}

fn pids(recorded: &Recorded) -> HashSet<u32> {
    let pid = |got| match recorded.decoded(got) {
        Record::Sample(sample) => sample.pid().map(|pid| pid as u32),
        _ => None,
    };
    recorded.of(RecordType::SAMPLE).filter_map(pid).collect()
}

#[test]
fn a_process_and_what_it_starts_is_followed() {
    let program =
        Program::sh("while :; do ( i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done ); done");
    let target = Target::Processes(vec![program.pid()]);
    let Some(session) = attach(cpu_clock().target(target)) else {
        return;
    };
    assert_eq!(session.attached()[0].pid, program.pid());
    let flags = session.events()[0].attr.flags;
    assert!(flags.contains(AttrFlags::INHERIT) && !flags.contains(AttrFlags::ENABLE_ON_EXEC));
    let born = |recorded: &Recorded| -> HashSet<u32> {
        let forks = recorded.of(RecordType::FORK);
        let pids = forks.filter_map(|got| match recorded.decoded(got) {
            Record::Fork(task) => Some(task.pid as u32),
            _ => None,
        });
        pids.collect()
    };
    let both = |recorded: &Recorded| pids(recorded).intersection(&born(recorded)).count();
    let recorded = record_until(session, |recorded| both(recorded) > 5);
    let (sampled, born) = (pids(&recorded), born(&recorded));
    assert!(
        sampled
            .iter()
            .all(|pid| *pid == program.pid() || born.contains(pid))
    );
}

/// Linux 6.18 gives the samples of one of the sessions the ids of the other.
#[test]
fn sessions_that_sample_the_same_page_faults_have_their_own_ids() {
    let program = Program::sh("while :; do ( : ); done");
    let begin = || {
        let faults = Event::parse("page-faults").unwrap();
        let builder = Session::builder().event(faults).period(1);
        attach(builder.target(Target::Processes(vec![program.pid()])))
    };
    let Some((early, mut late)) = begin().zip(begin()) else {
        return;
    };
    let own =
        |session: &Session| -> HashSet<u64> { session.events()[0].ids.iter().copied().collect() };
    let (early_ids, late_ids) = (own(&early), own(&late));
    late.start().unwrap();
    let samples = |recorded: &Recorded| recorded.of(RecordType::SAMPLE).count();
    let early = record_until(early, |recorded| samples(recorded) > 1000);
    let late = stopped(late);
    assert!(samples(&late) > 1000);
    for (recorded, ids) in [(early, early_ids), (late, late_ids)] {
        let foreign = recorded.of(RecordType::SAMPLE).filter(|got| {
            let Record::Sample(sample) = recorded.decoded(got) else {
                return true;
            };
            !sample.id().is_some_and(|id| ids.contains(&id))
        });
        assert_eq!(foreign.count(), 0, "of {}", samples(&recorded));
    }
}

#[test]
fn without_inherit_only_the_process_is() {
    let program =
        Program::sh("while :; do ( i=0; while [ $i -lt 99 ]; do i=$((i+1)); done ); done");
    let target = Target::Processes(vec![program.pid()]);
    let Some(session) = attach(cpu_clock().target(target).inherit(false).frequency(4000)) else {
        return;
    };
    let samples = |recorded: &Recorded| recorded.of(RecordType::SAMPLE).count();
    let recorded = record_until(session, |recorded| samples(recorded) > 20);
    assert_eq!(pids(&recorded), HashSet::from([program.pid()]));
}

#[test]
fn the_end_of_all_targets_is_told() {
    let mut programs = [(); 2].map(|()| Program::sh("exec sleep 100"));
    let target = Target::Processes(programs.iter().map(Program::pid).collect());
    let Some(mut session) = attach(cpu_clock().target(target)) else {
        return;
    };
    session.start().unwrap();
    programs[0].end();
    let nap = Some(Duration::from_millis(100));
    assert_eq!(session.wait_or(None, nap).unwrap(), WaitOutcome::Timeout);
    programs[1].end();
    assert_eq!(
        session.wait_or(None, None).unwrap(),
        WaitOutcome::TargetsExited
    );
    let exits = stopped(session);
    assert!(exits.of(RecordType::EXIT).count() >= 2);
}

#[test]
fn nothing_is_sampled_before_it_is_enabled_nor_when_disabled() {
    let program = Program::sh("while :; do :; done");
    let target = Target::Processes(vec![program.pid()]);
    let builder = cpu_clock().target(target).enabled_from_start(false);
    let Some(mut session) = attach(builder) else {
        return;
    };
    session.start().unwrap();
    program.work();
    let count = |session: &Session| {
        let batches = session.batches().try_iter();
        let samples =
            batches.filter(|batch| batch.stream == Stream::Samples && !batch.bytes.is_empty());
        samples.count()
    };
    assert_eq!(count(&session), 0);
    session.enable().unwrap();
    while count(&session) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    session.disable().unwrap();
    let disabled = now();
    program.work();
    // Later records were in the rings.
    let recorded = stopped(session);
    let last = recorded.of(RecordType::SAMPLE).map(|got| got.time).max();
    assert!(
        last.is_none_or(|last| last <= disabled),
        "{last:?} {disabled}"
    );
}

fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for what the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[test]
fn errors_name_what_is_not_there() {
    let mut program = Program::sh("exit");
    let pid = program.pid();
    program.0.wait().unwrap();
    for target in [Target::Processes(vec![pid]), Target::Threads(vec![pid])] {
        match cpu_clock().target(target).attach() {
            Err(SessionError::Open(OpenEventsError::TargetsGone { what, .. })) => {
                assert!(what.contains(&pid.to_string()), "{what}");
            }
            Err(error @ SessionError::Open(OpenEventsError::Event(_))) => {
                assert!(permitted(Err(error)).is_none());
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    let nothing = cpu_clock().attach();
    assert!(matches!(nothing, Err(SessionError::NoTarget)));
    let cgroup = cpu_clock()
        .target(Target::Cgroups(vec!["no/such".into()]))
        .attach();
    assert!(matches!(cgroup, Err(SessionError::Cgroup(_))));
    let cpu = cpu_clock().cpus(vec![60_000]).attach();
    assert!(matches!(cpu, Err(SessionError::Cpus(_))));
}

#[test]
fn the_system_is_watched_while_a_program_runs() {
    let other = Program::sh("while :; do :; done");
    let built = cpu_clock().target(Target::System).launch(&sh(LOOP));
    let Some(session) = permitted(built) else {
        return;
    };
    let child = session.child().unwrap().pid() as u32;
    let recorded = record(session);
    let sampled = pids(&recorded);
    assert!(
        sampled.contains(&child) && sampled.contains(&other.pid()),
        "{sampled:?}"
    );
}

#[test]
fn cpus_can_be_chosen() {
    let Some(session) = permitted(cpu_clock().cpus(vec![0]).attach()) else {
        return;
    };
    assert_eq!(
        (session.cpus(), session.target()),
        (&[0][..], &Target::System)
    );
    let Some(session) = launch(cpu_clock().cpus(vec![0]), &Launcher::new("true")) else {
        return;
    };
    assert_eq!(
        (session.cpus(), session.target()),
        (&[0][..], &Target::Command)
    );
}

#[test]
fn stacks_of_users_are_copied() {
    let Some(session) = launch(cpu_clock().user_stack(Some(1000)), &sh(LOOP)) else {
        return;
    };
    let recorded = record(session);
    let mut full = 0;
    for got in recorded.of(RecordType::SAMPLE) {
        let Record::Sample(sample) = recorded.decoded(got) else {
            panic!("a sample");
        };
        let stack = sample.stack_user().unwrap();
        assert!(
            [0, 1000].contains(&stack.bytes.len()),
            "{}",
            stack.bytes.len()
        );
        full += usize::from(!stack.bytes.is_empty() && sample.regs_user().is_some());
    }
    assert!(full > 10, "{full}");
}

#[test]
fn too_few_descriptors_are_told_with_figures() {
    // The limit is per process.
    if std::env::var_os("RPROF_TEST_FEW_FILES").is_none() {
        let own = std::env::current_exe().unwrap();
        let script =
            "ulimit -n 70; exec \"$0\" --exact attach::too_few_descriptors_are_told_with_figures";
        let status = (Command::new("sh").args(["-c", script]).arg(own))
            .env("RPROF_TEST_FEW_FILES", "1")
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let programs: Vec<Program> = (0..4).map(|_| Program::sh("exec sleep 100")).collect();
    let target = Target::Processes(programs.iter().map(Program::pid).collect());
    match cpu_clock().target(target).attach() {
        // Users who may record whole CPUs need fewer.
        Ok(session) => {
            let told: Vec<String> = session
                .degradations()
                .iter()
                .map(ToString::to_string)
                .collect();
            let is_told =
                |told: &String| told.contains("4 threads") && told.contains("limit is 70");
            assert!(
                session.counts_others() && told.iter().any(is_told),
                "{told:?}"
            );
        }
        Err(SessionError::Open(error @ OpenEventsError::TooManyFiles { .. })) => {
            let told = error.to_string();
            assert!(
                told.contains("4 threads") && told.contains("limit is 70"),
                "{told}"
            );
        }
        Err(error @ SessionError::Open(OpenEventsError::Event(_))) => {
            assert!(permitted(Err(error)).is_none());
        }
        other => panic!("{other:?}"),
    }
}
