//! Distinguishes functions of the same linkage name by their source file: `step (parser.c)`, or by
//! their old version: `foo (LIBFOO_1.0)`.
//!
//! Most such functions are local to a file. Symbol tables list local symbols behind the name of
//! their file, so no debug information is necessary. Others are versions of an exported function.
//! The current version has no suffix. `rprof_profile::pattern` recognizes the suffix.

use crate::demangle::without_version;
use crate::frames::{Frames, Symbol};
use rprof_image::Reason;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Distinguishes the functions in the results for one image. `files_of` returns the source files or
/// old versions of the symbols that start at sorted SVMAs.
pub(crate) fn tell_apart(
    lookups: &mut [Result<Frames, Reason>],
    files_of: impl FnOnce(&[u64]) -> FxHashMap<u64, Box<str>>,
) {
    let groups = groups(lookups);
    if groups.is_empty() {
        return;
    }
    let starts: BTreeSet<u64> = groups.iter().flatten().copied().collect();
    let files = files_of(&Vec::from_iter(starts));
    let file_of = |start: &u64| files.get(start).map(|file| &**file);
    let mut shown: FxHashMap<u64, &str> = FxHashMap::default();
    for starts in groups {
        let found: BTreeSet<Option<&str>> = starts.iter().map(file_of).collect();
        if found.len() < 2 {
            continue;
        }
        let named = || found.iter().flatten().copied();
        let bases: BTreeSet<&str> = named().map(without_folder).collect();
        let is_short = bases.len() == named().count();
        for start in starts {
            let file = file_of(&start).map(|file| match is_short {
                true => without_folder(file),
                false => file,
            });
            shown.extend(file.map(|file| (start, file)));
        }
    }
    let mut renamed: FxHashMap<u64, Arc<Symbol>> = FxHashMap::default();
    for frames in lookups.iter_mut().flatten() {
        let rename = |symbol: &Arc<Symbol>| {
            let file = shown.get(&symbol.start)?;
            let make = || {
                let name = format!("{} ({file})", symbol.name).into();
                let symbol = Symbol::clone(symbol);
                Arc::new(Symbol { name, ..symbol })
            };
            Some(Arc::clone(renamed.entry(symbol.start).or_insert_with(make)))
        };
        frames.rename(rename, |_| None);
    }
}

/// Returns the starts of different functions with the same name.
fn groups(lookups: &[Result<Frames, Reason>]) -> Vec<BTreeSet<u64>> {
    let mut first: FxHashMap<(&str, &str), u64> = FxHashMap::default();
    let mut groups: FxHashMap<(&str, &str), BTreeSet<u64>> = FxHashMap::default();
    for symbol in lookups.iter().flatten().map(Frames::symbol) {
        let name = (&*symbol.name, without_version(&symbol.raw));
        let first = *first.entry(name).or_insert(symbol.start);
        if first != symbol.start {
            let starts = groups.entry(name).or_default();
            starts.extend([first, symbol.start]);
        }
    }
    groups.into_values().collect()
}

fn without_folder(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_one_name_show_their_files() {
        let frames = |name, start| Ok(Frames::of_jit_function(name, start, 16, 4, None));
        let mut lookups = vec![
            frames("step", 0x10),
            frames("step", 0x20),
            frames("step", 0x30),
            Err(Reason::Stripped),
            frames("main", 0x40),
            frames("init", 0x50),
            frames("init", 0x60),
            frames("tick", 0x70),
            frames("tick", 0x80),
        ];
        tell_apart(&mut lookups, |starts| {
            assert_eq!(starts, [0x10, 0x20, 0x30, 0x50, 0x60, 0x70, 0x80]);
            let files = [
                (0x10, "src/parser.c"),
                (0x20, "lexer.c"),
                (0x50, "a/util.c"),
                (0x60, "b/util.c"),
                (0x70, "clock.c"),
                (0x80, "clock.c"),
            ];
            files
                .map(|(start, file)| (start, file.into()))
                .into_iter()
                .collect()
        });
        let names = lookups
            .iter()
            .flatten()
            .map(|frames| &*frames.symbol().name);
        let expected = [
            "step (parser.c)",
            "step (lexer.c)",
            "step",
            "main",
            "init (a/util.c)",
            "init (b/util.c)",
            "tick",
            "tick",
        ];
        assert_eq!(Vec::from_iter(names), expected);
    }
}
