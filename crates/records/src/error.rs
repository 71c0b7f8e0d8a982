//! Errors of decoding.

use crate::header::RecordType;

/// Cause for which a record cannot be decoded. Offsets are within the record's body; the
/// caller adds where the record stood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A field reaches past the end of its record.
    #[error("{what} at byte {at} does not fit into the record's {len} bytes")]
    TooShort {
        /// Name of the record's type.
        what: &'static str,
        /// Offset of the field in bytes from the start of the body.
        at: usize,
        /// Bytes of the body.
        len: usize,
    },
    /// The record can only be read with its event's attr, and there is none.
    #[error("a {0} record belongs to an event that the input does not describe")]
    NoLayout(RecordType),
}
