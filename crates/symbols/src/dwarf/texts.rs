//! Names and paths in results, each kept once.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most bytes of names that one thread hands out. A file could state a name of 64 KiB for every
/// address; honest programs have some MiB of names.
const MAX_BYTES: usize = 128 << 20;

#[derive(Default)]
pub(super) struct Texts {
    known: FxHashMap<Box<[u8]>, Arc<str>>,
    bytes: usize,
}

impl Texts {
    /// Returns the shared text of `bytes`, invalid UTF-8 replaced by U+FFFD. Returns `None` once
    /// [`MAX_BYTES`] are used up.
    pub(super) fn get(&mut self, bytes: &[u8]) -> Option<Arc<str>> {
        if let Some(known) = self.known.get(bytes) {
            return Some(Arc::clone(known));
        }
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MAX_BYTES {
            return None;
        }
        let text: Arc<str> = String::from_utf8_lossy(bytes).into();
        self.known.insert(bytes.into(), Arc::clone(&text));
        Some(text)
    }
}
