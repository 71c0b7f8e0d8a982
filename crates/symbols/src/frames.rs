//! [`Frames`]: the result of a lookup, a function and the calls inlined into it.

use rprof_image::Reason;
use std::sync::Arc;

/// Function of an image: names and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Display name, demangled in the style of the symbolizer.
    pub name: Box<str>,
    /// Linkage name from the symbol table or debug information, with invalid UTF-8 replaced. PLT
    /// entries have `@plt` appended, as in `name`.
    pub raw: Box<str>,
    /// Start: SVMA in an ELF image; AVMA of the running kernel for kernel and modules.
    pub start: u64,
    /// Length in bytes. A symbol without size extends to the next one.
    pub size: u64,
    /// Kernel module, for symbols from `/proc/kallsyms`.
    pub module: Option<Box<str>>,
    /// Reason for the missing symbol, of a function known only from unwinding information. `name`
    /// is then `cc1+0x5a3c10`, from image and `start`.
    pub located: Option<Reason>,
}

/// Position in a source file, from debug information.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// Absolute path of the file, from the compiler. May contain any character, and need not exist
    /// here.
    pub file: Arc<str>,
    /// Line, from 1; 0 for code without a line.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
}

/// Activation at an address: the function, or a call inlined into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolFrame<'a> {
    /// Display name.
    pub name: &'a str,
    /// Linkage name.
    pub raw: &'a str,
    /// Line of the next inlined call, or of the address in the innermost frame. `None` without
    /// debug information or if lines are disabled.
    pub line: Option<&'a SourceLine>,
    /// Line where the function begins, from debug information; 0 if unknown or disabled.
    pub start_line: u32,
    /// True if the frame was inlined into the previous one.
    pub inlined: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InlinedName {
    pub(crate) name: Box<str>,
    pub(crate) raw: Arc<str>,
}

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

    /// Creates the single frame of a function without an image, such as JIT code. `offset` counts
    /// bytes from its start. The name is not demangled.
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

    pub(crate) fn with(mut self, line: Option<SourceLine>, inlined: Box<[Inlined]>) -> Self {
        self.line = line;
        self.inlined = inlined;
        self
    }

    pub(crate) fn beginning_at(mut self, line: u32) -> Self {
        self.start_line = line;
        self
    }

    pub(crate) fn rename(
        &mut self,
        symbol: impl FnOnce(&Arc<Symbol>) -> Option<Arc<Symbol>>,
        mut inlined: impl FnMut(&Arc<InlinedName>) -> Option<Arc<InlinedName>>,
    ) {
        if let Some(renamed) = symbol(&self.symbol) {
            self.symbol = renamed;
        }
        for call in &mut self.inlined {
            if let Some(renamed) = inlined(&call.function) {
                call.function = renamed;
            }
        }
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

    /// Returns all frames, outermost first: [`Frames::symbol`], then each call inlined into the
    /// previous frame. Never empty.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = SymbolFrame<'_>> + ExactSizeIterator {
        (0..1 + self.inlined.len()).map(|index| match index.checked_sub(1) {
            None => SymbolFrame {
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
                SymbolFrame {
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

    /// Returns the line of the address, which belongs to the innermost frame.
    #[must_use]
    pub fn line(&self) -> Option<&SourceLine> {
        match self.inlined.last() {
            Some(innermost) => innermost.line.as_ref(),
            None => self.line.as_ref(),
        }
    }
}
