//! Amounts and changes as text.

use rprof_profile::WeightUnit;
use rprof_profile::compare::{Change, ProfileDiff, Work};
use rprof_profile::waits::noun_of_time;

use crate::amounts::{bytes, duration};
use crate::clean::clean;

/// Formats an amount in the comparison's unit: `1.92 s`, `12.3 %`, `0.83 CPUs`, `2.41 G`.
pub(super) fn amount(diff: &ProfileDiff, value: f64) -> String {
    match (&diff.unit, diff.work) {
        (_, Work::Share) => format!("{:.2} %", value * 100.0),
        (WeightUnit::Nanoseconds, Work::Seconds) => format!("{:.3} CPUs", value / 1e9),
        (WeightUnit::Nanoseconds, _) => duration(value.round() as u64),
        (WeightUnit::Bytes, Work::Seconds) => format!("{}/s", bytes(value.round() as u64)),
        (WeightUnit::Bytes, _) => bytes(value.round() as u64),
        (_, Work::Seconds) => format!("{}/s", scaled(value)),
        _ => scaled(value),
    }
}

pub(super) fn noun(diff: &ProfileDiff) -> String {
    let noun = match &diff.unit {
        WeightUnit::Nanoseconds => clean(noun_of_time(&diff.event)).into_owned(),
        WeightUnit::Bytes => "memory".into(),
        WeightUnit::Events => clean(&diff.event).into_owned(),
        unit => clean(unit.as_str()).into_owned(),
    };
    match diff.work {
        Work::Run => noun,
        Work::Units { .. } => format!("{noun} per unit of work"),
        Work::Seconds => format!("{noun} per second"),
        Work::Share => format!("share of the {noun}"),
    }
}

/// Formats a number with three digits and an SI prefix: `812`, `1.23 k`, `45.6 M`.
fn scaled(value: f64) -> String {
    let prefixes = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let fits = prefixes
        .into_iter()
        .find(|(from, _)| value >= from * 0.9995);
    let (scale, prefix) = fits.unwrap_or((1.0, ""));
    match value / scale {
        whole if scale == 1.0 && whole.fract() == 0.0 => format!("{whole:.0}"),
        small if small < 9.995 => format!("{small:.2}{prefix}"),
        some if some < 99.95 => format!("{some:.1}{prefix}"),
        many => format!("{many:.0}{prefix}"),
    }
}

/// Formats a relative change: `+20 %`, `-3.1 %`, or `x12` for large factors.
pub(super) fn percent(relative: f64) -> String {
    let percent = relative * 100.0;
    match percent.abs() {
        many if many >= 1000.0 => format!("x{:.0}", relative + 1.0),
        some if some >= 9.95 => format!("{percent:+.0} %"),
        few if few < 0.05 => "0 %".into(),
        _ => format!("{percent:+.1} %"),
    }
}

pub(super) fn change(change: &Change) -> String {
    match (change.old > 0.0, change.new > 0.0, change.relative()) {
        (false, true, _) => "new".into(),
        (true, false, _) => "gone".into(),
        (.., Some(relative)) => percent(relative),
        _ => String::new(),
    }
}

/// Formats the confidence interval of a change: `[+16.2 %, +24.9 %]`.
pub(super) fn interval(change: &Change) -> Option<String> {
    let interval = change.interval?;
    let [low, high] = [interval.low, interval.high].map(|ratio| end(ratio - 1.0));
    Some(format!("[{low}, {high}]"))
}

/// Formats an end of an interval, exact enough to compare with 0 and with a threshold.
fn end(relative: f64) -> String {
    let percent_of = relative * 100.0;
    match percent_of.abs() {
        none if none < 0.005 => "0 %".into(),
        few if few < 0.05 => format!("{percent_of:+.2} %"),
        some if some < 100.0 => format!("{percent_of:+.1} %"),
        _ => percent(relative),
    }
}

/// Formats a threshold as the user types it, without a sign: `5 %`, `2.25 %`.
pub(super) fn limit(threshold: f64) -> String {
    format!("{} %", (threshold * 1e4).round() / 100.0)
}

/// Formats a difference in percentage points of the whole program: `+3.1 pp`.
pub(super) fn points(diff: &ProfileDiff, change: &Change) -> String {
    match diff.whole.old > 0.0 {
        true => format!("{:+.1} pp", 100.0 * change.difference() / diff.whole.old),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_prefix_that_fits() {
        let shown = [
            0.0, 12.0, 12.5, 999.0, 1234.0, 45_600.0, 999_900.0, 2.41e9, 7e15,
        ]
        .map(scaled);
        let expected = [
            "0", "12", "12.5", "999", "1.23 k", "45.6 k", "1.00 M", "2.41 G", "7000 T",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn changes_have_the_digits_that_say_something() {
        let shown = [0.2, -0.031, 0.0004, 0.0996, -0.5, 11.0].map(percent);
        assert_eq!(shown, ["+20 %", "-3.1 %", "0 %", "+10 %", "-50 %", "x12"]);
    }
}
