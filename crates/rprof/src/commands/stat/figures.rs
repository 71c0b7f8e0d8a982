//! Formats numbers for people.

use indicatif::HumanCount;
use rprof_counting::MetricUnit;

use super::rows::Unit;

/// Formats a value with its unit, such as `1.234 s`, `48.2 MiB` or `12,345`.
pub(super) fn figure(number: f64, unit: &Unit) -> String {
    match unit {
        Unit::Time => time(number),
        Unit::Bytes => bytes(number),
        Unit::Count => count(number),
        Unit::Scaled(factor, name) => format!("{} {name}", digits(number * factor))
            .trim_end()
            .to_owned(),
        Unit::Metric(MetricUnit::Plain) => format!("{number:.2}"),
        Unit::Metric(MetricUnit::Share) => percent(number),
        Unit::Metric(MetricUnit::Gigahertz) => format!("{number:.3} GHz"),
    }
}

pub(super) fn time(nanoseconds: f64) -> String {
    let (factor, unit) = match nanoseconds.abs() {
        n if n >= 1e9 => (1e9, "s"),
        n if n >= 1e6 => (1e6, "ms"),
        n if n >= 1e3 => (1e3, "µs"),
        0.0 => (1e6, "ms"),
        _ => (1.0, "ns"),
    };
    format!("{} {unit}", digits(nanoseconds / factor))
}

fn bytes(number: f64) -> String {
    let (factor, unit) = match number {
        n if n >= 1024.0 * 1024.0 * 1024.0 => (1024.0 * 1024.0 * 1024.0, "GiB"),
        n if n >= 1024.0 * 1024.0 => (1024.0 * 1024.0, "MiB"),
        n if n >= 1024.0 => (1024.0, "KiB"),
        _ => (1.0, "B"),
    };
    format!("{} {unit}", digits(number / factor))
}

/// Formats a count, or a mean of counts, with commas.
fn count(number: f64) -> String {
    match number.fract() == 0.0 || number >= 1000.0 {
        true => HumanCount(number.round() as u64).to_string(),
        false => format!("{number:.1}"),
    }
}

/// Formats a number with four digits, or all digits before the point.
fn digits(number: f64) -> String {
    match number.abs() {
        n if n >= 999.95 => HumanCount(number.abs().round() as u64).to_string(),
        n if n >= 99.995 => format!("{number:.1}"),
        n if n >= 9.9995 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

/// Formats a share in percent: 0.031 is `3.1 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        n if n >= 99.95 => format!("{percent:.0} %"),
        n if n >= 0.995 || n == 0.0 => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

/// Formats a ratio as a change in percent: 1.05 is `+5.0 %`.
pub(super) fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "unknown".to_owned();
    }
    let text = percent(ratio - 1.0);
    match text.starts_with('-') {
        true => text.replacen('-', "−", 1),
        false => format!("+{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_and_a_unit() {
        let of = |number, unit| figure(number, &unit);
        assert_eq!(of(1_234_567_890.0, Unit::Time), "1.235 s");
        assert_eq!(of(48_250_000.0, Unit::Time), "48.25 ms");
        assert_eq!(of(999_960.0, Unit::Time), "1,000 µs");
        assert_eq!(
            (of(0.0, Unit::Time), of(7.0, Unit::Time)),
            ("0.000 ms".into(), "7.000 ns".into())
        );
        assert_eq!(of(50_593_792.0, Unit::Bytes), "48.25 MiB");
        assert_eq!(
            (of(1_234_567.0, Unit::Count), of(0.5, Unit::Count)),
            ("1,234,567".into(), "0.5".into())
        );
        assert_eq!(of(4.0, Unit::Scaled(0.25, "Joules".into())), "1.000 Joules");
        assert_eq!(of(0.0249, Unit::Metric(MetricUnit::Share)), "2.5 %");
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(
            (change(1.05), change(0.941)),
            ("+5.0 %".into(), "−5.9 %".into())
        );
        assert_eq!(
            (change(1.0), change(1.0004)),
            ("+0.0 %".into(), "+0.04 %".into())
        );
        assert_eq!(
            (change(3.0), change(f64::INFINITY)),
            ("+200 %".into(), "unknown".into())
        );
    }
}
