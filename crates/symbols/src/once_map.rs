//! Map whose values are computed once, by the first thread that needs them.

use rprof_image::Reason;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Slot<V> = Arc<OnceLock<Arc<Result<V, Reason>>>>;

/// Map of values that are computed without holding its lock; threads that need the same value wait.
#[derive(Debug)]
pub(crate) struct OnceMap<K, V>(Mutex<FxHashMap<K, Slot<V>>>);

impl<K, V> Default for OnceMap<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone, V> OnceMap<K, V> {
    pub(crate) fn get(
        &self,
        key: &K,
        make: impl FnOnce() -> Result<V, Reason>,
    ) -> Arc<Result<V, Reason>> {
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(key.clone()).or_default())
        };
        Arc::clone(slot.get_or_init(|| Arc::new(make())))
    }

    pub(crate) fn forget(&self, key: &K) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}
