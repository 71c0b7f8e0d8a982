//! [`Cuts`]: estimates stacks for waits that began before a window.
//!
//! A wait that began before its window has no stack: its switch-out was in the gap. A wait cut by
//! the window's end has one. Windows are independent of the program, so on average both kinds spend
//! the same time in each place. The unknown waits are divided among the places of the thread's cut
//! waits, by time. Single waits stay uncertain, but sums are unbiased.
//!
//! Waits that span a whole window are a separate kind, because more of them are long. One without
//! an inspection is divided among the others of this kind.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::wait::{Cause, Wait};

/// Number of cut waits kept per thread: from its last windows.
const OF_THREAD: usize = 8;

/// Maximum number of threads, for each of the two kinds.
const THREADS: usize = 4_096;

#[derive(Debug)]
struct Cut {
    cause: Cause,
    stack: Vec<u8>,
    /// Its nanoseconds in the window.
    ns: u64,
}

/// The last cut waits, by thread and by whether they also began before the window.
#[derive(Debug, Default)]
pub(super) struct Cuts(FxHashMap<(i32, bool), VecDeque<Cut>>);

impl Cuts {
    pub(super) fn learn(&mut self, tid: i32, waits: &[Wait], began: u64, ended: u64) {
        let Some(last) = waits.last() else {
            return;
        };
        let Some(stack) = (last.stack.as_ref()).filter(|_| last.to == ended) else {
            return;
        };
        let key = (tid, last.from == began);
        if self.0.len() >= 2 * THREADS && !self.0.contains_key(&key) {
            return;
        }
        let cuts = self.0.entry(key).or_default();
        if cuts.len() >= OF_THREAD {
            cuts.pop_front();
        }
        cuts.push_back(Cut {
            cause: last.cause,
            stack: stack.clone(),
            ns: last.to - last.from,
        });
    }

    /// Divides a thread's first wait in a window, if it began earlier and has no stack. The sum of
    /// the weights is unchanged.
    pub(super) fn divide(&self, tid: i32, waits: &mut Vec<Wait>, began: u64, ended: u64) {
        let is_unknown = |wait: &&Wait| wait.from == began && wait.stack.is_none();
        let Some(first) = waits.first().filter(is_unknown) else {
            return;
        };
        let Some(cuts) = self.0.get(&(tid, first.to == ended)) else {
            return;
        };
        let all: u64 = cuts.iter().map(|cut| cut.ns).sum();
        if all == 0 {
            return;
        }
        let whole = waits.remove(0);
        // Shares of cumulative sums, so that nothing is lost to rounding.
        let share = |ns: u64| {
            let weight = u128::from(whole.weight) * u128::from(ns) / u128::from(all);
            u64::try_from(weight).unwrap_or(whole.weight)
        };
        let mut passed = 0;
        for cut in cuts {
            let before = share(passed);
            passed += cut.ns;
            waits.push(Wait {
                weight: share(passed) - before,
                cause: cut.cause,
                stack: Some(cut.stack.clone()),
                ..whole
            });
        }
    }

    pub(super) fn forget(&mut self, tid: i32) {
        self.0.remove(&(tid, false));
        self.0.remove(&(tid, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(from: u64, to: u64, stack: Option<u8>) -> Wait {
        Wait {
            pid: 1,
            tid: 2,
            cpu: 0,
            from,
            to,
            weight: to - from,
            cause: Cause::Blocked,
            stack: stack.map(|byte| vec![byte]),
            wake: None,
        }
    }

    fn divided(cuts: &Cuts, wait_: Wait) -> Vec<(u64, Option<u8>)> {
        let began = wait_.from;
        let mut waits = vec![wait_, wait(5_000, 5_001, Some(9))];
        cuts.divide(2, &mut waits, began, 500);
        let mut all: Vec<_> = (waits.iter())
            .map(|wait| (wait.weight, wait.stack.as_ref().map(|stack| stack[0])))
            .filter(|(_, stack)| *stack != Some(9))
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn waits_that_a_window_begins_with_are_where_others_end_with_it() {
        let mut cuts = Cuts::default();
        assert_eq!(divided(&cuts, wait(100, 200, None)), [(100, None)]);
        // Waits that do not reach the window's end have no effect.
        cuts.learn(2, &[wait(100, 150, Some(7))], 100, 200);
        cuts.learn(2, &[wait(120, 150, Some(7))], 100, 200);
        cuts.learn(2, &[wait(120, 200, None)], 100, 200);
        assert_eq!(divided(&cuts, wait(100, 200, None)), [(100, None)]);
        cuts.learn(
            2,
            &[wait(110, 140, Some(3)), wait(170, 200, Some(1))],
            100,
            200,
        );
        cuts.learn(2, &[wait(190, 200, Some(2))], 100, 200);
        assert_eq!(
            divided(&cuts, wait(300, 401, None)),
            [(26, Some(2)), (75, Some(1))]
        );
        assert_eq!(divided(&cuts, wait(300, 401, Some(5))), [(101, Some(5))]);
        // A wait that spans the window is a separate kind.
        assert_eq!(divided(&cuts, wait(300, 500, None)), [(200, None)]);
        cuts.learn(2, &[wait(300, 500, Some(6))], 300, 500);
        assert_eq!(divided(&cuts, wait(300, 500, None)), [(200, Some(6))]);
        for _ in 0..OF_THREAD {
            cuts.learn(2, &[wait(150, 200, Some(4))], 100, 200);
        }
        let parts = divided(&cuts, wait(300, 403, None));
        assert_eq!(parts.iter().map(|(weight, _)| weight).sum::<u64>(), 103);
        assert!(parts.len() == OF_THREAD && parts.iter().all(|(_, stack)| *stack == Some(4)));
        cuts.forget(2);
        assert_eq!(divided(&cuts, wait(100, 200, None)), [(100, None)]);
    }
}
