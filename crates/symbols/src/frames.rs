//! Result of a lookup: a function, and the calls inlined into it.

use rprof_image::Reason;
use std::sync::Arc;

/// Function of an image: names and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Name to show, demangled in the style that the symbolizer was built with.
    pub name: Box<str>,
    /// Linkage name, as in the symbol table or debug information, with invalid UTF-8 replaced.
    /// Entries of the procedure linkage table have `@plt` appended, as in `name`.
    pub raw: Box<str>,
    /// Start: SVMA in an ELF image; AVMA of the running kernel for kernel and modules.
    pub start: u64,
    /// Length in bytes, after symbols that state no size were extended to the next one.
    pub size: u64,
    /// Kernel module, for symbols from `/proc/kallsyms`.
    pub module: Option<Box<str>>,
    /// Reason for which no table has a name, for a function that only unwinding information describes. `name` is made
    /// of the image's name and `start` then: `cc1+0x5a3c10`.
    pub located: Option<Reason>,
}

/// Line of source code.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Path of the file as the compiler stated it, made absolute with the folder of the
    /// compilation. It may hold any character, and need not exist on this machine.
    pub file: Arc<str>,
    /// Line, from 1; 0 for code that the compiler assigns to no line.
    pub line: u32,
    /// Column, from 1; 0 where it is unknown.
    pub column: u32,
}

/// One frame at an address: the function, or a call that was inlined into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Name to show.
    pub name: &'a str,
    /// Linkage name.
    pub raw: &'a str,
    /// Position in this function: the line of the next inlined call, or for the innermost frame
    /// that of the address itself. `None` where debug information has none, or was not asked.
    pub line: Option<&'a SourceLine>,
    /// Line where the function begins, by debug information; 0 where that is unknown, or was not asked.
    pub start_line: u32,
    /// True if the frame was inlined into the one before.
    pub inlined: bool,
}

/// Names of an inlined function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InlinedName {
    pub(crate) name: Box<str>,
    pub(crate) raw: Arc<str>,
}

/// Inlined call: the names of the callee, and the line in it that the address belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inlined {
    pub(crate) function: Arc<InlinedName>,
    pub(crate) line: Option<SourceLine>,
    pub(crate) start_line: u32,
}

/// Frames at one address: the function, and the calls inlined there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    symbol: Arc<Symbol>,
    offset: u64,
    line: Option<SourceLine>,
    start_line: u32,
    inlined: Box<[Inlined]>,
}

impl Frames {
    pub(crate) fn new(symbol: Arc<Symbol>, offset: u64) -> Self {
        Self {
            symbol,
            offset,
            line: None,
            start_line: 0,
            inlined: Box::default(),
        }
    }

    /// Makes the single frame of a function that no image has, such as one that a JIT compiler
    /// made, at an offset in bytes from its start. The name is taken literally, and not demangled.
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
            located: None,
        };
        Self::new(Arc::new(symbol), offset).with(line, Box::default())
    }

    /// Adds the line and the inlined calls.
    pub(crate) fn with(mut self, line: Option<SourceLine>, inlined: Box<[Inlined]>) -> Self {
        self.line = line;
        self.inlined = inlined;
        self
    }

    /// Sets the line where the outermost function begins.
    pub(crate) fn beginning_at(mut self, line: u32) -> Self {
        self.start_line = line;
        self
    }

    /// Returns the function that contains the address: the outermost frame.
    #[must_use]
    pub fn symbol(&self) -> &Arc<Symbol> {
        &self.symbol
    }

    /// Returns the distance from the start of [`Frames::symbol`], in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns all frames, outermost first: [`Frames::symbol`], then the calls inlined into it,
    /// each into the one before. Never empty.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Frame<'_>> + ExactSizeIterator {
        (0..1 + self.inlined.len()).map(|index| match index.checked_sub(1) {
            None => Frame {
                name: &self.symbol.name,
                raw: &self.symbol.raw,
                line: self.line.as_ref(),
                start_line: self.start_line,
                inlined: false,
            },
            Some(index) => {
                let Inlined {
                    function,
                    line,
                    start_line,
                } = &self.inlined[index];
                Frame {
                    name: &function.name,
                    raw: &function.raw,
                    line: line.as_ref(),
                    start_line: *start_line,
                    inlined: true,
                }
            }
        })
    }

    /// Returns the names of the frames, outermost first. Never empty.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|frame| frame.name)
    }

    /// Returns the line of the address itself: that of the innermost frame.
    #[must_use]
    pub fn line(&self) -> Option<&SourceLine> {
        match self.inlined.last() {
            Some(innermost) => innermost.line.as_ref(),
            None => self.line.as_ref(),
        }
    }
}
