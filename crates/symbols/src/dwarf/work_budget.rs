//! [`WorkBudget`]: limits the work of one lookup in debug information. [`Texts`]: names and paths
//! within it.
//!
//! A few bytes of DWARF can refer to much data: a line program, an abbreviation table, a long name,
//! attributes without length. So each reference is charged again. The budget is proportional to the
//! file, as real files use each part a few times. A malicious file reaches the limit after seconds.
//! Names found before stay valid.

use super::sections::Slice;
use gimli::{AttributeValue, Dwarf, Reader, Section, Unit};
use rprof_image::MemoryBudget;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Minimum budget, in bytes to read (a few GB per second).
const MINIMUM: u64 = 64 << 20;

/// Work per byte of the sections. Units are read once or twice; expensive abbreviations are few.
const FOR_EACH_BYTE: u64 = 8;

const FOR_EACH_ADDRESS: u64 = 16 << 10;

/// Maximum budget: a few seconds of one core. The debug information of a browser has 2 GiB.
const LIMIT: u64 = 8 << 30;

/// Maximum number of bytes of names and paths. Real programs have a few MiB.
const MAX_TEXT: u64 = 48 << 20;

/// Remaining work of one lookup of many addresses, shared by all threads.
#[derive(Debug)]
pub(super) struct WorkBudget {
    left: AtomicU64,
    text: AtomicU64,
    memory: MemoryBudget,
    is_over: AtomicBool,
}

impl WorkBudget {
    pub(super) fn new(section_bytes: u64, addresses: usize, memory: &MemoryBudget) -> Self {
        let work = section_bytes.saturating_mul(FOR_EACH_BYTE);
        let work = work.saturating_add((addresses as u64).saturating_mul(FOR_EACH_ADDRESS));
        Self {
            left: AtomicU64::new(work.saturating_add(MINIMUM).min(LIMIT)),
            text: AtomicU64::new(MAX_TEXT),
            memory: memory.clone(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Charges work. Returns `None` if it exceeds the budget: skip the work, or discard its result.
    pub(super) fn spend(&self, work: u64) -> Option<()> {
        self.take(&self.left, work)
    }

    pub(super) fn spend_len(&self, bytes: usize) -> Option<()> {
        self.spend(bytes as u64)
    }

    pub(super) fn keep_text(&self, bytes: usize) -> Option<()> {
        self.take(&self.text, bytes as u64)
    }

    /// Reads a string and charges the search for its end.
    pub(super) fn text<'a>(
        &self,
        dwarf: &Dwarf<Slice<'a>>,
        unit: &Unit<Slice<'a>>,
        value: AttributeValue<Slice<'a>>,
    ) -> Option<&'a [u8]> {
        // A search may span a whole section.
        self.spend(16)?;
        let Ok(text) = dwarf.attr_string(unit, value) else {
            // The search may have reached the end of a section.
            let searched = dwarf.debug_str.reader().len() + dwarf.debug_line_str.reader().len();
            self.spend_len(searched / 16)?;
            return None;
        };
        self.spend_len(text.len() / 16)?;
        Some(text.slice())
    }

    /// Counts a refusal, once per lookup.
    pub(super) fn refuse(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.memory.refuse();
        }
    }

    fn take(&self, from: &AtomicU64, amount: u64) -> Option<()> {
        // Relaxed: the counter synchronizes no other memory.
        let order = Ordering::Relaxed;
        let taken = from.fetch_update(order, order, |left| left.checked_sub(amount));
        if taken.is_err() {
            // Smaller charges fail too, so the lookup ends.
            from.store(0, order);
            self.refuse();
        }
        taken.ok().map(|_| ())
    }
}

/// Interned names and paths of results.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_dear_ends_the_look_up_and_is_told_once() {
        let memory = MemoryBudget::new(0);
        let budget = WorkBudget::new(0, 0, &memory);
        assert_eq!(budget.spend(MINIMUM - 1), Some(()));
        assert_eq!((budget.spend(2), budget.spend(1)), (None, None));
        assert_eq!(budget.keep_text(MAX_TEXT as usize), Some(()));
        assert_eq!(budget.keep_text(1), None);
        assert_eq!(memory.refused(), 1);
    }

    #[test]
    fn there_is_more_for_longer_files_and_more_addresses() {
        let memory = MemoryBudget::new(0);
        let left = |bytes, addresses| WorkBudget::new(bytes, addresses, &memory).left.into_inner();
        assert_eq!(left(100, 0), MINIMUM + 800);
        assert_eq!(left(0, 10), MINIMUM + 10 * FOR_EACH_ADDRESS);
        assert_eq!(left(u64::MAX, usize::MAX), LIMIT);
        assert_eq!(memory.refused(), 0);
    }
}
