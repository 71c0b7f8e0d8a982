//! The verdict in words. It says "takes more", never "slower", because CPU time excludes waiting.

use rprof_profile::WeightUnit;
use rprof_profile::compare::{
    Change, FunctionDiff, MORE_SAMPLES, Noise, Outcome, ProfileDiff, SideSummary, Verdict, Work,
};

use super::amount::{amount, change, interval, limit, noun, percent, points};
use super::{cautions, memory};
use crate::amounts::{count, counted};
use crate::clean::{clean, shorten};

const NAME: usize = 60;

/// Returns the clean name of a function, shortened to fit a sentence.
pub fn name(row: &FunctionDiff) -> String {
    shorten(&full_name(row), NAME).into_owned()
}

/// Returns the clean name of a function, or `[no name in OBJECT]`.
pub(super) fn full_name(row: &FunctionDiff) -> String {
    match &row.name {
        Some(name) => clean(name).into_owned(),
        None => format!("[no name in {}]", clean(&row.object)),
    }
}

/// Returns the key of a verdict in JSON and CSV.
pub fn key(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Regressed => "regressed",
        Verdict::Improved => "improved",
        Verdict::Suspected => "suspected",
        Verdict::Moved => "moved",
        Verdict::WithAll => "with_all",
        Verdict::MayExceed => "may_exceed",
        Verdict::BelowShare => "below_share",
        Verdict::BelowThreshold => "below_threshold",
        Verdict::Unchanged => "unchanged",
        Verdict::Inconclusive => "inconclusive",
        Verdict::TooSmall => "too_small",
    }
}

/// Returns "less" for uncountable amounts (CPU time, memory), "fewer" for countable ones (cycles).
fn less(diff: &ProfileDiff) -> &'static str {
    match (&diff.unit, diff.work) {
        (WeightUnit::Nanoseconds | WeightUnit::Bytes, _) | (_, Work::Share) => "less",
        _ => "fewer",
    }
}

/// Returns the verdict as one sentence without a full stop. It ends with the reason for doubt, if
/// there is one.
pub fn headline(diff: &ProfileDiff) -> String {
    memory::headline(diff, name).unwrap_or_else(|| finding(diff) + &doubt(diff))
}

fn finding(diff: &ProfileDiff) -> String {
    let fewer = || format!("takes {}", less(diff));
    match diff.outcome {
        Outcome::Same => "SAME: every amount is equal on both sides".into(),
        Outcome::Regressed => format!(
            "REGRESSED: {}",
            changed(diff, Verdict::Regressed, "takes more")
        ),
        Outcome::Improved => format!("IMPROVED: {}", changed(diff, Verdict::Improved, &fewer())),
        Outcome::Mixed => format!(
            "REGRESSED AND IMPROVED: {}; {}",
            changed(diff, Verdict::Regressed, "takes more"),
            changed(diff, Verdict::Improved, &fewer())
        ),
        Outcome::Uniform => {
            let relative = diff.whole.relative().unwrap_or(0.0);
            format!(
                "EVERYTHING takes {} {} ({}), and no function stands out: a different machine, CPU \
                 frequency or load has this effect",
                more_or_less(diff, relative),
                noun(diff),
                percent(relative)
            )
        }
        Outcome::Suspected => format!("SUSPECTED: {}", suspect(diff)),
        Outcome::Moved => {
            let rows = rows_of(diff, Verdict::Moved);
            let first = rows.first().copied();
            let first = first.or_else(|| cause(diff, Verdict::Moved));
            format!(
                "MOVED: {} moved between functions with the same callers (most of all {})",
                noun(diff),
                first.map(name).unwrap_or_default()
            )
        }
        Outcome::BelowThreshold => {
            let (more, limit) = direction(diff, &diff.whole);
            format!(
                "{}, BELOW {limit}: {}",
                more.to_uppercase(),
                program_takes(diff)
            )
        }
        Outcome::Unchanged => unchanged(diff),
        Outcome::Inconclusive => inconclusive(diff),
    }
}

/// Returns the functions with a verdict on their own amount, largest change first.
fn rows_of(diff: &ProfileDiff, verdict: Verdict) -> Vec<&FunctionDiff> {
    let rows = diff.functions.iter();
    let mut rows: Vec<_> = rows.filter(|row| row.own.verdict == verdict).collect();
    rows.sort_by(|a, b| (b.own.difference().abs()).total_cmp(&a.own.difference().abs()));
    rows
}

/// Returns the functions with a certain change as a clause. `more`: the verb for one of them, as in
/// `takes more`.
fn changed(diff: &ProfileDiff, verdict: Verdict, more: &str) -> String {
    let what = noun(diff);
    let rows = rows_of(diff, verdict);
    let Some(first) = rows.first() else {
        return match cause(diff, verdict) {
            Some(row) => format!(
                "no single function is certain to {} {what}, but {}",
                plural(more),
                with_callees(diff, row)
            ),
            None => format!("the program {more} {what}, but no single function certainly does"),
        };
    };
    let most = format!("{}: {}", name(first), amounts(diff, &first.own));
    match rows.len() {
        1 => format!("one function {more} {what}, {most}"),
        n => format!("{n} functions {} {what}, most of all {most}", plural(more)),
    }
}

/// Returns the largest uncertain change as a clause.
fn suspect(diff: &ProfileDiff) -> String {
    let what = noun(diff);
    let rows = rows_of(diff, Verdict::Suspected);
    if let Some(first) = rows.first() {
        return format!(
            "{} takes {} {what}: {} → {}, {}",
            name(first),
            more_or_less(diff, first.own.difference()),
            amount(diff, first.own.old),
            amount(diff, first.own.new),
            change(&first.own),
        );
    }
    match cause(diff, Verdict::Suspected) {
        Some(row) => format!("another amount of {what}, {}", with_callees(diff, row)),
        None => format!("the program takes another amount of {what}"),
    }
}

/// Returns "more" for a rise, and the opposite that fits the unit for a fall.
fn more_or_less(diff: &ProfileDiff, change: f64) -> &'static str {
    match change > 0.0 {
        true => "more",
        false => less(diff),
    }
}

fn unchanged(diff: &ProfileDiff) -> String {
    let unsure = diff.functions.iter();
    let unsure = unsure.filter(|row| row.own.verdict == Verdict::Inconclusive);
    let functions = match unsure.count() {
        0 => String::new(),
        1 => "; one function is inconclusive".into(),
        n => format!("; {n} functions are inconclusive"),
    };
    let limit = limit(diff.threshold);
    match diff.work {
        Work::Share => format!("UNCHANGED: no change of {limit} or more{functions}"),
        _ => format!("UNCHANGED: no change of the program of {limit} or more{functions}"),
    }
}

/// Returns the inconclusive verdict: `INCONCLUSIVE…`, or `MORE, INCONCLUSIVE…` if only the
/// direction is certain.
fn inconclusive(diff: &ProfileDiff) -> String {
    let whole = &diff.whole;
    let would_show = || {
        let visible = whole.visible.map(|visible| {
            let rise = percent(visible);
            format!(
                "; a rise of {} would have been detected",
                rise.trim_start_matches('+')
            )
        });
        visible.unwrap_or_default()
    };
    let (more, reached) = direction(diff, whole);
    match whole.verdict {
        _ if !diff.is_certain() && diff.work == Work::Share => {
            "INCONCLUSIVE: shares of each side".into()
        }
        _ if !diff.is_certain() => format!("INCONCLUSIVE: {}", program_takes(diff)),
        Verdict::MayExceed => format!(
            "{}, INCONCLUSIVE ABOUT {reached}: {}; {reached} or more is not certain{}",
            more.to_uppercase(),
            program_takes(diff),
            match is_beyond(diff, whole) {
                true => " enough for one comparison among many",
                false => "",
            }
        ),
        Verdict::Inconclusive => format!(
            "INCONCLUSIVE: {}: no change, or {}{}",
            program_takes(diff),
            may_be(diff, whole),
            would_show()
        ),
        _ => match undecided(diff) {
            Some(text) => format!("INCONCLUSIVE: {text}"),
            None => "INCONCLUSIVE: all changes are within the noise".into(),
        },
    }
}

/// Returns why a gate is inconclusive: the headline, and other possible increases.
pub fn open_question(diff: &ProfileDiff) -> String {
    let headline = headline(diff);
    match undecided(diff) {
        Some(text) if diff.outcome != Outcome::Inconclusive => format!("{headline}; {text}"),
        _ => headline,
    }
}

/// Returns true if the whole interval is beyond the threshold. The significance test is stricter.
fn is_beyond(diff: &ProfileDiff, of: &Change) -> bool {
    let high = 1.0 + diff.threshold;
    of.interval
        .is_some_and(|interval| interval.low >= high || interval.high <= 1.0 / high)
}

/// Describes the possible increases beyond the threshold, without a full stop.
pub fn undecided(diff: &ProfileDiff) -> Option<String> {
    let above = limit(diff.threshold);
    if diff.program_may_exceed() {
        return Some(format!(
            "{}, which may be {above} or more",
            program_takes(diff)
        ));
    }
    let mut rows = diff.undecided();
    let row = rows.next()?;
    let (of, which) = match row.own.verdict {
        Verdict::MayExceed => (&row.own, ""),
        _ => (&row.total, " with its callees"),
    };
    let others = match rows.count() {
        0 => String::new(),
        1 => ", and so may another function".into(),
        n => format!(", and so may {n} other functions"),
    };
    Some(format!(
        "{}{which} may take {above} more {} or above: {}{}{others}",
        name(row),
        noun(diff),
        change(of),
        interval(of)
            .map(|interval| format!(" {interval}"))
            .unwrap_or_default()
    ))
}

/// Words the program's change: `the program takes +4.8 % [+4.4 %, +5.2 %] CPU time`.
fn program_takes(diff: &ProfileDiff) -> String {
    let interval = interval(&diff.whole).map(|interval| format!(" {interval}"));
    format!(
        "the program takes {}{} {}",
        signed(&diff.whole),
        interval.unwrap_or_default(),
        noun(diff)
    )
}

fn signed(whole: &Change) -> String {
    match whole.difference() == 0.0 {
        true => "+0.0 %".into(),
        false => change(whole),
    }
}

/// Returns the direction of a change with its threshold. A decrease is the increase of the other
/// side: 50 % more there is 33.33 % less here.
fn direction(diff: &ProfileDiff, of: &Change) -> (&'static str, String) {
    match of.difference() > 0.0 {
        true => ("more", limit(diff.threshold)),
        false => (less(diff), limit(fall(diff.threshold))),
    }
}

fn fall(threshold: f64) -> f64 {
    threshold / (1.0 + threshold)
}

fn may_be(diff: &ProfileDiff, of: &Change) -> String {
    let threshold = diff.threshold;
    let (rise, down) = (limit(threshold), limit(fall(threshold)));
    let reaches = of.interval.map(|interval| {
        [
            interval.high > 1.0 + threshold,
            interval.low < 1.0 / (1.0 + threshold),
        ]
    });
    match reaches {
        Some([true, false]) => format!("a rise of {rise} or more"),
        Some([false, true]) => format!("a fall of {down} or more"),
        _ => format!("a rise of {rise} or a fall of {down} or more"),
    }
}

/// Returns the largest change of totals with this verdict, without an explaining descendant.
fn cause(diff: &ProfileDiff, verdict: Verdict) -> Option<&FunctionDiff> {
    let rows = diff.functions.iter();
    rows.filter(|row| row.total.verdict == verdict && row.explained_by.is_none())
        .max_by(|a, b| {
            let change = |row: &FunctionDiff| row.total.difference().abs();
            change(a).total_cmp(&change(b))
        })
}

/// Words a change of a function's total: `parse with its callees: 1.92 s → 2.31 s, +20 % (+3.1 pp
/// of the program)`.
fn with_callees(diff: &ProfileDiff, row: &FunctionDiff) -> String {
    format!(
        "{} with its callees: {}",
        name(row),
        amounts(diff, &row.total)
    )
}

/// Words a change: `1.92 s → 2.31 s, +20 % (+3.1 pp of the program)`.
fn amounts(diff: &ProfileDiff, of: &Change) -> String {
    format!(
        "{} → {}, {} ({} of the program)",
        amount(diff, of.old),
        amount(diff, of.new),
        change(of),
        points(diff, of)
    )
}

fn plural(verb: &str) -> String {
    verb.replacen("takes", "take", 1)
}

/// Returns why a finding is uncertain, as the end of a sentence. Empty for a certain one.
fn doubt(diff: &ProfileDiff) -> String {
    let is_certain = diff.is_certain() && diff.outcome != Outcome::Suspected;
    match diff.noise {
        _ if is_certain || diff.outcome == Outcome::Same => String::new(),
        Noise::Assumed(_) => "; one run a side does not show how much runs differ".into(),
        _ if diff.is_certain() => {
            "; it is new or gone, and the change around it may be chance".into()
        }
        _ => match cautions::withholding(diff) {
            Some(why) => format!("; not certain: {}", cautions::caution(why)),
            None => "; not certain".into(),
        },
    }
}

/// Returns one line per side: `old  old.data  9.84 s in 9,830 samples, 99.6 % of stacks complete`.
pub fn sides(diff: &ProfileDiff) -> [String; 2] {
    [
        ("old", &diff.old, diff.whole.old),
        ("new", &diff.new, diff.whole.new),
    ]
    .map(|(side, summary, mean)| {
        let complete = summary.complete.map(|complete| {
            format!(
                ", {:.1} % of stacks complete",
                (complete * 1000.0).floor() / 10.0
            )
        });
        let runs = match summary.weights.len() {
            1 => String::new(),
            n => format!(" a run, {n} runs"),
        };
        // Samples as the unit are not repeated.
        let samples = match diff.unit {
            WeightUnit::Samples => String::new(),
            _ => format!(
                " in {} of {}",
                counted(summary.samples, "sample"),
                clean(&diff.event)
            ),
        };
        let unit = match diff.unit {
            WeightUnit::Samples => " samples",
            _ => "",
        };
        format!(
            "{side}: {}, {}{unit}{runs}{samples}{}",
            files(summary),
            amount(diff, mean),
            complete.unwrap_or_default(),
        )
    })
}

/// Returns the first file of a side and the number of others. Runs of a command share its name.
fn files(side: &SideSummary) -> String {
    let first = side
        .paths
        .first()
        .map(|path| path.to_string_lossy().into_owned());
    let first = shorten(&clean(&first.unwrap_or_default()), NAME).into_owned();
    let others = side.paths.iter().filter(|path| *path != &side.paths[0]);
    match others.count() {
        0 => first,
        n => format!("{first} and {n} more"),
    }
}

/// Describes the whole program: its change, the noise, and the number of matched names.
pub fn whole(diff: &ProfileDiff) -> String {
    let whole = &diff.whole;
    let mut text = match diff.work {
        Work::Share => "shares of each side".to_owned(),
        _ => format!(
            "{} {} → {}, {}",
            noun(diff),
            amount(diff, whole.old),
            amount(diff, whole.new),
            change(whole)
        ),
    };
    if let Some(interval) = interval(whole) {
        text.push_str(&format!(" {interval}"));
    }
    text.push_str(&format!("; {}", noise(diff)));
    let [old, new] =
        [diff.old.matched, diff.new.matched].map(|share| (share * 1000.0).floor() / 10.0);
    text.push_str(&format!("; names matched: {old:.1} % / {new:.1} %"));
    text
}

fn noise(diff: &ProfileDiff) -> String {
    let deviation = 100.0 * diff.noise.deviation();
    match diff.noise {
        Noise::Learned(_) => match diff.whole_deviation {
            Some(whole) => format!(
                "runs differ by {:.1} %, single functions by {deviation:.1} % more than sampling explains",
                100.0 * whole
            ),
            None => format!("functions differ by {deviation:.1} % between runs"),
        },
        Noise::Given(_) => format!("{deviation:.1} % of noise between runs, as given"),
        Noise::Assumed(_) => {
            format!("one run a side does not show the noise between runs: {deviation:.0} % assumed")
        }
    }
}

/// Returns guessed renames as sentences.
pub fn renames(diff: &ProfileDiff) -> Vec<String> {
    (diff.renames.iter())
        .map(|rename| {
            let [old, new] = [rename.old, rename.new].map(|index| name(&diff.functions[index]));
            format!("{old} → {new} (a guess: same callers and callees, not judged)")
        })
        .collect()
}

/// Counts the functions by verdict on self: `2 regressed, 41 unchanged, 7 inconclusive (could have
/// detected +11 % to +38 %), 143 too small (0.31 s)`.
pub fn tally(diff: &ProfileDiff) -> String {
    let of = |verdict: Verdict| {
        let rows: Vec<&FunctionDiff> = (diff.functions.iter())
            .filter(|row| row.own.verdict == verdict)
            .collect();
        let word = key(verdict).replace('_', " ");
        let more = match verdict {
            Verdict::Inconclusive => seen(&rows),
            Verdict::TooSmall => {
                let sum: f64 = rows.iter().map(|row| row.own.new.max(row.own.old)).sum();
                (sum > 0.0).then(|| format!(" ({})", amount(diff, sum)))
            }
            _ => None,
        };
        let number = count(rows.len() as u64);
        (!rows.is_empty()).then(|| format!("{number} {word}{}", more.unwrap_or_default()))
    };
    let parts: Vec<String> = Verdict::ALL.into_iter().filter_map(of).collect();
    format!("functions: {}", parts.join(", "))
}

fn seen(rows: &[&FunctionDiff]) -> Option<String> {
    let visible = rows.iter().filter_map(|row| row.own.visible);
    let (low, high) = visible.fold((f64::INFINITY, 0.0), |(low, high), visible| {
        (visible.min(low), visible.max(high))
    });
    let [from, to] = [low, high].map(percent);
    match low <= high {
        true if from == to => Some(format!(" (could have detected {from})")),
        true => Some(format!(" (could have detected {from} to {to})")),
        false => None,
    }
}

/// Describes the detectable rise, and the runs needed for the wanted rise: `a rise of the program
/// of 6.2 % would have been detected; one of 10 % needs 4 runs a side for the program; 5 runs a
/// side for functions from 12.0 % of the program on, 20 from 4.0 % on`. Returns `None` if the noise
/// is unknown.
pub fn plan(diff: &ProfileDiff) -> Option<String> {
    if matches!(diff.noise, Noise::Assumed(_)) || diff.work == Work::Share {
        return None;
    }
    let whole = diff.whole.old.max(diff.whole.new);
    let mut judged: Vec<&FunctionDiff> = (diff.functions.iter())
        .filter(|row| row.own.visible.is_some())
        .collect();
    let share = |row: &FunctionDiff| row.own.old.max(row.own.new) / whole;
    judged.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let made = diff.old.weights.len().min(diff.new.weights.len());
    let rise = percent(diff.wanted);
    let rise = rise.trim_start_matches('+');
    let all_runs = [made, 2 * made, 4 * made, 8 * made];
    // Smallest judged share of the program.
    let smallest = |runs: usize, needed: fn(&Change) -> Option<usize>| {
        let enough = |row: &&&FunctionDiff| needed(&row.own).is_some_and(|needed| needed <= runs);
        let shown = judged.iter().take_while(enough).count();
        judged[..shown].last().map(|row| share(row))
    };
    let mut parts = Vec::new();
    let mut least = f64::INFINITY;
    for runs in all_runs {
        if let Some(from) = smallest(runs, |own| own.runs_needed).filter(|from| *from < least) {
            least = from;
            parts.push(functions_from(runs, from, parts.is_empty()));
        }
    }
    // If sampling noise dominates, more samples cost less than more runs.
    let now = all_runs.map(|runs| smallest(runs, |own| own.runs_needed));
    let denser = all_runs.map(|runs| smallest(runs, |own| own.runs_needed_denser));
    let better = (all_runs.into_iter().zip(denser).zip(now))
        .filter_map(|((runs, denser), now)| Some((runs, denser?, now)))
        .find(|(_, denser, now)| now.is_none_or(|now| *denser < now));
    let denser = better.map(|(runs, from, _)| {
        format!(
            "; with {MORE_SAMPLES} times the samples (a higher -F) {}",
            functions_from(runs, from, true)
        )
    });
    let program = match diff.whole.runs_needed {
        Some(runs) => format!("{} a side for the program", counted(runs as u64, "run")),
        None => "more than 1000 runs for the program".into(),
    };
    let functions = match parts.is_empty() {
        true => format!("more than {} for any function", 8 * made),
        false => parts.join(", "),
    };
    let visible = match diff.whole.visible {
        Some(visible) => format!(
            "a rise of the program of {} would have been detected; ",
            percent(visible).trim_start_matches('+')
        ),
        None => String::new(),
    };
    Some(format!(
        "{visible}one of {rise} needs {program}; {functions}{}",
        denser.unwrap_or_default()
    ))
}

fn functions_from(runs: usize, share: f64, is_first: bool) -> String {
    let percent = format!("{:.1} %", share * 100.0);
    match is_first {
        true => format!(
            "{} a side for functions from {percent} of the program on",
            counted(runs as u64, "run")
        ),
        false => format!("{runs} from {percent} on"),
    }
}
