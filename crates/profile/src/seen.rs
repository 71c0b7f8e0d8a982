//! The distinct samples that were seen, and how often.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::identity::Identity;
use crate::resolve::{Amount, Group};

/// One distinct sample, in 16 bytes: there are many more of them than groups, and what is
/// waited for is the memory of this table.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    check: u32,
    group: u32,
}

/// Groups by the identity of the samples that belong to them.
#[derive(Default)]
pub(crate) struct Seen {
    table: HashTable<Entry>,
    /// Numbers of groups: compared where they are found.
    numbers: HashTable<(Group, u32)>,
    /// The groups by number, and what each came to.
    groups: Vec<(Group, Amount)>,
}

impl Seen {
    /// Counts a sample that was seen before, and answers its group.
    #[inline]
    pub(crate) fn count(&mut self, identity: Identity, weight: u64) -> Option<&Group> {
        let same = |e: &Entry| e.hash == identity.hash && e.check == identity.check;
        let group = self.table.find(identity.hash, same)?.group;
        self.add(group, weight);
        self.groups.get(group as usize).map(|(group, _)| group)
    }

    #[inline]
    fn add(&mut self, group: u32, weight: u64) {
        if let Some((_, amount)) = self.groups.get_mut(group as usize) {
            amount.samples += 1;
            amount.weight = amount.weight.saturating_add(weight);
        }
    }

    /// The number of a group.
    pub(crate) fn group(&mut self, group: Group) -> u32 {
        let hash = |group: &Group| FxBuildHasher.hash_one(group);
        let hashed = hash(&group);
        if let Some((_, number)) = self.numbers.find(hashed, |(other, _)| *other == group) {
            return *number;
        }
        let number = self.groups.len() as u32;
        self.groups.push((group, Amount::default()));
        (self.numbers).insert_unique(hashed, (group, number), |(group, _)| hash(group));
        number
    }

    /// Takes a sample that was not seen before, of the group with this number, and counts it.
    pub(crate) fn insert(&mut self, identity: Identity, group: u32, weight: u64) {
        let entry = Entry {
            hash: identity.hash,
            check: identity.check,
            group,
        };
        self.add(group, weight);
        self.table.insert_unique(entry.hash, entry, |e| e.hash);
    }

    /// The groups in the order in which they were seen, each with what it came to: different
    /// samples may belong to one.
    pub(crate) fn finish(self) -> Vec<(Group, Amount)> {
        self.groups
    }
}

/// Numbers by identity.
#[derive(Default)]
pub(crate) struct Numbers {
    table: HashTable<(u64, u32, u32)>,
}

impl Numbers {
    /// The number of an identity that was met.
    pub(crate) fn find(&self, identity: Identity) -> Option<u32> {
        let Identity { hash, check } = identity;
        let found = self.table.find(hash, |e| (e.0, e.1) == (hash, check))?;
        Some(found.2)
    }

    /// The number of an identity; `make` gives it one when it is first met.
    pub(crate) fn get_or_insert_with(
        &mut self,
        identity: Identity,
        make: impl FnOnce() -> u32,
    ) -> u32 {
        if let Some(number) = self.find(identity) {
            return number;
        }
        let Identity { hash, check } = identity;
        let number = make();
        self.table
            .insert_unique(hash, (hash, check, number), |e| e.0);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_for_itself() {
        let mut seen = Seen::default();
        let identity = |hash, check| Identity { hash, check };
        let group = |stack| Group {
            event: 0,
            comm: None,
            pid: 1,
            tid: 1,
            stack,
            end: Default::default(),
        };
        // The second differs from the first in its check only.
        for (at, id) in [identity(5, 1), identity(5, 2)].into_iter().enumerate() {
            assert_eq!(seen.count(id, 10), None);
            let number = seen.group(group(at as u32));
            seen.insert(id, number, 10);
        }
        assert_eq!(seen.count(identity(5, 2), u64::MAX), Some(&group(1)));
        // Another sample of the first group.
        let number = seen.group(group(0));
        seen.insert(identity(6, 1), number, 3);
        let amount = |samples, weight| Amount { samples, weight };
        let expected = [(group(0), amount(2, 13)), (group(1), amount(2, u64::MAX))];
        assert_eq!(seen.finish(), expected);
    }
}
