//! Value of `--time`: a time range. Each end is absolute, or relative to the start or end of a
//! recording.

use std::fmt;

use rprof_analysis::MemoryTime;

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// Nanoseconds of the recording's clock.
    Clock(u64),
    /// Share of the time from the first sample to the last, from 0 to 1.
    Share(f64),
    /// Nanoseconds after the first sample.
    AfterStart(u64),
    /// Nanoseconds before the last sample.
    BeforeEnd(u64),
}

/// Value of `--time`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeSpan {
    from: Option<Moment>,
    to: Option<Moment>,
}

impl TimeSpan {
    /// Parses `FROM,TO`, or a slice as perf writes it.
    pub(super) fn parse(text: &str) -> Result<TimeSpan, String> {
        let span = match text.split_once(',') {
            Some((from, to)) => TimeSpan {
                from: moment(from)?,
                to: moment(to)?,
            },
            None => slice(text).ok_or("expected FROM,TO, such as `1.5,3`, `10%,20%` or `-5s,`")?,
        };
        let is_backward = match (span.from, span.to) {
            (Some(Moment::Clock(from)), Some(Moment::Clock(to)))
            | (Some(Moment::AfterStart(from)), Some(Moment::AfterStart(to)))
            | (Some(Moment::BeforeEnd(to)), Some(Moment::BeforeEnd(from))) => from > to,
            (Some(Moment::Share(from)), Some(Moment::Share(to))) => from > to,
            _ => false,
        };
        match is_backward {
            true => Err("TO is before FROM".into()),
            false => Ok(span),
        }
    }

    /// Parses a time of a recording of memory, or `FROM,TO`. A bare number of seconds counts from
    /// the start.
    pub(super) fn memory_times(text: &str) -> Result<(Option<MemoryTime>, MemoryTime), String> {
        let at = |moment| match moment {
            Moment::Clock(after) | Moment::AfterStart(after) => MemoryTime::AfterStart(after),
            Moment::BeforeEnd(before) => MemoryTime::BeforeEnd(before),
            Moment::Share(share) => MemoryTime::Share(share),
        };
        let expected = "expected end, peak, ever, a time such as 10s or 50%, or FROM,TO";
        if text.contains(',') {
            let span = TimeSpan::parse(text)?;
            return match (span.from, span.to) {
                (Some(from), Some(to)) => Ok((Some(at(from)), at(to))),
                _ => Err(expected.into()),
            };
        }
        match moment(text) {
            Ok(Some(time)) => Ok((None, at(time))),
            _ => Err(expected.into()),
        }
    }

    /// Returns the first and last time, in nanoseconds of the recording's clock, from the times of
    /// its first and last sample; `None` if the range needs these and they are unknown.
    pub(crate) fn resolve(self, samples: Option<(u64, u64)>) -> Option<(u64, u64)> {
        let at = |moment| {
            Some(match (moment, samples) {
                (Moment::Clock(time), _) => time,
                (_, None) => return None,
                (Moment::Share(share), Some((first, last))) => {
                    let after = last.saturating_sub(first) as f64 * share;
                    first.saturating_add(after as u64)
                }
                (Moment::AfterStart(after), Some((first, _))) => first.saturating_add(after),
                (Moment::BeforeEnd(before), Some((_, last))) => last.saturating_sub(before),
            })
        };
        let from = self.from.map_or(Some(0), at)?;
        let to = self.to.map_or(Some(u64::MAX), at)?;
        Some((from, to))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        for (index, moment) in [self.from, self.to].into_iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match moment {
                None => {}
                Some(Moment::Clock(time)) => write!(f, "{}", seconds(time))?,
                Some(Moment::Share(share)) => write!(f, "{}%", share * 100.0)?,
                Some(Moment::AfterStart(after)) => write!(f, "+{}s", seconds(after))?,
                Some(Moment::BeforeEnd(before)) => write!(f, "-{}s", seconds(before))?,
            }
        }
        Ok(())
    }
}

/// Parses perf's slices: `10%-20%`, and `10%/2` for the second tenth.
fn slice(text: &str) -> Option<TimeSpan> {
    let share = |text: &str| match moment(text) {
        Ok(Some(Moment::Share(share))) => Some(share),
        _ => None,
    };
    let (from, to) = match text.split_once("%-") {
        Some((from, to)) => (share(&format!("{from}%"))?, share(to)?),
        None => {
            let (length, number) = text.split_once('/')?;
            let (length, number) = (share(length)?, number.parse::<u32>().ok()?);
            let end = |slices: u32| (length * f64::from(slices)).min(1.0);
            (end(number.checked_sub(1)?), end(number))
        }
    };
    Some(TimeSpan {
        from: Some(Moment::Share(from)),
        to: Some(Moment::Share(to)),
    })
}

/// Parses `12.5`, `12.5s` (absolute), `10%`, `+5s` or `-5s`; an empty text leaves the end open.
fn moment(text: &str) -> Result<Option<Moment>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(share) = text.strip_suffix('%') {
        return match share.parse::<f64>() {
            Ok(share) if (0.0..=100.0).contains(&share) => Ok(Some(Moment::Share(share / 100.0))),
            _ => Err(format!("{text:?} is not a share from 0% to 100%")),
        };
    }
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (number, unit) = match (bare.strip_suffix("ms"), bare.strip_suffix('s')) {
        (Some(number), _) => (number, 1e6),
        (_, Some(number)) => (number, 1e9),
        _ => (bare, 1e9),
    };
    let nanos = match number.parse::<f64>() {
        Ok(n) if n.is_finite() && n >= 0.0 => (n * unit) as u64,
        _ => return Err(format!("{text:?} is not a number of seconds")),
    };
    Ok(Some(match text.as_bytes()[0] {
        b'+' => Moment::AfterStart(nanos),
        b'-' => Moment::BeforeEnd(nanos),
        _ => Moment::Clock(nanos),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_from_the_clock_the_start_or_the_end() {
        let of = |text: &str| TimeSpan::parse(text).map(|span| span.resolve(Some((1_000, 2_000))));
        assert_eq!(of("1.5,2s"), Ok(Some((1_500_000_000, 2_000_000_000))));
        assert_eq!(of("10%,20%"), Ok(Some((1_100, 1_200))));
        assert_eq!(of("-0.0000001s,"), Ok(Some((1_900, u64::MAX))));
        assert_eq!(of("+0.0001ms,-0.0001ms"), Ok(Some((1_100, 1_900))));
        assert_eq!(of(","), Ok(Some((0, u64::MAX))));
        assert_eq!(of("10%-20%"), Ok(Some((1_100, 1_200))));
        assert_eq!(of("10%/2"), Ok(Some((1_100, 1_200))));
        for wrong in [
            "5", "2,1", "20%,10%", "101%,", "x,", "-1s,-2s", "-,", "20%-10%", "10%/0", "1/2",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        let span = |text| TimeSpan::parse(text).unwrap();
        assert_eq!(span("10%,").resolve(None), None);
        assert_eq!(span("0,1").resolve(None), Some((0, 1_000_000_000)));
    }
}
