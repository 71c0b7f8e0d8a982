//! [`Hours`]: the time range of a query.

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};
use rprof_fleet_table::partition::HOUR;

/// Range of window start times, in seconds since 1970. `None` is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hours {
    /// Inclusive start.
    pub since: Option<i64>,
    /// Exclusive end.
    pub until: Option<i64>,
}

impl Hours {
    /// Returns whether a partition may have windows in the range. `hour` is the start of its hour
    /// in seconds.
    pub fn has(&self, hour: i64) -> bool {
        self.since.is_none_or(|since| hour + HOUR > since)
            && self.until.is_none_or(|until| hour < until)
    }
}

/// Returns the start of the hour of a file's partition, from its path
/// `TABLE/date=2023-11-14/hour=22/NAME`.
pub fn hour_of(path: &str) -> Option<i64> {
    let mut parts = path.split('/').skip(1);
    let date = parts.next()?.strip_prefix("date=")?;
    let hour: u32 = parts.next()?.strip_prefix("hour=")?.parse().ok()?;
    parts.next()?;
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    let begin = date.and_hms_opt(hour, 0, 0)?.and_utc().timestamp();
    parts.next().is_none().then_some(begin)
}

/// Parses a time: `2023-11-14`, `2023-11-14T22:00`, the same with seconds or a time zone, or a time
/// ago: `90m`, `1h`, `7d`.
///
/// # Errors
/// The text has none of these forms.
pub fn moment(text: &str, now: DateTime<Utc>) -> Result<i64, String> {
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    if let Ok(number) = number.parse::<i64>() {
        let ago = match unit {
            "s" => TimeDelta::try_seconds(number),
            "m" => TimeDelta::try_minutes(number),
            "h" => TimeDelta::try_hours(number),
            "d" => TimeDelta::try_days(number),
            _ => None,
        };
        if let Some(then) = ago.and_then(|ago| now.checked_sub_signed(ago)) {
            return Ok(then.timestamp());
        }
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.timestamp());
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    for form in ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"] {
        if let Ok(time) = NaiveDateTime::parse_from_str(text, form) {
            return Ok(time.and_utc().timestamp());
        }
    }
    if let Some((date, hour)) = text.split_once('T')
        && let (Ok(date), Ok(hour)) = (NaiveDate::parse_from_str(date, "%Y-%m-%d"), hour.parse())
        && let Some(time) = date.and_hms_opt(hour, 0, 0)
    {
        return Ok(time.and_utc().timestamp());
    }
    NaiveDate::parse_from_str(text, "%Y-%m-%d")
        .ok()
        .and_then(|date| date.and_hms_opt(0, 0, 0))
        .map(|time| time.and_utc().timestamp())
        .ok_or_else(|| {
            "a moment is a date (2023-11-14), a time in UTC (2023-11-14T22:00), or so long ago: 90m, 1h, 7d".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_those_of_paths() {
        let path = "samples/date=2023-11-14/hour=22/a.parquet";
        assert_eq!(hour_of(path), Some(1_699_999_200));
        for path in [
            "samples/a.parquet",
            "samples/date=x/hour=22/a",
            "samples/date=2023-11-14/hour=24/a",
            "samples/date=2023-11-14/hour=22",
            "samples/date=2023-11-14/hour=22/more/a",
        ] {
            assert_eq!(hour_of(path), None, "{path}");
        }
    }

    #[test]
    fn moments_are_times_or_so_long_ago() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        for (text, expected) in [
            ("1h", 1_699_996_400),
            ("2d", 1_699_827_200),
            ("2023-11-14", 1_699_920_000),
            ("2023-11-14T22", 1_699_999_200),
            ("2023-11-14T22:13:20Z", 1_700_000_000),
            ("2023-11-14T23:13:20+01:00", 1_700_000_000),
        ] {
            assert_eq!(moment(text, now), Ok(expected), "{text}");
        }
        for text in ["", "h", "yesterday", "99999999999999d", "é"] {
            assert!(moment(text, now).is_err(), "{text}");
        }
    }

    #[test]
    fn partitions_that_end_before_are_left_out() {
        let hours = Hours {
            since: Some(HOUR + 1),
            until: Some(3 * HOUR),
        };
        let found: Vec<bool> = (0..4).map(|hour| hours.has(hour * HOUR)).collect();
        assert_eq!(found, [false, true, true, false]);
    }
}
