//! Disambiguates functions of the same name: `step (parser.rs:12)`.
//!
//! Names are unqualified in line-tables-only debug information (`-gline-tables-only`, `debug =
//! "line-tables-only"`), and for static functions of C and, with GCC, of C++. The `step` of two
//! modules would look like one function.
//!
//! Functions are identified by file and line of their declaration. Line-tables-only debug
//! information lacks both, so the lines of the looked-up addresses serve instead. Copies of a
//! function in several units have different lines, so the nearest are merged first. A unit contains
//! each function once, so its entries are never merged.

use crate::dwarf::{Found, FoundFrame, FunctionEntry};
use crate::frames::SourceLine;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Maximum number of entries of one name to merge by lines.
const MAX_ENTRIES: usize = 1 << 16;

/// Disambiguates functions in the results for the sorted `svmas`. `is_named` returns true if a
/// symbol has another name than debug information. `with_lines` looks up some addresses again.
pub(crate) fn tell_apart(
    svmas: &[u64],
    found: &mut [Option<Found>],
    mut is_named: impl FnMut(u64, &Found) -> bool,
    with_lines: impl FnOnce(&[u64]) -> Vec<Option<Found>>,
) {
    let shared = shared_names(found);
    if shared.is_empty() {
        return;
    }
    for (svma, found) in svmas.iter().zip(found.iter_mut()) {
        let Some(found) = found else { continue };
        let outer = found.frames.first().and_then(key);
        if outer.is_some_and(|(name, _)| shared.contains(name)) && is_named(*svma, found) {
            found.frames[0].entry = None;
        }
    }
    let shared = shared_names(found);
    if shared.is_empty() {
        return;
    }
    let is_shared = |frame: &FoundFrame| key(frame).is_some_and(|(name, _)| shared.contains(name));
    let indexes: Vec<usize> = (0..svmas.len().min(found.len()))
        .filter(|index| {
            found[*index]
                .iter()
                .flat_map(|found| &found.frames)
                .any(is_shared)
        })
        .collect();
    let asked: Vec<u64> = indexes.iter().map(|index| svmas[*index]).collect();
    let lines = with_lines(&asked);
    // Entries were removed from the first results only.
    let counts = |index: usize, at: usize| {
        let found = found[indexes[index]].as_ref();
        found.is_some_and(|found| found.frames.get(at).is_some_and(is_shared))
    };
    let mut names: FxHashMap<Arc<str>, FxHashMap<FunctionEntry, Met>> = FxHashMap::default();
    for (index, found) in lines.iter().enumerate().take(indexes.len()) {
        for (at, frame) in found
            .iter()
            .flat_map(|found| found.frames.iter().enumerate())
        {
            let (Some((_, entry)), Some(name)) = (key(frame), &frame.name) else {
                continue;
            };
            if counts(index, at) {
                // The line of a frame is its call of the next frame.
                let next = found.iter().flat_map(|found| &found.frames).nth(at + 1);
                let own = found.as_ref().and_then(|found| found.line.as_ref());
                let line = next.map_or(own, |next| next.call.as_ref());
                let met = names.entry(Arc::clone(name)).or_default().entry(entry);
                met.or_default().add(frame.start_line, line);
            }
        }
    }
    let distinctions: FxHashMap<Arc<str>, FxHashMap<FunctionEntry, Arc<str>>> = (names.into_iter())
        .map(|(name, entries)| (name, distinctions(entries)))
        .collect();
    for index in indexes {
        for frame in found[index].iter_mut().flat_map(|found| &mut found.frames) {
            let distinction = key(frame)
                .and_then(|(name, entry)| distinctions.get(name)?.get(&entry))
                .map(Arc::clone);
            frame.distinction = distinction;
        }
    }
}

fn key(frame: &FoundFrame) -> Option<(&str, FunctionEntry)> {
    Some((frame.name.as_deref()?, frame.entry?))
}

fn shared_names(found: &[Option<Found>]) -> FxHashSet<Arc<str>> {
    let mut first: FxHashMap<&str, FunctionEntry> = FxHashMap::default();
    let mut shared: FxHashSet<Arc<str>> = FxHashSet::default();
    for frame in found.iter().flatten().flat_map(|found| &found.frames) {
        if let (Some((name, entry)), Some(text)) = (key(frame), &frame.name)
            && *first.entry(name).or_insert(entry) != entry
            && !shared.contains(name)
        {
            shared.insert(Arc::clone(text));
        }
    }
    shared
}

/// Lines of the looked-up addresses in one function entry.
#[derive(Clone, Debug, Default)]
struct Met {
    file: Option<Arc<str>>,
    start_line: u32,
    first: u32,
    last: u32,
}

impl Met {
    fn add(&mut self, start_line: u32, line: Option<&SourceLine>) {
        self.start_line = start_line;
        let Some(line) = line.filter(|line| line.line > 0) else {
            return;
        };
        // Other files come from text included in the function.
        let file = self.file.get_or_insert_with(|| Arc::clone(&line.file));
        if *file == line.file {
            let is_first = self.last == 0;
            self.first = if is_first {
                line.line
            } else {
                self.first.min(line.line)
            };
            self.last = self.last.max(line.line);
        }
    }
}

type Place = (Arc<str>, u32);

/// Returns the suffixes by entry. Empty if all are one function.
fn distinctions(entries: FxHashMap<FunctionEntry, Met>) -> FxHashMap<FunctionEntry, Arc<str>> {
    let mut places: FxHashMap<FunctionEntry, Place> = FxHashMap::default();
    let mut by_file: FxHashMap<Arc<str>, Vec<(FunctionEntry, Met)>> = FxHashMap::default();
    for (entry, met) in entries {
        let Some(file) = met.file.clone() else {
            continue;
        };
        if met.start_line > 0 {
            places.insert(entry, (file, met.start_line));
        } else {
            by_file.entry(file).or_default().push((entry, met));
        }
    }
    for (file, entries) in by_file {
        for (entry, line) in by_lines(entries) {
            places.insert(entry, (Arc::clone(&file), line));
        }
    }
    let different: FxHashSet<&Place> = places.values().collect();
    if different.len() < 2 {
        return FxHashMap::default();
    }
    let files: FxHashSet<&str> = different.iter().map(|(file, _)| &**file).collect();
    let ends = shortest_ends(&files);
    let texts: FxHashMap<&Place, Arc<str>> = (different.iter())
        .map(|place| {
            let (file, line) = *place;
            (*place, format!(" ({}:{line})", ends[&**file]).into())
        })
        .collect();
    (places.iter())
        .map(|(entry, place)| (*entry, Arc::clone(&texts[place])))
        .collect()
}

/// Groups entries of one file by function. Returns the first line of each entry's function.
fn by_lines(mut entries: Vec<(FunctionEntry, Met)>) -> Vec<(FunctionEntry, u32)> {
    entries.sort_unstable_by_key(|(entry, met)| (met.first, met.last, *entry));
    entries.truncate(MAX_ENTRIES);
    // Neighbours are merged by distance.
    let mut groups = Groups {
        parents: (0..entries.len()).collect(),
        units: (entries.iter())
            .map(|(entry, _)| FxHashSet::from_iter([entry.unit]))
            .collect(),
    };
    let mut reached = 0;
    let mut gaps: Vec<(u32, usize)> = Vec::with_capacity(entries.len());
    for (index, (_, met)) in entries.iter().enumerate() {
        if index > 0 {
            gaps.push((met.first.saturating_sub(reached), index));
        }
        reached = reached.max(met.last);
    }
    gaps.sort_unstable();
    for (_, index) in gaps {
        groups.join(index - 1, index);
    }
    let mut first: FxHashMap<usize, u32> = FxHashMap::default();
    for (index, (_, met)) in entries.iter().enumerate() {
        first.entry(groups.of(index)).or_insert(met.first);
    }
    (0..entries.len())
        .map(|index| (entries[index].0, first[&groups.of(index)]))
        .collect()
}

struct Groups {
    parents: Vec<usize>,
    units: Vec<FxHashSet<u32>>,
}

impl Groups {
    fn of(&mut self, mut index: usize) -> usize {
        while self.parents[index] != index {
            self.parents[index] = self.parents[self.parents[index]];
            index = self.parents[index];
        }
        index
    }

    /// Merges two groups, unless both have an entry of the same unit.
    fn join(&mut self, a: usize, b: usize) {
        let (mut large, mut small) = (self.of(a), self.of(b));
        if self.units[large].len() < self.units[small].len() {
            (large, small) = (small, large);
        }
        if large == small || !self.units[large].is_disjoint(&self.units[small]) {
            return;
        }
        let units = std::mem::take(&mut self.units[small]);
        self.units[large].extend(units);
        self.parents[small] = large;
    }
}

/// Returns the shortest unique suffix of each path, or the whole path.
fn shortest_ends<'p>(paths: &FxHashSet<&'p str>) -> FxHashMap<&'p str, &'p str> {
    // The longest common suffixes become neighbours.
    let mut sorted: Vec<(Vec<&str>, &'p str)> = (paths.iter())
        .map(|path| (path.rsplit('/').collect(), *path))
        .collect();
    sorted.sort_unstable();
    let common = |a: usize, b: Option<usize>| {
        let names = |at: usize| sorted.get(at).map(|(names, _)| names.iter());
        match (names(a), b.and_then(names)) {
            (Some(a), Some(b)) => a.zip(b).take_while(|(a, b)| a == b).count(),
            _ => 0,
        }
    };
    (0..sorted.len())
        .map(|at| {
            let (names, path) = &sorted[at];
            let shared = common(at, at.checked_sub(1)).max(common(at, Some(at + 1)));
            let bytes: usize = names
                .iter()
                .take(shared + 1)
                .map(|name| name.len() + 1)
                .sum();
            let end = path.len().checked_sub(bytes.saturating_sub(1));
            let end = end.and_then(|from| path.get(from..));
            (*path, end.filter(|end| !end.is_empty()).unwrap_or(path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, line: u32) -> Option<SourceLine> {
        Some(SourceLine {
            file: file.into(),
            line,
            column: 0,
        })
    }

    const NAMED: u32 = 1234;

    /// Result of one function: name, unit and offset, declaration line, and line of the address.
    type Answer<'a> = (&'a str, (u32, u32), u32, (&'a str, u32));

    fn shown(answers: &[Answer<'_>]) -> Vec<String> {
        let make = |with_lines: bool| -> Vec<Option<Found>> {
            let found = |(name, (unit, offset), start_line, (file, at)): &Answer<'_>| Found {
                frames: vec![FoundFrame {
                    name: Some((*name).into()),
                    start_line: *start_line,
                    call: None,
                    entry: Some(FunctionEntry {
                        unit: *unit,
                        offset: *offset,
                    }),
                    distinction: None,
                }],
                range: 0..1,
                line: line(file, *at).filter(|_| with_lines),
            };
            answers.iter().map(|answer| Some(found(answer))).collect()
        };
        let svmas: Vec<u64> = (0..answers.len() as u64).collect();
        let mut found = make(false);
        let is_named = |_, found: &Found| found.frames[0].start_line == NAMED;
        tell_apart(&svmas, &mut found, is_named, |asked| {
            let all = make(true);
            asked
                .iter()
                .map(|svma| all[*svma as usize].clone())
                .collect()
        });
        let text = |found: Option<Found>| {
            let frame = found.unwrap().frames.remove(0);
            format!(
                "{}{}",
                frame.name.unwrap(),
                frame.distinction.as_deref().unwrap_or_default()
            )
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn functions_of_one_unit_are_told_apart_by_the_lines_that_were_met() {
        assert_eq!(
            shown(&[
                ("step", (0, 1), 0, ("/s/two.rs", 5)),
                ("step", (0, 1), 0, ("/s/two.rs", 3)),
                ("step", (0, 2), 0, ("/s/two.rs", 30)),
                ("other", (0, 3), 0, ("/s/two.rs", 9)),
            ]),
            [
                "step (two.rs:3)",
                "step (two.rs:3)",
                "step (two.rs:30)",
                "other"
            ]
        );
    }

    #[test]
    fn copies_of_one_function_in_several_units_stay_one() {
        let copies = [
            ("push", (0, 1), 0, ("/lib/vec.rs", 20)),
            ("push", (1, 1), 0, ("/lib/vec.rs", 25)),
            ("push", (2, 1), 0, ("/lib/vec.rs", 21)),
        ];
        assert_eq!(shown(&copies), ["push"; 3]);
        let mut all = copies.to_vec();
        all.extend([
            ("push", (1, 7), 0, ("/lib/vec.rs", 90)),
            ("push", (2, 7), 0, ("/lib/vec.rs", 88)),
        ]);
        let expected = [["push (vec.rs:20)"; 3].as_slice(), &["push (vec.rs:88)"; 2]].concat();
        assert_eq!(shown(&all), expected);
    }

    #[test]
    fn declarations_count_where_they_are_known() {
        assert_eq!(
            shown(&[
                ("f", (0, 1), 4, ("/s/a.c", 9)),
                ("f", (1, 1), 4, ("/s/b.c", 9)),
                ("g", (0, 2), 7, ("/s/h.h", 8)),
                ("g", (1, 2), 7, ("/s/h.h", 10)),
            ]),
            ["f (a.c:4)", "f (b.c:4)", "g", "g"]
        );
    }

    #[test]
    fn paths_are_as_short_as_they_can_be() {
        assert_eq!(
            shown(&[
                ("f", (0, 1), 1, ("/s/parser/mod.rs", 1)),
                ("f", (1, 1), 1, ("/s/render/mod.rs", 1)),
                ("f", (2, 1), 1, ("/s/xmod.rs", 1)),
                ("f", (3, 1), 1, ("mod.rs", 1)),
            ]),
            [
                "f (parser/mod.rs:1)",
                "f (render/mod.rs:1)",
                "f (xmod.rs:1)",
                "f (mod.rs:1)"
            ]
        );
    }

    #[test]
    fn what_has_no_line_keeps_its_name() {
        let (known, unknown) = (("/s/a.c", 9), ("/s/a.c", 0));
        assert_eq!(
            shown(&[("f", (0, 1), 0, known), ("f", (0, 2), 0, unknown)]),
            ["f", "f"]
        );
    }

    #[test]
    fn functions_with_another_symbol_do_not_count() {
        assert_eq!(
            shown(&[
                ("new", (0, 1), NAMED, ("/s/a.rs", 1240)),
                ("new", (0, 2), NAMED, ("/s/b.rs", 1240)),
                ("new", (0, 3), 0, ("/s/c.rs", 3)),
            ]),
            ["new"; 3]
        );
    }

    #[test]
    fn many_entries_of_one_name_take_no_time() {
        let all: Vec<_> = (0..20_000)
            .map(|n| ("f", (n % 7, n), 0, ("/s/a.c", n % 1000 + 1)))
            .collect();
        assert_eq!(shown(&all).len(), 20_000);
        let files: Vec<String> = (0..20_000).map(|n| format!("/s/d{n}/mod.rs")).collect();
        let all: Vec<_> = (files.iter().zip(0..))
            .map(|(file, n)| ("f", (0, n), 0, (&**file, 3)))
            .collect();
        assert_eq!(shown(&all)[19_999], "f (d19999/mod.rs:3)");
    }
}
