//! Comparisons of synthetic profiles: planted changes are found, and no others.

mod causes;
mod matching;
mod names;
mod one_side;
mod reparented;
mod shifts;
mod sides;
mod simulated;
mod verdict_grid;

use super::*;
use crate::builder::ProfileBuilder;
use crate::frame::Frame;

/// Weight of a sample: 1 ms.
const MS: u64 = 1_000_000;

fn profile(stacks: &[(String, u64)]) -> Profile {
    in_object(stacks, "/usr/bin/app")
}

fn in_object(stacks: &[(String, u64)], object: &str) -> Profile {
    let mut builder = ProfileBuilder::new();
    let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
    let object = builder.intern_object(object);
    let thread = builder.intern_thread_name("app");
    for (stack, samples) in stacks {
        let frames: Vec<_> = (stack.split(';'))
            .map(|name| builder.intern_function(Ok(name), object))
            .collect();
        let stack = builder.intern_stack(&frames);
        if *samples > 0 {
            builder.add_samples(event, thread, stack, *samples, samples * MS);
        }
    }
    builder.finish()
}

fn of(stacks: &[(&str, u64)]) -> Profile {
    let owned: Vec<_> = (stacks.iter())
        .map(|(stack, samples)| ((*stack).to_owned(), *samples))
        .collect();
    profile(&owned)
}

fn row<'d>(diff: &'d ProfileDiff, name: &str) -> &'d FunctionDiff {
    let is_it = |row: &&FunctionDiff| row.name.as_deref() == Some(name);
    diff.functions.iter().find(is_it).unwrap()
}

fn named(diff: &ProfileDiff) -> Vec<&str> {
    (diff.functions.iter())
        .filter(|row| row.own.verdict.is_marked())
        .filter_map(|row| row.name.as_deref())
        .collect()
}
