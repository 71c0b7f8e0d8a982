//! [`PartEncoder`]: a profile in several files or requests, where one would be too large.

use std::io::{self, Write};
use std::ops::Range;

/// Encoder of a profile that writes any of its rows as a profile of their own. A row is all samples of the same labels and
/// stack.
pub trait PartEncoder {
    /// Returns the number of rows.
    fn rows(&self) -> usize;

    /// Returns the number of samples that some rows sum up.
    ///
    /// # Panics
    /// If there are not so many rows.
    fn samples(&self, rows: Range<usize>) -> u64;

    /// Writes some rows, with what they refer to, compressed with gzip.
    ///
    /// # Errors
    /// `out` does.
    ///
    /// # Panics
    /// If there are not so many rows.
    fn encode(&mut self, rows: Range<usize>, out: &mut dyn Write) -> io::Result<Encoded>;
}

/// Sizes of what was encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Bytes before compression.
    pub bytes: u64,
    /// Stacks of which outer frames were left out: see [`ExportOptions::max_depth`](crate::ExportOptions::max_depth).
    pub cut: u64,
}
