//! Pages that this machine's kernel does not produce.

use super::*;
use proptest::prelude::*;

fn page(words: &[(usize, u64)]) -> ControlPage {
    let mut bytes = vec![0; word::COUNT * 8];
    for (number, value) in words {
        bytes[number * 8..][..8].copy_from_slice(&value.to_ne_bytes());
    }
    ControlPage::from_bytes(&bytes)
}

fn halves(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn width(pmc_width: u16, shift: u16, mult: u32) -> u64 {
    let mut first = [0; 4];
    first[..2].copy_from_slice(&pmc_width.to_ne_bytes());
    first[2..].copy_from_slice(&shift.to_ne_bytes());
    halves(u32::from_ne_bytes(first), mult)
}

const RDPMC: u64 = PageCapabilities::USER_RDPMC.bits();
const TIME: u64 = PageCapabilities::USER_TIME.bits();

#[test]
fn all_fields_are_where_the_kernel_has_them() {
    use perf_event_open_sys::bindings::perf_event_mmap_page as Page;
    use std::mem::offset_of;
    let offsets = [
        (word::VERSION, offset_of!(Page, version)),
        (word::LOCK, offset_of!(Page, lock)),
        (word::OFFSET, offset_of!(Page, offset)),
        (word::TIME_ENABLED, offset_of!(Page, time_enabled)),
        (word::TIME_RUNNING, offset_of!(Page, time_running)),
        (word::WIDTH, offset_of!(Page, pmc_width)),
        (word::TIME_OFFSET, offset_of!(Page, time_offset)),
        (word::TIME_ZERO, offset_of!(Page, time_zero)),
        (word::SIZE, offset_of!(Page, size)),
        (word::TIME_CYCLES, offset_of!(Page, time_cycles)),
        (word::TIME_MASK, offset_of!(Page, time_mask)),
        (word::DATA_HEAD, offset_of!(Page, data_head)),
        (word::DATA_TAIL, offset_of!(Page, data_tail)),
        (word::DATA_OFFSET, offset_of!(Page, data_offset)),
        (word::DATA_SIZE, offset_of!(Page, data_size)),
        (word::AUX_HEAD, offset_of!(Page, aux_head)),
        (word::AUX_TAIL, offset_of!(Page, aux_tail)),
        (word::AUX_OFFSET, offset_of!(Page, aux_offset)),
        (word::AUX_SIZE, offset_of!(Page, aux_size)),
    ];
    for (number, offset) in offsets {
        assert_eq!(number * 8, offset);
    }
    let fields = page(&[
        (word::VERSION, halves(1, 2)),
        (word::LOCK, halves(4, 3)),
        (word::OFFSET, (-5_i64) as u64),
        (word::TIME_ENABLED, 6),
        (word::TIME_RUNNING, 7),
        (word::CAPABILITIES, 0x3e),
        (word::WIDTH, width(48, 31, 9)),
        (word::TIME_OFFSET, 10),
        (word::TIME_ZERO, 11),
        (word::SIZE, halves(12, 0)),
        (word::TIME_CYCLES, 13),
        (word::TIME_MASK, 14),
    ])
    .fields()
    .unwrap();
    let expected = PageFields {
        version: 1,
        compat_version: 2,
        lock: 4,
        index: 3,
        offset: -5,
        time_enabled: 6,
        time_running: 7,
        capabilities: PageCapabilities::from_bits_retain(0x3e),
        pmc_width: 48,
        time: TscConversion {
            shift: 31,
            mult: 9,
            zero: 11,
            cycles: 13,
            mask: 14,
        },
        time_offset: 10,
        size: 12,
    };
    assert_eq!(fields, expected);
    assert_eq!(fields.counter(), Some(2));
    assert_eq!(fields.tsc_conversion(), Some(expected.time));
}

#[test]
fn positions_of_both_areas_are_read() {
    let words: Vec<_> = (0..8)
        .map(|i| (word::DATA_HEAD + i, i as u64 + 1))
        .collect();
    let expected = PagePositions {
        data_head: 1,
        data_tail: 2,
        data_offset: 3,
        data_size: 4,
        aux_head: 5,
        aux_tail: 6,
        aux_offset: 7,
        aux_size: 8,
    };
    assert_eq!(page(&words).positions(), expected);
    assert_eq!(
        ControlPage::from_bytes(&[]).positions(),
        PagePositions::default()
    );
}

#[test]
fn a_counter_is_added_with_its_sign() {
    let fields = page(&[
        (word::LOCK, halves(0, 1)),
        (word::OFFSET, 1000),
        (word::CAPABILITIES, RDPMC),
        (word::WIDTH, width(48, 0, 0)),
    ])
    .fields()
    .unwrap();
    let value = |counter| fields.reading(Some(counter), None).value;
    assert_eq!(value(234), Some(1234));
    // Counters overflow at zero.
    assert_eq!(value((1 << 48) - 100), Some(900));
    assert_eq!(value((1 << 47) - 1), Some(999 + (1 << 47)));
    assert_eq!(fields.reading(None, None).value, None, "it was not read");
    // Not a kernel's page.
    let here = ControlPage::read_here(&page(&[
        (word::LOCK, halves(0, 1)),
        (word::CAPABILITIES, RDPMC),
    ]));
    assert_eq!(here.unwrap().value, None);
}

#[test]
fn an_event_without_a_counter_has_its_last_count() {
    let with = |capabilities| {
        page(&[(word::OFFSET, 77), (word::CAPABILITIES, capabilities)])
            .fields()
            .unwrap()
    };
    assert_eq!(with(RDPMC).reading(None, None).value, Some(77));
    assert_eq!(
        with(0).reading(None, None).value,
        None,
        "a system call is needed"
    );
}

#[test]
fn times_are_brought_up_to_now() {
    let with = |index, capabilities| {
        page(&[
            (word::LOCK, halves(0, index)),
            (word::TIME_ENABLED, 5000),
            (word::TIME_RUNNING, 3000),
            (word::CAPABILITIES, capabilities),
            (word::WIDTH, width(0, 1, 1)),
            (word::TIME_OFFSET, (-100_i64) as u64),
        ])
        .fields()
        .unwrap()
    };
    let times = |fields: PageFields| {
        let reading = fields.reading(None, Some(1000));
        (reading.enabled, reading.running)
    };
    assert_eq!(times(with(1, TIME)), (5400, 3400));
    assert_eq!(times(with(0, TIME)), (5400, 3000), "it does not run");
    assert_eq!(times(with(1, 0)), (5000, 3000), "times of the last change");
}

#[test]
fn a_short_clock_is_extended() {
    let conversion = TscConversion {
        shift: 0,
        mult: 1,
        zero: 0,
        cycles: 0x1_ffff_fff0,
        mask: 0xffff_ffff,
    };
    assert_eq!(conversion.nanoseconds(0x10), Some(0x2_0000_0010));
}

#[test]
fn impossible_conversions_are_none() {
    let never = |shift, mult| TscConversion {
        shift,
        mult,
        ..TscConversion::default()
    };
    assert_eq!(never(64, 1).time(5), None);
    assert_eq!(never(64, 1).tsc(5), None);
    assert_eq!(never(3, 0).tsc(5), None);
    assert_eq!(never(3, 0).time(5), Some(0));
}

#[test]
fn a_page_that_never_stands_still_is_given_up() {
    assert_eq!(page(&[(word::LOCK, halves(1, 0))]).fields(), None);
}

#[test]
fn a_page_is_read_whole_while_it_changes() {
    let page = page(&[]);
    let mapping = &page.mapping;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Like the kernel: odd, change, even.
            let store = |number: usize, value: u64| {
                mapping
                    .word(number)
                    .unwrap()
                    .store(value, Ordering::Relaxed);
            };
            for round in 1..u64::MAX {
                store(word::LOCK, halves(2 * round as u32 - 1, 0));
                fence(Ordering::SeqCst);
                for number in [
                    word::OFFSET,
                    word::TIME_ENABLED,
                    word::TIME_RUNNING,
                    word::TIME_ZERO,
                ] {
                    store(number, round);
                }
                fence(Ordering::SeqCst);
                store(word::LOCK, halves(2 * round as u32, 0));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut read = 0;
        // The writer may be preempted within a change.
        for _ in 0..20_000 {
            let Some(fields) = page.fields() else {
                std::thread::yield_now();
                continue;
            };
            read += 1;
            let all = [fields.time_enabled, fields.time_running, fields.time.zero];
            assert_eq!(all, [fields.offset as u64; 3], "torn after {read}");
        }
        stop.store(true, Ordering::Relaxed);
        assert!(page.fields().is_some() || read > 0);
    });
    let last = page.fields().unwrap();
    assert_eq!(last.lock as u64, (2 * last.offset as u64) & 0xffff_ffff);
}

proptest! {
    /// Times and timestamps convert to each other, to within a tick.
    #[test]
    fn conversions_are_inverse(
        shift in 1_u16..=32,
        mult in 1_u32..,
        zero in any::<u64>(),
        tsc in 0_u64..1 << 55,
    ) {
        let conversion = TscConversion { shift, mult, zero, ..TscConversion::default() };
        let exact = (u128::from(tsc) * u128::from(mult)) >> shift;
        prop_assume!(exact < 1 << 63);
        let elapsed = conversion.nanoseconds(tsc).unwrap();
        prop_assert_eq!(u128::from(elapsed), exact);
        let back = conversion.tsc(conversion.time(tsc).unwrap()).unwrap();
        let ticks = (1_u64 << shift) / u64::from(mult) + 2;
        prop_assert!(back.abs_diff(tsc) <= ticks, "{} and {}", back, tsc);
    }
}
