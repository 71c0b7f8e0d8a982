//! Symbols shared by many addresses.

use crate::Symbol;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Shares one [`Symbol`] among the addresses in it. The key is its start.
#[derive(Default)]
pub(super) struct SymbolCache(FxHashMap<u64, Arc<Symbol>>);

impl SymbolCache {
    pub(super) fn get(&mut self, key: u64, make: impl FnOnce() -> Symbol) -> Arc<Symbol> {
        Arc::clone(self.0.entry(key).or_insert_with(|| Arc::new(make())))
    }
}
