//! Aggregate table: counts and weights of samples by leaf, callers and group.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::groups::{SampleGroup, Weights};
use crate::sample_pass::fingerprint::ListFingerprint;
use crate::sample_pass::stacks::{NO_LEAF, StackTable};
use crate::stack_end::StackEnd;
use rprof_profile::intern::Values;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AggregateKey {
    /// Location id of the leaf, or [`NO_LEAF`].
    pub(crate) leaf: u32,
    pub(crate) list: u32,
    /// Id of the group without its stack: see [`SampleGroups`].
    pub(crate) context: u32,
}

impl AggregateKey {
    pub(crate) fn leaf(&self) -> Option<u32> {
        (self.leaf != NO_LEAF).then_some(self.leaf)
    }

    fn hash(&self) -> u64 {
        let stack = u64::from(self.leaf) << 32 | u64::from(self.list);
        FxBuildHasher.hash_one((stack, self.context))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregate {
    pub(crate) key: AggregateKey,
    /// Number in the order of insertion.
    pub(crate) id: u32,
    pub(crate) amount: Weights,
}

/// Keys and totals, stored inline: each sample costs one cache miss.
#[derive(Debug, Default)]
pub(crate) struct AggregateTable(HashTable<Aggregate>);

impl AggregateTable {
    /// Adds a sample. Returns the number of its key.
    #[inline]
    pub(crate) fn add(&mut self, key: AggregateKey, weight: u64) -> u32 {
        let hash = key.hash();
        match self.0.find_mut(hash, |other| other.key == key) {
            Some(Aggregate { id, amount, .. }) => {
                amount.samples += 1;
                amount.weight = amount.weight.saturating_add(weight);
                *id
            }
            None => {
                let amount = Weights { samples: 1, weight };
                let id = self.0.len() as u32;
                let one = Aggregate { key, id, amount };
                (self.0).insert_unique(hash, one, |other| other.key.hash());
                id
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Aggregate> {
        self.0.iter()
    }
}

/// Interned [`SampleGroup`]s without their stacks.
#[derive(Debug, Default)]
pub(crate) struct SampleGroups {
    values: Values<SampleGroup>,
    /// Event, stack end and group id of the last sample, by thread state.
    last: Vec<(u32, StackEnd, u32)>,
}

/// Group id of an empty entry.
const UNKNOWN: u32 = u32::MAX;

impl SampleGroups {
    /// Returns the group id for a thread state, event and stack end. The group of `make` must
    /// depend on these alone.
    #[inline]
    pub(crate) fn id(
        &mut self,
        (thread_state, event, end): (u32, u32, StackEnd),
        make: impl FnOnce() -> SampleGroup,
    ) -> u32 {
        match self.last.get(thread_state as usize) {
            Some((e, s, id)) if (*e, *s) == (event, end) && *id != UNKNOWN => *id,
            _ => {
                let id = self.values.intern(make());
                let thread_state = thread_state as usize;
                if self.last.len() <= thread_state {
                    self.last
                        .resize(thread_state + 1, (0, StackEnd::Unknown, UNKNOWN));
                }
                self.last[thread_state] = (event, end, id);
                id
            }
        }
    }

    /// Returns the id of a group that depends on more.
    pub(crate) fn intern(&mut self, group: SampleGroup) -> u32 {
        self.values.intern(group)
    }

    pub(crate) fn all(&self) -> &[SampleGroup] {
        self.values.as_slice()
    }

    pub(crate) fn get(&self, id: u32) -> &SampleGroup {
        self.values.get(id)
    }

    /// Interns the key's stack, and returns its group.
    pub(crate) fn group(&self, counted: AggregateKey, stacks: &mut StackTable) -> SampleGroup {
        SampleGroup {
            stack: stacks.intern(counted.leaf(), counted.list),
            ..*self.get(counted.context)
        }
    }
}

#[derive(Default)]
pub(crate) struct CallerListIds {
    table: HashTable<(u64, u32, u32)>,
}

impl CallerListIds {
    #[inline]
    pub(crate) fn find(&self, fingerprint: ListFingerprint) -> Option<u32> {
        let ListFingerprint { hash, hash_hi } = fingerprint;
        let found = self.table.find(hash, |e| (e.0, e.1) == (hash, hash_hi))?;
        Some(found.2)
    }

    pub(crate) fn get_or_insert_with(
        &mut self,
        fingerprint: ListFingerprint,
        make: impl FnOnce() -> u32,
    ) -> u32 {
        if let Some(id) = self.find(fingerprint) {
            return id;
        }
        let ListFingerprint { hash, hash_hi } = fingerprint;
        let id = make();
        self.table.insert_unique(hash, (hash, hash_hi, id), |e| e.0);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_for_itself() {
        let mut stacks = StackTable::default();
        let callers = stacks.intern_callers(&[1, 2]);
        let mut contexts = SampleGroups::default();
        let of_pid = |pid| SampleGroup {
            pid,
            ..SampleGroup::default()
        };
        let mut id = |thread_state, event, end, pid| {
            let mut is_new = false;
            let id = contexts.id((thread_state, event, end), || {
                is_new = true;
                of_pid(pid)
            });
            (id, is_new)
        };
        assert_eq!(id(3, 0, StackEnd::Root, 7), (0, true));
        assert_eq!(id(3, 0, StackEnd::Root, 7), (0, false));
        assert_eq!(id(3, 1, StackEnd::Root, 8), (1, true));
        assert_eq!(id(3, 1, StackEnd::Cut, 9), (2, true));
        assert_eq!(id(2, 0, StackEnd::Unknown, 7), (0, true));

        let mut counts = AggregateTable::default();
        let counted = |leaf, context| AggregateKey {
            leaf,
            list: callers,
            context,
        };
        assert_eq!(counts.add(counted(5, 0), 10), 0);
        assert_eq!(counts.add(counted(5, 0), 3), 0);
        assert_eq!(counts.add(counted(5, 1), u64::MAX), 1);
        assert_eq!(counts.add(counted(5, 1), 1), 1);
        assert_eq!(counts.add(counted(NO_LEAF, 1), 2), 2);
        let mut found: Vec<_> = (counts.iter())
            .map(|Aggregate { key, amount, .. }| {
                let group = contexts.group(*key, &mut stacks);
                let stack: Vec<u32> = stacks.get(group.stack).collect();
                (group.pid, stack, amount.samples, amount.weight)
            })
            .collect();
        found.sort_by_key(|(pid, _, samples, _)| (*pid, *samples));
        let expected = [
            (7, vec![5, 1, 2], 2, 13),
            (8, vec![1, 2], 1, 2),
            (8, vec![5, 1, 2], 2, u64::MAX),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lists_with_one_hash_differ_by_hash_hi() {
        let mut ids = CallerListIds::default();
        let fingerprint = |hash, hash_hi| ListFingerprint { hash, hash_hi };
        assert_eq!(ids.get_or_insert_with(fingerprint(5, 1), || 10), 10);
        assert_eq!(ids.find(fingerprint(5, 2)), None);
        assert_eq!(ids.get_or_insert_with(fingerprint(5, 2), || 11), 11);
        assert_eq!(ids.get_or_insert_with(fingerprint(5, 1), || 12), 10);
    }
}
