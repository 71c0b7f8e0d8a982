//! Encodes the data of a page into sections.

use std::io;

use rprof_profile::compare::{self, MatchedFunctions};
use rprof_profile::{EventSummary, Profile, StackPosition};
use serde_json::{Value, json};

use super::AnnotatedFunction;
use super::coarse::Coarseness;
use super::columns::Section;
use super::data::{Collector, Row, Side, Task, origin};
use super::functions::{PageFunction, Tables};
use super::stack_tree::PageTree;
use crate::names::CleanNames;

/// Half of the largest sum that JavaScript numbers represent exactly.
const LARGEST_SUM: u64 = 1 << 52;

pub(super) struct Data {
    pub(super) sections: Vec<Section>,
    pub(super) facts: Value,
    functions: Vec<(Option<String>, String)>,
}

impl Data {
    pub(super) fn tell_code(&mut self, code: &[AnnotatedFunction]) {
        let told: Vec<Value> = (code.iter())
            .map(|annotated| {
                let is_it = |(name, object): &(Option<String>, String)| {
                    name.as_ref() == Some(&annotated.name) && *object == annotated.object
                };
                let function = self.functions.iter().position(is_it);
                json!({ "fn": function, "name": annotated.name })
            })
            .collect();
        if let Value::Object(facts) = &mut self.facts {
            facts.insert("annotations".into(), told.into());
        }
    }
}

pub(super) fn encode(
    profile: &Profile,
    old: Option<&Profile>,
    coarse: &Coarseness,
) -> io::Result<Data> {
    let mut all = Collector::new(old.map(|old| MatchedFunctions::of(old, profile)));
    let mut sides = vec![all.add(profile, compare::Side::New, coarse)];
    if let Some(old) = old {
        let mut side = all.add(old, compare::Side::Old, coarse);
        by_event_names(&mut side.rows, &old.events, &profile.events);
        sides.push(side);
    }
    let fewer = coarse.smallest.map(|part| all.fold_small(part));
    let order = all.sort(&mut sides);
    let largest = sides.iter().map(Side::weight).max().unwrap_or(0);
    // Shifting keeps sums exact, but loses the lowest bits of weights.
    let shift = match largest > LARGEST_SUM {
        true => 64 - (largest >> 52).leading_zeros(),
        false => 0,
    };
    for row in sides.iter_mut().flat_map(|side| &mut side.rows) {
        row.weight >>= shift;
    }
    let mut sections = tables(&all, &order)?;
    for (side, name) in sides.iter().zip(["rows", "oldrows"]) {
        sections.push(rows(name, side)?);
    }
    let names = CleanNames::new(profile);
    let events: Vec<Value> = (profile.events.iter().enumerate())
        .map(|(index, event)| {
            json!({
                "name": &*names.event(index),
                "unit": &*names.unit(index),
                "samples": event.samples,
                "lost": event.lost,
            })
        })
        .collect();
    let reasons = all.tables.reasons();
    let object = |number: u32| all.tables.objects[number as usize].name.clone();
    Ok(Data {
        functions: (all.tables.functions.iter())
            .map(|function| (function.name.clone(), object(function.object)))
            .collect(),
        sections,
        facts: json!({
            "events": events,
            "event": profile.main_event().unwrap_or(0),
            "shift": shift,
            "tick": coarse.tick,
            "origin": origin(profile),
            "hasTimes": sides.first().is_some_and(|side| side.has_times),
            "hasStacks": profile.has_callchains || profile.is_folded,
            "isFolded": profile.is_folded,
            "objects": (all.tables.objects.iter()).map(|object| &object.name).collect::<Vec<_>>(),
            "files": all.tables.files,
            "comms": comms(&all.tasks),
            "reasons": reasons.iter().map(|(_, text)| text).collect::<Vec<_>>(),
            "entries": entries(profile, &all.tables),
            "fewer": fewer,
            "isDiff": old.is_some(),
        }),
    })
}

/// Returns the outermost functions of threads, matched by name.
fn entries(profile: &Profile, tables: &Tables) -> Vec<usize> {
    let mut outer: Vec<&str> = (profile.functions.iter())
        .filter(|function| function.position != StackPosition::Inner)
        .filter_map(|function| function.name.as_deref().ok())
        .collect();
    outer.sort_unstable();
    let is_outer = |function: &PageFunction| {
        let name = function.name.as_deref();
        name.is_some_and(|name| outer.binary_search(&name).is_ok())
    };
    (tables.functions.iter().enumerate())
        .filter(|(_, function)| is_outer(function))
        .map(|(number, _)| number)
        .collect()
}

/// Maps events of rows to the other side's events by name. Drops rows without a match.
fn by_event_names(rows: &mut Vec<Row>, from: &[EventSummary], to: &[EventSummary]) {
    let other: Vec<Option<u64>> = (from.iter())
        .map(|event| {
            let same = to.iter().position(|other| other.name == event.name);
            // Single events match, whatever their modifiers.
            let only = (from.len() == 1 && to.len() == 1).then_some(0);
            same.or(only).map(|index| index as u64)
        })
        .collect();
    rows.retain_mut(|row| {
        let event = other.get(row.event as usize).copied().flatten();
        row.event = event.unwrap_or(row.event);
        event.is_some()
    });
}

fn comms(tasks: &[Task]) -> Vec<String> {
    let names = (tasks.iter()).flat_map(|task| [Some(&task.comm), task.process.as_ref()]);
    let mut names: Vec<String> = names.flatten().cloned().collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn tables(all: &Collector, order: &PageTree) -> io::Result<Vec<Section>> {
    let functions = &all.tables.functions;
    let names: Vec<&str> = (functions.iter())
        .map(|function| function.name.as_deref().unwrap_or_default())
        .collect();
    let reasons = all.tables.reasons();
    let reason = |function: &PageFunction| {
        let is_it = |(reason, _): &(_, String)| Some(*reason) == function.reason;
        reasons.iter().position(is_it).map_or(0, |at| at as u64 + 1)
    };
    let comms = comms(&all.tasks);
    let comm = |name: &String| comms.binary_search(name).unwrap_or(0) as u64;
    // Ids start at 0, and 0 means none here.
    let id = |id: Option<i32>| id.map_or(0, |id| u64::from(id.cast_unsigned()) + 1);
    let process = |task: &Task| task.process.as_ref().map_or(0, |name| comm(name) + 1);
    let (calls, leaves, tasks) = (&order.calls, &all.leaves, &all.tasks);
    Ok(vec![
        Section::of_text("names", &names.join("\n"))?,
        Section::of_columns(
            "functions",
            functions.len(),
            &[
                ("object", &column(functions, |f| u64::from(f.object))),
                ("kind", &column(functions, |f| f.kind as u64)),
                ("reason", &column(functions, reason)),
            ],
        )?,
        Section::of_columns(
            "tasks",
            tasks.len(),
            &[
                ("pid", &column(tasks, |task| id(task.pid))),
                ("tid", &column(tasks, |task| id(task.tid))),
                ("comm", &column(tasks, |task| comm(&task.comm))),
                ("process", &column(tasks, process)),
            ],
        )?,
        Section::of_columns(
            "tree",
            calls.len(),
            &[
                ("up", &order.ups),
                ("function", &column(calls, |c| u64::from(c.function))),
                ("inlined", &column(calls, |c| u64::from(c.is_inlined))),
            ],
        )?,
        Section::of_columns(
            "leaves",
            leaves.len(),
            &[
                ("node", &column(leaves, |(node, _)| u64::from(*node))),
                (
                    "file",
                    &column(leaves, |(_, line)| {
                        line.map_or(0, |(file, _)| u64::from(file) + 1)
                    }),
                ),
                (
                    "line",
                    &column(leaves, |(_, line)| {
                        line.map_or(0, |(_, line)| u64::from(line))
                    }),
                ),
            ],
        )?,
    ])
}

fn rows(name: &'static str, side: &Side) -> io::Result<Section> {
    let rows = &side.rows;
    let mut last = 0;
    let since = column(rows, |row| {
        let since = row.time - last;
        last = row.time;
        since
    });
    Section::of_columns(
        name,
        rows.len(),
        &[
            ("since", &since),
            ("task", &column(rows, |row| u64::from(row.task))),
            ("cpu", &column(rows, |row| row.cpu)),
            ("leaf", &column(rows, |row| u64::from(row.leaf))),
            ("event", &column(rows, |row| row.event)),
            ("weight", &column(rows, |row| row.weight)),
            ("samples", &column(rows, |row| row.samples)),
        ],
    )
}

fn column<T>(rows: &[T], of: impl FnMut(&T) -> u64) -> Vec<u64> {
    rows.iter().map(of).collect()
}
