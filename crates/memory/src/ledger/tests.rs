// A list of one range is meant.
#![allow(clippy::single_range_in_vec_init)]

use super::*;

const PAGE: u64 = 4096;

fn ledger() -> Ledger {
    Ledger::new(PAGE)
}

fn look(pid: i32, regions: Vec<Region>) -> Look {
    Look {
        pid,
        regions,
        ..Look::default()
    }
}

fn region(pages: Range<u64>, name: &str) -> Region {
    Region::new(pages.start * PAGE..pages.end * PAGE, name.as_bytes())
}

/// Returns process, owner, kind and pages of each share.
fn text(ledger: &Ledger, shares: &[Share]) -> Vec<String> {
    let text = |share: &Share| {
        let kind = String::from_utf8_lossy(ledger.kind_name(share.kind)).into_owned();
        let owner = match share.owner {
            Owner::Fault(StackNumber(stack)) => stack.to_string(),
            owner => format!("{owner:?}"),
        };
        format!("{} {owner} {kind} {}", share.pid, share.pages)
    };
    shares.iter().map(text).collect()
}

#[test]
fn the_last_fault_owns_a_page_until_a_look_finds_it_absent() {
    let mut ledger = ledger();
    ledger.map(7, 0..100 * PAGE, b"[heap]");
    for page in 0..10 {
        ledger.fault(7, page * PAGE + 5, StackNumber(1));
    }
    ledger.fault(7, 9 * PAGE, StackNumber(2));
    assert_eq!(
        text(&ledger, &ledger.live()),
        ["7 1 [heap] 9", "7 2 [heap] 1"]
    );
    let seen = region(0..100, "[heap]").with_present(vec![0..4, 9..10]);
    ledger.look(&look(7, vec![seen]), Owner::Unseen);
    assert_eq!(
        text(&ledger, &ledger.live()),
        ["7 1 [heap] 4", "7 2 [heap] 1"]
    );
    assert_eq!(
        text(&ledger, &ledger.touched()),
        ["7 1 [heap] 10", "7 2 [heap] 1"]
    );
    ledger.fault(7, 5 * PAGE, StackNumber(3));
    assert_eq!(ledger.resident(), 6);
    assert_eq!(
        ledger
            .touched()
            .iter()
            .map(|share| share.pages)
            .sum::<u64>(),
        12
    );
}

#[test]
fn a_look_names_the_kind_of_earlier_faults() {
    let mut ledger = ledger();
    ledger.fault(7, 3 * PAGE, StackNumber(1));
    assert_eq!(text(&ledger, &ledger.live()), ["7 1 [anon] 1"]);
    let seen = region(0..8, "/lib/a.so").with_present(vec![3..4]);
    ledger.look(&look(7, vec![seen]), Owner::Unseen);
    assert_eq!(text(&ledger, &ledger.live()), ["7 1 /lib/a.so 1"]);
    assert_eq!(text(&ledger, &ledger.touched()), ["7 1 /lib/a.so 1"]);
}

#[test]
fn pages_without_a_fault_take_their_window_and_others_have_no_owner() {
    let mut ledger = ledger();
    ledger.fault(7, 18 * PAGE, StackNumber(1));
    ledger.fault(7, 1030 * PAGE, StackNumber(2));
    let file = region(0..64, "/lib/a.so")
        .with_present(vec![16..33])
        .with_window(16);
    let huge = region(1024..2048, "")
        .with_present(vec![1024..1540])
        .with_window(512);
    ledger.look(&look(7, vec![file, huge]), Owner::Unseen);
    assert_eq!(
        text(&ledger, &ledger.live()),
        [
            "7 1 /lib/a.so 16",
            "7 2 [anon] 512",
            "7 Unseen [anon] 4",
            "7 Unseen /lib/a.so 1"
        ]
    );
    assert_eq!(ledger.resident_of(7), [528, 0, 5]);
}

#[test]
fn faults_on_read_only_files_after_the_last_look_have_neighbours() {
    let mut ledger = ledger();
    ledger.map_read_only_file(7, 8 * PAGE..40 * PAGE, b"/lib/a.so");
    ledger.map(7, 40 * PAGE..80 * PAGE, b"/lib/a.so");
    ledger.fault(7, 10 * PAGE, StackNumber(1));
    let seen = Region {
        is_read_only_file: true,
        ..region(8..40, "/lib/a.so").with_present(vec![10..12])
    };
    let writable = region(40..80, "/lib/a.so");
    ledger.look(&look(7, vec![seen, writable]), Owner::Unseen);
    // The mapping begins and ends within a window; written files have no neighbours.
    for page in [9, 36, 50] {
        ledger.fault(7, page * PAGE, StackNumber(2));
    }
    assert_eq!(ledger.resident(), 5);
    ledger.add_neighbours(7);
    // Pages 8 to 15, and 32 to 39.
    assert_eq!(
        text(&ledger, &ledger.live()),
        [
            "7 1 /lib/a.so 1",
            "7 2 /lib/a.so 15",
            "7 Unseen /lib/a.so 1"
        ]
    );
    ledger.add_neighbours(7);
    assert_eq!(ledger.resident(), 17);
    // A file that was unmapped has none.
    ledger.fault(7, 20 * PAGE, StackNumber(3));
    ledger.release(7, 8..40);
    ledger.add_neighbours(7);
    assert_eq!(ledger.resident(), 1);
}

#[test]
fn a_child_inherits_owners_and_its_copies_take_over() {
    let mut ledger = ledger();
    for page in 0..10 {
        ledger.fault(7, page * PAGE, StackNumber(1));
    }
    ledger.fork(7, 8);
    ledger.fault(8, 0, StackNumber(2));
    assert_eq!(
        text(&ledger, &ledger.live()),
        ["7 1 [anon] 10", "8 1 [anon] 9", "8 2 [anon] 1"]
    );
    assert_eq!(
        text(&ledger, &ledger.touched()),
        ["7 1 [anon] 10", "8 2 [anon] 1"]
    );
    ledger.end(8);
    assert_eq!(ledger.resident(), 10);
    assert_eq!(
        text(&ledger, &ledger.touched()),
        ["7 1 [anon] 10", "8 2 [anon] 1"]
    );
}

#[test]
fn the_first_look_finds_memory_from_before_and_unknown_regions_keep_owners() {
    let mut ledger = ledger();
    ledger.fault(7, 5 * PAGE, StackNumber(1));
    ledger.fault(7, 1000 * PAGE, StackNumber(1));
    let sparse = Region {
        present: None,
        ..region(512..1 << 30, "[shadow]")
    };
    let heap = region(0..10, "[heap]").with_present(vec![4..8]);
    ledger.look(&look(7, vec![heap, sparse]), Owner::Before);
    assert_eq!(
        text(&ledger, &ledger.live()),
        ["7 1 [heap] 1", "7 1 [shadow] 1", "7 Before [heap] 3"]
    );
}

#[test]
fn a_huge_page_that_faults_during_a_look_gets_its_owner_at_the_next() {
    let mut ledger = ledger();
    let huge = region(512..1024, "").with_present(vec![512..1024]);
    let seen = look(7, vec![huge.with_window(512)]);
    ledger.look(&seen, Owner::Unseen);
    ledger.fault(7, 700 * PAGE, StackNumber(1));
    assert_eq!(ledger.resident_of(7), [1, 0, 511]);
    ledger.look(&seen, Owner::Unseen);
    assert_eq!(ledger.resident_of(7), [512, 0, 0]);
    assert_eq!(ledger.resident(), 512);
}

#[test]
fn a_page_that_faults_during_a_look_has_one_owner() {
    let mut ledger = ledger();
    let both = look(1, vec![region(16..32, "").with_present(vec![16..18])]);
    let later = FxHashSet::from_iter([17]);
    ledger.fault(1, 16 << 12, StackNumber(1));
    ledger.look(&Look { later, ..both }, Owner::Unseen);
    assert_eq!(ledger.resident(), 1);
    ledger.fault(1, 17 << 12, StackNumber(2));
    let expected = ["1 1 [anon] 1", "1 2 [anon] 1"];
    assert_eq!(text(&ledger, &ledger.live()), expected);
    assert_eq!(text(&ledger, &ledger.touched()), expected);
}

/// The kernel fills a huge page with zeros before it is in the page table.
#[test]
fn a_huge_page_whose_fault_has_not_ended_keeps_its_owner() {
    let mut ledger = ledger();
    ledger.fault(7, 600 * PAGE, StackNumber(1));
    let huge = |present| region(512..1024, "").with_present(present).with_window(512);
    let absent = look(7, vec![huge(vec![])]);
    let unfinished = FxHashSet::from_iter([600]);
    let first = Look {
        unfinished,
        ..absent.clone()
    };
    ledger.look(&first, Owner::Unseen);
    ledger.look(&look(7, vec![huge(vec![512..1024])]), Owner::Unseen);
    assert_eq!(ledger.resident_of(7), [512, 0, 0]);
    ledger.look(&absent, Owner::Unseen);
    assert_eq!(ledger.resident(), 0);
}

#[test]
fn released_pages_have_no_owner_and_moved_ones_keep_theirs() {
    let mut ledger = ledger();
    ledger.map(7, 0..100 * PAGE, b"");
    for page in 0..10 {
        ledger.fault(7, page * PAGE, StackNumber(page as u32 / 5));
    }
    ledger.release(7, 3..5);
    ledger.release(7, 3..4);
    ledger.release(8, 0..100);
    assert_eq!(ledger.resident(), 8);
    // The pages at the new place are gone.
    ledger.move_pages(7, 5..8, 2);
    assert_eq!(
        text(&ledger, &ledger.live()),
        ["7 0 [anon] 2", "7 1 [anon] 5"]
    );
    let seen = region(0..100, "").with_present(vec![0..5, 8..10]);
    ledger.look(&look(7, vec![seen]), Owner::Unseen);
    assert_eq!(
        text(&ledger, &ledger.live()),
        ["7 0 [anon] 2", "7 1 [anon] 5"]
    );
    ledger.move_pages(7, 0..u64::MAX, u64::MAX);
    ledger.release(7, Range { start: 9, end: 0 });
    assert_eq!(ledger.resident(), 7);
}

#[test]
fn a_look_does_not_bring_back_pages_of_a_release_that_has_not_ended() {
    let mut ledger = ledger();
    ledger.map(7, 0..100 * PAGE, b"");
    ledger.fault(7, PAGE, StackNumber(1));
    ledger.fault(7, 2 * PAGE, StackNumber(1));
    ledger.release(7, 2..50);
    let seen = || region(0..100, "").with_present(vec![1..4]);
    let early = Look {
        releasing: vec![2..50],
        ..look(7, vec![seen()])
    };
    ledger.look(&early, Owner::Unseen);
    assert_eq!(ledger.resident(), 1);
    ledger.look(&look(7, vec![seen()]), Owner::Unseen);
    assert_eq!(ledger.resident(), 3);
}

#[test]
fn pages_that_are_released_during_a_look_have_an_owner_until_the_release() {
    let mut ledger = ledger();
    ledger.map(7, 0..100 * PAGE, b"");
    for page in 0..4 {
        ledger.fault(7, page * PAGE, StackNumber(1));
    }
    let during = Look {
        released: vec![0..1, 2..50],
        ..look(7, vec![region(0..1, "").with_present(vec![0..1])])
    };
    ledger.look(&during, Owner::Unseen);
    assert_eq!(text(&ledger, &ledger.live()), ["7 1 [anon] 3"]);
    ledger.release(7, 2..50);
    assert_eq!(ledger.resident(), 1);
}

#[test]
fn one_fault_owns_all_of_a_huge_page() {
    let mut ledger = ledger();
    ledger.map(7, 0..2000 * PAGE, b"");
    ledger.fault(7, 1000 * PAGE, StackNumber(1));
    ledger.huge_fault(7, 1000 * PAGE, 512);
    ledger.huge_fault(7, 1100 * PAGE, 500);
    ledger.huge_fault(7, 100 * PAGE, 512);
    assert_eq!(text(&ledger, &ledger.live()), ["7 1 [anon] 512"]);
    assert_eq!(text(&ledger, &ledger.touched()), ["7 1 [anon] 512"]);
    ledger.release(7, 512..1024);
    assert_eq!(ledger.resident(), 0);
}
