//! Choice and order of rows.

use rprof_profile::compare::{Change, FunctionDiff, Presence, ProfileDiff, Verdict};

use super::DiffOptions;

/// Order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// By how much self changed, in either direction.
    #[default]
    Change,
    /// By self, on the side that has more of it.
    Own,
    /// By total, on the side that has more of it.
    Total,
    /// By name.
    Name,
}

/// Reason for which rows are not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// There are more rows than were asked for.
    BeyondLimit,
    /// Their totals changed because that of a function below them did, which is shown.
    Callers,
    /// No change of them is sure that reaches the threshold and counts.
    NothingSure,
}

/// Rows that are shown.
#[derive(Debug)]
pub(super) struct ChosenRows<'d> {
    pub(super) rows: Vec<&'d FunctionDiff>,
    /// Numbers of rows that are not shown, by reason; none is 0.
    pub(super) hidden: Vec<(usize, Hidden)>,
    /// No row is marked: those that are shown changed most.
    pub(super) none_marked: bool,
}

/// Rows that are shown where none is marked.
const LARGEST: usize = 10;

/// Chooses the rows for people: those that changed, or those that changed most if none did.
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

/// Returns all rows in order.
pub(super) fn sorted(diff: &ProfileDiff, sort: SortBy) -> Vec<&FunctionDiff> {
    let mut rows: Vec<&FunctionDiff> = diff.functions.iter().collect();
    let more = |change: &Change| change.old.max(change.new);
    let by = |row: &FunctionDiff| match sort {
        SortBy::Change => (row.own.difference().abs(), row.total.difference().abs()),
        SortBy::Own => (more(&row.own), more(&row.total)),
        SortBy::Total => (more(&row.total), more(&row.own)),
        SortBy::Name => (0.0, 0.0),
    };
    // Rows stand by name; the sort is stable.
    rows.sort_by(|a, b| {
        let (a, b) = (by(a), by(b));
        b.0.total_cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
    });
    rows
}

/// Mark of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It takes more, or less, by itself.
    Own(Verdict),
    /// Calls below it do.
    Total(Verdict),
    /// It is new or gone, and no verdict is on it.
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

/// Returns the sign of a row: `▲` takes more, `▼` takes less, `?` behind it if that is suspected, `↔` moved, `·` what it
/// calls changed.
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

/// Returns the word beside a row: `new`, `gone`, `moved from …`.
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
