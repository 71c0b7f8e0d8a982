//! Weights of calls between rows.

use rustc_hash::FxHashMap;

use super::sides::Sides;

/// Weight of calls per side, in the mean run.
#[derive(Debug, Default)]
pub(super) struct Calls {
    by_callee: FxHashMap<u32, FxHashMap<u32, [f64; 2]>>,
    by_caller: FxHashMap<u32, FxHashMap<u32, [f64; 2]>>,
}

impl Calls {
    /// Sums the calls of wanted rows. A sample counts once per caller and callee. Direct recursion
    /// is ignored.
    pub(super) fn of(sides: &Sides<'_>, which: &[usize], is_wanted: &[bool]) -> Calls {
        let mut calls = Calls::default();
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for side in which {
            let runs = &sides.runs[*side];
            for run in runs {
                let scale = 1.0 / (run.work * runs.len() as f64);
                for entry in run.entries() {
                    pairs.clear();
                    let mut caller = None;
                    for row in run.stack(entry) {
                        if let Some(caller) = caller
                            && caller != row
                            && (is_wanted[row as usize] || is_wanted[caller as usize])
                            && !pairs.contains(&(caller, row))
                        {
                            pairs.push((caller, row));
                        }
                        caller = Some(row);
                    }
                    let weight = run.weight(entry) as f64 * scale;
                    for (caller, callee) in &pairs {
                        let callers = calls.by_callee.entry(*callee).or_default();
                        callers.entry(*caller).or_default()[*side] += weight;
                        let callees = calls.by_caller.entry(*caller).or_default();
                        callees.entry(*callee).or_default()[*side] += weight;
                    }
                }
            }
        }
        calls
    }

    pub(super) fn heaviest_caller(&self, row: u32) -> Option<u32> {
        let callers = self.by_callee.get(&row)?.iter();
        // Swapped sides give identical results.
        let weight = |[old, new]: &[f64; 2]| old + new;
        let heaviest = callers.max_by(|a, b| {
            let order = weight(a.1).total_cmp(&weight(b.1));
            order.then_with(|| b.0.cmp(a.0))
        })?;
        Some(*heaviest.0)
    }

    pub(super) fn callees(&self, row: u32) -> Vec<u32> {
        let callees = self.by_caller.get(&row);
        let mut callees: Vec<u32> = callees
            .into_iter()
            .flat_map(|c| c.keys().copied())
            .collect();
        callees.sort_unstable();
        callees
    }
}
