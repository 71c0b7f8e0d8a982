//! [`Window`]: the time and waits of each thread in a window, extrapolated to the gap after it.

use rustc_hash::FxHashMap;

use super::time::ThreadTime;
use super::wait::{Cause, Wait};

/// Minimum share of a window that a thread needs for extrapolation, as a divisor: 1 in 4.
const SPEAKS: u64 = 4;

#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) began: u64,
    /// Time of its end, during the gap.
    pub(super) ended: Option<u64>,
    pub(super) slices: FxHashMap<i32, Slice>,
    /// Slices of exited threads, with the time of the exit.
    pub(super) done: Vec<(Slice, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Slice {
    pub(super) began: u64,
    /// Time on CPUs and unknown time.
    pub(super) time: ThreadTime,
    pub(super) waits: Vec<Wait>,
    pub(super) switches: u64,
}

impl Window {
    pub(super) fn slice(&mut self, tid: i32) -> &mut Slice {
        let began = self.began;
        self.slices.entry(tid).or_insert_with(|| Slice {
            began,
            ..Slice::default()
        })
    }

    pub(super) fn count_switch(&mut self, tid: i32) {
        self.slice(tid).switches += 1;
    }

    pub(super) fn switches_of(&self, tid: i32) -> u64 {
        self.slices.get(&tid).map_or(0, |slice| slice.switches)
    }

    /// Sets the stack of a thread's wait that began before the window, if it has none.
    pub(super) fn name_first_wait(&mut self, tid: i32, cause: Cause, stack: &[u8]) {
        let began = self.began;
        let first = (self.slices.get_mut(&tid)).and_then(|slice| slice.waits.first_mut());
        if let Some(wait) = first.filter(|wait| wait.from == began && wait.stack.is_none()) {
            (wait.cause, wait.stack) = (cause, Some(stack.to_vec()));
        }
    }
}

impl Slice {
    /// Extrapolates the slice of a thread that existed until `until`, and adds it to `time`. The
    /// window ended at `ended`. Returns its waits.
    pub(super) fn settle(
        self,
        window: &Window,
        ended: u64,
        until: u64,
        time: &mut ThreadTime,
    ) -> Vec<Wait> {
        let here = ended.min(until).saturating_sub(self.began);
        let behind = until.saturating_sub(ended.max(self.began));
        let speaks = here > 0 && here >= ended.saturating_sub(window.began) / SPEAKS;
        let times = |ns: u64| match speaks {
            true => scaled(ns, here + behind, here),
            false => ns,
        };
        time.on_cpu += times(self.time.on_cpu);
        time.unknown += times(self.time.unknown);
        time.elsewhere += times(self.time.elsewhere);
        if !speaks {
            time.unknown += behind;
        }
        let mut waits = self.waits;
        for wait in &mut waits {
            wait.weight = times(wait.weight);
            time.add(wait);
        }
        waits
    }
}

fn scaled(ns: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(ns) * u128::from(by) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
