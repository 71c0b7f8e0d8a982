//! Choice and order of rows.

use rprof_profile::compare::{Change, FunctionDiff, Presence, ProfileDiff, Verdict};

use super::DiffOptions;

/// Order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// By absolute change of self.
    #[default]
    Change,
    /// By self, on the larger side.
    Own,
    /// By total, on the larger side.
    Total,
    /// By name.
    Name,
}

/// Reason why rows are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// They exceed the row limit.
    BeyondLimit,
    /// Their totals changed because of a shown descendant.
    Callers,
    /// They have no significant change that reaches the threshold.
    NothingSure,
}

#[derive(Debug)]
pub(super) struct ChosenRows<'d> {
    pub(super) rows: Vec<&'d FunctionDiff>,
    /// Numbers of hidden rows, by reason; never 0.
    pub(super) hidden: Vec<(usize, Hidden)>,
    /// True if no row is marked. Then `rows` has the largest changes.
    pub(super) none_marked: bool,
}

const LARGEST: usize = 10;

/// Chooses the marked rows, or the largest changes if none is marked.
pub(super) fn for_people<'d>(diff: &'d ProfileDiff, options: &DiffOptions) -> ChosenRows<'d> {
    let mut rows = sorted(diff, options.sort);
    let none_marked = !rows.iter().any(|row| mark(row) != Mark::None);
    let has_changed =
        |row: &&FunctionDiff| row.own.difference() != 0.0 || row.total.difference() != 0.0;
    let all = rows.len();
    let mut callers = 0;
    if !options.all {
        match none_marked {
            true => {
                rows.retain(has_changed);
                rows.truncate(LARGEST);
            }
            false => {
                rows.retain(|row| mark(row) != Mark::None);
                let marked = rows.len();
                rows.retain(|row| row.explained_by.is_none());
                callers = marked - rows.len();
            }
        }
    }
    let nothing_sure = all - rows.len() - callers;
    let shown = rows.len().min(options.limit.unwrap_or(usize::MAX));
    let beyond = rows.len() - shown;
    rows.truncate(shown);
    let mut hidden = vec![
        (beyond, Hidden::BeyondLimit),
        (callers, Hidden::Callers),
        (nothing_sure, Hidden::NothingSure),
    ];
    hidden.retain(|(count, _)| *count > 0);
    ChosenRows {
        rows,
        hidden,
        none_marked,
    }
}

pub(super) fn sorted(diff: &ProfileDiff, sort: SortBy) -> Vec<&FunctionDiff> {
    let mut rows: Vec<&FunctionDiff> = diff.functions.iter().collect();
    let more = |change: &Change| change.old.max(change.new);
    let by = |row: &FunctionDiff| match sort {
        SortBy::Change => (row.own.difference().abs(), row.total.difference().abs()),
        SortBy::Own => (more(&row.own), more(&row.total)),
        SortBy::Total => (more(&row.total), more(&row.own)),
        SortBy::Name => (0.0, 0.0),
    };
    // Stable: the input is sorted by name.
    rows.sort_by(|a, b| {
        let (a, b) = (by(a), by(b));
        b.0.total_cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
    });
    rows
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Own(Verdict),
    /// Only the total changed.
    Total(Verdict),
    /// The function is new or gone, without a verdict.
    Presence,
    None,
}

pub(super) fn mark(row: &FunctionDiff) -> Mark {
    if row.own.verdict.is_marked() {
        return Mark::Own(row.own.verdict);
    }
    if row.total.verdict.is_marked() {
        return Mark::Total(row.total.verdict);
    }
    let is_judged = row.total.verdict != Verdict::TooSmall;
    match row.presence != Presence::Both && is_judged {
        true => Mark::Presence,
        false => Mark::None,
    }
}

/// Returns the sign of a row: `▲` increase, `▼` decrease, with `?` if suspected; `↔` moved; `·` a
/// callee changed.
pub(super) fn sign(row: &FunctionDiff) -> String {
    let arrow = |change: &Change| match change.difference() > 0.0 {
        true => "▲",
        false => "▼",
    };
    match mark(row) {
        Mark::Own(Verdict::Moved) | Mark::Total(Verdict::Moved) => "↔".into(),
        Mark::Own(Verdict::Suspected) => format!("{}?", arrow(&row.own)),
        Mark::Own(_) => arrow(&row.own).into(),
        Mark::Total(_) => "·".into(),
        Mark::Presence | Mark::None => String::new(),
    }
}

pub(super) fn note(diff: &ProfileDiff, row: &FunctionDiff) -> String {
    let presence = match row.presence {
        Presence::OnlyNew => "new",
        Presence::OnlyOld => "gone",
        Presence::Both => "",
    };
    match row.counterpart.map(|index| &diff.functions[index]) {
        None => presence.into(),
        Some(other) => {
            let moved = match mark(row) {
                Mark::Total(_) => &row.total,
                _ => &row.own,
            };
            let direction = match moved.difference() > 0.0 {
                true => "from",
                false => "to",
            };
            let name = super::words::name(other);
            let moved = format!("moved {direction} {name}");
            match presence {
                "" => moved,
                _ => format!("{presence}, {moved}"),
            }
        }
    }
}
