//! Values, times and flags of one event.

use crate::support::{Word, call_getppid, getppid};
use rprof_perf_event::{Builder, Errno, OpenFlags, Reading, Software};
use rprof_records::{EventKind, ReadFormat};
use rprof_testing::needs;
use std::os::fd::AsFd;

#[test]
fn writes_are_counted_to_the_last() {
    needs!(PerfEvents);
    let word = Word::new();
    let writes = word.event().open().unwrap();
    let ((), counted) = writes.measure(|| word.write(1234)).unwrap();
    assert_eq!(counted.value, 1234);
    let scaled = counted.scaled().unwrap();
    assert_eq!((scaled.value, scaled.is_estimate()), (1234, false));
    assert!(counted.running > Some(0), "{counted:?}");
    assert_eq!(writes.measure(|| word.write(5)).unwrap().1.value, 5);
    assert_eq!(writes.read().unwrap().value, 1239);
}

#[test]
fn a_counter_is_read_while_it_runs() {
    needs!(PerfEvents);
    let word = Word::new();
    let writes = word.event().open().unwrap();
    word.write(3);
    assert_eq!(writes.read().unwrap().enabled, Some(0), "it is disabled");
    writes.enable().unwrap();
    let mut last = Reading::default();
    for round in 1..=50 {
        word.write(2);
        let reading = writes.read().unwrap();
        assert_eq!(reading.value, 2 * round);
        assert!(reading.enabled >= last.enabled && reading.running >= last.running);
        assert!(reading.running <= reading.enabled, "{reading:?}");
        last = reading;
    }
    writes.disable().unwrap();
    word.write(3);
    assert_eq!(writes.read().unwrap().value, 100);
    writes.reset().unwrap();
    let reading = writes.read().unwrap();
    assert_eq!(reading.value, 0);
    assert!(reading.enabled >= last.enabled, "RESET leaves the times");
}

#[test]
fn calls_are_counted_by_a_tracepoint() {
    let Some(event) = getppid() else { return };
    let calls = event.open().unwrap();
    let ((), counted) = calls.measure(|| call_getppid(23)).unwrap();
    assert_eq!(counted.value, 23);
}

/// Not inlined, so that it has an address.
#[inline(never)]
extern "C" fn probed(value: u64) -> u64 {
    std::hint::black_box(value) + 1
}

fn place_in_file(address: u64) -> (std::ffi::CString, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let offset = maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = hex(fields.nth(1)?);
        let inside = (hex(start)..hex(end)).contains(&address);
        inside.then(|| address - hex(start) + offset)
    });
    let path = std::env::current_exe().unwrap().into_os_string();
    let path = std::ffi::CString::new(std::os::unix::ffi::OsStringExt::into_vec(path)).unwrap();
    (path, offset.unwrap())
}

#[test]
fn calls_and_returns_are_counted_by_a_probe() {
    needs!(Uprobes);
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").unwrap();
    let kind = EventKind(kind.trim().parse().unwrap());
    let (path, offset) = place_in_file(probed as *const () as u64);
    let calls = Builder::probe(kind, &path, offset);
    let returns = calls.clone().config(1);
    let (calls, returns) = (calls.open().unwrap(), returns.open().unwrap());
    returns.enable().unwrap();
    let (sum, counted) = calls
        .measure(|| (0..9).map(|i| probed(i)).sum::<u64>())
        .unwrap();
    assert_eq!(sum, 45);
    assert_eq!(counted.value, 9);
    assert_eq!(returns.read().unwrap().value, 9);
}

#[test]
fn each_clock_counts_nanoseconds() {
    needs!(PerfEvents);
    for event in [Software::TASK_CLOCK, Software::CPU_CLOCK] {
        let clock = Builder::software(event)
            .exclude_kernel(true)
            .open()
            .unwrap();
        let ((), counted) = clock
            .measure(|| {
                let mut sum = 0_u64;
                for i in 0..100_000_u64 {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
                }
            })
            .unwrap();
        assert!(counted.value > 0, "{counted:?}");
    }
}

#[test]
fn flags_of_the_call_are_handed_on() {
    needs!(PerfEvents);
    let on_exec = |flags| {
        let event = Builder::software(Software::DUMMY).exclude_kernel(true);
        let counter = event.open_flags(flags).open().unwrap();
        let flags = rustix::io::fcntl_getfd(counter.fd().as_fd()).unwrap();
        flags.contains(rustix::io::FdFlags::CLOEXEC)
    };
    assert!(on_exec(OpenFlags::default()));
    assert!(!on_exec(OpenFlags::empty()));
    assert!(on_exec(OpenFlags::CLOEXEC | OpenFlags::OUTPUT));
}

#[test]
fn a_refused_event_says_why() {
    needs!(PerfEvents);
    let error = Builder::software(Software(999))
        .exclude_kernel(true)
        .open()
        .unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("cannot open event `software event 999`"),
        "{said}"
    );
    let error = Builder::software(Software::DUMMY)
        .name("nothing")
        .thread(i32::MAX)
        .open();
    let said = error.unwrap_err().to_string();
    assert!(
        said.contains("`nothing`") && said.contains("ESRCH"),
        "{said}"
    );
}

#[test]
fn an_event_has_an_id_of_its_own() {
    needs!(PerfEvents);
    let open = || {
        Builder::software(Software::DUMMY)
            .exclude_kernel(true)
            .open()
            .unwrap()
    };
    let (a, b) = (open(), open());
    let ids = (a.fd().id().unwrap(), b.fd().id().unwrap());
    assert_ne!(ids.0, ids.1);
    let event = Builder::software(Software::DUMMY).exclude_kernel(true);
    let with_id = event.read_format(ReadFormat::ID).open().unwrap();
    let values = with_id.fd().read().unwrap();
    assert_eq!(values.values[0].id, Some(with_id.fd().id().unwrap()));
}

#[test]
fn every_software_event_opens() {
    needs!(PerfEvents);
    let events = [
        Software::CPU_CLOCK,
        Software::TASK_CLOCK,
        Software::PAGE_FAULTS,
        Software::CONTEXT_SWITCHES,
        Software::CPU_MIGRATIONS,
        Software::PAGE_FAULTS_MIN,
        Software::PAGE_FAULTS_MAJ,
        Software::ALIGNMENT_FAULTS,
        Software::EMULATION_FAULTS,
        Software::DUMMY,
        Software::BPF_OUTPUT,
    ];
    for (number, event) in (0..).zip(events) {
        assert_eq!(event.0, number);
        let counter = Builder::software(event)
            .exclude_kernel(true)
            .open()
            .unwrap();
        counter.measure(|| ()).unwrap();
    }
    match Builder::software(Software::CGROUP_SWITCHES)
        .exclude_kernel(true)
        .open()
    {
        // Before Linux 5.13.
        Err(error) => assert_eq!(error.errno, Errno::NOENT),
        Ok(counter) => assert_eq!(counter.measure(|| ()).unwrap().1.value, 0),
    }
}

#[test]
fn a_pinned_event_that_wants_no_others_counts() {
    needs!(PerfEvents);
    let word = Word::new();
    let writes = word.event().pinned(true).exclusive(true).open().unwrap();
    assert_eq!(writes.measure(|| word.write(5)).unwrap().1.value, 5);
}
