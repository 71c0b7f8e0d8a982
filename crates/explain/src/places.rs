//! Objects, functions and source lines with most of the time.

use std::cmp::Reverse;

use rprof_export::clean::shell_word;
use rprof_export::names::CleanNames;
use rprof_export::rows::percent;
use rprof_profile::{FunctionId, Line, ObjectId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::costs::Costs;
use crate::sentence::{Sentence, Topic};
use crate::stacks::{Stacks, part_text, share_text};

/// Functions in the text.
const MAX_FUNCTIONS: usize = 5;

/// Share of a function that is worth a sentence, in percent.
const WORTH: f64 = 5.0;

/// Minimum share of a function that says nothing about the rest, in percent.
const ALMOST_ALL: f64 = 90.0;

/// Share of a caller or line that stands for all, in percent.
const MOST: f64 = 50.0;

#[derive(Default)]
struct Function {
    own: u64,
    /// With callees.
    total: u64,
    /// Own weight that no sentence about a kind of work covers.
    uncovered: u64,
    /// Own weight by line, and by the next outer function that the user wrote.
    lines: FxHashMap<Line, u64>,
    callers: FxHashMap<FunctionId, u64>,
}

pub(crate) fn sentences(stacks: &Stacks<'_>, costs: &Costs) -> Vec<Sentence> {
    let mut objects: FxHashMap<ObjectId, u64> = FxHashMap::default();
    let mut functions: FxHashMap<FunctionId, Function> = FxHashMap::default();
    for (entry, is_covered) in stacks.entries().zip(costs.covers()) {
        let frames = stacks.frames(entry);
        let Some(leaf) = frames.last().map(|frame| stacks.profile.frame(*frame)) else {
            continue;
        };
        let object = stacks.profile.function(leaf.function).object;
        *objects.entry(object).or_default() += entry.weight;
        let mut seen = FxHashSet::default();
        for id in frames.iter().map(|frame| stacks.function_of(*frame)) {
            if seen.insert(id) {
                functions.entry(id).or_default().total += entry.weight;
            }
        }
        let own = functions.entry(leaf.function).or_default();
        own.own += entry.weight;
        own.uncovered += if is_covered { 0 } else { entry.weight };
        if let Some(line) = leaf.line.filter(|line| line.line > 0) {
            *own.lines.entry(line).or_default() += entry.weight;
        }
        let callers = frames
            .iter()
            .rposition(|frame| stacks.function_of(*frame) != leaf.function);
        let callers = &frames[..callers.map_or(0, |last| last + 1)];
        if let Some(caller) = stacks.user_function(callers) {
            *own.callers.entry(caller).or_default() += entry.weight;
        }
    }
    let objects = of_objects(stacks, &objects);
    let functions = of_functions(stacks, &functions);
    objects.into_iter().chain(functions).collect()
}

fn of_objects(stacks: &Stacks<'_>, objects: &FxHashMap<ObjectId, u64>) -> Option<Sentence> {
    let names = CleanNames::new(stacks.profile);
    // Several objects may have one name, such as `[Python]`.
    let mut by_name: FxHashMap<String, u64> = FxHashMap::default();
    for (id, weight) in objects {
        *by_name.entry(names.object(*id).into_owned()).or_default() += weight;
    }
    let mut rows: Vec<(u64, String)> = (by_name.into_iter())
        .map(|(name, weight)| (weight, name))
        .collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let worth = rows
        .iter()
        .filter(|(weight, _)| stacks.share(*weight) >= WORTH);
    let parts: Vec<String> = worth
        .take(3)
        .map(|(weight, name)| format!("{} in {name}", share_text(stacks.share(*weight))))
        .collect();
    (!parts.is_empty() && !stacks.profile.is_folded).then(|| Sentence {
        topic: Topic::Where,
        text: format!("{} by object: {}.", of_all(stacks), parts.join(", ")),
        command: "report --no-children --sort dso".to_owned(),
        importance: 500.0,
    })
}

fn of_all(stacks: &Stacks<'_>) -> String {
    let noun = stacks.noun();
    format!("T{}", &noun[1..])
}

fn of_functions(stacks: &Stacks<'_>, functions: &FxHashMap<FunctionId, Function>) -> Vec<Sentence> {
    let mut rows: Vec<(&FunctionId, &Function)> = functions
        .iter()
        .filter(|(_, function)| stacks.share(function.uncovered) >= WORTH)
        .collect();
    rows.sort_by_cached_key(|(id, function)| (Reverse(function.own), stacks.name(**id)));
    rows.truncate(MAX_FUNCTIONS);
    if rows.is_empty() {
        return of_totals(stacks, functions).into_iter().collect();
    }
    rows.into_iter()
        .map(|(id, function)| of_function(stacks, *id, function))
        .collect()
}

/// Names the functions with most time in them and their callees, without those that have almost
/// all: `main` says nothing.
fn of_totals(stacks: &Stacks<'_>, functions: &FxHashMap<FunctionId, Function>) -> Option<Sentence> {
    let is_wanted = |(id, function): &(&FunctionId, &Function)| {
        let share = stacks.share(function.total);
        (WORTH..ALMOST_ALL).contains(&share) && !stacks.is_library(**id)
    };
    let mut rows: Vec<(&FunctionId, &Function)> = functions.iter().filter(is_wanted).collect();
    rows.sort_by_cached_key(|(id, function)| (Reverse(function.total), stacks.name(**id)));
    let parts: Vec<String> = (rows.iter().take(4))
        .map(|(id, function)| {
            let share = share_text(stacks.share(function.total));
            format!("{share} in {}", stacks.name(**id))
        })
        .collect();
    (!parts.is_empty()).then(|| Sentence {
        topic: Topic::Where,
        text: format!("{} with callees: {}.", of_all(stacks), parts.join(", ")),
        command: "report --children".to_owned(),
        importance: 60.0,
    })
}

fn of_function(stacks: &Stacks<'_>, id: FunctionId, function: &Function) -> Sentence {
    let share = stacks.share(function.own);
    let name = stacks.name(id);
    let place = match stacks.is_gap(id) {
        true if name.ends_with("callers unproven]") => {
            format!("functions that could not be read: {name}")
        }
        // `[Python runtime]`
        true => name,
        false => format!("{name} itself"),
    };
    let mut text = format!("{} of {} is in {place}", share_text(share), stacks.noun());
    let heaviest = |part: &u64| percent(*part, function.own);
    if let Some((line, weight)) = most(&function.lines, |line| (line.file.0, line.line))
        && heaviest(&weight) >= MOST
    {
        let place = CleanNames::new(stacks.profile).line(line.file, line.line);
        text += &format!(", {} at {place}", part_text(heaviest(&weight)));
    }
    if let Some((caller, weight)) = most(&function.callers, |id| id.0)
        && heaviest(&weight) >= MOST
    {
        let part = part_text(heaviest(&weight));
        text += &format!(", {part} for {}", stacks.name(caller));
    }
    // Profiles of other tools have no code, and functions of interpreters neither.
    let is_recording = stacks.profile.quality.recorded > 0;
    let has_code = is_recording && stacks.profile.function(id).source.is_none();
    let command = match stacks.whole_name(id) {
        Some(name) if name.starts_with('[') => "report -g".to_owned(),
        Some(name) if has_code && !stacks.is_library(id) => {
            format!("annotate {}", shell_word(name.as_bytes()))
        }
        Some(name) => format!("report --callers {}", shell_word(name.as_bytes())),
        None => "report -g".to_owned(),
    };
    Sentence {
        topic: Topic::Where,
        text: text + ".",
        command,
        importance: share,
    }
}

/// Returns the entry with most weight; of equal ones the first by a key.
fn most<T: Copy, K: Ord>(of: &FxHashMap<T, u64>, key: impl Fn(&T) -> K) -> Option<(T, u64)> {
    let order = |(item, weight): &(&T, &u64)| (Reverse(**weight), key(item));
    of.iter()
        .min_by_key(order)
        .map(|(item, weight)| (*item, *weight))
}
