//! Functions, objects and files of a page, from one or two profiles.

use std::collections::BTreeMap;

use rprof_profile::compare::canonical::object_name;
use rprof_profile::compare::{MatchedFunctions, Side};
use rprof_profile::{FileId, Function, FunctionId, Profile, Reason};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::frame_kind::{FrameKind, FrameKinds, without_annotation};
use crate::names::CleanNames;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageFunction {
    pub(super) name: Option<String>,
    pub(super) object: u32,
    /// Kind of its frames that are not inlined.
    pub(super) kind: FrameKind,
    /// Reason why the name is missing.
    pub(super) reason: Option<Reason>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PageObject {
    pub(super) name: String,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) functions: Vec<PageFunction>,
    pub(super) objects: Vec<PageObject>,
    pub(super) files: Vec<String>,
    function_numbers: FxHashMap<(Identity, Option<Reason>, FrameKind), u32>,
    object_numbers: FxHashMap<String, u32>,
    file_numbers: FxHashMap<String, u32>,
    matched: Option<MatchedFunctions>,
}

/// Identity of a function across two profiles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Matched(u32),
    Alone(Side, Option<Box<str>>, Box<str>),
}

impl Tables {
    /// Creates empty tables. With `matched`, they hold two compared profiles.
    pub(super) fn new(matched: Option<MatchedFunctions>) -> Tables {
        Tables {
            matched,
            ..Tables::default()
        }
    }

    /// Adds the functions of a profile, and returns their numbers.
    pub(super) fn add(&mut self, profile: &Profile, side: Side) -> Vec<u32> {
        let kinds = FrameKinds::of(profile);
        let functions = profile.functions.iter().enumerate();
        functions
            .map(|(id, function)| {
                let id = FunctionId(id as u32);
                self.function(profile, side, id, function, &kinds)
            })
            .collect()
    }

    fn function(
        &mut self,
        profile: &Profile,
        side: Side,
        id: FunctionId,
        function: &Function,
        kinds: &FrameKinds,
    ) -> u32 {
        let kind = kinds.of_function(id);
        let names = CleanNames::new(profile);
        let object = profile.object(function.object);
        let number = (self.matched.as_ref()).and_then(|matched| matched.number(side, id));
        let object_key = match (&self.matched, number) {
            (Some(matched), Some(number)) => matched.object(number).to_owned(),
            (Some(_), None) => object_name(object).into_owned(),
            (None, _) => object.name.to_string(),
        };
        let identity = match number {
            Some(number) => Identity::Matched(number),
            None => {
                let name = function.name.clone().ok();
                Identity::Alone(side, name, object.name.clone())
            }
        };
        let key = (identity, function.name.as_ref().err().copied(), kind);
        if let Some(known) = self.function_numbers.get(&key) {
            return *known;
        }
        let name = names.function(id);
        let name = name.map(|name| match profile.is_folded {
            true => without_annotation(&name).to_owned(),
            false => name.into_owned(),
        });
        let object = *self.object_numbers.entry(object_key).or_insert_with(|| {
            self.objects.push(PageObject {
                name: names.object(function.object).into_owned(),
            });
            self.objects.len() as u32 - 1
        });
        self.functions.push(PageFunction {
            name,
            object,
            kind,
            reason: function.name.as_ref().err().copied(),
        });
        let number = self.functions.len() as u32 - 1;
        self.function_numbers.insert(key, number);
        number
    }

    pub(super) fn add_pseudo(&mut self, name: &str) -> u32 {
        let object = self.objects.len() as u32;
        self.objects.push(PageObject {
            name: String::new(),
        });
        self.functions.push(PageFunction {
            name: Some(name.to_owned()),
            object,
            kind: FrameKind::Thread,
            reason: None,
        });
        self.functions.len() as u32 - 1
    }

    pub(super) fn file(&mut self, profile: &Profile, file: FileId) -> u32 {
        let name = crate::clean::clean(&profile.files[file.0 as usize]).into_owned();
        let files = &mut self.files;
        *self.file_numbers.entry(name).or_insert_with_key(|name| {
            files.push(name.clone());
            files.len() as u32 - 1
        })
    }

    /// Sorts functions by descending number of nodes, objects and files by name. So frequent
    /// functions have small numbers, independent of the profile's order. Returns the new numbers of
    /// functions and files.
    pub(super) fn sort(&mut self, nodes: &[u64]) -> [Vec<u32>; 2] {
        let objects = order(self.objects.len(), |at| self.objects[at].name.clone());
        let files = order(self.files.len(), |at| self.files[at].clone());
        let functions = order(self.functions.len(), |at| {
            let function = &self.functions[at];
            (
                u64::MAX - nodes.get(at).copied().unwrap_or(0),
                function.name.clone(),
                self.objects[function.object as usize].name.clone(),
                function.kind,
                function.reason.map(Reason::key),
            )
        });
        for function in &mut self.functions {
            function.object = objects[function.object as usize];
        }
        permute(&mut self.objects, &objects);
        permute(&mut self.files, &files);
        permute(&mut self.functions, &functions);
        [functions, files]
    }

    pub(super) fn reasons(&self) -> Vec<(Reason, String)> {
        let reasons = self.functions.iter().filter_map(|function| function.reason);
        let by_key: BTreeMap<&'static str, Reason> =
            reasons.map(|reason| (reason.key(), reason)).collect();
        (by_key.into_values())
            .map(|reason| (reason, reason.to_string()))
            .collect()
    }
}

/// Returns the new index of each element after sorting by a key.
fn order<K: Ord>(count: usize, key: impl Fn(usize) -> K) -> Vec<u32> {
    let mut sorted: Vec<usize> = (0..count).collect();
    sorted.sort_by_cached_key(|at| key(*at));
    let mut numbers = vec![0; count];
    for (number, at) in sorted.into_iter().enumerate() {
        numbers[at] = number as u32;
    }
    numbers
}

fn permute<T>(elements: &mut Vec<T>, numbers: &[u32]) {
    let mut pairs: Vec<(u32, T)> = (numbers.iter().copied())
        .zip(std::mem::take(elements))
        .collect();
    pairs.sort_by_key(|(number, _)| *number);
    elements.extend(pairs.into_iter().map(|(_, element)| element));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_numbered_by_their_keys() {
        let mut words = vec!["c", "a", "b"];
        let numbers = order(3, |at| words[at]);
        assert_eq!(numbers, [2, 0, 1]);
        permute(&mut words, &numbers);
        assert_eq!(words, ["a", "b", "c"]);
    }
}
