//! Effects of each record type.

use rprof_processes::{Pid, ProcessMapBuilder, Tid, Timeline};

use crate::map;

const A: Pid = Pid(10);
const B: Pid = Pid(11);

fn main(pid: Pid) -> Tid {
    pid.main_thread()
}

fn fork(b: &mut ProcessMapBuilder, time: u64, child: Pid, parent: Pid) {
    b.handle_fork(time, child, main(child), parent, main(parent));
}

/// Returns "path+offset" at an address, or "".
fn at(t: &Timeline, pid: Pid, time: u64, address: u64) -> String {
    let found = t.resolve(pid, time, address);
    found.map_or(String::new(), |found| {
        let image = t.image(found.image).map(|image| &*image.path);
        let path = String::from_utf8_lossy(image.unwrap_or(b"?")).into_owned();
        format!("{path}+{:#x}", found.offset_in_file)
    })
}

fn comm(t: &Timeline, pid: Pid, tid: Tid, time: u64) -> Option<String> {
    t.comm(pid, tid, time)
        .map(|name| String::from_utf8_lossy(name).into_owned())
}

#[test]
fn a_mapping_holds_from_its_own_time_on() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(5, A, &map("/a", 0x1000, 0x1000));
    let t = b.finish();
    assert_eq!(at(&t, A, 4, 0x1000), "");
    assert_eq!(at(&t, A, 5, 0x1000), "/a+0x100");
    assert_eq!(at(&t, A, 9, 0x1fff), "/a+0x10ff");
    assert_eq!(at(&t, A, 9, 0x2000), "");
    assert_eq!(at(&t, A, 9, 0xfff), "");
    assert_eq!(at(&t, B, 9, 0x1000), "");
}

#[test]
fn a_replaced_mapping_lives_on_outside_and_before() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(1, A, &map("/a", 0x1000, 0x3000));
    b.handle_mmap(5, A, &map("/b", 0x2000, 0x1000));
    let t = b.finish();
    assert_eq!(at(&t, A, 4, 0x2000), "/a+0x1100");
    assert_eq!(at(&t, A, 5, 0x1fff), "/a+0x10ff");
    assert_eq!(at(&t, A, 5, 0x2000), "/b+0x100");
    assert_eq!(at(&t, A, 5, 0x3000), "/a+0x2100");
    let space = t.space(A, 5).into_iter().next();
    let starts = |time| {
        let view = space.map(|space| t.view(space, time));
        view.map(|view| view.mappings().map(|m| m.start).collect::<Vec<_>>())
    };
    assert_eq!(starts(0), Some(vec![]));
    assert_eq!(starts(4), Some(vec![0x1000]));
    assert_eq!(starts(5), Some(vec![0x1000, 0x2000, 0x3000]));
}

#[test]
fn of_equal_times_the_later_fed_wins() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(0, A, &map("/a", 0x1000, 0x1000));
    b.handle_mmap(0, A, &map("/b", 0x1000, 0x1000));
    let t = b.finish();
    assert_eq!(at(&t, A, 0, 0x1000), "/b+0x100");
    // One per space, including the kernel's.
    assert_eq!(t.stats().versions, 2);
}

#[test]
fn a_late_mapping_fills_only_what_was_free() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(10, A, &map("/real", 0x2000, 0x1000));
    b.handle_mmap(3, A, &map("/listed", 0x1000, 0x3000));
    let t = b.finish();
    assert_eq!(at(&t, A, 3, 0x1000), "/listed+0x100");
    assert_eq!(at(&t, A, 3, 0x2000), "");
    assert_eq!(at(&t, A, 10, 0x2000), "/real+0x100");
    assert_eq!(at(&t, A, 10, 0x3000), "/listed+0x2100");
}

#[test]
fn a_child_has_what_its_parent_had_at_the_fork() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(1, A, &map("/a", 0x1000, 0x1000));
    fork(&mut b, 5, B, A);
    b.handle_mmap(6, A, &map("/later", 0x5000, 0x1000));
    b.handle_mmap(7, B, &map("/own", 0x1000, 0x800));
    let t = b.finish();
    assert_eq!(at(&t, B, 4, 0x1000), "");
    assert_eq!(at(&t, B, 5, 0x1000), "/a+0x100");
    assert_eq!(at(&t, B, 9, 0x5000), "");
    assert_eq!(at(&t, B, 9, 0x1000), "/own+0x100");
    assert_eq!(at(&t, B, 9, 0x1800), "/a+0x900");
    assert_eq!(at(&t, A, 9, 0x1000), "/a+0x100");
}

#[test]
fn a_forked_child_shares_the_state_until_it_maps() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(1, A, &map("/a", 0x1000, 0x1000));
    fork(&mut b, 5, B, A);
    fork(&mut b, 6, Pid(12), B);
    b.handle_mmap(8, B, &map("/b", 0x1000, 0x1000));
    let t = b.finish();
    let state = |pid, time| t.space(pid, time).map(|space| t.state(space, time));
    assert!(state(A, 5).is_some());
    assert_eq!(state(A, 5), state(B, 5));
    assert_eq!(state(A, 5), state(Pid(12), 9));
    assert_ne!(state(A, 9), state(B, 9));
}

#[test]
fn exec_starts_an_empty_space_and_renames() {
    let mut b = ProcessMapBuilder::new();
    b.handle_rename(0, A, main(A), b"sh");
    b.handle_mmap(0, A, &map("/bin/sh", 0x1000, 0x1000));
    fork(&mut b, 5, B, A);
    b.handle_exec(6, B, main(B), b"ls");
    b.handle_mmap(7, B, &map("/bin/ls", 0x2000, 0x1000));
    let t = b.finish();
    assert_eq!(comm(&t, B, main(B), 5).as_deref(), Some("sh"));
    assert_eq!(comm(&t, B, main(B), 6).as_deref(), Some("ls"));
    assert_eq!(comm(&t, A, main(A), 6).as_deref(), Some("sh"));
    assert_eq!(at(&t, B, 5, 0x1000), "/bin/sh+0x100");
    assert_eq!(at(&t, B, 6, 0x1000), "");
    assert_eq!(at(&t, B, 7, 0x2000), "/bin/ls+0x100");
    let child = t.process(B, 7).map(|p| (p.parent, p.start, p.last_comm));
    assert_eq!(child, Some((Some(A), 5, t.comm_id(B, main(B), 7))));
    assert_eq!(t.process(B, 7).map(|p| p.spaces().len()), Some(2));
}

#[test]
fn threads_share_mappings_and_inherit_names() {
    let mut b = ProcessMapBuilder::new();
    b.handle_rename(0, A, main(A), b"app");
    b.handle_fork(3, A, Tid(100), A, main(A));
    b.handle_rename(4, A, Tid(100), b"worker");
    b.handle_fork(5, A, Tid(101), A, Tid(100));
    b.handle_exit(7, A, Tid(100));
    b.handle_fork(9, A, Tid(100), A, main(A));
    let t = b.finish();
    assert_eq!(t.processes().len(), 1);
    let name = |tid, time| comm(&t, A, Tid(tid), time);
    assert_eq!(name(100, 3).as_deref(), Some("app"));
    assert_eq!(name(100, 4).as_deref(), Some("worker"));
    assert_eq!(name(101, 5).as_deref(), Some("worker"));
    // An ended thread resolves until its id is reused.
    assert_eq!(name(100, 8).as_deref(), Some("worker"));
    assert_eq!(name(100, 9).as_deref(), Some("app"));
    // A thread without a fork record.
    assert_eq!(name(999, 9).as_deref(), Some("app"));
    let lives = t.threads().iter().filter(|thread| thread.tid == Tid(100));
    let lives: Vec<_> = lives.map(|thread| (thread.start, thread.exit)).collect();
    assert_eq!(lives, [(3, Some(7)), (9, None)]);
}

#[test]
fn names_need_no_order() {
    let mut b = ProcessMapBuilder::new();
    b.handle_rename(5, A, main(A), b"new");
    b.handle_rename(2, A, main(A), b"old");
    fork(&mut b, 6, B, A);
    let t = b.finish();
    assert_eq!(comm(&t, A, main(A), 1), None);
    assert_eq!(comm(&t, A, main(A), 4).as_deref(), Some("old"));
    assert_eq!(comm(&t, A, main(A), 5).as_deref(), Some("new"));
    assert_eq!(comm(&t, B, main(B), 6).as_deref(), Some("new"));
}

#[test]
fn an_ended_process_resolves_until_its_id_is_used_again() {
    let mut b = ProcessMapBuilder::new();
    b.handle_rename(0, A, main(A), b"sh");
    fork(&mut b, 1, B, A);
    b.handle_mmap(2, B, &map("/a", 0x1000, 0x1000));
    b.handle_exit(3, B, main(B));
    fork(&mut b, 8, B, A);
    b.handle_mmap(9, B, &map("/b", 0x1000, 0x1000));
    let t = b.finish();
    assert_eq!(at(&t, B, 3, 0x1000), "/a+0x100");
    assert_eq!(at(&t, B, 7, 0x1000), "/a+0x100");
    assert_eq!(at(&t, B, 8, 0x1000), "");
    assert_eq!(at(&t, B, 9, 0x1000), "/b+0x100");
    let lives = t.processes().iter().filter(|process| process.pid == B);
    let lives: Vec<_> = lives.map(|process| (process.start, process.exit)).collect();
    assert_eq!(lives, [(1, Some(3)), (8, None)]);
}

#[test]
fn a_process_ends_with_its_last_thread() {
    let mut b = ProcessMapBuilder::new();
    b.handle_fork(1, A, Tid(100), A, main(A));
    b.handle_exit(2, A, main(A));
    b.handle_exit(5, A, Tid(100));
    // Only its end was recorded.
    b.handle_exit(6, B, main(B));
    let t = b.finish();
    assert_eq!(t.process(A, 9).and_then(|p| p.exit), Some(5));
    assert_eq!(
        t.process(B, 9).map(|p| (p.start, p.exit)),
        Some((0, Some(6)))
    );
}

#[test]
fn what_was_found_running_inherits_nothing() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(0, A, &map("/sh", 0x1000, 0x1000));
    b.handle_found(B, main(B), A);
    b.handle_rename(0, B, main(B), b"app");
    b.handle_mmap(0, B, &map("/app", 0x2000, 0x1000));
    b.handle_found(B, Tid(200), B);
    b.handle_found(B, main(B), A);
    let t = b.finish();
    assert_eq!(at(&t, B, 0, 0x1000), "");
    assert_eq!(at(&t, B, 0, 0x2000), "/app+0x100");
    assert_eq!(t.process(B, 0).and_then(|p| p.parent), Some(A));
    assert!(t.thread(B, Tid(200), 0).is_some());
}

#[test]
fn a_late_fork_does_not_undo_what_is_known() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(0, A, &map("/sh", 0x1000, 0x1000));
    b.handle_mmap(6, B, &map("/app", 0x2000, 0x1000));
    fork(&mut b, 5, B, A);
    let t = b.finish();
    assert_eq!(at(&t, B, 6, 0x2000), "/app+0x100");
    assert_eq!(t.process(B, 6).and_then(|p| p.parent), Some(A));
}

#[test]
fn a_late_exec_keeps_the_new_mappings() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(6, A, &map("/app", 0x2000, 0x1000));
    b.handle_exec(5, A, main(A), b"app");
    let t = b.finish();
    assert_eq!(at(&t, A, 6, 0x2000), "/app+0x100");
    assert_eq!(comm(&t, A, main(A), 5).as_deref(), Some("app"));
}

#[test]
fn the_kernel_is_one_for_all() {
    let mut b = ProcessMapBuilder::new();
    let text = 0xffff_ffff_8000_0000;
    let mut kernel = map("[kernel.kallsyms]_text", text, 0x1000);
    kernel.file_offset = text;
    b.handle_kernel_mmap(0, &kernel);
    b.handle_kernel_mmap(5, &map("[xfs]", text + 0x2000, 0x1000));
    let t = b.finish();
    let found = t.resolve_kernel(9, text + 7).map(|r| r.offset_in_file);
    assert_eq!(found, Some(text + 7));
    assert!(t.resolve_kernel(4, text + 0x2000).is_none());
    assert!(t.resolve_kernel(5, text + 0x2000).is_some());
}

#[test]
fn the_same_mapping_again_changes_nothing() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(1, A, &map("/a", 0x1000, 0x1000));
    b.handle_mmap(2, A, &map("/a", 0x1000, 0x1000));
    let t = b.finish();
    let states = [1, 2].map(|time| t.space(A, time).map(|space| t.state(space, time)));
    assert!(states[0].is_some() && states[0] == states[1]);
    assert_eq!((t.stats().nodes, t.stats().versions), (1, 2));
}

#[test]
fn epochs_count_changes() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(1, A, &map("/a", 0x1000, 0x1000));
    b.handle_mmap(3, A, &map("/b", 0x3000, 0x1000));
    b.handle_mmap(3, A, &map("/c", 0x1000, 0x1000));
    let t = b.finish();
    let epochs = [0, 1, 2, 3, 4].map(|time| t.space(A, time).map(|s| t.epoch(s, time)));
    assert_eq!(epochs, [Some(0), Some(1), Some(1), Some(3), Some(3)]);
}

#[test]
fn the_ends_of_the_address_space() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(0, A, &map("/none", 0x1000, 0));
    b.handle_mmap(0, A, &map("/all", 0, u64::MAX));
    b.handle_mmap(0, A, &map("/over", u64::MAX - 1, u64::MAX));
    b.handle_mmap(0, A, &map("/empty", u64::MAX, 5));
    let t = b.finish();
    assert_eq!(at(&t, A, 0, 0), "/all+0x100");
    assert_eq!(at(&t, A, 0, u64::MAX - 1), "/over+0x100");
    assert_eq!(at(&t, A, 0, u64::MAX), "");
}

#[test]
fn a_timeline_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Timeline>();
}
