//! Fields of samples, compared with true values.

use crate::support::{Word, getppid};
use rprof_perf_event::{
    Breakpoint, BreakpointAccess, Builder, CacheOp, CacheResult, Errno, GenericCache, Next, Sampler,
};
use rprof_records::{EventKind, ReadFormat, Record, Sample, SampleType};
use rprof_testing::needs;
use std::time::Duration;

/// Numbers of the stack and instruction pointers (asm/perf_regs.h).
const REGISTERS: [u32; 2] = match cfg!(target_arch = "x86_64") {
    true => [7, 8],
    false => [31, 32],
};

fn register_mask() -> u64 {
    REGISTERS.iter().map(|number| 1_u64 << number).sum()
}

/// Passes the last of `writes` samples to `check`, with its event's id.
fn last_sample(event: &Builder, word: &Word, writes: u64, check: impl FnOnce(u64, Sample<'_>)) {
    let mut sampler = Sampler::open(&event.clone().disabled(false), 64 << 10).unwrap();
    let id = sampler.fd().id().unwrap();
    word.write(writes);
    for _ in 1..writes {
        let next = sampler.next(Some(Duration::ZERO)).unwrap();
        assert!(matches!(next, Next::Record(_)), "{next:?}");
    }
    match sampler.next(Some(Duration::ZERO)).unwrap() {
        Next::Record(next) => match next.record {
            Record::Sample(sample) => check(id, sample),
            other => panic!("no sample: {other:?}"),
        },
        other => panic!("no record: {other:?}"),
    }
}

#[test]
fn samples_have_the_fields_that_were_asked_for() {
    needs!(PerfEvents);
    let word = Word::new();
    let fields = SampleType::IDENTIFIER
        | SampleType::IP
        | SampleType::TID
        | SampleType::ADDR
        | SampleType::READ
        | SampleType::ID
        | SampleType::STREAM_ID
        | SampleType::CPU
        | SampleType::PERIOD;
    let event = word.event().period(1).sample(fields);
    let event = event.read_format(ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED);
    last_sample(&event, &word, 7, |id, sample| {
        assert_eq!((sample.id(), sample.stream_id()), (Some(id), Some(id)));
        assert_eq!(sample.pid(), Some(std::process::id() as i32));
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(sample.tid(), Some(thread));
        assert_eq!(sample.addr(), Some(word.breakpoint().address));
        assert_eq!(sample.period(), Some(1));
        assert!(sample.cpu().is_some() && sample.ip() > Some(0));
        let read = sample.read().unwrap();
        assert_eq!((read.values[0].value, read.values[0].id), (7, Some(id)));
    });
}

#[test]
fn user_registers_and_stack_are_sampled() {
    needs!(PerfEvents);
    let word = Word::new();
    let fields = SampleType::IP | SampleType::REGS_USER | SampleType::STACK_USER;
    let event = word.event().period(1).sample(fields);
    let event = event.user_registers(register_mask()).user_stack(16 << 10);
    let landmark = std::hint::black_box(0x0ddb_a115_ca1a_b1e5_u64.to_ne_bytes());
    last_sample(&event, &word, 1, |_, sample| {
        let registers = sample.regs_user().unwrap();
        assert_eq!(registers.iter().count(), 2);
        assert_eq!(registers.get(REGISTERS[1]), sample.ip());
        let stack = registers.get(REGISTERS[0]).unwrap();
        let bytes = sample.stack_user().unwrap().bytes.to_cow().into_owned();
        let offset = (landmark.as_ptr() as u64).checked_sub(stack).unwrap() as usize;
        assert_eq!(bytes.get(offset..offset + 8), Some(&landmark[..]));
    });
}

#[test]
fn registers_at_the_interrupt_are_sampled() {
    needs!(PerfEvents);
    let word = Word::new();
    let fields = SampleType::IP | SampleType::REGS_INTR;
    let event = word.event().period(1).sample(fields);
    let event = event.interrupt_registers(register_mask());
    last_sample(&event, &word, 1, |_, sample| {
        let registers = sample.regs_intr().unwrap();
        assert_eq!(registers.get(REGISTERS[1]), sample.ip());
    });
}

#[test]
fn pages_of_addresses_are_sampled() {
    needs!(PerfEvents, Kernel);
    let word = Word::new();
    let fields = SampleType::IP
        | SampleType::ADDR
        | SampleType::PHYS_ADDR
        | SampleType::DATA_PAGE_SIZE
        | SampleType::CODE_PAGE_SIZE;
    let event = word.event().period(1).sample(fields);
    last_sample(&event, &word, 3, |_, sample| {
        let address = sample.addr().unwrap();
        let physical = sample.phys_addr().unwrap();
        assert_ne!(physical, 0);
        assert_eq!(physical % 4096, address % 4096);
        for size in [sample.data_page_size(), sample.code_page_size()] {
            let size = size.unwrap();
            assert!(size.is_power_of_two() && size >= 4096, "{size}");
        }
    });
}

/// Markers of the user part (`PERF_CONTEXT_USER`) and the kernel part of a callchain.
const USER: u64 = (-512_i64) as u64;
const KERNEL: u64 = (-128_i64) as u64;

#[test]
fn a_callchain_leaves_out_a_side() {
    needs!(PerfEvents);
    let word = Word::new();
    let event = word.event().period(1).sample(SampleType::CALLCHAIN);
    let marks = |event: &Builder| {
        let mut entries = Vec::new();
        last_sample(event, &word, 1, |_, sample| {
            entries.extend(sample.callchain().unwrap().iter());
        });
        (entries.contains(&KERNEL), entries.contains(&USER))
    };
    assert_eq!(marks(&event), (false, true), "it hits in user mode");
    assert_eq!(marks(&event.exclude_callchain_user(true)), (false, false));
    let Some(calls) = getppid() else { return };
    let kernel = |event: Builder| {
        let mut sampler = Sampler::open(&event.disabled(false), 64 << 10).unwrap();
        crate::support::call_getppid(1);
        match sampler.next(Some(Duration::ZERO)).unwrap() {
            Next::Record(next) => match next.record {
                Record::Sample(sample) => sample
                    .callchain()
                    .unwrap()
                    .iter()
                    .any(|entry| entry == KERNEL),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    let calls = calls.period(1).sample(SampleType::CALLCHAIN);
    assert!(!kernel(calls.exclude_callchain_kernel(true)));
}

#[test]
fn a_callchain_is_as_deep_as_was_asked_for() {
    needs!(PerfEvents);
    let word = Word::new();
    let event = word
        .event()
        .period(1)
        .sample(SampleType::IP | SampleType::CALLCHAIN);
    last_sample(&event.clone().max_stack(1), &word, 1, |_, sample| {
        let entries: Vec<u64> = sample.callchain().unwrap().iter().collect();
        assert_eq!(entries, [USER, sample.ip().unwrap()]);
    });
    let error = event.max_stack(u16::MAX).open().unwrap_err();
    assert_eq!(error.errno, Errno::OVERFLOW);
}

#[test]
fn an_empty_breakpoint_watches_nothing() {
    needs!(PerfEvents);
    let word = Word::new();
    let empty = Breakpoint {
        access: BreakpointAccess::EMPTY,
        ..word.breakpoint()
    };
    match Builder::breakpoint(empty).exclude_kernel(true).open() {
        Err(error) => assert_eq!(error.errno, Errno::INVAL),
        Ok(none) => assert_eq!(none.measure(|| word.write(5)).unwrap().1.value, 0),
    }
}

#[test]
fn events_have_the_numbers_of_the_header() {
    let config = |event: &Builder| (event.attr().kind, event.attr().config);
    let cache = Builder::cache(GenericCache::LL, CacheOp::WRITE, CacheResult::MISS);
    assert_eq!(config(&cache), (EventKind::HW_CACHE, 0x1_0102));
    let cache = Builder::cache(GenericCache::NODE, CacheOp::PREFETCH, CacheResult::ACCESS);
    assert_eq!(config(&cache), (EventKind::HW_CACHE, 0x206));
    assert_eq!(config(&Builder::raw(0x1a8)), (EventKind::RAW, 0x1a8));
    assert_eq!(Builder::raw(0x1a8).event_name(), "r1a8");
    let other = Builder::pmu(EventKind(9), 3);
    assert_eq!(config(&other), (EventKind(9), 3));
}

#[test]
fn an_event_is_opened_by_its_name() {
    needs!(PerfEvents);
    let word = Word::new();
    let name = format!("mem:{:#x}/8:w:u", word.breakpoint().address);
    let writes = Builder::named(&name).unwrap().open().unwrap();
    assert_eq!(writes.measure(|| word.write(19)).unwrap().1.value, 19);
    Builder::named("task-clock:u").unwrap().open().unwrap();
    assert!(Builder::named("no-such-event").is_err());
}
