//! Cost shifts between functions, and uniform changes.

use rprof_statistics::{CommonChange, Comparison};

use super::callers::Calls;
use super::enclosing::Enclosing;
use super::reparented::SpentBelow;
use super::sides::Sides;
use super::{Change, FunctionDiff, ProfileDiff, Verdict, Work};

/// P-value of "all functions changed by one factor".
const AGREE: f64 = 0.05;

/// Minimum number of functions for a uniform change.
const SEVERAL: usize = 3;

#[derive(Clone, Copy)]
enum Part {
    Own,
    /// Totals of functions with unchanged self amounts.
    Total,
}

impl Part {
    fn of(self, row: &FunctionDiff) -> &Change {
        match self {
            Part::Own => &row.own,
            Part::Total => &row.total,
        }
    }

    fn is_changed(self, row: &FunctionDiff) -> bool {
        match self {
            Part::Own => row.own.verdict.is_change(),
            Part::Total => row.total.verdict.is_change() && !row.own.verdict.is_marked(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shift {
    /// The cost moved to or from a function, if a single one shows it.
    Moved(Option<usize>),
    /// The enclosing function may have changed by chance, or the calls may have had another caller
    /// before.
    Unsure,
}

/// Marks a change as moved if another function under the same caller changed oppositely, and the
/// caller's total did not change (Meta's FBDetect, SOSP 2024, section 5.4, "cost-shift").
///
/// A new or removed function proves little: others may do its work, with changes too small to
/// detect. It counts if its enclosing function certainly changed as well. It moved if that changed
/// by less than half as much. Otherwise it is suspected.
///
/// A total also moved if the calls below had another caller before.
pub(super) fn mark_moved(sides: &Sides<'_>, diff: &mut ProfileDiff) {
    for part in [Part::Own, Part::Total] {
        mark_part(sides, diff, part);
    }
}

fn mark_part(sides: &Sides<'_>, diff: &mut ProfileDiff, part: Part) {
    let changed: Vec<usize> = (0..diff.functions.len())
        .filter(|row| part.is_changed(&diff.functions[*row]))
        .collect();
    if changed.is_empty() {
        return;
    }
    let mut is_wanted = vec![false; diff.functions.len()];
    changed.iter().for_each(|row| is_wanted[*row] = true);
    let calls = Calls::of(sides, &[0, 1], &is_wanted);
    let of_one_side = |row: &usize| diff.functions[*row].is_of_one_side();
    let enclosing = Enclosing::of(sides, changed.iter().copied().filter(of_one_side));
    let spent = matches!(part, Part::Total).then(|| SpentBelow::of(sides, &is_wanted, diff.noise));
    let changes = Changes {
        diff,
        calls: &calls,
        enclosing: &enclosing,
        spent: spent.as_ref(),
        part,
        changed: &changed,
    };
    let shifts: Vec<(usize, Shift)> = (changed.iter())
        .filter_map(|row| Some((*row, changes.shift(*row)?)))
        .collect();
    for (row, shift) in shifts {
        let function = &mut diff.functions[row];
        let verdict = match shift {
            Shift::Moved(_) => Verdict::Moved,
            Shift::Unsure => Verdict::Suspected,
        };
        if let Part::Own = part {
            function.own.verdict = verdict;
        }
        if let Shift::Moved(other) = shift {
            function.counterpart = other;
        }
        if function.total.verdict.is_change() {
            function.total.verdict = verdict;
        }
    }
}

struct Changes<'a> {
    diff: &'a ProfileDiff,
    calls: &'a Calls,
    enclosing: &'a Enclosing,
    spent: Option<&'a SpentBelow>,
    part: Part,
    changed: &'a [usize],
}

impl Changes<'_> {
    fn caller(&self, row: usize) -> Option<usize> {
        let caller = self.calls.heaviest_caller(row as u32);
        caller.map(|caller| caller as usize)
    }

    fn rise(&self, row: usize) -> f64 {
        self.part.of(&self.diff.functions[row]).difference()
    }

    fn shift(&self, row: usize) -> Option<Shift> {
        // Shares sum up to 1: the whole program proves nothing.
        let is_of_one_side = self.diff.functions[row].is_of_one_side();
        let is_share = self.diff.work == Work::Share && matches!(self.part, Part::Own);
        self.reparented(row)
            .or_else(|| match is_of_one_side && !is_share {
                true => self.shift_of_one_side(row),
                false => self.moved_with(row).map(Shift::Moved),
            })
    }

    /// Judges a total by the self amounts of the functions below. `None` if they explain the
    /// change.
    fn reparented(&self, row: usize) -> Option<Shift> {
        let functions = &self.diff.functions;
        let half = self.rise(row).abs() / 2.0;
        let growth = self.spent?.growth(row, functions);
        let moved = || Shift::Moved(self.largest_against(row, self.caller(row)));
        if growth.possible < half {
            return Some(moved());
        }
        if growth.sure >= half {
            return None;
        }
        // A function of both sides counts, unless calls from another caller explain most of its
        // change.
        if !functions[row].is_of_one_side() {
            return (growth.shown < half).then_some(Shift::Unsure);
        }
        // A one-sided function proves only new calls.
        let along = self.diff.whole.difference() * self.rise(row).signum();
        let others = self.shift_of_one_side(row);
        match growth.shown < half && along < half {
            true => Some(moved()),
            false => others.or(Some(Shift::Unsure)),
        }
    }

    fn shift_of_one_side(&self, row: usize) -> Option<Shift> {
        let functions = &self.diff.functions;
        let above = self.enclosing.nearest(row, functions);
        let total = above.map_or(&self.diff.whole, |above| &functions[above].total);
        let rise = self.rise(row);
        let along = total.difference() * rise.signum();
        let is_sure = total.interval.is_some_and(|ratio| match rise > 0.0 {
            true => ratio.low > 1.0,
            false => ratio.high < 1.0,
        });
        if along < rise.abs() / 2.0 {
            Some(Shift::Moved(self.largest_against(row, self.caller(row))))
        } else if is_sure {
            None
        } else {
            Some(Shift::Unsure)
        }
    }

    /// Returns the largest opposite change if the cost moved. The inner `None`: no single function
    /// shows it.
    fn moved_with(&self, row: usize) -> Option<Option<usize>> {
        let caller = self.caller(row);
        // Includes the function itself: an inlined call adds to its caller's self.
        let own = matches!(self.part, Part::Own).then_some(Some(row));
        for above in [Some(caller), own].into_iter().flatten() {
            if above.is_none() && matches!(self.part, Part::Own) {
                continue;
            }
            let against = self.against(row, above);
            let taken: f64 = against.iter().map(|other| self.rise(*other).abs()).sum();
            let is_balanced = taken >= self.rise(row).abs() / 2.0;
            let total = above.map_or(&self.diff.whole, |above| &self.diff.functions[above].total);
            if is_balanced && stayed(total, self.rise(row)) {
                return Some(self.largest_against(row, above));
            }
        }
        None
    }

    fn against(&self, row: usize, above: Option<usize>) -> Vec<usize> {
        let is_below = |other: &&usize| Some(**other) == above || self.caller(**other) == above;
        (self.changed.iter().filter(is_below))
            .filter(|other| **other != row && self.rise(**other) * self.rise(row) < 0.0)
            .copied()
            .collect()
    }

    fn largest_against(&self, row: usize, above: Option<usize>) -> Option<usize> {
        self.against(row, above).into_iter().max_by(|a, b| {
            let order = self.rise(*a).abs().total_cmp(&self.rise(*b).abs());
            order.then_with(|| b.cmp(a))
        })
    }
}

/// Returns true if a total stayed the same although a part of it changed by `rise`.
fn stayed(total: &Change, rise: f64) -> bool {
    let is_small = total.difference().abs() < rise.abs() / 2.0;
    is_small && total.interval.is_none_or(|ratio| ratio.contains(1.0))
}

/// Marks functions if all changed by one factor. Returns true if so.
pub(super) fn mark_uniform(diff: &mut ProfileDiff, compared: &[(usize, Comparison)]) -> bool {
    let is_changed = matches!(
        diff.whole.verdict,
        Verdict::Regressed | Verdict::Improved | Verdict::Suspected
    );
    let comparisons: Vec<Comparison> = compared.iter().map(|(_, c)| *c).collect();
    let Some(common) = CommonChange::of(&comparisons) else {
        return false;
    };
    if !is_changed || comparisons.len() < SEVERAL || common.p <= AGREE {
        return false;
    }
    let Some(whole) = diff.whole.relative().map(f64::ln_1p) else {
        return false;
    };
    // If one function dominates, the others must have changed as well.
    let hottest = compared.iter().map(|(row, _)| &diff.functions[*row].own);
    let hottest = hottest.max_by(|a, b| (a.old + a.new).total_cmp(&(b.old + b.new)));
    let rest = hottest.map_or(0.0, |hottest| {
        let [old, new] = [diff.whole.old - hottest.old, diff.whole.new - hottest.new];
        if old > 0.0 && new > 0.0 {
            (new / old).ln()
        } else {
            0.0
        }
    });
    let is_shared = common.log_ratio * whole > 0.0 && rest * whole > 0.0;
    if !is_shared || rest.abs() < whole.abs() / 2.0 {
        return false;
    }
    for function in &mut diff.functions {
        for change in [&mut function.own, &mut function.total] {
            if change.verdict.is_marked() {
                change.verdict = Verdict::WithAll;
            }
        }
        function.counterpart = None;
    }
    true
}
