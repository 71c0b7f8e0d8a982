//! The ioctls, and prctl.

use crate::support::{Word, call_getppid, getppid, tracepoint};
use rprof_perf_event::{
    Builder, Errno, Ring, Software, disable_all_opened_here, enable_all_opened_here,
};
use rprof_records::SampleType;
use rprof_testing::needs;
use std::os::fd::AsFd;

/// Size of the ring buffer's data, and of one sample with only IDENTIFIER and ADDR.
const RING: usize = 64 << 10;
const SAMPLE: usize = 24;

/// Takes a sample of [`SAMPLE`] bytes at each write.
fn sampled(word: &Word) -> Builder {
    let fields = SampleType::IDENTIFIER | SampleType::ADDR;
    word.event().period(1).sample(fields)
}

#[test]
fn output_goes_to_another_ring_and_back_to_none() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let first = sampled(&one).disabled(false).open_fd(None).unwrap();
    let second = sampled(&two).disabled(false).open_fd(None).unwrap();
    let ring = Ring::map(first.as_fd(), RING).unwrap();
    two.write(3);
    assert_eq!(ring.unread(), 0, "it has no ring");
    second.redirect_to(&first).unwrap();
    two.write(3);
    one.write(2);
    assert_eq!(ring.unread(), 5 * SAMPLE);
    second.end_redirection().unwrap();
    two.write(3);
    one.write(1);
    assert_eq!(ring.unread(), 6 * SAMPLE);
    assert_eq!(first.redirect_to(&first), Err(Errno::INVAL));
    assert_eq!(
        first.end_redirection(),
        Err(Errno::INVAL),
        "its own ring is mapped"
    );
}

#[test]
fn output_is_paused_and_resumed() {
    needs!(PerfEvents);
    let word = Word::new();
    let writes = sampled(&word).disabled(false).open_fd(None).unwrap();
    assert_eq!(
        writes.pause_output(true),
        Err(Errno::INVAL),
        "there is no ring yet"
    );
    let ring = Ring::map(writes.as_fd(), RING).unwrap();
    word.write(2);
    writes.pause_output(true).unwrap();
    word.write(30);
    assert_eq!(ring.unread(), 2 * SAMPLE);
    writes.pause_output(false).unwrap();
    word.write(1);
    assert!(ring.unread() >= 3 * SAMPLE && ring.unread() < 10 * SAMPLE);
    assert_eq!(
        writes.reading().unwrap().value,
        33,
        "it counted all the time"
    );
}

#[test]
fn the_period_of_an_open_event_changes() {
    needs!(PerfEvents);
    let word = Word::new();
    let writes = sampled(&word).disabled(false).open_fd(None).unwrap();
    let ring = Ring::map(writes.as_fd(), RING).unwrap();
    word.write(10);
    assert_eq!(ring.unread(), 10 * SAMPLE);
    writes.set_period(1 << 40).unwrap();
    // The current period ends first.
    word.write(1000);
    assert!(ring.unread() < 500 * SAMPLE, "{}", ring.unread());
    assert_eq!(writes.set_period(0), Err(Errno::INVAL));
    assert_eq!(writes.set_period(1 << 63), Err(Errno::INVAL));
    let counting = word.event().open_fd(None).unwrap();
    assert_eq!(
        counting.set_period(5),
        Err(Errno::INVAL),
        "it does not sample"
    );
}

#[test]
fn an_event_is_refreshed_for_some_overflows() {
    needs!(PerfEvents);
    let word = Word::new();
    let writes = sampled(&word).open_fd(None).unwrap();
    writes.refresh(3).unwrap();
    // An interrupt disables it, possibly later.
    crate::support::wait_for("the event to be disabled", || {
        let before = writes.reading().unwrap().value;
        word.write(10);
        (writes.reading().unwrap().value == before && before >= 3).then_some(())
    });
    let disabled = writes.reading().unwrap();
    word.write(1000);
    assert_eq!(writes.reading().unwrap(), disabled);
    let counting = word.event().open_fd(None).unwrap();
    assert_eq!(counting.refresh(1), Err(Errno::INVAL), "it does not sample");
}

#[test]
fn a_breakpoint_moves() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let event = one.event().disabled(false);
    let writes = event.open_fd(None).unwrap();
    one.write(5);
    two.write(50);
    let mut moved = event.attr().clone();
    two.breakpoint().apply(&mut moved);
    writes.modify(&moved).unwrap();
    one.write(500);
    two.write(7);
    assert_eq!(writes.reading().unwrap().value, 12);
    let other = Builder::software(Software::DUMMY).exclude_kernel(true);
    let dummy = other.open_fd(None).unwrap();
    assert!(
        dummy.modify(other.attr()).is_err(),
        "only breakpoints can change"
    );
}

#[test]
fn a_tracepoint_is_filtered() {
    if getppid().is_none() {
        return;
    }
    let Some(id) = tracepoint("syscalls/sys_enter_getpriority") else {
        return;
    };
    let calls = Builder::tracepoint(id).open_fd(None).unwrap();
    let myself = rustix::process::getpid();
    let filter = format!("who == {}", myself.as_raw_nonzero());
    let filter = std::ffi::CString::new(filter).unwrap();
    assert_eq!(calls.set_filter(c"who ==="), Err(Errno::INVAL));
    let calls = Builder::tracepoint(id).open_fd(None).unwrap();
    calls.set_filter(&filter).unwrap();
    assert_eq!(
        calls.set_filter(&filter),
        Err(Errno::EXIST),
        "one for its life"
    );
    calls.enable().unwrap();
    for _ in 0..5 {
        rustix::process::getpriority_process(None).unwrap();
    }
    for _ in 0..7 {
        rustix::process::getpriority_process(Some(myself)).unwrap();
    }
    assert_eq!(calls.reading().unwrap().value, 7);
    let dummy = Builder::software(Software::DUMMY).open_fd(None).unwrap();
    assert_eq!(dummy.set_filter(&filter), Err(Errno::INVAL));
}

#[test]
fn all_events_opened_by_a_thread_start_and_stop() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let first = one.event().open().unwrap();
    let second = two.event().open().unwrap();
    let (one, two) = (&one, &two);
    let write = || {
        one.write(3);
        two.write(4);
    };
    let values = || (first.read().unwrap().value, second.read().unwrap().value);
    write();
    assert_eq!(values(), (0, 0));
    enable_all_opened_here().unwrap();
    write();
    assert_eq!(values(), (3, 4));
    std::thread::scope(|scope| scope.spawn(disable_all_opened_here).join().unwrap()).unwrap();
    write();
    assert_eq!(values(), (6, 8));
    disable_all_opened_here().unwrap();
    write();
    assert_eq!(values(), (6, 8));
}

#[test]
fn a_tracepoint_runs_a_bpf_program() {
    let Some(event) = getppid() else { return };
    let Some(program) = crate::programs::returns_zero() else {
        return;
    };
    let calls = event.disabled(false).open_fd(None).unwrap();
    call_getppid(2);
    let before = calls.bpf_programs().unwrap();
    calls.set_bpf(program.as_fd()).unwrap();
    let after = calls.bpf_programs().unwrap();
    assert_eq!(after.attached, before.attached + 1);
    let id = crate::programs::id(&program);
    assert!(after.ids.contains(&id), "{after:?} lacks {id}");
    call_getppid(23);
    assert_eq!(calls.reading().unwrap().value, 2);
    let dummy = Builder::software(Software::DUMMY).open_fd(None).unwrap();
    assert_eq!(
        dummy.bpf_programs(),
        Err(Errno::INVAL),
        "it is no tracepoint"
    );
}
