//! Errors of decoding.

use crate::header::RecordType;

/// Failure to decode a record. Offsets are within the record's body; the caller adds the record's
/// position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A field exceeds the end of its record.
    #[error("{what} at byte {at} does not fit into the record's {len} bytes")]
    TooShort {
        /// Name of the record's type.
        what: &'static str,
        /// Byte offset of the field in the body.
        at: usize,
        /// Length of the body in bytes.
        len: usize,
    },
    /// The record requires its event's attr, which is missing.
    #[error("a {0} record belongs to an event that the input does not describe")]
    NoLayout(RecordType),
}
