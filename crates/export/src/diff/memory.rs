//! [`headline`]: the verdict on memory with one run a side.
//!
//! Bytes of memory are counted, or sampled with a small error, and few stacks hold most of them. So
//! statistics of CPU samples do not apply, and the question is another one: what grew?

use rprof_profile::WeightUnit;
use rprof_profile::compare::{Caution, Change, FunctionDiff, Noise, ProfileDiff};
use rprof_profile::memory::{MEMORY_OBJECT, RESIDENT_BEFORE};

use super::amount::{amount, change};

/// A function has the growth of another one if its own growth is at least this part of it.
const MOST: f64 = 0.9;

/// Objects of allocators and of code that writes memory for its callers.
const RUNTIMES: [&str; 7] = [
    "libc.so",
    "ld-linux",
    "ld-musl",
    "libstdc++",
    "libc++",
    "malloc",
    "[kernel",
];

pub(super) fn is_counted(diff: &ProfileDiff) -> bool {
    diff.unit == WeightUnit::Bytes && matches!(diff.noise, Noise::Assumed(_))
}

/// Returns true for a caution about samples, which are no measure of memory.
pub(super) fn is_about_samples(diff: &ProfileDiff, caution: &Caution) -> bool {
    is_counted(diff) && matches!(caution, Caution::FewSamples(..))
}

/// Returns the verdict as one sentence without a full stop; `None` for other amounts. `name` returns
/// the clean name of a function.
pub(super) fn headline(
    diff: &ProfileDiff,
    name: impl Fn(&FunctionDiff) -> String,
) -> Option<String> {
    if !is_counted(diff) {
        return None;
    }
    let whole = &diff.whole;
    let text = |change_: &Change| {
        let amounts = [change_.old, change_.new].map(|bytes| amount(diff, bytes));
        format!("{} → {}, {}", amounts[0], amounts[1], change(change_))
    };
    let (rises, word) = match whole.difference() >= 0.0 {
        true => (1.0, "GREW"),
        false => (-1.0, "SHRANK"),
    };
    let most = cause(diff, rises).map(|row| {
        let part = match row.own.difference() * rises >= MOST * row.total.difference() * rises {
            true => &row.own,
            false => &row.total,
        };
        format!(", most of all {} ({})", name(row), text(part))
    });
    if whole.difference().abs() <= diff.threshold * whole.old.max(whole.new) {
        let largest = most
            .filter(|_| whole.difference() != 0.0)
            .unwrap_or_default();
        return Some(format!("UNCHANGED: memory {}{largest}", text(whole)));
    }
    let before = diff.functions.iter().find(|row| is_before(row));
    let is_older = before.is_some_and(|row| {
        row.own.difference() * rises > (1.0 - MOST) * whole.difference() * rises
    });
    let advice = match is_older {
        true => {
            "; what was there before a recording has no stacks: compare moments of one (--at 10%,90%)"
        }
        false => "",
    };
    Some(format!(
        "{word}: memory {}{}{advice}",
        text(whole),
        most.unwrap_or_default()
    ))
}

fn is_before(row: &FunctionDiff) -> bool {
    *row.object == *MEMORY_OBJECT && row.name.as_deref() == Some(RESIDENT_BEFORE)
}

/// Returns the function that the growth belongs to: of those with most of the largest own growth in
/// themselves and their callees, the one that holds least other memory. Callees in allocators
/// write the memory of their callers.
fn cause(diff: &ProfileDiff, rises: f64) -> Option<&FunctionDiff> {
    let growth = |change: &Change| change.difference() * rises;
    // Kinds of mappings are callers of everything.
    let is_kind = |row: &FunctionDiff| row.own.old + row.own.new == 0.0 || is_before(row);
    let is_cause = |row: &&FunctionDiff| *row.object != *MEMORY_OBJECT || !is_kind(row);
    let functions = diff.functions.iter().filter(is_cause);
    let own = functions.clone().map(|row| growth(&row.own));
    let largest = own.fold(0.0, f64::max);
    let share = |row: &FunctionDiff| growth(&row.total) / row.total.old.max(row.total.new);
    let holds_it = |row: &&FunctionDiff| largest > 0.0 && growth(&row.total) >= MOST * largest;
    let candidates: Vec<_> = functions.filter(holds_it).collect();
    let purest = candidates.iter().map(|row| share(row)).fold(0.0, f64::max);
    let is_runtime = |row: &FunctionDiff| RUNTIMES.iter().any(|one| row.object.contains(one));
    let key = |row: &FunctionDiff| (row.name.is_some() && !is_runtime(row), growth(&row.own));
    (candidates
        .into_iter()
        .filter(|row| share(row) >= MOST * purest))
    .max_by(|a, b| {
        let ((a_known, a_own), (b_known, b_own)) = (key(a), key(b));
        let by_total = || growth(&b.total).total_cmp(&growth(&a.total));
        (a_known.cmp(&b_known)).then_with(|| a_own.total_cmp(&b_own).then_with(by_total))
    })
}
