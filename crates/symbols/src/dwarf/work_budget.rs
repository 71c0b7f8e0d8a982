//! [`WorkBudget`]: how much one look-up in debug information may cost.
//!
//! In DWARF a few bytes can refer to much: each unit to the same long line program or table of abbreviations, each
//! function to the same long name, each entry to attributes without length. Whatever can be referred to
//! repeatedly is paid for each time. An honest file pays for each part of it a few times, so what there is
//! grows with the file; a file that is made to be dear comes to its end after seconds, and the names that were
//! found until then stand.

use super::sections::Slice;
use gimli::{AttributeValue, Dwarf, Reader, Section, Unit};
use rprof_image::MemoryBudget;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Work in any case, in bytes that are read over (some GB a second).
const LEAST: u64 = 64 << 20;

/// Work for each byte of the sections. All units are read once, or twice, and their abbreviations, which
/// are dear, are few.
const FOR_EACH_BYTE: u64 = 8;

/// Work for each address that is looked up.
const FOR_EACH_ADDRESS: u64 = 16 << 10;

/// Most work, however long the file: some seconds' for one core. The debug information of a browser has 2 GiB.
const MOST: u64 = 8 << 30;

/// Most bytes of names and paths. Honest programs have some MiB of them.
const MOST_TEXT: u64 = 48 << 20;

/// Work left to one look-up of many addresses, on all threads.
#[derive(Debug)]
pub(super) struct WorkBudget {
    left: AtomicU64,
    text: AtomicU64,
    /// Where it is counted that not all was read.
    memory: MemoryBudget,
    is_over: AtomicBool,
}

impl WorkBudget {
    /// Creates the budget of a look-up of so many addresses in sections of so many bytes.
    pub(super) fn new(section_bytes: u64, addresses: usize, memory: &MemoryBudget) -> Self {
        let work = section_bytes.saturating_mul(FOR_EACH_BYTE);
        let work = work.saturating_add((addresses as u64).saturating_mul(FOR_EACH_ADDRESS));
        Self {
            left: AtomicU64::new(work.saturating_add(LEAST).min(MOST)),
            text: AtomicU64::new(MOST_TEXT),
            memory: memory.clone(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Pays for work. `None` if there is not enough left: it is not to be done.
    pub(super) fn spend(&self, work: u64) -> Option<()> {
        self.take(&self.left, work)
    }

    /// Pays for work that was done already. `None` if that was too much.
    pub(super) fn spend_len(&self, bytes: usize) -> Option<()> {
        self.spend(bytes as u64)
    }

    /// Pays for the bytes of a name or path that is kept. `None` if there are too many already.
    pub(super) fn keep_text(&self, bytes: usize) -> Option<()> {
        self.take(&self.text, bytes as u64)
    }

    /// Reads a string, and pays for the search for its end. `None` if it has none, or is not paid for.
    pub(super) fn text<'a>(
        &self,
        dwarf: &Dwarf<Slice<'a>>,
        unit: &Unit<Slice<'a>>,
        value: AttributeValue<Slice<'a>>,
    ) -> Option<&'a [u8]> {
        // Each may be as long as its section, so one is paid for in advance.
        self.spend(16)?;
        let Ok(text) = dwarf.attr_string(unit, value) else {
            // It may have been looked for to the end of a section.
            let searched = dwarf.debug_str.reader().len() + dwarf.debug_line_str.reader().len();
            self.spend_len(searched / 16)?;
            return None;
        };
        self.spend_len(text.len() / 16)?;
        Some(text.slice())
    }

    /// Pays for a long part that is looked for in vain, or not read since it is longer than any honest one.
    pub(super) fn refuse(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.memory.refuse();
        }
    }

    fn take(&self, from: &AtomicU64, amount: u64) -> Option<()> {
        // The count says nothing of other memory.
        let order = Ordering::Relaxed;
        let taken = from.fetch_update(order, order, |left| left.checked_sub(amount));
        if taken.is_err() {
            // What is smaller is not to be had either: a look-up ends.
            from.store(0, order);
            self.refuse();
        }
        taken.ok().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_dear_ends_the_look_up_and_is_told_once() {
        let memory = MemoryBudget::new(0);
        let budget = WorkBudget::new(0, 0, &memory);
        assert_eq!(budget.spend(LEAST - 1), Some(()));
        assert_eq!((budget.spend(2), budget.spend(1)), (None, None));
        assert_eq!(budget.keep_text(MOST_TEXT as usize), Some(()));
        assert_eq!(budget.keep_text(1), None);
        assert_eq!(memory.refused(), 1);
    }

    #[test]
    fn there_is_more_for_longer_files_and_more_addresses() {
        let memory = MemoryBudget::new(0);
        let left = |bytes, addresses| WorkBudget::new(bytes, addresses, &memory).left.into_inner();
        assert_eq!(left(100, 0), LEAST + 800);
        assert_eq!(left(0, 10), LEAST + 10 * FOR_EACH_ADDRESS);
        assert_eq!(left(u64::MAX, usize::MAX), MOST);
        assert_eq!(memory.refused(), 0);
    }
}
