//! Callers that were lately seen.
//!
//! The outer frames of a process's stacks are the same few functions again and again, below ever
//! new ones. What a list of callers needs is the number of each caller's location: where
//! the same address was asked for a moment ago, it is here.

/// Addresses that are kept at hand; a power of two. 128 KiB: a part of what a core has for itself.
const SLOTS: usize = 8192;

/// Bits of a tag that tell how an address is meant.
const MEANT: u32 = 4;

/// Tells addresses apart that are the same number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallerCacheKey(u32);

impl CallerCacheKey {
    /// For addresses of a task by its number, meant in one of 8 modes, and as a caller's or not.
    /// `None` where numbers are too large.
    #[inline]
    pub(crate) fn new(task: u32, mode: u8, caller: bool) -> Option<CallerCacheKey> {
        let fits = task < u32::MAX >> MEANT && mode < 8;
        fits.then(|| CallerCacheKey(task << MEANT | u32::from(mode) << 1 | u32::from(caller)))
    }
}

#[derive(Clone, Copy)]
struct Slot {
    address: u64,
    tag: CallerCacheKey,
    number: u32,
}

/// Ids of locations by address and tag: those of some of the addresses that were seen last.
pub(crate) struct CallerCache(Box<[Slot]>);

impl Default for CallerCache {
    fn default() -> CallerCache {
        let nobody = Slot {
            address: 0,
            // Of no task.
            tag: CallerCacheKey(u32::MAX),
            number: 0,
        };
        CallerCache(vec![nobody; SLOTS].into())
    }
}

impl CallerCache {
    #[inline]
    fn place(address: u64, tag: CallerCacheKey) -> usize {
        let mixed = (address ^ u64::from(tag.0) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize % SLOTS
    }

    /// The number, if it is still here.
    #[inline]
    pub(crate) fn find(&self, address: u64, tag: CallerCacheKey) -> Option<u32> {
        let slot = &self.0[Self::place(address, tag)];
        (slot.address == address && slot.tag == tag).then_some(slot.number)
    }

    /// Keeps a number, in place of another.
    #[inline]
    pub(crate) fn keep(&mut self, address: u64, tag: CallerCacheKey, number: u32) {
        self.0[Self::place(address, tag)] = Slot {
            address,
            tag,
            number,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_was_kept_for_just_that() {
        let mut cache = CallerCache::default();
        let tags: Vec<CallerCacheKey> = (0..4)
            .flat_map(|task| [(task, 1, false), (task, 1, true), (task, 2, true)])
            .filter_map(|(task, mode, caller)| CallerCacheKey::new(task, mode, caller))
            .collect();
        let number = |address: u64, at: usize| (address * 100) as u32 + at as u32;
        let mut found = 0;
        for address in 0..5000 {
            for (at, tag) in tags.iter().enumerate() {
                assert_eq!(cache.find(address, *tag), None);
                cache.keep(address, *tag, number(address, at));
                assert_eq!(cache.find(address, *tag), Some(number(address, at)));
            }
            for (at, tag) in tags.iter().enumerate() {
                if let Some(n) = cache.find(address / 2, *tag) {
                    assert_eq!(n, number(address / 2, at));
                    found += 1;
                }
            }
        }
        assert!(found > 1000, "{found}");
        assert!(CallerCacheKey::new(u32::MAX >> MEANT, 0, false).is_none());
        assert!(CallerCacheKey::new(0, 8, false).is_none());
    }
}
