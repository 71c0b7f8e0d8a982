//! Start and end of recordings.

use super::support::*;
use rprof_launch::{Launcher, WaitOutcome};
use rprof_records::RecordType;
use rprof_sampler::{Degradation, SessionError};
use std::os::fd::AsFd;

fn exists(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    unsafe { libc::kill(pid, 0) == 0 }
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error_and_leaves_nothing() {
    for (program, errno, code) in [
        ("/no/such/program", libc::ENOENT, 127),
        ("no-such-program-here", libc::ENOENT, 127),
        ("/etc/passwd", libc::EACCES, 126),
    ] {
        // Folders that everybody may search: others cause EACCES, as in execvp(3).
        let command = Launcher::new(program).env("PATH", "/usr/bin:/bin");
        let Some(mut session) = launch(cpu_clock(), &command) else {
            return;
        };
        let pid = session.child().unwrap().pid();
        let SessionError::Exec(error) = session.start().unwrap_err() else {
            panic!("the program was executed");
        };
        assert_eq!(
            (error.errno.raw_os_error(), error.exit_code()),
            (errno, code)
        );
        assert!(error.to_string().contains(program), "{error}");
        assert!(!exists(pid));
        let mut recorded = Recorded::new(session.events());
        for batch in session.batches() {
            recorded.add(&batch);
        }
        assert_eq!(recorded.of(RecordType::SAMPLE).count(), 0);
    }
}

#[test]
fn dropping_an_unstarted_session_ends_child_and_threads() {
    let Some(session) = launch(cpu_clock(), &sh("exit 3")) else {
        return;
    };
    let (pid, batches) = (session.child().unwrap().pid(), session.batches().clone());
    assert!(exists(pid));
    drop(session);
    assert!(!exists(pid));
    assert!(batches.iter().all(|batch| batch.bytes.is_empty()));
}

#[test]
fn dropping_a_running_session_ends_the_threads_and_not_the_program() {
    let Some(mut session) = launch(cpu_clock(), &sh("exec sleep 100")) else {
        return;
    };
    session.start().unwrap();
    let (pid, batches) = (session.child().unwrap().pid(), session.batches().clone());
    drop(session);
    assert!(batches.iter().count() > 0);
    assert!(exists(pid));
    // SAFETY: a child of this process that has not been reaped; the status is not wanted.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

#[test]
fn stopping_early_leaves_the_program_unwatched() {
    let (read, write) = std::io::pipe().unwrap();
    let Some(mut session) = launch(cpu_clock(), &sh("while :; do :; done")) else {
        return;
    };
    session.start().unwrap();
    drop(write);
    let waited = session
        .child_mut()
        .unwrap()
        .wait_or(Some(read.as_fd()), None);
    assert_eq!(waited.unwrap(), WaitOutcome::Other);
    let counts = session.stop();
    assert_eq!(counts, session.stop(), "told again");
    let ended: Vec<u64> = (session.batches().iter())
        .map(|batch| batch.watermark)
        .collect();
    let last = ended.iter().filter(|watermark| **watermark == u64::MAX);
    assert_eq!(last.count(), session.cpus().len());
    assert!(
        session.child_mut().unwrap().try_wait().unwrap().is_none(),
        "still runs"
    );
    session.child().unwrap().signal(libc::SIGKILL).unwrap();
    assert!(!session.child_mut().unwrap().wait().unwrap().success());
}

#[test]
fn exit_codes_are_the_programs() {
    let Some(mut session) = launch(cpu_clock(), &sh("exit 41")) else {
        return;
    };
    session.start().unwrap();
    assert_eq!(
        session.child_mut().unwrap().wait().unwrap().code(),
        Some(41)
    );
}

#[test]
fn default_rings_fit_and_sizes_asked_for_are_kept() {
    let Some(session) = launch(cpu_clock(), &sh("exit")) else {
        return;
    };
    let (samples, sideband) = session.ring_bytes();
    println!(
        "{samples} and {sideband} bytes, {:?}",
        session.degradations()
    );
    // Unprivileged users share one limit among all recordings.
    let steps = session.degradations();
    let shrunk = steps
        .iter()
        .any(|step| matches!(step, Degradation::RingShrunk { .. }));
    assert!(shrunk || (samples >= 256 << 10 && sideband >= 128 << 10));
    drop(session);
    let small = cpu_clock().ring_bytes(100_000).sideband_ring_bytes(60_000);
    let session = launch(small, &sh("exit")).unwrap();
    assert_eq!(session.ring_bytes(), (128 << 10, 64 << 10));
}
