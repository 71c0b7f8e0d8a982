//! [`PartEncoder`]: splits a large profile into several files or requests.

use std::io::{self, Write};
use std::ops::Range;

/// Encoder that writes any range of a profile's rows as a profile. A row is the sum of all samples
/// with the same labels and stack.
pub trait PartEncoder {
    /// Returns the number of rows.
    fn rows(&self) -> usize;

    /// Returns the number of samples in a range of rows.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    fn samples(&self, rows: Range<usize>) -> u64;

    /// Writes a range of rows and everything that they refer to, compressed with gzip.
    ///
    /// # Errors
    /// Fails if the writer does.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    fn encode(&mut self, rows: Range<usize>, out: &mut dyn Write) -> io::Result<Encoded>;
}

/// Result of encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Bytes before compression.
    pub bytes: u64,
    /// Number of truncated stacks: see
    /// [`ExportOptions::max_depth`](crate::ExportOptions::max_depth).
    pub cut: u64,
}
