//! [`ScriptError`].

use std::io;

/// Error of showing samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// A field was asked for that no sample of a kind of event has.
    #[error(
        "Samples for '{event}' event do not have {attribute} attribute set. Cannot print '{field}' field."
    )]
    FieldMissing {
        /// The first event of that kind.
        event: String,
        /// perf's name for what is missing.
        attribute: &'static str,
        /// The field.
        field: &'static str,
    },
    /// The writer failed.
    #[error("cannot write the samples: {0}")]
    Io(#[from] io::Error),
}
