//! [`Heap`]: sampled allocations of all processes, by stack.

use rustc_hash::FxHashMap;

use crate::StackNumber;
use crate::sampled::{Estimate, Sampled, Sampling};

/// Maximum number of sampled allocations in use, some 250 MiB.
const MAX_LIVE: usize = 4 << 20;

/// Estimates for allocations by stack: in use at the end, in use at the peak, and ever requested.
///
/// A process has the allocations that it made itself. A forked child shares the memory of its
/// parent, and its releases of such memory change nothing. What a process has not released when it
/// ends counts as in use at the end; an exec drops it.
///
/// Give it events in order of time. Its memory is linear in the number of stacks, and in the number
/// of sampled allocations in use (limited to 4 million).
///
/// # Examples
/// ```
/// use rprof_memory::{Heap, Sampling, StackNumber};
///
/// let mut heap = Heap::new(Sampling::new(1));
/// heap.allocate(7, 1, 1000, StackNumber(0), true);
/// heap.allocate(7, 2, 500, StackNumber(1), true);
/// heap.free(7, 1);
/// let bytes = |all: Vec<(StackNumber, rprof_memory::Estimate)>| {
///     all.iter().map(|(stack, sum)| (stack.0, sum.bytes)).collect::<Vec<_>>()
/// };
/// assert_eq!(bytes(heap.at_end()), [(1, 500.0)]);
/// assert_eq!(bytes(heap.at_peak()), [(0, 1000.0), (1, 500.0)]);
/// assert_eq!(bytes(heap.ever()), [(0, 1000.0), (1, 500.0)]);
/// ```
#[derive(Debug)]
pub struct Heap {
    sampling: Sampling,
    processes: FxHashMap<i32, Process>,
    in_use: usize,
    /// Sums of all processes that run.
    live: Estimate,
    /// Memory that ended processes had not released.
    left: FxHashMap<StackNumber, Estimate>,
    ever: FxHashMap<StackNumber, Estimate>,
    peak: Peak,
    unfollowed: Estimate,
}

#[derive(Debug, Default)]
struct Process {
    allocations: FxHashMap<u64, (StackNumber, Sampled)>,
}

/// Sums at the largest total so far. Changes since then wait until there is a larger total, so each
/// change costs the same.
#[derive(Debug, Default)]
struct Peak {
    total: f64,
    sums: FxHashMap<StackNumber, Estimate>,
    added: FxHashMap<StackNumber, Estimate>,
    removed: FxHashMap<StackNumber, Estimate>,
}

impl Peak {
    fn advance(&mut self, total: f64) {
        if total <= self.total {
            return;
        }
        self.total = total;
        for (stack, sum) in self.added.drain() {
            *self.sums.entry(stack).or_default() += sum;
        }
        for (stack, sum) in self.removed.drain() {
            if let Some(own) = self.sums.get_mut(&stack) {
                *own -= sum;
            }
        }
    }
}

impl Heap {
    /// Creates an empty heap.
    pub fn new(sampling: Sampling) -> Heap {
        Heap {
            sampling,
            processes: FxHashMap::default(),
            in_use: 0,
            live: Estimate::default(),
            left: FxHashMap::default(),
            ever: FxHashMap::default(),
            peak: Peak::default(),
            unfollowed: Estimate::default(),
        }
    }

    /// Adds a sampled allocation. `number` identifies it in its process, for example its address.
    /// Without `is_followed`, its release will not be reported: it counts as requested, but not as in
    /// use.
    pub fn allocate(
        &mut self,
        pid: i32,
        number: u64,
        sampled: impl Into<Sampled>,
        stack: StackNumber,
        is_followed: bool,
    ) {
        let sampled = sampled.into();
        let estimate = self.sampling.stands_for(sampled);
        *self.ever.entry(stack).or_default() += estimate;
        if !is_followed || self.in_use >= MAX_LIVE {
            self.unfollowed += estimate;
            return;
        }
        let process = self.processes.entry(pid).or_default();
        // A process that lies about its numbers replaces its own samples.
        let before = process.allocations.insert(number, (stack, sampled));
        self.in_use += 1;
        if let Some((stack, sampled)) = before {
            self.remove(stack, sampled);
        }
        self.live += estimate;
        *self.peak.added.entry(stack).or_default() += estimate;
        self.peak.advance(self.live.bytes);
    }

    /// Removes a sampled allocation.
    pub fn free(&mut self, pid: i32, number: u64) {
        let process = self.processes.get_mut(&pid);
        if let Some((stack, sampled)) = process.and_then(|one| one.allocations.remove(&number)) {
            self.remove(stack, sampled);
        }
    }

    fn remove(&mut self, stack: StackNumber, sampled: Sampled) -> Estimate {
        let estimate = self.sampling.stands_for(sampled);
        self.in_use = self.in_use.saturating_sub(1);
        self.live -= estimate;
        *self.peak.removed.entry(stack).or_default() += estimate;
        estimate
    }

    /// Drops the allocations of a process at an exec.
    pub fn execute(&mut self, pid: i32) {
        for (stack, sampled) in self.take(pid) {
            self.remove(stack, sampled);
        }
    }

    /// Removes a process. Allocations without a release stay in use at the end.
    pub fn end(&mut self, pid: i32) {
        for (stack, sampled) in self.take(pid) {
            let estimate = self.remove(stack, sampled);
            *self.left.entry(stack).or_default() += estimate;
        }
    }

    fn take(&mut self, pid: i32) -> impl Iterator<Item = (StackNumber, Sampled)> + use<> {
        let process = self.processes.remove(&pid).unwrap_or_default();
        process.allocations.into_values()
    }

    /// Returns the allocations in use by stack, sorted: of running processes, and what ended ones
    /// had not released.
    pub fn at_end(&self) -> Vec<(StackNumber, Estimate)> {
        let mut sums = self.left.clone();
        for (stack, sampled) in self
            .processes
            .values()
            .flat_map(|one| one.allocations.values())
        {
            *sums.entry(*stack).or_default() += self.sampling.stands_for(*sampled);
        }
        sorted(&sums)
    }

    /// Returns the requested bytes in use, of running processes, and of ended ones that had not
    /// released them.
    pub fn in_use(&self) -> f64 {
        let left = self.left.values().map(|sum| sum.bytes).sum::<f64>();
        self.live.bytes + left
    }

    /// Returns the allocations in use by stack when most bytes were, sorted.
    pub fn at_peak(&self) -> Vec<(StackNumber, Estimate)> {
        sorted(&self.peak.sums)
    }

    /// Returns all allocations by stack, released or not, sorted.
    pub fn ever(&self) -> Vec<(StackNumber, Estimate)> {
        sorted(&self.ever)
    }

    /// Returns the sampled allocations with unknown releases. They do not count as in use.
    pub fn unfollowed(&self) -> Estimate {
        self.unfollowed
    }
}

fn sorted(sums: &FxHashMap<StackNumber, Estimate>) -> Vec<(StackNumber, Estimate)> {
    let used = sums.iter().filter(|(_, sum)| sum.samples > 0);
    let mut sums: Vec<_> = used.map(|(stack, sum)| (*stack, *sum)).collect();
    sums.sort_unstable_by_key(|(stack, _)| *stack);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact() -> Heap {
        Heap::new(Sampling::new(1))
    }

    fn bytes(sums: &[(StackNumber, Estimate)]) -> Vec<(u32, u64)> {
        (sums.iter())
            .map(|(stack, sum)| (stack.0, sum.bytes.round() as u64))
            .collect()
    }

    #[test]
    fn the_peak_is_the_state_at_the_largest_total() {
        let mut heap = exact();
        heap.allocate(1, 1, 100, StackNumber(0), true);
        heap.free(1, 1);
        heap.allocate(1, 2, 60, StackNumber(1), true);
        heap.allocate(1, 3, 60, StackNumber(2), true);
        heap.free(1, 2);
        heap.allocate(1, 4, 50, StackNumber(3), true);
        assert_eq!(bytes(&heap.at_peak()), [(1, 60), (2, 60)]);
        assert_eq!(bytes(&heap.at_end()), [(2, 60), (3, 50)]);
    }

    #[test]
    fn an_end_keeps_what_was_not_released_and_an_exec_drops_it() {
        let mut heap = exact();
        heap.allocate(1, 1, 100, StackNumber(0), true);
        heap.end(1);
        heap.allocate(1, 1, 40, StackNumber(1), true);
        heap.execute(1);
        heap.allocate(1, 1, 70, StackNumber(2), true);
        assert_eq!(bytes(&heap.at_end()), [(0, 100), (2, 70)]);
        assert_eq!(bytes(&heap.at_peak()), [(0, 100)]);
    }

    #[test]
    fn releases_of_inherited_and_unknown_memory_change_nothing() {
        let mut heap = exact();
        heap.allocate(1, 1, 100, StackNumber(0), true);
        heap.free(2, 1);
        heap.free(1, 9);
        heap.allocate(1, 2, 30, StackNumber(1), false);
        assert_eq!(bytes(&heap.at_end()), [(0, 100)]);
        assert_eq!(heap.unfollowed().samples, 1);
        assert_eq!(bytes(&heap.ever()), [(0, 100), (1, 30)]);
    }

    #[test]
    fn a_repeated_number_replaces_its_allocation() {
        let mut heap = exact();
        heap.allocate(1, 1, 100, StackNumber(0), true);
        heap.allocate(1, 1, 50, StackNumber(0), true);
        assert_eq!(bytes(&heap.at_end()), [(0, 50)]);
        heap.free(1, 1);
        assert_eq!((heap.in_use, heap.live), (0, Estimate::default()));
    }
}
