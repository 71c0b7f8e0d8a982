//! Changes between two recordings.

use rprof_export::clean::{clean, shorten};
use rprof_profile::WeightUnit;
use rprof_profile::compare::{Change, FunctionDiff, ProfileDiff, Verdict};
use rprof_profile::waits::noun_of_time;

use crate::sentence::{Sentence, Topic};
use crate::stacks::time_text;

/// Functions in the text.
const MAX_FUNCTIONS: usize = 8;

/// Characters of a name.
const MAX_NAME: usize = 80;

/// Returns sentences about a comparison. `command` shows it: `diff old.data new.data`.
pub(crate) fn sentences(diff: &ProfileDiff, command: &str) -> Vec<Sentence> {
    let sentence = |text: String, importance: f64| Sentence {
        topic: Topic::Changed,
        text,
        command: command.to_owned(),
        importance,
    };
    let noun = match diff.unit {
        WeightUnit::Nanoseconds => clean(noun_of_time(&diff.event)).into_owned(),
        _ => clean(&diff.event).into_owned(),
    };
    let mut text = format!("The {noun} {}", change_text(diff, &diff.whole));
    text += match diff.whole.verdict {
        Verdict::Regressed | Verdict::Improved => ", which is more than chance.",
        Verdict::Suspected => {
            ", which is suspected to be more than chance; several runs of each side tell."
        }
        Verdict::Unchanged => ": unchanged within the accuracy of the samples.",
        Verdict::BelowThreshold | Verdict::BelowShare => ", which is less than the threshold.",
        _ => ", which may be chance; several runs of each side tell.",
    };
    let mut found = vec![sentence(text, 1000.0)];
    let mut rows: Vec<(&FunctionDiff, &Change)> = (diff.functions.iter())
        .filter(|row| row.own.verdict.is_marked())
        .map(|row| (row, &row.own))
        .collect();
    let size = |change: &Change| change.difference().abs();
    rows.sort_by(|a, b| {
        size(b.1)
            .total_cmp(&size(a.1))
            .then_with(|| a.0.name.cmp(&b.0.name))
    });
    let whole = diff.whole.old.max(diff.whole.new).max(f64::MIN_POSITIVE);
    if rows.is_empty() {
        let text = "No function has a change that is more than chance.";
        found.push(sentence(text.to_owned(), 900.0));
    }
    for (row, change) in rows.into_iter().take(MAX_FUNCTIONS) {
        let name = match &row.name {
            Some(name) => clean(name).into_owned(),
            None => format!("unnamed code of {}", clean(&row.object)),
        };
        let verdict = match change.verdict {
            Verdict::Suspected => "suspected",
            Verdict::Moved => "moved: other functions changed by the opposite",
            _ => "certain",
        };
        let text = format!(
            "{} itself {} ({verdict}).",
            shorten(&name, MAX_NAME),
            change_text(diff, change)
        );
        found.push(sentence(text, 100.0 * size(change) / whole));
    }
    found
}

/// Returns `went from 1.20 s to 2.40 s (+100%)`.
fn change_text(diff: &ProfileDiff, change: &Change) -> String {
    let amount = |amount: f64| match diff.unit {
        WeightUnit::Nanoseconds => time_text(amount.max(0.0) as u64),
        _ => format!("{amount:.0}"),
    };
    let (old, new) = (amount(change.old), amount(change.new));
    match change.relative() {
        Some(relative) => format!("went from {old} to {new} ({:+.0}%)", 100.0 * relative),
        None if change.new > 0.0 => format!("is new, with {new}"),
        None => format!("is gone, with {old} before"),
    }
}
