//! [`ScriptError`].

use std::io;

/// Error of writing samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// A requested field is missing in all samples of a kind of event.
    #[error(
        "Samples for '{event}' event do not have {attribute} attribute set. Cannot print '{field}' field."
    )]
    FieldMissing {
        /// First event of that kind.
        event: String,
        /// perf's name of the missing attribute.
        attribute: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// The writer failed.
    #[error("cannot write the samples: {0}")]
    Io(#[from] io::Error),
}
