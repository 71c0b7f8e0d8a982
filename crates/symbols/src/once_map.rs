//! [`OnceMap`]: map whose values are computed once, by the first thread that needs them.

use rprof_image::Reason;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Slot<V> = Arc<OnceLock<Arc<Result<V, Reason>>>>;

/// Map that computes values without holding its lock. Threads that need the same value wait.
#[derive(Debug)]
pub(crate) struct OnceMap<K, V>(Mutex<FxHashMap<K, Entry<V>>>);

#[derive(Debug)]
struct Entry<V> {
    slot: Slot<V>,
    was_used: bool,
}

impl<V> Default for Entry<V> {
    fn default() -> Self {
        Self {
            slot: Slot::default(),
            was_used: false,
        }
    }
}

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
            let entry = slots.entry(key.clone()).or_default();
            entry.was_used = true;
            Arc::clone(&entry.slot)
        };
        Arc::clone(slot.get_or_init(|| Arc::new(make())))
    }

    pub(crate) fn forget(&self, key: &K) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    /// Removes the values that `keep` rejects, except values that a thread still computes.
    pub(crate) fn retain(&self, keep: impl Fn(&Result<V, Reason>) -> bool) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| entry.slot.get().is_none_or(|value| keep(value)));
    }

    pub(crate) fn forget_unused(&self) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| std::mem::take(&mut entry.was_used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let map = OnceMap::<u32, u32>::default();
        let made = |key: u32| {
            let mut was_made = false;
            let value = map.get(&key, || {
                was_made = true;
                Ok(key)
            });
            assert_eq!(*value, Ok(key));
            was_made
        };
        assert!(made(1) && made(2));
        map.forget_unused();
        assert!(!made(1));
        map.forget_unused();
        assert!(!made(1) && made(2));
    }
}
