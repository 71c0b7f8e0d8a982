//! Records other than samples.

use crate::programs;
use crate::support::{PATIENCE, call_getppid, getppid};
use rprof_perf_event::{Builder, Next, Sampler, Software};
use rprof_records::{Misc, MmapIdentity, Record, SampleType};
use rprof_testing::{Tether, needs};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn dummy() -> Builder {
    Builder::software(Software::DUMMY)
        .exclude_kernel(true)
        .sample(SampleType::IDENTIFIER | SampleType::TID | SampleType::TIME)
        .sample_id_all(true)
        .disabled(false)
}

fn shell(tether: &Tether, script: &str) -> Child {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("read line; {script}")])
        .stdin(Stdio::piped());
    tether.tie(&mut command).spawn().unwrap()
}

fn go(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    mmap: usize,
    by_inode: usize,
    by_build_id: usize,
    exec: usize,
    fork: usize,
    exit: usize,
}

fn seen(sampler: &mut Sampler) -> Seen {
    let mut seen = Seen::default();
    while let Next::Record(next) = sampler.next(Some(Duration::ZERO)).unwrap() {
        assert!(next.id.id.is_some() && next.id.time > Some(0), "{next:?}");
        match next.record {
            Record::Mmap(_) => seen.mmap += 1,
            Record::Mmap2(mmap) => match mmap.identity {
                MmapIdentity::BuildId(_) => seen.by_build_id += 1,
                _ => seen.by_inode += 1,
            },
            Record::Comm(_) if next.misc.has(Misc::COMM_EXEC) => seen.exec += 1,
            Record::Fork(_) => seen.fork += 1,
            Record::Exit(_) => seen.exit += 1,
            _ => {}
        }
    }
    seen
}

#[test]
fn mappings_names_and_births_are_recorded() {
    needs!(PerfEvents);
    let tether = Tether::new();
    let mut child = shell(&tether, "(exit 3) & wait; exec true");
    let event = dummy().thread(child.id() as i32);
    let open = |event: &Builder| Sampler::open(event, 64 << 10).unwrap();
    let full = event
        .clone()
        .mmap(true)
        .comm(true)
        .comm_exec(true)
        .task(true);
    let mut with_inodes = open(&full.clone().mmap2(true));
    let mut without = open(&full);
    let mut none = open(&event);
    go(&mut child);
    assert!(child.wait().unwrap().success());
    let found = seen(&mut with_inodes);
    assert!(found.by_inode > 0 && found.exec == 1, "{found:?}");
    assert!(found.fork > 0 && found.exit > 0, "{found:?}");
    assert_eq!(found.mmap, 0);
    let found = seen(&mut without);
    assert!(found.mmap > 0 && found.by_inode == 0, "{found:?}");
    assert_eq!(seen(&mut none), Seen::default());
}

#[test]
fn mappings_have_build_ids() {
    needs!(PerfEvents);
    let tether = Tether::new();
    let mut child = shell(&tether, "exec true");
    let event = dummy().thread(child.id() as i32).mmap(true).mmap2(true);
    let mut sampler = Sampler::open(&event.build_id(true), 64 << 10).unwrap();
    go(&mut child);
    assert!(child.wait().unwrap().success());
    let found = seen(&mut sampler);
    // Only readable files have build-ids; anonymous memory has at most inodes.
    assert!(found.by_build_id > 0, "{found:?}");
}

#[test]
fn mappings_of_data_are_recorded() {
    needs!(PerfEvents);
    let event = dummy().mmap(true).mmap_data(true);
    let mut sampler = Sampler::open(&event, 64 << 10).unwrap();
    let length = 64 << 20;
    let memory: Vec<u8> = std::hint::black_box(vec![0; length]);
    let address = memory.as_ptr() as u64;
    let mut found = false;
    while let Next::Record(next) = sampler.next(Some(Duration::ZERO)).unwrap() {
        if let Record::Mmap(mmap) = next.record {
            let inside = (mmap.start..mmap.start + mmap.len).contains(&address);
            found |= inside && next.misc.has(Misc::MMAP_DATA);
        }
    }
    assert!(found, "none of {address:#x}");
}

#[test]
fn switches_are_recorded() {
    needs!(PerfEvents);
    let mut sampler = Sampler::open(&dummy().context_switch(true), 64 << 10).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    let (mut out, mut back) = (0, 0);
    while let Next::Record(next) = sampler.next(Some(Duration::ZERO)).unwrap() {
        if let Record::Switch = next.record {
            match next.misc.has(Misc::SWITCH_OUT) {
                true => out += 1,
                false => back += 1,
            }
        }
    }
    assert!(out > 0 && back > 0, "{out} and {back}");
}

#[test]
fn kernel_symbols_and_programs_are_recorded() {
    needs!(PerfEvents, Kernel);
    let event = dummy().ksymbol(true).bpf_event(true);
    let mut sampler = Sampler::open(&event, 64 << 10).unwrap();
    let Some(program) = programs::returns_zero() else {
        return;
    };
    let id = programs::id(&program);
    let (mut symbols, mut loaded) = (0, Vec::new());
    while let Next::Record(next) = sampler.next(Some(Duration::ZERO)).unwrap() {
        match next.record {
            Record::Ksymbol { .. } => symbols += 1,
            Record::BpfEvent { id, kind: 1, .. } => loaded.push(id),
            _ => {}
        }
    }
    assert!(loaded.contains(&id), "{loaded:?} lacks {id}");
    let compiled = std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable");
    if compiled.is_ok_and(|text| text.trim() == "1") {
        assert!(symbols > 0);
    }
}

#[test]
fn threads_inherit_and_children_do_not() {
    let Some(event) = getppid() else { return };
    let all = event.clone().inherit(true).disabled(false).open().unwrap();
    let threads = event
        .inherit(true)
        .inherit_thread(true)
        .disabled(false)
        .open()
        .unwrap();
    std::thread::scope(|scope| scope.spawn(|| call_getppid(11)).join().unwrap());
    let counts = || (all.read().unwrap().value, threads.read().unwrap().value);
    assert_eq!(counts(), (11, 11));
    let script = "echo $PPID";
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success());
    let (all, threads) = counts();
    assert!(all > 11, "{all}");
    assert_eq!(threads, 11);
}

#[test]
fn an_exec_removes_an_event() {
    needs!(PerfEvents);
    let tether = Tether::new();
    let mut child = shell(&tether, "exec sh -c 'read line; exit 0'");
    let event = dummy().thread(child.id() as i32).remove_on_exec(true);
    let mut sampler = Sampler::open(&event, 4096).unwrap();
    go(&mut child);
    loop {
        match sampler.next(Some(PATIENCE)).unwrap() {
            Next::Record(_) => {}
            Next::Ended => break,
            Next::TimedOut => panic!("it is still there"),
        }
    }
    assert!(
        child.try_wait().unwrap().is_none(),
        "the program waits for a line"
    );
    go(&mut child);
    assert!(child.wait().unwrap().success());
}
