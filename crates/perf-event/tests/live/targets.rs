//! Threads, processes, CPUs and control groups.

use crate::fixture::Writers;
use crate::support::{Word, call_getppid, getppid, wait_for};
use rprof_launch::Cgroup;
use rprof_perf_event::{
    Breakpoint, BreakpointAccess, Builder, Errno, ProcessCounter, ProcessError, Reading, Software,
};
use rprof_testing::{Tether, needs, skip};
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::mpsc;

#[test]
fn another_thread_is_counted_by_its_id() {
    needs!(PerfEvents);
    let word = Word::new();
    let word = &*word;
    let (tell, told) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            wait.recv().unwrap();
            word.write(77);
        });
        let event = word.event().thread(told.recv().unwrap());
        let writes = event.open().unwrap();
        writes.enable().unwrap();
        word.write(5);
        go.send(()).unwrap();
        writer.join().unwrap();
        assert_eq!(writes.read().unwrap().value, 77);
    });
}

#[test]
fn children_inherit_an_event() {
    needs!(PerfEvents);
    let word = Word::new();
    let writes = word.event().inherit(true).open().unwrap();
    let alone = word.event().open().unwrap();
    alone.enable().unwrap();
    let work = || {
        word.write(10);
        let child = || {
            word.write(1000);
            rustix::thread::gettid().as_raw_nonzero()
        };
        std::thread::scope(|scope| scope.spawn(child).join().unwrap())
    };
    let (child, counted) = writes.measure(work).unwrap();
    assert_eq!(counted.value, 1010);
    assert_eq!(alone.read().unwrap().value, 10);
    // The join returns before the thread's exit is complete.
    wait_for("the end of the thread", || {
        let folder = format!("/proc/self/task/{child}");
        (!std::path::Path::new(&folder).exists()).then_some(())
    });
    writes.reset().unwrap();
    let left = writes.read().unwrap().value;
    assert_eq!(left, 1000, "RESET leaves what ended children counted");
}

fn foreign(writers: &Writers) -> Builder {
    let breakpoint = Breakpoint {
        address: writers.address,
        length: 8,
        access: BreakpointAccess::WRITE,
    };
    Builder::breakpoint(breakpoint).exclude_kernel(true)
}

#[test]
fn a_process_is_counted_with_all_threads() {
    needs!(PerfEvents);
    let mut writers = Writers::start();
    let event = foreign(&writers);
    let pid = writers.child.id();
    let all = ProcessCounter::open(pid, &event).unwrap();
    assert!(all.is_settled());
    assert_eq!(all.threads(), 1);
    let first = event.thread(pid as i32).open().unwrap();
    all.enable().unwrap();
    first.enable().unwrap();
    writers.go();
    assert_eq!(all.read().unwrap().value, Writers::WRITES);
    assert_eq!(first.read().unwrap().value, 234, "one thread alone");
    all.disable().unwrap();
    writers.end();
    assert_eq!(all.read().unwrap().value, Writers::WRITES);
    let gone = ProcessCounter::open(pid, &Builder::software(Software::DUMMY)).unwrap_err();
    assert_eq!(gone, ProcessError::NoSuchProcess { pid });
}

#[test]
fn an_exec_enables_an_event() {
    needs!(PerfEvents);
    let tether = Tether::new();
    let mut command = Command::new("sh");
    command
        .args(["-c", "read line; exec true"])
        .stdin(Stdio::piped());
    let mut child = tether.tie(&mut command).spawn().unwrap();
    let faults = Builder::software(Software::PAGE_FAULTS)
        .exclude_kernel(true)
        .enable_on_exec(true)
        .thread(child.id() as i32);
    let faults = faults.open().unwrap();
    let before = faults.read().unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    let after = faults.read().unwrap();
    assert_eq!((before.value, before.enabled), (0, Some(0)));
    assert!(after.value > 0 && after.enabled > Some(0), "{after:?}");
}

/// Sums an event on each online CPU, while this thread calls getppid(2) 23 times.
fn on_all_cpus(open: impl Fn(u32) -> Builder) -> u64 {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus = cpus.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<u32>().unwrap()..=last.parse::<u32>().unwrap()
    });
    let events: Vec<_> = cpus.map(|cpu| open(cpu).open().unwrap()).collect();
    events.iter().for_each(|event| event.enable().unwrap());
    call_getppid(23);
    events.iter().map(|event| event.read().unwrap().value).sum()
}

#[test]
fn everything_on_a_cpu_is_counted() {
    let Some(event) = getppid() else { return };
    // Other processes may call it as well.
    assert!(on_all_cpus(|cpu| event.clone().everything_on(cpu)) >= 23);
    let error = event.thread(-1).open().unwrap_err();
    assert_eq!(error.errno, Errno::INVAL, "any process on any CPU");
}

#[test]
fn a_control_group_is_counted() {
    let Some(event) = getppid() else { return };
    let Ok(root) = Cgroup::open_all(&["/".to_owned()]) else {
        return skip("needs a hierarchy of control groups");
    };
    let folder = || root[0].as_fd().try_clone_to_owned().unwrap();
    let on = |cpu| event.clone().cgroup(folder(), cpu);
    assert!(on_all_cpus(on) >= 23);
}

#[test]
fn a_thread_is_counted_on_one_cpu() {
    needs!(PerfEvents);
    let word = Word::new();
    // A separate thread, because it is bound to a CPU.
    std::thread::scope(|scope| {
        let bound = scope.spawn(|| {
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
            let here = cpus.next().unwrap();
            let mut only = rustix::thread::CpuSet::new();
            only.set(here);
            rustix::thread::sched_setaffinity(None, &only).unwrap();
            let on = |cpu: usize| word.event().cpu(cpu as u32).open().unwrap();
            let events = (on(here), cpus.next().map(on));
            events.0.enable().unwrap();
            events.1.iter().for_each(|event| event.enable().unwrap());
            word.write(40);
            let elsewhere = events.1.map_or(0, |event| event.read().unwrap().value);
            (events.0.read().unwrap().value, elsewhere)
        });
        assert_eq!(bound.join().unwrap(), (40, 0));
    });
}

#[test]
fn a_thread_that_ended_keeps_its_count() {
    needs!(PerfEvents);
    let mut writers = Writers::start();
    let event = foreign(&writers)
        .thread(writers.child.id() as i32)
        .inherit(true);
    let writes = event.open().unwrap();
    writes.enable().unwrap();
    writers.go();
    writers.end();
    let reading = wait_for("the count of all threads", || {
        let reading: Reading = writes.read().unwrap();
        (reading.value == Writers::WRITES).then_some(reading)
    });
    assert_eq!(reading.scaled().unwrap().value, Writers::WRITES);
}
