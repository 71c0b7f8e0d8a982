//! Interned locations and stacks.
//!
//! Most new stacks differ from earlier ones only in the leaf. A stack is therefore a leaf and the
//! id of a caller list. Its time and memory do not depend on its depth, unless its callers are new.

use std::hash::BuildHasher;
use std::num::NonZero;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::location::{CodeRegion, Location};
use rprof_profile::intern::{Lists, Values};

#[derive(Debug, Default)]
pub(crate) struct Locations {
    values: Vec<Location>,
    regions: Values<CodeRegion>,
    by_image: Vec<Option<NonZero<u32>>>,
    table: HashTable<LocationKey>,
}

/// Location, stored inline in the hash table.
#[derive(Clone, Copy, Debug)]
struct LocationKey {
    lookup: u64,
    /// Region id times two, plus one for a caller.
    region: u32,
    id: u32,
}

impl LocationKey {
    fn hash(&self) -> u64 {
        FxBuildHasher.hash_one((self.region, self.lookup))
    }

    fn same(&self, other: &LocationKey) -> bool {
        (self.lookup, self.region) == (other.lookup, other.region)
    }
}

impl Locations {
    pub(crate) fn as_slice(&self) -> &[Location] {
        &self.values
    }

    pub(crate) fn find(&self, location: &Location) -> Option<u32> {
        let region = self.regions.find(&location.region)?;
        let key = Self::key(location, region, 0);
        let found = self.table.find(key.hash(), |other| key.same(other))?;
        Some(found.id)
    }

    pub(crate) fn intern(&mut self, location: Location) -> u32 {
        let region = self.region(location.region);
        let key = Self::key(&location, region, self.values.len() as u32);
        let hash = key.hash();
        if let Some(found) = self.table.find(hash, |other| key.same(other)) {
            return found.id;
        }
        self.values.push(location);
        self.table.insert_unique(hash, key, LocationKey::hash);
        key.id
    }

    #[inline]
    fn region(&mut self, region: CodeRegion) -> u32 {
        let CodeRegion::Image(image) = region else {
            return self.regions.intern(region);
        };
        let image = image.0 as usize;
        if let Some(Some(plus_one)) = self.by_image.get(image) {
            return plus_one.get() - 1;
        }
        let id = self.regions.intern(region);
        if self.by_image.len() <= image {
            self.by_image.resize(image + 1, None);
        }
        self.by_image[image] = NonZero::new(id + 1);
        id
    }

    fn key(location: &Location, region: u32, id: u32) -> LocationKey {
        LocationKey {
            lookup: location.lookup,
            region: region << 1 | u32::from(location.caller),
            id,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct StackTable {
    callers: Lists<u32>,
    stacks: Vec<Stack>,
    table: HashTable<(Stack, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    leaf: u32,
    pub(crate) callers: u32,
}

/// Leaf of a stack without frames.
pub(crate) const NO_LEAF: u32 = u32::MAX;

impl Stack {
    pub(crate) fn leaf(&self) -> Option<u32> {
        (self.leaf != NO_LEAF).then_some(self.leaf)
    }

    fn hash(&self) -> u64 {
        FxBuildHasher.hash_one(u64::from(self.leaf) << 32 | u64::from(self.callers))
    }
}

impl StackTable {
    pub(crate) fn stack(&self, id: u32) -> Stack {
        self.stacks[id as usize]
    }

    /// Iterates over the location ids of a stack, leaf first.
    pub(crate) fn get(&self, id: u32) -> impl DoubleEndedIterator<Item = u32> + use<'_> {
        let stack = self.stack(id);
        let callers = self.callers.get(stack.callers);
        stack.leaf().into_iter().chain(callers.iter().copied())
    }

    /// Returns the distinct caller lists, innermost first, by id.
    pub(crate) fn callers(&self) -> &Lists<u32> {
        &self.callers
    }

    pub(crate) fn intern_callers(&mut self, callers: &[u32]) -> u32 {
        self.callers.intern(callers).0
    }

    pub(crate) fn intern(&mut self, leaf: Option<u32>, callers: u32) -> u32 {
        let stack = Stack {
            leaf: leaf.unwrap_or(NO_LEAF),
            callers,
        };
        let hash = stack.hash();
        if let Some((_, id)) = self.table.find(hash, |(other, _)| *other == stack) {
            return *id;
        }
        let id = self.stacks.len() as u32;
        self.stacks.push(stack);
        (self.table).insert_unique(hash, (stack, id), |(other, _)| other.hash());
        id
    }

    /// Interns the stacks of another table. Returns new ids by old id. `locations` maps the other
    /// table's location ids.
    pub(crate) fn merge(&mut self, other: &StackTable, locations: &[u32]) -> Vec<u32> {
        let mut list = Vec::new();
        let callers: Vec<u32> = (0..other.callers.len() as u32)
            .map(|n| {
                list.clear();
                list.extend(other.callers.get(n).iter().map(|l| locations[*l as usize]));
                self.intern_callers(&list)
            })
            .collect();
        (other.stacks.iter())
            .map(|s| {
                let leaf = s.leaf().map(|leaf| locations[leaf as usize]);
                self.intern(leaf, callers[s.callers as usize])
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_locations_have_one_id() {
        let mut locations = Locations::default();
        let at = |lookup, caller| Location {
            region: CodeRegion::Unmapped,
            lookup,
            caller,
        };
        assert_eq!(locations.intern(at(8, false)), 0);
        assert_eq!(locations.intern(at(8, true)), 1);
        assert_eq!(locations.intern(at(u64::MAX, true)), 2);
        assert_eq!(locations.intern(at(8, false)), 0);
        assert_eq!(locations.find(&at(8, true)), Some(1));
        assert_eq!(locations.find(&at(9, true)), None);
        assert_eq!(locations.as_slice()[2], at(u64::MAX, true));
    }

    #[test]
    fn stacks_are_what_was_interned_after_a_merge_too() {
        let mut a = StackTable::default();
        let callers = a.intern_callers(&[1, 2]);
        assert_eq!(a.intern(Some(0), callers), 0);
        let none = a.intern_callers(&[]);
        assert_eq!(a.intern(None, none), 1);
        assert_eq!(a.intern(Some(0), callers), 0);

        let mut b = StackTable::default();
        let callers = b.intern_callers(&[5, 6]);
        b.intern(Some(5), callers);
        let callers = b.intern_callers(&[6, 7]);
        b.intern(Some(5), callers);
        let ids = [9, 9, 9, 9, 9, 0, 1, 2];
        assert_eq!(a.merge(&b, &ids), [2, 0]);
        assert_eq!(a.get(2).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(a.get(0).rev().collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(a.get(1).count(), 0);
        assert_eq!(a.stacks.len(), 3);
    }
}
