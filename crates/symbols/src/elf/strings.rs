//! [`Strings`]: locates the names of symbols.

use std::ops::Range;

use super::table::Origin;

/// Maximum length of a name, in bytes. C++ and Rust names of 30 KiB exist.
pub(super) const MAX_NAME: usize = 64 << 10;

#[derive(Debug, Default, Clone)]
pub(super) struct Strings {
    pub(super) symtab: Range<usize>,
    pub(super) dynsym: Range<usize>,
    pub(super) go: Range<usize>,
}

impl Strings {
    /// Returns the name at `offset`, truncated after [`MAX_NAME`] bytes. Empty if there is none.
    pub(super) fn get<'a>(&self, data: &'a [u8], origin: Origin, offset: u32) -> &'a [u8] {
        let table = match origin {
            Origin::PltHeader => return b".plt",
            Origin::Symtab | Origin::PltSymtab => &self.symtab,
            Origin::Dynsym | Origin::PltDynsym => &self.dynsym,
            Origin::Go => &self.go,
        };
        let start = table.start.saturating_add(offset as usize);
        let end = table.end.min(start.saturating_add(MAX_NAME));
        let bytes = data.get(start..end).unwrap_or_default();
        bytes.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}
