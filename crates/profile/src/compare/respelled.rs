//! Unites one-sided names of a function that compilers, mangling schemes or debug information spell
//! differently.
//!
//! Names on both sides stay as they are. A remaining name joins all matching names of the other
//! side: legacy mangling has one name for all instances of a generic function.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::canonical::{CanonicalName, JIT_OBJECT};
use super::spelling::Spelling;

/// Unites names by [`Spelling`]. `one_of` maps names to representatives.
pub(super) fn unite(names: &[CanonicalName], one_of: &mut [u32], is_on: [&[bool]; 2]) {
    let mut united = United::of(one_of, is_on);
    if !united.has_left() {
        return;
    }
    let spellings: Vec<Option<Spelling>> = (names.iter().enumerate())
        .map(|(number, name)| {
            let is_there = is_on[0][number] || is_on[1][number];
            let function = name
                .function
                .as_deref()
                .filter(|_| is_there && *name.object != *JIT_OBJECT);
            function.and_then(Spelling::of)
        })
        .collect();
    let spelled = Spelled {
        names,
        spellings: &spellings,
        is_on,
    };
    spelled.by_path(&mut united);
    spelled.by_trait(&mut united);
    spelled.by_bare_name(&mut united);
}

struct Spelled<'a> {
    names: &'a [CanonicalName],
    spellings: &'a [Option<Spelling>],
    is_on: [&'a [bool]; 2],
}

impl Spelled<'_> {
    /// Groups names by object and key. Skips groups without a choice.
    fn groups<'k>(
        &'k self,
        united: &United<'_>,
        key: impl Fn(&'k Spelling) -> Option<Cow<'k, str>>,
    ) -> Vec<Vec<usize>> {
        let mut groups: FxHashMap<(&str, Cow<'_, str>), Vec<usize>> = FxHashMap::default();
        for (number, spelling) in self.spellings.iter().enumerate() {
            if let Some(key) = spelling.as_ref().and_then(&key) {
                let group = groups.entry((&self.names[number].object, key)).or_default();
                group.push(number);
            }
        }
        groups
            .into_values()
            .filter(|group| group.len() > 1 && group.iter().any(|number| united.is_left(*number)))
            .collect()
    }

    fn spelling(&self, number: usize) -> Option<&Spelling> {
        self.spellings[number].as_ref()
    }

    /// Unites `app::count` and `app::count::<u64>`: equal paths without contradicting arguments.
    ///
    /// Ignores bare names. Line tables write arguments, so `reserve` is `String`'s method and not a
    /// generic `reserve<u64, A>`.
    fn by_path(&self, united: &mut United<'_>) {
        fn key(spelling: &Spelling) -> Option<Cow<'_, str>> {
            let path = Cow::Borrowed(&*spelling.path);
            spelling.bare().is_none().then_some(path)
        }
        for group in self.groups(united, key) {
            for side in [0, 1] {
                let left: Vec<usize> = united.left_of(side, &group);
                for number in left {
                    let agrees = |other: &usize| {
                        let spelling = self.spelling(*other).zip(self.spelling(number));
                        spelling.is_some_and(|(one, other)| one.agrees(other))
                    };
                    let others = group.iter().filter(|other| self.is_on[1 - side][**other]);
                    for other in others.copied().filter(agrees) {
                        match self.spelling(number).is_some_and(Spelling::tells) {
                            true => united.join(number, other),
                            false => united.join(other, number),
                        }
                    }
                }
            }
        }
    }

    /// Unites `core::hash::BuildHasher::hash_one` and
    /// `<std::hash::RandomState as core::hash::BuildHasher>::hash_one`: legacy names of provided
    /// methods only contain the trait.
    fn by_trait(&self, united: &mut United<'_>) {
        fn key(spelling: &Spelling) -> Option<Cow<'_, str>> {
            let of_trait = spelling.of_trait().map(Cow::Owned);
            of_trait.or(Some(Cow::Borrowed(&*spelling.path)))
        }
        let is_of_type = |number: &usize| {
            let spelling = self.spelling(*number);
            spelling.is_some_and(|spelling| spelling.of_trait().is_some())
        };
        for group in self.groups(united, key) {
            for side in [0, 1] {
                let mut of_trait = united.left_of(side, &group);
                of_trait.retain(|number| !is_of_type(number));
                let mut of_types = united.left_of(1 - side, &group);
                of_types.retain(is_of_type);
                united.join_all(&of_trait, &of_types);
            }
        }
    }

    /// Unites `from_iter<u64, I>` and `<alloc::vec::Vec<T> as
    /// core::iter::FromIterator<T>>::from_iter`: a bare name, and the only path that ends with it.
    fn by_bare_name(&self, united: &mut United<'_>) {
        fn key(spelling: &Spelling) -> Option<Cow<'_, str>> {
            let last = spelling.bare().or_else(|| spelling.last_of_path());
            last.map(Cow::Borrowed)
        }
        let is_bare = |number: &usize| {
            let spelling = self.spelling(*number);
            spelling.is_some_and(|spelling| spelling.bare().is_some())
        };
        for group in self.groups(united, key) {
            for side in [0, 1] {
                let mut bare = united.left_of(side, &group);
                bare.retain(is_bare);
                let mut paths = united.left_of(1 - side, &group);
                paths.retain(|number| !is_bare(number));
                let path = |number: &usize| self.spelling(*number).map(|s| &*s.path);
                if paths
                    .iter()
                    .all(|number| path(number) == paths.first().and_then(path))
                {
                    united.join_all(&paths, &bare);
                }
            }
        }
    }
}

struct United<'a> {
    /// Parent of each name. A representative is its own parent.
    one_of: &'a mut [u32],
    sides: Vec<[bool; 2]>,
    is_on: [&'a [bool]; 2],
}

impl<'a> United<'a> {
    fn of(one_of: &'a mut [u32], is_on: [&'a [bool]; 2]) -> United<'a> {
        let mut sides = vec![[false; 2]; one_of.len()];
        for number in 0..one_of.len() {
            let at = one_of[number] as usize;
            sides[at] = [0, 1].map(|side| sides[at][side] | is_on[side][number]);
        }
        United {
            one_of,
            sides,
            is_on,
        }
    }

    fn has_left(&self) -> bool {
        self.sides.iter().any(|[old, new]| old != new)
    }

    fn is_left(&self, number: usize) -> bool {
        let [old, new] = self.sides[self.name_of_all(number)];
        old != new
    }

    fn name_of_all(&self, number: usize) -> usize {
        let mut at = number;
        while self.one_of[at] as usize != at {
            at = self.one_of[at] as usize;
        }
        at
    }

    fn left_of(&self, side: usize, group: &[usize]) -> Vec<usize> {
        let is_left = |number: &usize| {
            self.is_on[side][*number] && !self.sides[self.name_of_all(*number)][1 - side]
        };
        group.iter().copied().filter(is_left).collect()
    }

    fn join_all(&mut self, one: &[usize], other: &[usize]) {
        if let ([first, rest @ ..], false) = (one, other.is_empty()) {
            rest.iter()
                .chain(other)
                .for_each(|number| self.join(*number, *first));
        }
    }

    fn join(&mut self, number: usize, with: usize) {
        let [number, with] = [number, with].map(|number| self.name_of_all(number));
        if number != with {
            self.one_of[number] = with as u32;
            let [of_number, of_with] = [self.sides[number], self.sides[with]];
            self.sides[with] = [0, 1].map(|side| of_number[side] | of_with[side]);
        }
    }
}

impl Drop for United<'_> {
    fn drop(&mut self) {
        for number in 0..self.one_of.len() {
            self.one_of[number] = self.name_of_all(number) as u32;
        }
    }
}
