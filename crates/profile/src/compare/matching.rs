//! Matches functions of both sides.

use std::cmp::Reverse;

use rprof_records::BuildId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::canonical::{
    CanonicalName, function_name, jit_name, object_name, of_any_build, without_numbers,
    without_paths_of_closures,
};
use super::respelled;
use crate::frame::ObjectKind;
use crate::intern::Values;
use crate::model::Profile;

#[derive(Debug, Default)]
pub(super) struct Names {
    distinct: Values<CanonicalName>,
    fold_generics: bool,
    /// `None` for several or unknown builds.
    builds: FxHashMap<Box<str>, Option<BuildId>>,
}

impl Names {
    pub(super) fn new<'p>(
        fold_generics: bool,
        profiles: impl Iterator<Item = &'p Profile>,
    ) -> Names {
        let mut builds: FxHashMap<Box<str>, Option<BuildId>> = FxHashMap::default();
        for object in profiles.flat_map(|profile| &profile.objects) {
            let build = builds
                .entry(object_name(object).into())
                .or_insert(object.build_id);
            *build = build.filter(|known| Some(*known) == object.build_id);
        }
        Names {
            fold_generics,
            builds,
            ..Names::default()
        }
    }

    /// Returns true if a name is valid in all profiles: it is no
    /// [address](crate::Function::located), or its object has one build.
    fn is_of_one_build(&self, function: &crate::Function, object: &str) -> bool {
        function.located.is_none() || self.builds.get(object).is_some_and(Option::is_some)
    }

    /// Adds a profile. Returns the name number of each function.
    pub(super) fn add(&mut self, profile: &Profile) -> Vec<u32> {
        let objects: Vec<Box<str>> = (profile.objects.iter())
            .map(|object| object_name(object).into())
            .collect();
        let of_function = |function: &crate::Function| {
            let object = function.object.0 as usize;
            let is_jit = profile.objects[object].kind == ObjectKind::Jit;
            let canonical = |name: &str| match is_jit {
                true => jit_name(name).into(),
                // In folded text, lines belong to the names.
                false if profile.is_folded => of_any_build(name, self.fold_generics).into(),
                false => function_name(name, self.fold_generics).into(),
            };
            let name = function.name.as_deref().ok();
            let name = name.filter(|_| self.is_of_one_build(function, &objects[object]));
            let function = match function.located {
                Some(_) => name.map(Into::into),
                None => name.map(canonical),
            };
            self.distinct.intern(CanonicalName {
                function,
                object: objects[object].clone(),
            })
        };
        profile.functions.iter().map(of_function).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.distinct.as_slice().len()
    }

    /// Matches the names of both sides. `is_on[side][number]` is true for a name with samples.
    pub(super) fn matched(self, is_on: [&[bool]; 2]) -> Rows {
        let names = with_renamed_objects(self.distinct.into_vec(), is_on);
        let mut one_of: Vec<u32> = (0..names.len() as u32).collect();
        // A name in one object per side is one function, even if the objects' names differ.
        let by_name = |number: usize| names[number].function.as_deref();
        unite(&mut one_of, is_on, by_name);
        // Renamed objects have made further names equal.
        unite(&mut one_of, is_on, |number| Some(&names[number]));
        // Closure numbers change with edits above, paths with enclosing functions.
        for less in [without_numbers, without_paths_of_closures] {
            let [old, new] = left(&one_of, is_on);
            let key = |number: usize| {
                let name = less(names[number].function.as_deref()?)?;
                Some((name, &*names[number].object))
            };
            unite(&mut one_of, [&old, &new], key);
        }
        respelled::unite(&names, &mut one_of, is_on);
        Rows::of(&names, &one_of, is_on)
    }
}

fn with_renamed_objects(mut names: Vec<CanonicalName>, is_on: [&[bool]; 2]) -> Vec<CanonicalName> {
    let renamed = renamed_objects(&names, is_on);
    for name in &mut names {
        if let Some(new) = renamed.get(&name.object) {
            name.object.clone_from(new);
        }
    }
    names
}

/// Maps old objects to new ones, such as `./app-old` to `./app-new`.
fn renamed_objects(names: &[CanonicalName], is_on: [&[bool]; 2]) -> FxHashMap<Box<str>, Box<str>> {
    let mut functions: FxHashMap<&str, [FxHashSet<&str>; 2]> = FxHashMap::default();
    for (number, name) in names.iter().enumerate() {
        for side in [0, 1] {
            if let (true, Some(function)) = (is_on[side][number], &name.function) {
                let sides = functions.entry(&name.object).or_default();
                sides[side].insert(function);
            }
        }
    }
    let renamed = renamed(&functions).into_iter();
    renamed.map(|(old, new)| (old.into(), new.into())).collect()
}

/// Maps one-sided keys of both sides, the most common items first.
pub(super) fn renamed<'n, T: Eq + std::hash::Hash>(
    held: &FxHashMap<&'n str, [FxHashSet<T>; 2]>,
) -> FxHashMap<&'n str, &'n str> {
    let only = |side: usize| {
        let all = held.iter();
        all.filter(move |(_, sides)| !sides[side].is_empty() && sides[1 - side].is_empty())
    };
    let mut pairs: Vec<(usize, &str, &str)> = Vec::new();
    for (&old, [of_old, _]) in only(0) {
        for (&new, [_, of_new]) in only(1) {
            let common = of_old.intersection(of_new).count();
            if common > 0 {
                pairs.push((common, old, new));
            }
        }
    }
    // Independent of the order of sides.
    pairs.sort_by_key(|(common, old, new)| (Reverse(*common), *old.min(new), *old.max(new)));
    let mut renamed: FxHashMap<&str, &str> = FxHashMap::default();
    let mut taken: FxHashSet<&str> = FxHashSet::default();
    for (_, old, new) in pairs {
        if !renamed.contains_key(old) && taken.insert(new) {
            renamed.insert(old, new);
        }
    }
    renamed
}

fn left(one_of: &[u32], is_on: [&[bool]; 2]) -> [Vec<bool>; 2] {
    let mut sides = vec![[false; 2]; one_of.len()];
    for (number, at) in one_of.iter().enumerate() {
        let at = &mut sides[*at as usize];
        *at = [0, 1].map(|side| at[side] | is_on[side][number]);
    }
    [0, 1].map(|side| {
        let is_left =
            |number: usize| is_on[side][number] && sides[one_of[number] as usize] != [true; 2];
        (0..one_of.len()).map(is_left).collect()
    })
}

/// Unites names with the same key, if each side has exactly one.
fn unite<K: Eq + std::hash::Hash>(
    one_of: &mut [u32],
    is_on: [&[bool]; 2],
    key: impl Fn(usize) -> Option<K>,
) {
    #[derive(Clone, Copy)]
    enum Found {
        None,
        One(usize),
        Several,
    }
    let mut by_key: FxHashMap<K, [Found; 2]> = FxHashMap::default();
    for (number, sides) in is_on[0].iter().zip(is_on[1]).enumerate() {
        let sides = [*sides.0, *sides.1];
        let Some(key) = key(number).filter(|_| sides.contains(&true)) else {
            continue;
        };
        let found = by_key.entry(key).or_insert([Found::None; 2]);
        for (found, is_on) in found.iter_mut().zip(sides) {
            if is_on {
                *found = match *found {
                    Found::None => Found::One(number),
                    _ => Found::Several,
                };
            }
        }
    }
    for found in by_key.into_values() {
        if let [Found::One(old), Found::One(new)] = found {
            one_of[old] = new as u32;
        }
    }
}

#[derive(Debug)]
pub(super) struct Rows {
    pub(super) names: Vec<CanonicalName>,
    of_name: Vec<u32>,
}

impl Rows {
    fn of(names: &[CanonicalName], one_of: &[u32], is_on: [&[bool]; 2]) -> Rows {
        let mut shown: Vec<u32> = (0..names.len())
            .filter(|number| is_on[0][*number] || is_on[1][*number])
            .map(|number| one_of[number])
            .collect();
        shown.sort_unstable_by(|a, b| names[*a as usize].cmp(&names[*b as usize]));
        shown.dedup();
        let mut of_name = vec![u32::MAX; names.len()];
        for (row, number) in shown.iter().enumerate() {
            of_name[*number as usize] = row as u32;
        }
        for number in 0..names.len() {
            of_name[number] = of_name[one_of[number] as usize];
        }
        let names = (shown.iter())
            .map(|number| names[*number as usize].clone())
            .collect();
        Rows { names, of_name }
    }

    pub(super) fn of_functions(&self, numbers: &[u32]) -> Vec<u32> {
        let row = |number: &u32| self.of_name[*number as usize];
        numbers.iter().map(row).collect()
    }
}
