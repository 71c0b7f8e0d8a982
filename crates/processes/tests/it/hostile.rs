//! Hostile input: processing must end, and memory must be bounded.

use rprof_processes::{NewMapping, Pid, ProcessMapBuilder, Stats, Tid};

use crate::map;

const OPS: u64 = 100_000;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Allows a few paths in a tree of all pieces for each operation.
fn assert_bounded(stats: &Stats, ops: u64) {
    let height = 1.45 * (2.0 * ops as f64).log2();
    let bound = ops as f64 * (4.0 * height + 8.0);
    assert!((stats.nodes as f64) < bound, "{stats:?}, bound {bound}");
    assert!(
        stats.versions as u64 <= stats.spaces as u64 + ops,
        "{stats:?}"
    );
    assert!(stats.spaces as u64 <= ops + 2, "{stats:?}");
    assert!(stats.threads as u64 <= 2 * ops + 2, "{stats:?}");
    assert_eq!(stats.dropped, 0);
}

#[test]
fn anything_at_all() {
    let mut random = Random(1);
    let mut b = ProcessMapBuilder::new();
    let edges = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, 4096, 1 << 21];
    for i in 0..OPS {
        let time = match random.below(20) {
            0 => random.below(i + 1),
            1 => 0,
            2 if i > OPS / 2 && random.below(100) == 0 => u64::MAX,
            _ => i,
        };
        let pid = random.below(40) as i32 - 2;
        let other = random.below(40) as i32 - 2;
        let tid = Tid(if random.below(2) == 0 { pid } else { other });
        let mut pick = || match random.below(4) {
            0 => edges[random.below(edges.len() as u64) as usize],
            _ => random.below(1 << 16) << 12,
        };
        let path = ["/a", "//anon", "[heap]", "/memfd:x (deleted)"][(i % 4) as usize];
        let new = NewMapping {
            file_offset: pick(),
            ..map(path, pick(), pick())
        };
        match random.below(10) {
            0 => b.handle_fork(time, Pid(pid), tid, Pid(other), Tid(other)),
            1 => b.handle_exit(time, Pid(pid), tid),
            2 if random.below(4) == 0 => b.handle_exec(time, Pid(pid), tid, b"x"),
            2 => b.handle_rename(time, Pid(pid), tid, b"x"),
            3 => b.handle_found(Pid(pid), tid, Pid(other)),
            4 => b.handle_kernel_mmap(time, &new),
            _ => b.handle_mmap(time, Pid(pid), &new),
        }
    }
    let t = b.finish();
    assert_bounded(&t.stats(), OPS);
    for i in 0..OPS {
        let pid = Pid(random.below(42) as i32 - 3);
        let address = random.below(1 << 30);
        t.resolve(pid, i, address);
        t.resolve_kernel(i, address);
        t.comm(pid, Tid(pid.0), i);
    }
}

#[test]
fn nested_mappings() {
    let mut b = ProcessMapBuilder::new();
    for i in 0..OPS {
        b.handle_mmap(i, Pid(1), &map("/a", i, 4 * OPS - 2 * i));
    }
    for i in OPS..2 * OPS {
        let path = ["/b", "/c"][(i % 2) as usize];
        b.handle_mmap(i, Pid(1), &map(path, 0, u64::MAX));
    }
    let t = b.finish();
    assert_bounded(&t.stats(), 2 * OPS);
    let found = t.resolve(Pid(1), OPS - 1, 2 * OPS).map(|r| r.since);
    assert_eq!(found, Some(OPS - 1));
}

#[test]
fn late_mappings_of_everything() {
    let mut b = ProcessMapBuilder::new();
    for i in 0..OPS {
        b.handle_mmap(OPS, Pid(1), &map("/a", i * 4, 2));
    }
    for i in 0..OPS {
        b.handle_mmap(i, Pid(1), &map("/b", 0, u64::MAX));
    }
    // Each fills some gaps, in at most 64 steps.
    let stats = b.finish().stats();
    assert!(stats.nodes as u64 <= OPS + 64 * OPS, "{stats:?}");
}

#[test]
fn a_chain_of_forks() {
    let mut b = ProcessMapBuilder::new();
    for i in 0..1_000 {
        b.handle_mmap(0, Pid(0), &map("/a", i * 16, 16));
    }
    let n = 20_000_i32;
    for i in 1..=n {
        let (time, pid) = (u64::from(i.unsigned_abs()), Pid(i));
        b.handle_fork(time, pid, Tid(i), Pid(i - 1), Tid(i - 1));
        // Each generation changes something, so that no space is a mere copy.
        let path = ["/b", "/c"][usize::from(i > 16_000)];
        b.handle_mmap(time, pid, &map(path, time % 16_000, 1));
    }
    let t = b.finish();
    assert_bounded(&t.stats(), 2 * u64::from(n.unsigned_abs()) + 1_000);
    let last = t.resolve(Pid(n), u64::MAX, 1).map(|r| r.since);
    assert_eq!(last, Some(16_001));
}

#[test]
fn fork_cycles() {
    let mut b = ProcessMapBuilder::new();
    b.handle_mmap(0, Pid(1), &map("/a", 0x1000, 0x1000));
    for i in 0..OPS {
        let (child, parent) = if i % 2 == 0 { (2, 1) } else { (1, 2) };
        b.handle_fork(i, Pid(child), Tid(child), Pid(parent), Tid(parent));
        b.handle_fork(i, Pid(child), Tid(child), Pid(child), Tid(child));
    }
    let t = b.finish();
    assert_eq!(t.stats().nodes, 1);
    assert!(t.resolve(Pid(1), OPS, 0x1000).is_some());
}

#[test]
fn many_children_that_exec() {
    let paths: Vec<_> = (0..50).map(|i| format!("/usr/lib/lib{i}.so")).collect();
    let mut b = ProcessMapBuilder::new();
    let n = 20_000_i32;
    for i in 1..=n {
        let time = u64::from(i.unsigned_abs()) * 100;
        b.handle_fork(time, Pid(i), Tid(i), Pid(0), Tid(0));
        b.handle_exec(time + 1, Pid(i), Tid(i), b"cc1");
        for (at, path) in (0..).zip(&paths) {
            b.handle_mmap(time + 2 + at, Pid(i), &map(path, at << 24, 1 << 20));
        }
        b.handle_exit(time + 99, Pid(i), Tid(i));
    }
    let stats = b.finish().stats();
    // Only one node per mapping.
    assert_eq!(stats.nodes, 50 * 20_000);
    assert_eq!(stats.images, 50);
    assert_eq!(stats.names, 1);
    assert_eq!(stats.versions, stats.spaces);
}
