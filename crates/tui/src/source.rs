//! [`Source`]: input of the views. [`LiveFacts`]: additional input for a live profile.

use std::sync::Arc;

use rprof_export::wrap::wrap;
use rprof_profile::{FunctionId, Profile, TopFunctions, TopRow, WeighBy};
use rustc_hash::FxHashMap;

/// Profile and related facts to show.
#[derive(Clone, Debug)]
pub struct Source {
    /// The profile. Filters by CPU and time require single samples.
    pub profile: Arc<Profile>,
    /// Index of the shown event.
    pub event: usize,
    /// Weighting of samples.
    pub weight: WeighBy,
    /// Short name of the command, target or file. The views append event and number of samples.
    pub title: String,
    /// Short additional facts, such as the duration of the recording.
    pub about: String,
    /// Initially sort functions by total instead of self.
    pub by_total: bool,
    /// Lines of the verdict, most important first.
    pub facts: Vec<String>,
    /// Important hint, such as that the program hardly ran. Shown until the user presses a key.
    pub hint: Option<String>,
    /// Words of the equivalent command line, without interactive filters.
    pub command: Vec<String>,
    /// Generation of the profile's ids. It changes if ids get another meaning.
    pub generation: u64,
    /// Facts about a live profile; `None` for a recording.
    pub live: Option<LiveFacts>,
}

impl Source {
    pub(crate) fn verdict(&self, width: usize) -> Vec<String> {
        let lines = |fact: &String| -> Vec<String> {
            let broken = wrap(fact, width.max(20)).into_iter().enumerate();
            broken
                .map(|(at, line)| match at {
                    0 => line.to_owned(),
                    _ => format!("  {}", line.trim_start()),
                })
                .collect()
        };
        self.facts.iter().flat_map(lines).collect()
    }
}

/// Facts about a live profile.
#[derive(Clone, Debug)]
pub struct LiveFacts {
    /// Text in the right corner, such as the profiler's own CPU usage.
    pub corner: String,
    /// Sums since the start, by event.
    pub since_start: Arc<[SinceStart]>,
}

/// Self and total of functions since the start.
#[derive(Clone, Debug, Default)]
pub struct SinceStart {
    whole: u64,
    sums: FxHashMap<FunctionId, (u64, u64)>,
}

impl SinceStart {
    /// Creates the sums. The function ids must belong to the shown profile.
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

    pub(crate) fn of(&self, function: FunctionId) -> (u64, u64, u64) {
        let (own, total) = self.sums.get(&function).copied().unwrap_or_default();
        (own, total, self.whole)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{folded, press, screen, source, text};
    use crate::{Source, State, Theme};

    #[test]
    fn a_hint_comes_first_and_the_verdict_is_shown_whole() {
        let long = "on CPU 0.050 s of 3.09 s: 0.010 s waiting for a CPU, 3.03 s asleep; `rprof record --off-cpu` shows where";
        let source = Source {
            hint: Some("on CPU 0.050 s of 3.09 s".to_owned()),
            facts: vec![
                "stacks: 100.0% reach their root".to_owned(),
                long.to_owned(),
            ],
            ..source(folded("a;b 3\n"))
        };
        for width in [60, 100] {
            let mut state = State::new(source.clone(), width, 24);
            let first = text(&screen(&state, Theme::default()));
            assert!(first.contains("on CPU 0.050 s of 3.09 s"), "{first}");
            press(&mut state, "7");
            let verdict = text(&screen(&state, Theme::default()));
            let hints = verdict.matches("on CPU 0.050 s of 3.09 s").count();
            assert_eq!(hints, 1, "{verdict}");
            let words: Vec<&str> = verdict.split_whitespace().collect();
            let all = words.join(" ");
            assert!(all.contains(long), "{verdict}");
        }
    }
}
