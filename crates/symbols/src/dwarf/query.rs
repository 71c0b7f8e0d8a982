//! [`DwarfQuery`] and [`Found`]: options and result of a lookup.

use crate::frames::SourceLine;
use std::ops::Range;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub(crate) struct DwarfQuery {
    /// Inlined calls, and with them names of functions.
    pub(crate) inlines: bool,
    pub(crate) lines: bool,
}

impl Default for DwarfQuery {
    fn default() -> Self {
        Self {
            inlines: true,
            lines: true,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The function and its inlined calls, outermost first. Empty without a function.
    pub(crate) frames: Vec<FoundFrame>,
    /// The function's contiguous range that contains the address.
    pub(crate) range: Range<u64>,
    pub(crate) line: Option<SourceLine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFrame {
    /// Linkage name, or else plain name.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) start_line: u32,
    pub(crate) call: Option<SourceLine>,
    /// Entry of a function without a linkage name.
    pub(crate) entry: Option<FunctionEntry>,
    /// Distinguishes functions of the same name: ` (parser.rs:12)`.
    pub(crate) distinction: Option<Arc<str>>,
}

/// Entry of a function, shared by all its copies in a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionEntry {
    /// Offset of the unit, with the top bit set for the supplementary file.
    pub(crate) unit: u32,
    pub(crate) offset: u32,
}
