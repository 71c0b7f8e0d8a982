//! Amounts formatted for people.

pub(crate) use rprof_profile::unit::{counted, grouped as count, inflected};

/// Percentages below this print as 0.00 %.
pub(crate) const SHOWN_AS_ZERO: f64 = 0.005;

/// Returns `part` as a percentage of `whole`, or 0 if `whole` is 0.
pub fn percent(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 * 100.0 / whole as f64,
    }
}

/// Formats a duration: `1.0 ms`, `2.50 s`, `3 min 20 s`.
pub(crate) fn duration(nanoseconds: u64) -> String {
    let ns = nanoseconds as f64;
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..999_950 => format!("{:.1} µs", ns / 1e3),
        999_950..999_950_000 => format!("{:.1} ms", ns / 1e6),
        999_950_000..99_995_000_000 => format!("{:.2} s", ns / 1e9),
        _ => {
            let seconds = nanoseconds.saturating_add(500_000_000) / 1_000_000_000;
            match seconds / 3600 {
                0 => format!("{} min {} s", seconds / 60, seconds % 60),
                hours => format!("{hours} h {} min", seconds % 3600 / 60),
            }
        }
    }
}

/// Formats bytes with a binary unit: `512 B`, `1.50 KiB`, `64.2 MiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut size = number as f64 / 1024.0;
    let mut unit = 0;
    // Rounding must not give 1,024 of a unit.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let digits = match size {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{size:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        for (nanoseconds, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (999_949, "999.9 µs"),
            (1_001_001, "1.0 ms"),
            (999_949_999, "999.9 ms"),
            (999_950_000, "1.00 s"),
            (12_345_678_901, "12.35 s"),
            (99_994_999_999, "99.99 s"),
            (99_995_000_000, "1 min 40 s"),
            (7_500_000_000_000, "2 h 5 min"),
        ] {
            assert_eq!(duration(nanoseconds), expected);
        }
    }

    #[test]
    fn bytes_have_three_digits_and_a_binary_unit() {
        for (number, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (65_992 << 10, "64.4 MiB"),
            (1000 << 20, "0.98 GiB"),
            (999 << 20, "999 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), expected);
        }
    }
}
