//! The answer to a lookup.

use std::sync::Arc;

/// A function of an image, by name and place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The name to show: demangled in the style that the symbolizer was built with.
    pub name: Box<str>,
    /// The name as in the symbol table, with invalid UTF-8 replaced. Entries of the
    /// procedure linkage table have `@plt` appended, as in `name`.
    pub raw: Box<str>,
    /// Where it starts: SVMA in an ELF image; AVMA of the running kernel for kernel
    /// and modules.
    pub start: u64,
    /// How far it reaches from `start`, in bytes, after symbols that state no size
    /// were extended to the next one.
    pub size: u64,
    /// The kernel module it belongs to, for symbols from `/proc/kallsyms`.
    pub module: Option<Box<str>>,
}

/// The frames at one address: the function, and (once debug information is read)
/// the calls inlined there.
///
/// Today this is always one frame. It is a list in its interface so that callers
/// need not change when inlined calls appear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    symbol: Arc<Symbol>,
    offset: u64,
}

impl Frames {
    pub(crate) fn new(symbol: Arc<Symbol>, offset: u64) -> Self {
        Self { symbol, offset }
    }

    /// The function of the symbol table that the address lies in: the outermost frame.
    #[must_use]
    pub fn symbol(&self) -> &Arc<Symbol> {
        &self.symbol
    }

    /// Distance from the start of [`Frames::symbol`], in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Names of the frames, outermost first. Never empty.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.symbol.name)
    }
}
