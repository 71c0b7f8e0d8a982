//! Numbers in columns.

use rprof_export::rows::percent;
use rprof_profile::WeightUnit;
use rprof_profile::unit::inflected;

use crate::state::State;
use crate::view::View;

/// First columns of the fields in the table of functions.
pub(super) const TOTAL: usize = 9;
pub(super) const SAMPLES: usize = 18;
pub(super) const SINCE_START: usize = 29;

/// Width of the columns since the start.
const SINCE_WIDTH: usize = 20;

/// Minimum screen width for them.
const MIN_FOR_SINCE: u16 = 76;

/// Returns true if the table of functions has self and total since the start. They include all
/// samples, so filters hide them.
pub(super) fn shows_since_start(state: &State) -> bool {
    let is_wide = state.screen.width >= MIN_FOR_SINCE;
    state.source.live.is_some() && is_wide && state.filters.is_empty()
}

pub(super) fn name_column(state: &State) -> usize {
    match shows_since_start(state) {
        true => SINCE_START + SINCE_WIDTH,
        false => SINCE_START,
    }
}

pub(super) fn share(part: u64, whole: u64) -> String {
    format!("{:.2}", percent(part, whole))
}

/// Formats a weight in eight columns, as percentage or amount.
pub(super) fn amount(state: &State, weight: u64) -> String {
    if !state.look.shows_weight {
        return format!("{:>7}%", share(weight, state.base()));
    }
    let unit = state.model.profile.events.get(state.model.event);
    match unit.map(|event| &event.unit) {
        Some(WeightUnit::Nanoseconds) if state.model.by == rprof_profile::WeighBy::Period => {
            format!("{:>7.3}s", weight as f64 / 1e9)
        }
        _ => format!("{:>8}", short(weight)),
    }
}

/// Formats a number in at most seven characters. Above six digits, uses k, M, G, …
pub(super) fn short(number: u64) -> String {
    let mut rest = number as f64;
    for unit in ["", "k", "M", "G", "T", "P"] {
        if unit.is_empty() && number < 1_000_000 {
            return number.to_string();
        }
        if !unit.is_empty() && rest < 10_000.0 {
            return format!("{rest:.1}{unit}");
        }
        rest /= 1000.0;
    }
    format!("{rest:.0}E")
}

/// Describes the selected box, or the time range of the cursor, for the status line.
pub(super) fn of_selection(state: &State) -> String {
    match state.look.view {
        View::Flame => {
            let Some(tree) = &state.tree else {
                return String::new();
            };
            let hidden = match state.flame.hidden {
                0 => String::new(),
                weight => format!(
                    "   {} narrower than a cell: {}%",
                    state.flame.marks.len(),
                    share(weight, state.base())
                ),
            };
            let Some(node) = state.look.flame_node else {
                let whole = share(state.model.whole, state.base());
                return format!("all {whole}%{hidden}");
            };
            let total = tree.calls.total(node);
            let function = tree.calls.function(node);
            let zoomed = match state.look.zoom {
                Some(zoom) if zoom != node => {
                    format!(" ({}% of the zoom)", share(total, tree.calls.total(zoom)))
                }
                _ => String::new(),
            };
            format!(
                "{}%{zoomed}  {}  {}{hidden}",
                share(total, state.base()),
                state.model.name(function),
                state.model.object(function)
            )
        }
        View::Time => super::time::of_cursor(state),
        _ => {
            let filtered = match state.model.whole == state.model.all {
                true => String::new(),
                false => format!(" of all: {}%", share(state.model.whole, state.model.all)),
            };
            let samples = inflected(state.model.samples, "sample");
            format!("{} {samples}{filtered}", state.model.samples)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        for (number, text) in [
            (0, "0"),
            (999_999, "999999"),
            (1_000_000, "1000.0k"),
            (12_345_678, "12.3M"),
            (u64::MAX, "18.4E"),
        ] {
            let made = short(number);
            assert!(made.len() <= 7, "{made}");
            if number < 2_000_000 || number == 12_345_678 {
                assert_eq!(made, text);
            }
        }
    }
}
