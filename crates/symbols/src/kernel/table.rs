//! [`Table`]: symbols of the kernel by AVMA, complete or one block.

use super::KernelSymbol;

/// Symbol in 16 bytes. Its name extends to the end of the line, its code to the next start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) start: u64,
    pub(super) name: u32,
    /// Index into `modules`; 0 is the kernel proper.
    pub(super) module: u16,
    /// False for data symbols, which only mark the end of code.
    pub(super) code: bool,
}

/// The last symbol before another module ends with the next page, so that gaps stay unnamed.
pub(super) const PAGE: u64 = 4096;

/// Symbols, ascending by AVMA without duplicates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) names: &'a str,
    pub(super) modules: &'a [Box<str>],
}

impl<'a> Table<'a> {
    pub(super) fn lookup(&self, avma: u64) -> Option<KernelSymbol<'a>> {
        let symbol = self.symbol(self.index_at(avma)?)?;
        (avma - symbol.start < symbol.size).then_some(symbol)
    }

    pub(super) fn index_at(&self, avma: u64) -> Option<usize> {
        let after = self.entries.partition_point(|entry| entry.start <= avma);
        after.checked_sub(1)
    }

    /// Returns the end of a symbol, at most the start of the next one.
    pub(super) fn end(&self, index: usize) -> u64 {
        let entry = &self.entries[index];
        match self.entries.get(index + 1) {
            Some(next) if next.module == entry.module => next.start,
            next => {
                let page_end = (entry.start | (PAGE - 1))
                    .saturating_add(1)
                    .saturating_add(PAGE);
                next.map_or(page_end, |next| next.start.min(page_end))
            }
        }
    }

    pub(super) fn symbol(&self, index: usize) -> Option<KernelSymbol<'a>> {
        let entry = &self.entries[index];
        let name = self.names.get(entry.name as usize..)?.split('\n').next()?;
        let module = (entry.module != 0).then(|| &*self.modules[usize::from(entry.module)]);
        entry.code.then_some(KernelSymbol {
            name,
            module,
            start: entry.start,
            size: self.end(index) - entry.start,
        })
    }
}
