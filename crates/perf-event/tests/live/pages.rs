//! Control pages of this kernel.

use crate::support::Word;
use rprof_perf_event::{Builder, ControlPage, Hardware, PageCapabilities, Ring, Software};
use rprof_records::SampleType;
use rprof_testing::{inapplicable, needs};
use std::os::fd::AsFd;

#[test]
fn a_page_tells_of_its_ring() {
    needs!(PerfEvents);
    let word = Word::new();
    let event = word
        .event()
        .period(1)
        .sample(SampleType::ADDR)
        .disabled(false);
    let fd = event.open_fd(None).unwrap();
    let ring = Ring::map(fd.as_fd(), 8192).unwrap();
    word.write(7);
    let positions = ring.control_page().positions();
    assert_eq!((positions.data_head, positions.data_tail), (7 * 16, 0));
    assert_eq!((positions.data_offset, positions.data_size), (4096, 8192));
}

#[test]
fn a_page_alone_has_the_times() {
    needs!(PerfEvents);
    let clock = Builder::software(Software::TASK_CLOCK).exclude_kernel(true);
    let clock = clock.open().unwrap();
    let page = ControlPage::map(clock.fd().as_fd()).unwrap();
    let fields = page.fields().unwrap();
    assert!(
        fields
            .capabilities
            .contains(PageCapabilities::BIT_0_IS_DEPRECATED)
    );
    assert!(!fields.capabilities.contains(PageCapabilities::BIT_0));
    assert_eq!(fields.index, 0, "it is on no hardware counter");
    assert_eq!(fields.time_enabled, 0);
    assert_eq!(page.positions().data_size, 0);
    clock.enable().unwrap();
    clock.disable().unwrap();
    let reading = clock.read().unwrap();
    let enabled = page.fields().unwrap().time_enabled;
    assert!(
        enabled <= reading.enabled.unwrap(),
        "{enabled} of {reading:?}"
    );
    let here = page.read_here().unwrap();
    assert_eq!(here.value, None, "software events need a system call");
}

#[test]
fn timestamps_become_times_of_records() {
    needs!(PerfEvents);
    let word = Word::new();
    let event = word
        .event()
        .period(1)
        .sample(SampleType::TIME)
        .disabled(false);
    let fd = event.open_fd(None).unwrap();
    let mut ring = Ring::map(fd.as_fd(), 4096).unwrap();
    let Some(conversion) = ring.control_page().fields().unwrap().tsc_conversion() else {
        return inapplicable("needs cap_user_time_zero, which virtual machines hide");
    };
    let now = || {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction.
        return unsafe { std::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        return 0;
    };
    let before = conversion.time(now()).unwrap();
    word.write(1);
    let after = conversion.time(now()).unwrap();
    let mut record = Vec::new();
    ring.drain_into(&mut record, 4096);
    let time = u64::from_ne_bytes(record[8..16].try_into().unwrap());
    // The kernel's own clocks may deviate a little.
    let (before, after) = (before.saturating_sub(1_000_000), after + 1_000_000);
    assert!((before..=after).contains(&time), "{before} {time} {after}");
    let back = conversion.tsc(time).unwrap();
    assert!(conversion.time(back).unwrap().abs_diff(time) <= 2);
}

#[test]
fn a_hardware_counter_is_read_without_a_system_call() {
    needs!(PerfEvents);
    let event = Builder::hardware(Hardware::INSTRUCTIONS).exclude_kernel(true);
    let Ok(counter) = event.open() else {
        return inapplicable("needs hardware counters, which virtual machines hide");
    };
    let page = ControlPage::map(counter.fd().as_fd()).unwrap();
    counter.enable().unwrap();
    let before = counter.read().unwrap().value;
    let here = page.read_here().unwrap().value;
    let after = counter.read().unwrap().value;
    match here {
        Some(here) => assert!((before..=after).contains(&here), "{before} {here} {after}"),
        None => inapplicable("needs cap_user_rdpmc (/sys/bus/event_source/devices/cpu/rdpmc)"),
    }
}
