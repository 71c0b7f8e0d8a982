//! Caller cache: location ids of callers, by address.
//!
//! The outer frames of a process's stacks are few functions that recur below many new leaves. A hit
//! saves the search among the mappings and the interning.

use std::ops::AddAssign;

/// Number of slots; a power of two. 128 KiB fit into a core's own cache.
const SLOTS: usize = 8192;

/// Number of low bits of a key that hold the mode and the caller flag.
const MODE_BITS: u32 = 4;

/// Cache key beside the address: thread state, mode and caller flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallerCacheKey(u32);

impl CallerCacheKey {
    /// Packs a thread state id, a mode below 8, and the caller flag. `None` if they exceed 32 bits.
    #[inline]
    pub(crate) fn new(thread_state: u32, mode: u8, caller: bool) -> Option<CallerCacheKey> {
        let fits = thread_state < u32::MAX >> MODE_BITS && mode < 8;
        fits.then(|| {
            CallerCacheKey(thread_state << MODE_BITS | u32::from(mode) << 1 | u32::from(caller))
        })
    }
}

/// Key of an empty slot. [`CallerCacheKey::new`] never returns it.
const VACANT: CallerCacheKey = CallerCacheKey(u32::MAX);

#[derive(Clone, Copy, Debug)]
struct Slot {
    address: u64,
    key: CallerCacheKey,
    id: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallerCacheStats {
    /// Lookups, added by [`CallerCache::count_lookups`].
    pub(crate) lookups: u64,
    /// Misses in an empty slot.
    pub(crate) vacant: u64,
    /// Misses in a slot with another address or key.
    pub(crate) occupied: u64,
    pub(crate) unkeyed: u64,
}

impl CallerCacheStats {
    #[cfg(test)]
    pub(crate) fn hits(self) -> u64 {
        let misses = self.vacant + self.occupied + self.unkeyed;
        self.lookups.saturating_sub(misses)
    }
}

impl AddAssign for CallerCacheStats {
    fn add_assign(&mut self, other: CallerCacheStats) {
        self.lookups += other.lookups;
        self.vacant += other.vacant;
        self.occupied += other.occupied;
        self.unkeyed += other.unkeyed;
    }
}

/// Direct-mapped cache of location ids, by address and [`CallerCacheKey`].
pub(crate) struct CallerCache {
    slots: Box<[Slot]>,
    stats: CallerCacheStats,
}

impl Default for CallerCache {
    fn default() -> CallerCache {
        let vacant = Slot {
            address: 0,
            key: VACANT,
            id: 0,
        };
        CallerCache {
            slots: vec![vacant; SLOTS].into(),
            stats: CallerCacheStats::default(),
        }
    }
}

impl CallerCache {
    #[inline]
    fn slot_of(address: u64, key: CallerCacheKey) -> usize {
        let mixed = (address ^ u64::from(key.0) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % SLOTS
    }

    /// Returns the cached location id. Counts misses only.
    #[inline]
    pub(crate) fn find(&mut self, address: u64, key: Option<CallerCacheKey>) -> Option<u32> {
        let Some(key) = key else {
            self.stats.unkeyed += 1;
            return None;
        };
        let slot = &self.slots[Self::slot_of(address, key)];
        if slot.address == address && slot.key == key {
            return Some(slot.id);
        }
        match slot.key == VACANT {
            true => self.stats.vacant += 1,
            false => self.stats.occupied += 1,
        }
        None
    }

    /// Adds to the number of lookups, many at once: a hit updates no counter.
    #[inline]
    pub(crate) fn count_lookups(&mut self, lookups: usize) {
        self.stats.lookups += lookups as u64;
    }

    #[inline]
    pub(crate) fn keep(&mut self, address: u64, key: CallerCacheKey, id: u32) {
        self.slots[Self::slot_of(address, key)] = Slot { address, key, id };
    }

    pub(crate) fn stats(&self) -> CallerCacheStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_was_kept_for_just_that() {
        let mut cache = CallerCache::default();
        let keys: Vec<CallerCacheKey> = (0..4)
            .flat_map(|thread_state| {
                [
                    (thread_state, 1, false),
                    (thread_state, 1, true),
                    (thread_state, 2, true),
                ]
            })
            .filter_map(|(thread_state, mode, caller)| {
                CallerCacheKey::new(thread_state, mode, caller)
            })
            .collect();
        let id = |address: u64, at: usize| (address * 100) as u32 + at as u32;
        let mut found = 0;
        for address in 0..5000 {
            for (at, key) in keys.iter().enumerate() {
                assert_eq!(cache.find(address, Some(*key)), None);
                cache.keep(address, *key, id(address, at));
                assert_eq!(cache.find(address, Some(*key)), Some(id(address, at)));
            }
            for (at, key) in keys.iter().enumerate() {
                if let Some(n) = cache.find(address / 2, Some(*key)) {
                    assert_eq!(n, id(address / 2, at));
                    found += 1;
                }
            }
        }
        assert!(found > 1000, "{found}");
        assert!(CallerCacheKey::new(u32::MAX >> MODE_BITS, 0, false).is_none());
        assert!(CallerCacheKey::new(0, 8, false).is_none());
    }

    #[test]
    fn each_miss_is_counted_by_its_reason() {
        let mut cache = CallerCache::default();
        let key = CallerCacheKey::new(1, 2, true);
        let addresses = 2 * SLOTS as u64;
        for address in 0..addresses {
            assert_eq!(cache.find(address, key), None);
            cache.keep(address, key.unwrap_or(VACANT), 7);
            assert_eq!(cache.find(address, key), Some(7));
            assert_eq!(cache.find(address, None), None);
        }
        cache.count_lookups(3 * addresses as usize);
        let stats = cache.stats();
        let filled = cache.slots.iter().filter(|s| s.key != VACANT).count();
        assert_eq!(stats.vacant, filled as u64);
        assert_eq!(stats.occupied, addresses - filled as u64);
        assert_eq!((stats.unkeyed, stats.hits()), (addresses, addresses));

        let mut sum = stats;
        sum += stats;
        assert_eq!(sum.hits(), 2 * addresses);
    }
}
