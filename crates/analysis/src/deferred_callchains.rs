//! [`DeferredCallchains`]: user parts of callchains that the kernel recorded separately.
//!
//! An event may defer the user part until the thread returns to user mode (`defer_callchain` of
//! perf_event_attr). A sample's callchain then ends with a marker and a cookie. A
//! CALLCHAIN_DEFERRED record of the same thread and cookie follows. It serves all samples of one
//! stay in the kernel.

use std::collections::hash_map::Entry;
use std::ops::Range;

use rprof_records::{Callchain, RawRecord, Record, SampleLayout};
use rustc_hash::FxHashMap;

/// Maximum number of entries: 512 MiB. Beyond it, stacks end in the kernel.
const MAX_ENTRIES: usize = 1 << 26;

#[derive(Debug, Default)]
pub(crate) struct DeferredCallchains {
    entries: Vec<u64>,
    by_cookie: FxHashMap<(Option<i32>, u64), Range<usize>>,
}

impl DeferredCallchains {
    /// Stores a CALLCHAIN_DEFERRED record. Returns false if it cannot be decoded.
    pub(crate) fn handle(&mut self, raw: &RawRecord<'_>, layout: Option<&SampleLayout>) -> bool {
        let Ok(Record::CallchainDeferred { cookie, callchain }) = Record::decode(raw, layout)
        else {
            return false;
        };
        if callchain.len() > MAX_ENTRIES - self.entries.len() {
            return true;
        }
        let tid = layout.and_then(|layout| layout.sample_id(raw).tid);
        // Each event of the thread has a record of the same stack.
        if let Entry::Vacant(vacant) = self.by_cookie.entry((tid, cookie)) {
            let start = self.entries.len();
            self.entries.extend(callchain.iter());
            vacant.insert(start..self.entries.len());
        }
        true
    }

    /// Joins a thread's callchain with its user part. `None` if that is not deferred, or missing.
    pub(crate) fn join(&self, tid: Option<i32>, callchain: &Callchain<'_>) -> Option<Box<[u64]>> {
        let range = self.by_cookie.get(&(tid, callchain.cookie()?))?;
        let user = self.entries.get(range.clone())?;
        let here = callchain.without_cookie();
        Some(here.iter().chain(user.iter().copied()).collect())
    }
}
