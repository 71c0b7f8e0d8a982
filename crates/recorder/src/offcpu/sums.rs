//! [`Sums`]: sums of short waits with the same stack.
//!
//! A wait of a microsecond is not worth a record, but a million of them are. So short waits with
//! the same thread, stack, cause and waker are summed up to a limit, and then written as one
//! record. Long waits are written at once. For each stack, the written sum is exact.
//!
//! Readers name addresses by the mappings at the time of the record. So a sum is written before a
//! new mapping takes the place of its code.

use rprof_records::WaitEnd;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::wait::{Cause, Wait};

/// Maximum number of sums. Waits of further stacks are written immediately.
const LIMIT: usize = 1 << 15;

/// Maximum number of addresses of a process compared with its new mappings between two calls of
/// [`Sums::flush_idle`]: about a millisecond.
const MAX_COMPARED: usize = 1 << 20;

/// One or more waits with the same stack, written as one record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WaitSum {
    pub(super) wait: Wait,
    pub(super) ns: u64,
}

impl WaitSum {
    pub(super) fn of(wait: Wait) -> WaitSum {
        WaitSum {
            ns: wait.weight,
            wait,
        }
    }
}

#[derive(Debug)]
struct Entry {
    sum: WaitSum,
    /// True if a wait was added since the last [`Sums::flush_idle`].
    is_recent: bool,
}

#[derive(Debug)]
pub(super) struct Sums {
    /// Minimum nanoseconds for a record.
    least: u64,
    stack_at: usize,
    /// By pid.
    processes: FxHashMap<i32, ProcessSums>,
    len: usize,
}

#[derive(Debug, Default)]
struct ProcessSums {
    /// Sums by the hash of thread, cause, waker and stack.
    entries: FxHashMap<u64, Entry>,
    compared: usize,
}

impl Sums {
    /// `least` is the minimum in nanoseconds for a record, and `stack_at` the offset of the stack
    /// in samples.
    pub(super) fn new(least: u64, stack_at: usize) -> Sums {
        Sums {
            least,
            stack_at,
            processes: FxHashMap::default(),
            len: 0,
        }
    }

    fn stack<'a>(&self, wait: &'a Wait) -> &'a [u8] {
        stack(wait, self.stack_at)
    }

    fn key(&self, wait: &Wait) -> (i32, i32, Cause, bool, WaitEnd) {
        let has_stack = wait.stack.is_some();
        (wait.pid, wait.tid, wait.cause, has_stack, wait.end())
    }

    pub(super) fn add(&mut self, wait: Wait) -> Option<WaitSum> {
        let ns = wait.weight;
        if ns >= self.least {
            return Some(WaitSum { wait, ns });
        }
        let mut hasher = FxHasher::default();
        (self.key(&wait), self.stack(&wait)).hash(&mut hasher);
        let hash = hasher.finish();
        let process = self.processes.get(&wait.pid);
        let Some(entry) = process.and_then(|process| process.entries.get(&hash)) else {
            if self.len >= LIMIT {
                return Some(WaitSum { wait, ns });
            }
            self.put(hash, WaitSum { wait, ns });
            return None;
        };
        let known = &entry.sum.wait;
        if self.key(known) != self.key(&wait) || self.stack(known) != self.stack(&wait) {
            return Some(WaitSum { wait, ns });
        }
        let ns = entry.sum.ns + ns;
        if ns >= self.least {
            let process = self.processes.get_mut(&wait.pid)?;
            self.len -= usize::from(process.entries.remove(&hash).is_some());
            return Some(WaitSum { wait, ns });
        }
        self.put(hash, WaitSum { wait, ns });
        None
    }

    fn put(&mut self, hash: u64, sum: WaitSum) {
        let entries = &mut self.processes.entry(sum.wait.pid).or_default().entries;
        let is_recent = true;
        let before = entries.insert(hash, Entry { sum, is_recent });
        self.len += usize::from(before.is_none());
    }

    /// Removes and returns the sums without additions since the last call.
    pub(super) fn flush_idle(&mut self) -> Vec<WaitSum> {
        let idle = self.extract(|entry| !std::mem::take(&mut entry.is_recent));
        self.processes.retain(|_, process| {
            process.compared = 0;
            !process.entries.is_empty()
        });
        idle
    }

    /// Removes and returns the sums of some waits.
    pub(super) fn flush_of(&mut self, is_one: impl Fn(&Wait) -> bool) -> Vec<WaitSum> {
        self.extract(|entry| is_one(&entry.sum.wait))
    }

    /// Removes and returns the sums of a process.
    pub(super) fn flush_process(&mut self, pid: i32) -> Vec<WaitSum> {
        let process = self.processes.remove(&pid).unwrap_or_default();
        self.len -= process.entries.len();
        in_order(process.entries.into_values().map(|entry| entry.sum))
    }

    /// Removes and returns a process's sums with addresses in this range, and those beyond the
    /// number of addresses to compare.
    pub(super) fn flush_code(&mut self, pid: i32, range: &Range<u64>) -> Vec<WaitSum> {
        let Some(process) = self.processes.get_mut(&pid) else {
            return Vec::new();
        };
        let (stack_at, compared) = (self.stack_at, &mut process.compared);
        let is_there = |_: &u64, entry: &mut Entry| {
            if *compared > MAX_COMPARED {
                return true;
            }
            // Everything but the addresses is too small or too large.
            let words = stack(&entry.sum.wait, stack_at).as_chunks().0;
            *compared += words.len();
            let mut addresses = words.iter().copied().map(u64::from_ne_bytes);
            addresses.any(|address| range.contains(&address))
        };
        let there = process.entries.extract_if(is_there);
        let there = in_order(there.map(|(_, entry)| entry.sum));
        self.len -= there.len();
        there
    }

    fn extract(&mut self, mut is_one: impl FnMut(&mut Entry) -> bool) -> Vec<WaitSum> {
        let is_one = &mut is_one;
        let sums = in_order(self.processes.values_mut().flat_map(|process| {
            let found = process.entries.extract_if(|_, entry| is_one(entry));
            found.map(|(_, entry)| entry.sum).collect::<Vec<_>>()
        }));
        self.len -= sums.len();
        sums
    }

    pub(super) fn flush(&mut self) -> Vec<WaitSum> {
        self.extract(|_| true)
    }
}

fn stack(wait: &Wait, stack_at: usize) -> &[u8] {
    let stack = wait.stack.as_deref().unwrap_or(&[]);
    stack.get(stack_at..).unwrap_or(&[])
}

/// Sorts by time and thread, so that equal records give equal files.
fn in_order(sums: impl Iterator<Item = WaitSum>) -> Vec<WaitSum> {
    let mut sums: Vec<WaitSum> = sums.collect();
    sums.sort_by_key(|sum| (sum.wait.to, sum.wait.tid, sum.wait.from));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn wait(tid: i32, from: u64, ns: u64, stack: &[u8]) -> Wait {
        Wait {
            pid: 1,
            tid,
            cpu: 0,
            from,
            to: from + ns,
            weight: ns,
            cause: Cause::Blocked,
            stack: Some([&[9; 8], stack].concat()),
            wake: None,
        }
    }

    fn sums(waits: impl Iterator<Item = Wait>, least: u64) -> (FxHashMap<Vec<u8>, u64>, usize) {
        let mut sums = Sums::new(least, 8);
        let mut out: Vec<WaitSum> = Vec::new();
        for (number, wait) in waits.enumerate() {
            out.extend(sums.add(wait));
            if number % 1000 == 0 {
                out.extend(sums.flush_idle());
            }
        }
        out.extend(sums.flush());
        let mut by_stack = FxHashMap::default();
        for sum in &out {
            let stack = sum.wait.stack.clone().unwrap();
            *by_stack.entry(stack[8..].to_vec()).or_default() += sum.ns;
        }
        (by_stack, out.len())
    }

    #[test]
    fn a_million_short_waits_weigh_what_they_are() {
        // Also a few long waits, and a thread whose waits are just as long as the limit or just
        // below.
        let short = (0..1_000_000).map(|n| wait(3, n * 60_000, 50_000, b"short"));
        let long = (0..20).map(|n| wait(4, n * 2_000 * MS, 1_000 * MS, b"long"));
        let periodic = (0..1_000).map(|n| wait(5, n * 2 * MS, MS - n % 2, b"beat"));
        let (by_stack, records) = sums(short.chain(long).chain(periodic), MS);
        assert_eq!(by_stack[&b"short"[..]], 50_000 * MS);
        assert_eq!(by_stack[&b"long"[..]], 20_000 * MS);
        assert_eq!(by_stack[&b"beat"[..]], 1_000 * MS - 500);
        assert!(records <= 50_000 + 20 + 1_000, "{records}");
    }

    #[test]
    fn stacks_threads_and_causes_are_told_apart() {
        let mut sums = Sums::new(MS, 8);
        let runnable = Wait {
            cause: Cause::Runnable,
            ..wait(3, 0, 10, b"a")
        };
        let without = Wait {
            stack: None,
            ..wait(3, 0, 10, b"a")
        };
        for one in [
            wait(3, 0, 10, b"a"),
            wait(3, 0, 10, b"b"),
            wait(4, 0, 10, b"a"),
            runnable,
            without,
        ] {
            assert_eq!(sums.add(one.clone()), None);
            assert_eq!(sums.add(one), None);
        }
        let all = sums.flush();
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|sum| sum.ns == 20));
        assert!(sums.flush().is_empty());
    }

    #[test]
    fn what_nothing_is_added_to_goes_out() {
        let mut sums = Sums::new(MS, 8);
        sums.add(wait(3, 0, 10, b"a"));
        assert!(sums.flush_idle().is_empty());
        sums.add(wait(3, 5, 20, b"b"));
        let idle = sums.flush_idle();
        assert_eq!(idle.len(), 1);
        assert_eq!((idle[0].ns, idle[0].wait.from), (10, 0));
    }

    #[test]
    fn waits_of_one_thread_go_out_alone() {
        let mut sums = Sums::new(MS, 8);
        sums.add(wait(3, 0, 10, b"a"));
        sums.add(wait(4, 0, 20, b"a"));
        let flushed = sums.flush_of(|wait| wait.tid == 4);
        assert_eq!((flushed.len(), flushed[0].ns), (1, 20));
        assert_eq!(sums.flush()[0].wait.tid, 3);
    }

    #[test]
    fn sums_go_out_before_another_mapping_takes_the_place_of_their_code() {
        let stack = |addresses: &[u64]| -> Vec<u8> {
            let number = [addresses.len() as u64];
            let words = number.iter().chain(addresses);
            words.flat_map(|word| word.to_ne_bytes()).collect()
        };
        let mut sums = Sums::new(MS, 8);
        sums.add(wait(3, 0, 10, &stack(&[u64::MAX - 127, 0x2000, 0x1fff])));
        sums.add(wait(4, 0, 10, &stack(&[0x3000, 0xfff])));
        let other = Wait {
            pid: 2,
            ..wait(5, 0, 10, &stack(&[0x1000]))
        };
        sums.add(other);
        let mut threads = |pid, range| -> Vec<i32> {
            let flushed = sums.flush_code(pid, &range);
            flushed.iter().map(|sum| sum.wait.tid).collect()
        };
        assert_eq!(threads(1, 0x4000..0x5000), [0; 0]);
        assert_eq!(threads(1, 0x1000..0x2000), [3]);
        assert_eq!(threads(1, 0x1000..0x2000), [0; 0]);
        assert_eq!(threads(7, 0x1000..0x2000), [0; 0]);
        assert_eq!(threads(2, 0x1000..0x2000), [5]);
        assert_eq!((sums.len, sums.flush_process(1).len(), sums.len), (1, 1, 0));
    }

    #[test]
    fn mappings_without_end_compare_a_limited_number_of_addresses() {
        let mut sums = Sums::new(MS, 8);
        let deep = [7; 8 << 10];
        let mut compared = 0;
        for n in 0..20_000 {
            sums.add(wait(3, n, 10, &deep));
            let before = sums.len;
            let flushed = sums.flush_code(1, &(0x1000..0x2000)).len();
            assert_eq!(sums.len + flushed, before);
            compared += usize::from(flushed == 0);
        }
        // Beyond the limit, each wait becomes a record.
        assert!((1000..1100).contains(&compared), "{compared}");
        assert!(sums.flush_idle().is_empty());
        sums.add(wait(3, 0, 10, &deep));
        assert!(sums.flush_code(1, &(0x1000..0x2000)).is_empty());
    }

    #[test]
    fn stacks_without_end_take_no_more_memory() {
        let mut sums = Sums::new(MS, 8);
        let mut written = 0;
        for n in 0..LIMIT as u32 + 100 {
            let one = wait(3, 0, 7, &n.to_ne_bytes());
            written += sums.add(one).map_or(0, |sum| sum.ns);
        }
        assert_eq!(sums.len, LIMIT);
        let rest: u64 = sums.flush().iter().map(|sum| sum.ns).sum();
        assert_eq!(written + rest, 7 * (LIMIT as u64 + 100));
    }
}
