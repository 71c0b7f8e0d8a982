use super::canonical::is_any_closure;
use crate::model::Profile;
use crate::samples::AggregatedStack;
use crate::views::top::WeighBy;

pub(super) struct Run<'p> {
    pub(super) profile: &'p Profile,
    pub(super) event: usize,
    pub(super) weigh_by: WeighBy,
    pub(super) rows: Vec<u32>,
    pub(super) drops_inlined: bool,
    /// True for functions with [bare closure names](is_any_closure). Unrelated closures share them,
    /// so inlined ones count for their enclosing functions.
    pub(super) is_any_closure: Vec<bool>,
    /// Divisor: units of work, seconds, or the whole weight.
    pub(super) work: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) weight: u64,
    /// Sum of squares, with weights assumed equal within an aggregated stack.
    squares: f64,
}

impl Sum {
    fn add(&mut self, weight: u64, samples: u64) {
        self.weight = self.weight.saturating_add(weight);
        if samples > 0 {
            self.squares += (weight as f64).powi(2) / samples as f64;
        }
    }

    /// Returns the effective sample size (Kish 1965): the number of equally weighted samples with
    /// the same information.
    pub(super) fn effective_samples(&self) -> f64 {
        match self.squares > 0.0 {
            true => (self.weight as f64).powi(2) / self.squares,
            false => 0.0,
        }
    }
}

#[derive(Debug)]
pub(super) struct Sums {
    pub(super) whole: Sum,
    pub(super) samples: u64,
    pub(super) own: Vec<Sum>,
    pub(super) total: Vec<Sum>,
}

impl<'p> Run<'p> {
    pub(super) fn of(
        profile: &'p Profile,
        weigh_by: WeighBy,
        rows: Vec<u32>,
        drops_inlined: bool,
    ) -> Run<'p> {
        let is_any = |function: &crate::Function| {
            let name = function.name.as_deref();
            name.is_ok_and(is_any_closure)
        };
        Run {
            profile,
            event: profile.main_event().unwrap_or(0),
            weigh_by,
            rows,
            drops_inlined,
            is_any_closure: profile.functions.iter().map(is_any).collect(),
            work: 1.0,
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &'p AggregatedStack> + use<'p> {
        let event = self.event;
        (self.profile.aggregated.iter()).filter(move |entry| entry.event == event)
    }

    pub(super) fn weight(&self, entry: &AggregatedStack) -> u64 {
        match self.weigh_by {
            WeighBy::Period => entry.weight,
            WeighBy::Samples => entry.samples,
        }
    }

    pub(super) fn stack(&self, entry: &AggregatedStack) -> impl Iterator<Item = u32> + '_ {
        (self.profile.frames(entry.stack))
            .map(|id| self.profile.frame(id))
            .filter(|frame| {
                let is_dropped =
                    || self.drops_inlined || self.is_any_closure[frame.function.0 as usize];
                frame.inline_depth == 0 || !is_dropped()
            })
            .map(|frame| self.rows[frame.function.0 as usize])
    }

    pub(super) fn sums(&self, rows: usize) -> Sums {
        let mut sums = Sums {
            whole: Sum::default(),
            samples: 0,
            own: vec![Sum::default(); rows],
            total: vec![Sum::default(); rows],
        };
        // Recursion counts once.
        let mut counted = vec![0usize; rows];
        for (number, entry) in (1..).zip(self.entries()) {
            let weight = self.weight(entry);
            sums.whole.add(weight, entry.samples);
            sums.samples = sums.samples.saturating_add(entry.samples);
            let mut leaf = None;
            for row in self.stack(entry) {
                let row = row as usize;
                leaf = Some(row);
                if std::mem::replace(&mut counted[row], number) != number {
                    sums.total[row].add(weight, entry.samples);
                }
            }
            if let Some(row) = leaf {
                sums.own[row].add(weight, entry.samples);
            }
        }
        sums
    }
}
