//! Interning under consecutive ids.

use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// Interned lists. Memory: the items of distinct lists, and a few words per list.
#[derive(Debug)]
pub struct Lists<T> {
    items: Vec<T>,
    ends: Vec<usize>,
    table: HashTable<u32>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Lists {
            items: Vec::new(),
            ends: Vec::new(),
            table: HashTable::new(),
        }
    }
}

impl<T: Copy + Eq + Hash> Lists<T> {
    fn slice<'s>(items: &'s [T], ends: &[usize], index: u32) -> &'s [T] {
        let index = index as usize;
        let start = match index {
            0 => 0,
            _ => ends[index - 1],
        };
        &items[start..ends[index]]
    }

    /// Returns the list with an [interned](Self::intern) id.
    pub fn get(&self, index: u32) -> &[T] {
        Self::slice(&self.items, &self.ends, index)
    }

    /// Returns the number of distinct lists.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of items in all distinct lists.
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Returns true if there is no list.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Interns a list. Returns its id, and true for a new list.
    pub fn intern(&mut self, list: &[T]) -> (u32, bool) {
        let hasher = FxBuildHasher;
        let hash = hasher.hash_one(list);
        let Lists { items, ends, table } = self;
        if let Some(index) = table.find(hash, |i| Self::slice(items, ends, *i) == list) {
            return (*index, false);
        }
        let index = ends.len() as u32;
        items.extend_from_slice(list);
        ends.push(items.len());
        table.insert_unique(hash, index, |i| {
            hasher.hash_one(Self::slice(items, ends, *i))
        });
        (index, true)
    }
}

/// Interned values.
#[derive(Debug)]
pub struct Values<T> {
    values: Vec<T>,
    table: HashTable<u32>,
}

impl<T> Default for Values<T> {
    fn default() -> Self {
        Values {
            values: Vec::new(),
            table: HashTable::new(),
        }
    }
}

impl<T: Eq + Hash> From<Vec<T>> for Values<T> {
    /// Creates a table whose ids are indexes. [`find`](Values::find) and [`intern`](Values::intern)
    /// ignore these values.
    fn from(values: Vec<T>) -> Self {
        Values {
            values,
            table: HashTable::new(),
        }
    }
}

impl<T: Eq + Hash> Values<T> {
    /// Returns the values, by id.
    pub fn into_vec(self) -> Vec<T> {
        self.values
    }

    /// Returns the values, by id.
    pub fn as_slice(&self) -> &[T] {
        &self.values
    }

    /// Returns the value with an [interned](Self::intern) id.
    pub fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    /// Returns a value's id, if interned.
    pub fn find(&self, value: &T) -> Option<u32> {
        let hash = FxBuildHasher.hash_one(value);
        (self.table)
            .find(hash, |i| self.values[*i as usize] == *value)
            .copied()
    }

    /// Interns a value.
    pub fn intern(&mut self, value: T) -> u32 {
        let hasher = FxBuildHasher;
        let hash = hasher.hash_one(&value);
        let Values { values, table } = self;
        if let Some(index) = table.find(hash, |i| values[*i as usize] == value) {
            return *index;
        }
        let index = values.len() as u32;
        values.push(value);
        table.insert_unique(hash, index, |i| hasher.hash_one(&values[*i as usize]));
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_have_one_number() {
        let mut lists = Lists::default();
        assert_eq!(lists.intern(&[1, 2]), (0, true));
        assert_eq!(lists.intern(&[]), (1, true));
        assert_eq!(lists.intern(&[1, 2]), (0, false));
        assert_eq!(lists.intern(&[1]), (2, true));
        assert_eq!(lists.intern(&[]), (1, false));
        assert_eq!(lists.get(0), [1, 2]);
        assert_eq!(lists.len(), 3);
        let mut values = Values::default();
        for i in (0..1000).chain(0..1000) {
            assert_eq!(values.intern(i * 7), i);
        }
        assert_eq!(values.find(&7), Some(1));
        assert_eq!(values.find(&8), None);
    }
}
