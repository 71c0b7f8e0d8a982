//! [`Source`]: what the views show; [`Live`], what is known of it while it changes.

use std::sync::Arc;

use rprof_profile::{FunctionId, Profile, TopFunctions, TopRow, WeighBy};
use rustc_hash::FxHashMap;

/// A profile, with what is known beside it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The profile. Filters by CPU and time need it to have samples one by one.
    pub profile: Arc<Profile>,
    /// Index of the event that is shown.
    pub event: usize,
    /// Rule by which samples count.
    pub weight: WeighBy,
    /// Command, target or file, in a few words. The event, and the number of its samples, are drawn behind it.
    pub title: String,
    /// More in a few words, such as how long it was recorded.
    pub about: String,
    /// Functions are sorted by total at first, else by self.
    pub by_total: bool,
    /// Lines of the verdict, most telling first.
    pub facts: Vec<String>,
    /// Words of the command line that shows the same, without the filters that are set in the views.
    pub command: Vec<String>,
    /// Number that changes where ids of the profile mean something else than before.
    pub generation: u64,
    /// Facts on a live profile; `None` for a recording.
    pub live: Option<Live>,
}

/// Facts on a live profile.
#[derive(Clone, Debug)]
pub struct Live {
    /// Words in the right corner, such as the profiler's own share of the CPU.
    pub corner: String,
    /// Sums since the start, beside the rows of functions, by event.
    pub since_start: Arc<[SinceStart]>,
}

/// Self and total of functions since the start.
#[derive(Clone, Debug, Default)]
pub struct SinceStart {
    /// Weight of all samples.
    whole: u64,
    /// By function, self and total.
    sums: FxHashMap<FunctionId, (u64, u64)>,
}

impl SinceStart {
    /// Takes the sums, whose functions are those of the profile that is shown.
    pub fn new(top: &TopFunctions, by: WeighBy) -> SinceStart {
        let sum = |row: &TopRow| match by {
            WeighBy::Period => (row.self_weight, row.total_weight),
            WeighBy::Samples => (row.self_samples, row.total_samples),
        };
        let sums: FxHashMap<FunctionId, (u64, u64)> = (top.rows.iter())
            .filter_map(|row| Some((row.key.function?, sum(row))))
            .collect();
        let whole = match by {
            WeighBy::Period => top.weight_total,
            WeighBy::Samples => {
                (sums.values()).fold(0u64, |all, (own, _)| all.saturating_add(*own))
            }
        };
        SinceStart { whole, sums }
    }

    /// Returns self and total of a function, and the weight of all.
    pub(crate) fn of(&self, function: FunctionId) -> (u64, u64, u64) {
        let (own, total) = self.sums.get(&function).copied().unwrap_or_default();
        (own, total, self.whole)
    }
}
