//! Caches of the sample pass. Each worker has its own, except for the shared canonical addresses.

pub(crate) mod callers;
pub(crate) mod canonical;
pub(crate) mod code_pages;
pub(crate) mod thread_states;

use std::ops::AddAssign;

use callers::CallerCacheStats;
use code_pages::CodePageCacheStats;
use thread_states::ThreadStateCacheStats;

/// Counters of caches: one worker's, or their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    pub(crate) callers: CallerCacheStats,
    pub(crate) code_pages: CodePageCacheStats,
    pub(crate) thread_states: ThreadStateCacheStats,
}

impl AddAssign for CacheStats {
    fn add_assign(&mut self, other: CacheStats) {
        self.callers += other.callers;
        self.code_pages += other.code_pages;
        self.thread_states += other.thread_states;
    }
}
