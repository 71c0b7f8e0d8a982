//! Compares two commands row by row, and checks limits.

use rprof_statistics::{
    CONFIDENCE, ChangeVerdict, Comparison as Compared, Design, Measured, Prior, RunSummary,
    compare, judge,
};

use super::figures::{change, figure, percent};
use super::rows::{CPU, Row, rows};
use super::runs::Side;
use crate::cli::Limit;

/// Accepted false discovery rate, and significance level.
const FALSE_SHARE: f64 = 0.05;

pub(super) struct Comparison {
    pub(super) lines: Vec<Line>,
    pub(super) limits: Vec<Judgement>,
}

/// One quantity on both sides.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) base: String,
    pub(super) new: String,
    pub(super) change: String,
    pub(super) interval: String,
    pub(super) verdict: String,
    pub(super) compared: Option<(Compared, ChangeVerdict)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Passed,
    Failed,
    Inconclusive,
}

pub(super) struct Judgement {
    pub(super) name: String,
    pub(super) share: f64,
    pub(super) judged: Judged,
    /// Comparison with the limit; `None` if impossible.
    pub(super) compared: Option<(Compared, ChangeVerdict)>,
    pub(super) text: String,
}

impl Comparison {
    pub(super) fn new(base: &Side, new: &Side, limits: &[Limit]) -> Comparison {
        let (base, new) = (rows(base), rows(new));
        let pairs: Vec<(&Row, &Row)> = (base.iter())
            .filter_map(|row| Some((row, new.iter().find(|other| other.name == row.name)?)))
            .collect();
        // Judged together: with many, some differ by chance.
        let compared: Vec<Option<Compared>> = pairs
            .iter()
            .map(|(base, new)| test(base, new, 0.0))
            .collect();
        let tested: Vec<Compared> = compared.iter().flatten().copied().collect();
        let mut verdicts = judge(&tested, FALSE_SHARE).into_iter();
        let lines = (pairs.iter().zip(compared))
            .map(|((base, new), compared)| {
                let compared = compared.and_then(|compared| Some((compared, verdicts.next()?)));
                Line::new(base, new, compared)
            })
            .collect();
        Comparison {
            lines,
            limits: judgements(&pairs, limits),
        }
    }
}

fn test(base: &Row, new: &Row, threshold: f64) -> Option<Compared> {
    // Estimates.
    if !base.is_compared || base.lowest_share().is_some() || new.lowest_share().is_some() {
        return None;
    }
    if are_zero(base, new) {
        return None;
    }
    let (old, new) = (base.numbers()?, new.numbers()?);
    let measured = Measured::in_steps(&old, &new, base.resolution);
    compare(&measured, Design::Paired, Prior::NONE, threshold).ok()
}

/// Returns true if both sides have only counts of 0, so that no ratio exists.
fn are_zero(base: &Row, new: &Row) -> bool {
    let is_zero = |row: &Row| {
        let numbers = row.numbers().unwrap_or_default();
        !numbers.is_empty() && numbers.iter().all(|number| *number == 0.0)
    };
    is_zero(base) && is_zero(new)
}

impl Line {
    fn new(base: &Row, new: &Row, compared: Option<(Compared, ChangeVerdict)>) -> Line {
        let (change, interval) = match &compared {
            None => (String::new(), String::new()),
            Some((compared, _)) => shown(compared),
        };
        let lowest = [base, new]
            .iter()
            .filter_map(|row| row.lowest_share())
            .reduce(f64::min);
        Line {
            name: base.name.clone(),
            base: cell(base),
            new: cell(new),
            change,
            interval,
            verdict: match (&compared, lowest) {
                (Some((compared, verdict)), _) => word(compared, *verdict).to_owned(),
                (None, Some(share)) if share < 1.0 => {
                    format!("not compared: counted for {} of the time", percent(share))
                }
                (None, Some(_)) => "not compared: incomplete count".to_owned(),
                (None, None) if base.is_compared && are_zero(base, new) => {
                    "not compared: 0 in all runs".to_owned()
                }
                (None, None) if base.is_compared => {
                    "not compared: not counted in every run".to_owned()
                }
                (None, None) => String::new(),
            },
            compared,
        }
    }
}

/// Returns the verdict on a difference of any size. Among many, a single one may be chance.
pub(super) fn word(compared: &Compared, verdict: ChangeVerdict) -> &'static str {
    let interval = compared.confidence_interval(CONFIDENCE);
    match verdict {
        ChangeVerdict::More => "more",
        ChangeVerdict::Less => "less",
        ChangeVerdict::BelowThreshold | ChangeVerdict::MayExceed if compared.log_ratio > 0.0 => {
            "more"
        }
        ChangeVerdict::BelowThreshold | ChangeVerdict::MayExceed => "less",
        _ if interval.low > 1.0 => "perhaps more",
        _ if interval.high < 1.0 => "perhaps less",
        _ => "no difference seen",
    }
}

fn shown(compared: &Compared) -> (String, String) {
    let interval = compared.confidence_interval(CONFIDENCE);
    let ends = format!("[{}, {}]", change(interval.low), change(interval.high));
    (change(compared.ratio()), ends.replace(" %", ""))
}

fn cell(row: &Row) -> String {
    let Some(summary) = row.numbers().and_then(|numbers| RunSummary::of(&numbers)) else {
        return "–".to_owned();
    };
    let mark = if row.lowest_share().is_some() {
        "~"
    } else {
        ""
    };
    let mean = figure(summary.mean, &row.unit);
    match summary.relative_error() {
        Some(error) => format!("{mark}{mean} ± {}", percent(error)),
        None => format!("{mark}{mean}"),
    }
}

fn judgements(pairs: &[(&Row, &Row)], limits: &[Limit]) -> Vec<Judgement> {
    let compared: Vec<Option<Compared>> = (limits.iter())
        .map(|limit| {
            let name = limit.name.as_deref().unwrap_or(CPU);
            let (base, new) = pairs.iter().find(|(row, _)| row.name == name)?;
            test(base, new, limit.share)
        })
        .collect();
    let tested: Vec<Compared> = compared.iter().flatten().copied().collect();
    let mut verdicts = judge(&tested, FALSE_SHARE).into_iter();
    (limits.iter().zip(compared))
        .map(|(limit, compared)| {
            let verdict = compared.and_then(|compared| Some((compared, verdicts.next()?)));
            let name = limit.name.clone().unwrap_or_else(|| CPU.to_owned());
            judgement(name, limit.share, verdict)
        })
        .collect()
}

fn judgement(name: String, share: f64, compared: Option<(Compared, ChangeVerdict)>) -> Judgement {
    let above = format!("{name}: limit +{}", percent(share));
    let Some((compared, verdict)) = compared else {
        return Judgement {
            text: format!("{above}: INCONCLUSIVE: nothing counted, or only part of the time"),
            judged: Judged::Inconclusive,
            compared: None,
            name,
            share,
        };
    };
    let (change, interval) = shown(&compared);
    let interval = format!("{:.0} % interval {interval}", 100.0 * CONFIDENCE);
    let visible = compared.smallest_visible(FALSE_SHARE, 0.8).map(percent);
    let visible = visible.unwrap_or_else(|| "unknown".to_owned());
    let (judged, text) = match verdict {
        ChangeVerdict::More => (Judged::Failed, format!("FAILED: {change}, {interval}")),
        // An uncertain decrease passes: an increase beyond the limit is excluded.
        _ if compared.confidence_interval(CONFIDENCE).high <= 1.0 + share => {
            let word = word(&compared, verdict);
            (
                Judged::Passed,
                format!("passed, {word}: {change}, {interval}"),
            )
        }
        _ => (
            Judged::Inconclusive,
            format!(
                "INCONCLUSIVE, {}: {change}, {interval}; these runs can show increases above \
                 {visible}, more runs show smaller ones",
                word(&compared, verdict)
            ),
        ),
    };
    Judgement {
        text: format!("{above}: {text}"),
        judged,
        compared: Some((compared, verdict)),
        name,
        share,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Unit, Value};
    use super::*;

    fn row(name: &str, values: &[f64], share: f64) -> Row {
        Row {
            name: name.to_owned(),
            unit: Unit::Count,
            resolution: 1.0,
            values: (values.iter())
                .map(|number| {
                    Some(Value {
                        number: *number,
                        share,
                        is_exact: share >= 1.0,
                    })
                })
                .collect(),
            is_compared: true,
        }
    }

    const OLD: [f64; 6] = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1000.0];

    fn judged(factor: f64, limit: f64, share: f64) -> (Judged, String) {
        let new: Vec<f64> = OLD
            .iter()
            .rev()
            .map(|value| (value * factor).round())
            .collect();
        let (base, new) = (row(CPU, &OLD, share), row(CPU, &new, 1.0));
        let limit = Limit {
            name: None,
            share: limit,
        };
        let mut found = judgements(&[(&base, &new)], &[limit]);
        let found = found.remove(0);
        (found.judged, found.text)
    }

    #[test]
    fn a_limit_fails_passes_or_cannot_be_told() {
        assert_eq!(judged(1.10, 0.05, 1.0).0, Judged::Failed);
        assert_eq!(judged(1.00, 0.05, 1.0).0, Judged::Passed);
        assert_eq!(judged(0.80, 0.05, 1.0).0, Judged::Passed);
        // A change equal to the limit is inconclusive.
        let (judged_so, text) = judged(1.05, 0.05, 1.0);
        assert_eq!(judged_so, Judged::Inconclusive, "{text}");
        assert!(
            text.starts_with("cpu: limit +5.0 %: INCONCLUSIVE, more: +5."),
            "{text}"
        );
    }

    #[test]
    fn what_was_extrapolated_is_never_compared() {
        assert_eq!(judged(1.5, 0.05, 0.31).0, Judged::Inconclusive);
        let (base, new) = (row("cycles", &OLD, 0.31), row("cycles", &OLD, 1.0));
        assert!(test(&base, &new, 0.0).is_none());
        let line = Line::new(&base, &new, None);
        assert_eq!(line.verdict, "not compared: counted for 31.0 % of the time");
        assert!(line.base.starts_with("~1,000"), "{}", line.base);
    }

    #[test]
    fn counts_of_zero_are_not_compared() {
        let zero = row("cpu-migrations", &[0.0; 6], 1.0);
        assert!(test(&zero, &zero, 0.0).is_none());
        let line = Line::new(&zero, &zero, None);
        assert_eq!(line.verdict, "not compared: 0 in all runs");
        let turned: Vec<f64> = OLD.iter().rev().copied().collect();
        let [old, new] = [&OLD[..], &turned].map(|values| row("cpu-migrations", values, 1.0));
        assert!(test(&old, &new, 0.0).is_some());
    }

    #[test]
    fn a_limit_on_what_was_not_counted_is_inconclusive() {
        let limit = Limit {
            name: Some("cycles".to_owned()),
            share: 0.01,
        };
        assert_eq!(judgements(&[], &[limit])[0].judged, Judged::Inconclusive);
    }
}
