//! Threads that wait since before the recording have their wait reasons.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::support::{Folded, Here, Running, c_with, folded, needs, wait_until};

/// Wait reasons by function of the thread.
const REASONS: [(&str, &str); 13] = [
    ("take_one_then_other", "[futex]"),
    ("take_other_then_one", "[futex]"),
    ("wait_in_condition", "[futex]"),
    ("read_pipe", "[pipe]"),
    ("wait_in_poll", "[poll]"),
    ("wait_in_select", "[poll]"),
    ("wait_in_epoll", "[poll]"),
    ("sleep_long", "[sleep]"),
    ("accept_nobody", "[socket]"),
    ("receive_nothing", "[socket]"),
    ("wait_for_child", "[child]"),
    ("wait_for_signal", "[signal]"),
    ("read_event", "[message]"),
];

fn asleep(here: &Here, flags: &[&str]) -> Running {
    let mut running = here.command(c_with("asleep.c", flags)).start();
    assert_eq!(running.line(), "asleep");
    let pid = running.pid().as_raw_nonzero();
    let tasks = || std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let is_blocked = |task: std::io::Result<std::fs::DirEntry>| {
        let channel = task.and_then(|task| std::fs::read_to_string(task.path().join("wchan")));
        channel.is_ok_and(|channel| channel != "0")
    };
    wait_until("all wait", || {
        tasks().count() == REASONS.len() + 1 && tasks().all(is_blocked)
    });
    running
}

/// Returns the stacks of the fixture's waits.
fn record(here: &Here, running: &Running, options: &str) -> Folded {
    let shell = here.rprof("record -q --off-cpu -d 0.5").words(options);
    let pid = running.pid().as_raw_nonzero();
    shell.arg("-p").arg(pid.to_string()).ok();
    folded(&here.rprof("collapse -q --off-cpu --no-fold-idle").ok())
}

fn end(running: Running) {
    running.signal(Signal::KILL);
    running.end();
}

fn leaves(stacks: &Folded, function: &str) -> BTreeMap<String, u64> {
    let mut leaves = BTreeMap::new();
    for (stack, weight) in stacks {
        if stack.split(';').any(|frame| frame == function) {
            let leaf = stack.rsplit(';').next().unwrap_or_default();
            *leaves.entry(leaf.to_owned()).or_default() += weight;
        }
    }
    leaves
}

/// Checks that each wait has its reason for most of the recording.
fn assert_reasons(stacks: &Folded) {
    for (function, reason) in REASONS {
        let leaves = leaves(stacks, function);
        assert_eq!(
            leaves.keys().collect::<Vec<_>>(),
            [reason],
            "{function}: {leaves:?}"
        );
        assert!(leaves[reason] >= 400_000_000, "{function}: {leaves:?}");
    }
}

/// The vdso's frame is the innermost.
#[test]
fn threads_of_a_32_bit_program_that_sleep_since_before_have_their_reasons() {
    needs!(PerfEvents, Root, I386);
    for flags in [&["-m32"][..], &["-m32", "-O2", "-fomit-frame-pointer"]] {
        let here = Here::new();
        let running = asleep(&here, flags);
        let stacks = record(&here, &running, "");
        assert_reasons(&stacks);
        let by_vdso = stacks
            .keys()
            .filter(|stack| stack.contains(";__kernel_vsyscall;"));
        assert!(by_vdso.count() >= REASONS.len(), "{stacks:#?}");
        end(running);
    }
}

#[test]
fn threads_that_sleep_since_before_have_their_reasons() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let running = asleep(&here, &[]);
    let stacks = record(&here, &running, "");
    assert_reasons(&stacks);
    let whole = here.report("--off-cpu --no-fold-idle");
    for reason in [
        "futex", "pipe", "poll", "sleep", "socket", "child", "signal", "message",
    ] {
        let chosen = here.report(&format!("--no-fold-idle --reason {reason}"));
        let of = whole.only().row(&format!("[{reason}]")).own;
        assert!(
            of >= 400_000_000 && chosen.only().weight == of,
            "{reason}: {of}"
        );
    }
    // The stacks have user functions and kernel functions.
    let deadlock =
        here.rprof("report --reason futex --no-fold-idle --callers [futex] --format json");
    let text = deadlock.ok().out();
    assert!(
        text.contains("take_one_then_other") && text.contains("futex_wait"),
        "{text}"
    );
    end(running);
}

#[test]
fn threads_that_sleep_have_their_reasons_without_unwinding() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let running = asleep(&here, &[]);
    let pid = running.pid().as_raw_nonzero();
    for mode in ["fp", "none"] {
        let stacks = record(&here, &running, &format!("--call-graph {mode}"));
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for (stack, weight) in &stacks {
            *reasons
                .entry(stack.rsplit(';').next().unwrap_or_default())
                .or_default() += weight;
        }
        if mode == "fp" {
            for (_, reason) in REASONS {
                assert!(reasons.contains_key(reason), "{pid} {mode}: {reasons:?}");
            }
        }
        assert!(!stacks.is_empty(), "{mode}");
    }
    end(running);
}

#[test]
fn a_stopped_program_is_told_as_stopped() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let running = asleep(&here, &[]);
    let pid = running.pid().as_raw_nonzero();
    running.signal(Signal::STOP);
    let is_stopped = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
        tasks.flatten().all(|task| {
            let state = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            state
                .rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim_start().starts_with('T'))
        })
    };
    wait_until("it is stopped", is_stopped);
    let stacks = record(&here, &running, "");
    for (function, _) in REASONS {
        let leaves = leaves(&stacks, function);
        assert_eq!(
            leaves.keys().collect::<Vec<_>>(),
            ["[stopped]"],
            "{function}: {leaves:?}"
        );
    }
    end(running);
}
