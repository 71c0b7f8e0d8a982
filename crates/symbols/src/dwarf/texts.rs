//! Interned names and paths of results.

use super::work_budget::WorkBudget;
use rustc_hash::FxHashMap;
use std::sync::Arc;

pub(super) struct Texts {
    known: FxHashMap<Box<[u8]>, Arc<str>>,
    work: Arc<WorkBudget>,
}

impl Texts {
    pub(super) fn new(work: &Arc<WorkBudget>) -> Self {
        Self {
            known: FxHashMap::default(),
            work: Arc::clone(work),
        }
    }

    /// Returns the shared text. `None` beyond the limit: a malicious file could have 64 KiB for
    /// every address.
    pub(super) fn get(&mut self, bytes: &[u8]) -> Option<Arc<str>> {
        self.work.spend_len(bytes.len() / 8)?;
        if let Some(known) = self.known.get(bytes) {
            return Some(Arc::clone(known));
        }
        self.work.keep_text(bytes.len())?;
        let text: Arc<str> = String::from_utf8_lossy(bytes).into();
        self.known.insert(bytes.into(), Arc::clone(&text));
        Some(text)
    }
}
