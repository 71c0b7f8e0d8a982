//! Caches of the sample pass. Each worker has its own, except for the canonical addresses, which
//! are shared and filled once.
//!
//! | module | holds |
//! |---|---|
//! | [`callers`] | location ids of callers, by address |
//! | [`code_pages`] | images of leaf addresses, by page |
//! | [`thread_states`] | ids of thread states, by thread and time |
//! | [`canonical`] | one address for each function, by image |

pub(crate) mod callers;
pub(crate) mod canonical;
pub(crate) mod code_pages;
pub(crate) mod thread_states;

use std::ops::AddAssign;

use callers::CallerCacheStats;
use code_pages::CodePageCacheStats;
use thread_states::ThreadStateCacheStats;

/// Counters of one worker's caches, or the sum over workers.
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
