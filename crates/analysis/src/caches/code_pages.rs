//! Code page cache: images of leaf addresses, by page.
//!
//! Leaf addresses rarely recur but lie in few pages. A page within one mapping belongs to one
//! image, so a hit saves the search among the mappings.

use std::ops::AddAssign;

use rprof_jit::may_hold_jit_code;
use rprof_processes::ImageId;
use rprof_records::CpuMode;

use crate::location::{CodeRegion, Context, Location};

/// Number of slots; a power of two. 96 KiB fit into a core's own cache.
const SLOTS: usize = 4096;

/// Size in bytes of the smallest mapping.
const PAGE: u64 = 4096;

#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u64,
    offset: u64,
    thread_state: u32,
    image: ImageId,
}

/// Marks an empty slot. No page starts at this address.
const VACANT: u64 = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodePageCacheStats {
    pub(crate) hits: u64,
    /// Lookups outside user mode. Their pages are never stored.
    pub(crate) not_user: u64,
    /// Misses in an empty slot.
    pub(crate) vacant: u64,
    /// Misses in a slot with another page.
    pub(crate) occupied: u64,
    /// User-mode misses whose page belongs to several images, or may hold JIT code.
    pub(crate) not_stored: u64,
}

impl AddAssign for CodePageCacheStats {
    fn add_assign(&mut self, other: CodePageCacheStats) {
        self.hits += other.hits;
        self.not_user += other.not_user;
        self.vacant += other.vacant;
        self.occupied += other.occupied;
        self.not_stored += other.not_stored;
    }
}

/// Direct-mapped cache of code pages, by thread state and address.
pub(crate) struct CodePageCache {
    slots: Box<[Slot]>,
    stats: CodePageCacheStats,
}

impl Default for CodePageCache {
    fn default() -> CodePageCache {
        let vacant = Slot {
            start: VACANT,
            offset: 0,
            thread_state: 0,
            image: ImageId(0),
        };
        CodePageCache {
            slots: vec![vacant; SLOTS].into(),
            stats: CodePageCacheStats::default(),
        }
    }
}

impl CodePageCache {
    /// Locates a leaf address (not a return address). Calls `context` on a miss.
    #[inline]
    pub(crate) fn locate<'c>(
        &mut self,
        address: u64,
        mode: CpuMode,
        thread_state: u32,
        context: impl FnOnce() -> Context<'c>,
    ) -> Location {
        // An image's page is in user mode, even if not recorded so.
        let is_user = matches!(mode, CpuMode::User | CpuMode::Unknown);
        if let Some(location) = self.find(address, is_user, thread_state) {
            return location;
        }
        let context = context();
        let location = context.locate(address, mode, false);
        if is_user {
            self.keep(address, thread_state, location, &context);
        }
        location
    }

    #[inline]
    fn slot(&mut self, start: u64, thread_state: u32) -> &mut Slot {
        let mixed = (start ^ u64::from(thread_state) << 44).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.slots[(mixed >> 40) as usize % SLOTS]
    }

    #[inline]
    fn find(&mut self, address: u64, is_user: bool, thread_state: u32) -> Option<Location> {
        if !is_user {
            self.stats.not_user += 1;
            return None;
        }
        let start = address & !(PAGE - 1);
        let slot = *self.slot(start, thread_state);
        if (slot.start, slot.thread_state) == (start, thread_state) {
            self.stats.hits += 1;
            return Some(Location {
                region: CodeRegion::Image(slot.image),
                lookup: slot.offset.wrapping_add(address - start),
                caller: false,
            });
        }
        match slot.start == VACANT {
            true => self.stats.vacant += 1,
            false => self.stats.occupied += 1,
        }
        None
    }

    /// Stores the page of a user-mode address, unless its addresses may have several locations.
    fn keep(&mut self, address: u64, thread_state: u32, location: Location, context: &Context<'_>) {
        let start = address & !(PAGE - 1);
        if let CodeRegion::Image(image) = location.region
            && let Some(mapping) = context.user.mapping_at(address)
            && mapping.start <= start
            && mapping.end - start >= PAGE
            // JIT code may start at any address of its mapping.
            && !(context.timeline.image(image)).is_none_or(|image| may_hold_jit_code(image.kind))
        {
            self.store(Slot {
                start,
                offset: location.lookup.wrapping_sub(address - start),
                thread_state,
                image,
            });
        } else {
            self.stats.not_stored += 1;
        }
    }

    fn store(&mut self, page: Slot) {
        *self.slot(page.start, page.thread_state) = page;
    }

    pub(crate) fn stats(&self) -> CodePageCacheStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_miss_is_counted_by_its_reason() {
        let mut cache = CodePageCache::default();
        let pages = 2 * SLOTS as u64;
        for page in 0..pages {
            let address = page * PAGE + 0x123;
            assert_eq!(cache.find(address, true, 3), None);
            cache.store(Slot {
                start: page * PAGE,
                offset: 0x1000,
                thread_state: 3,
                image: ImageId(5),
            });
            let expected = Location {
                region: CodeRegion::Image(ImageId(5)),
                lookup: 0x1123,
                caller: false,
            };
            assert_eq!(cache.find(address, true, 3), Some(expected));
            assert_eq!(cache.find(address, false, 3), None);
        }
        let filled = cache.slots.iter().filter(|s| s.start != VACANT).count() as u64;
        let expected = CodePageCacheStats {
            hits: pages,
            not_user: pages,
            vacant: filled,
            occupied: pages - filled,
            not_stored: 0,
        };
        assert_eq!(cache.stats(), expected);
        let address = (pages - 1) * PAGE;
        assert_eq!(cache.find(address, true, 4), None);
        let mut sum = cache.stats();
        sum += expected;
        assert_eq!(sum.vacant + sum.occupied, 2 * pages + 1);
    }
}
