//! The answer to a lookup.

use std::sync::Arc;

/// A function of an image, by name and place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The name to show: demangled in the style that the symbolizer was built with.
    pub name: Box<str>,
    /// The name as in the symbol table or debug information, with invalid UTF-8 replaced.
    /// Entries of the procedure linkage table have `@plt` appended, as in `name`.
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

/// A line of source code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// The file's path as the compiler stated it, made absolute with the folder of the
    /// compilation. It may hold any character, and need not exist here.
    pub file: Arc<str>,
    /// The line, from 1; 0 where the compiler made code that belongs to no line.
    pub line: u32,
    /// The column, from 1; 0 where it is unknown.
    pub column: u32,
}

/// One frame at an address: the function there, or a call that was inlined into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The name to show.
    pub name: &'a str,
    /// The name as in the file.
    pub raw: &'a str,
    /// Where in this function: the line of the next inlined call, or for the innermost frame that
    /// of the address itself. `None` where debug information does not tell, or was not asked.
    pub line: Option<&'a SourceLine>,
    /// Whether it was inlined into the frame before.
    pub inlined: bool,
}

/// A function that was inlined somewhere: its names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InlinedName {
    pub(crate) name: Box<str>,
    pub(crate) raw: Arc<str>,
}

/// An inlined call, and where in the function that was called the address lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inlined {
    pub(crate) function: Arc<InlinedName>,
    pub(crate) line: Option<SourceLine>,
}

/// The frames at one address: the function that lies there, and the calls inlined there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    symbol: Arc<Symbol>,
    offset: u64,
    line: Option<SourceLine>,
    inlined: Box<[Inlined]>,
}

impl Frames {
    pub(crate) fn new(symbol: Arc<Symbol>, offset: u64) -> Self {
        Self {
            symbol,
            offset,
            line: None,
            inlined: Box::default(),
        }
    }

    /// The one frame of a function that no image has, such as one that a JIT compiler made, at an
    /// offset in bytes from its start. Its name is taken as it is, and not demangled.
    #[must_use]
    pub fn of_jit_function(
        name: &str,
        start: u64,
        size: u64,
        offset: u64,
        line: Option<SourceLine>,
    ) -> Self {
        let symbol = Symbol {
            raw: name.into(),
            name: name.into(),
            start,
            size,
            module: None,
        };
        Self::new(Arc::new(symbol), offset).with(line, Box::default())
    }

    /// With what debug information tells besides.
    pub(crate) fn with(mut self, line: Option<SourceLine>, inlined: Box<[Inlined]>) -> Self {
        self.line = line;
        self.inlined = inlined;
        self
    }

    /// The function that the address lies in: the outermost frame.
    #[must_use]
    pub fn symbol(&self) -> &Arc<Symbol> {
        &self.symbol
    }

    /// Distance from the start of [`Frames::symbol`], in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// All frames, outermost first: [`Frames::symbol`], then the calls inlined into it, each
    /// into the one before. Never empty.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Frame<'_>> + ExactSizeIterator {
        (0..1 + self.inlined.len()).map(|index| match index.checked_sub(1) {
            None => Frame {
                name: &self.symbol.name,
                raw: &self.symbol.raw,
                line: self.line.as_ref(),
                inlined: false,
            },
            Some(index) => {
                let Inlined { function, line } = &self.inlined[index];
                Frame {
                    name: &function.name,
                    raw: &function.raw,
                    line: line.as_ref(),
                    inlined: true,
                }
            }
        })
    }

    /// Names of the frames, outermost first. Never empty.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|frame| frame.name)
    }

    /// The line of the address itself: that of the innermost frame.
    #[must_use]
    pub fn line(&self) -> Option<&SourceLine> {
        match self.inlined.last() {
            Some(innermost) => innermost.line.as_ref(),
            None => self.line.as_ref(),
        }
    }
}
