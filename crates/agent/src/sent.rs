//! [`Sent`]: outcomes of sending files to a destination.

/// Tallies of files by the outcome of sending them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sent {
    /// Files that were taken.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Tries that failed.
    pub failures: u64,
    /// Files that were refused.
    pub refused: u64,
    /// Last time that a file was taken, in seconds since 1970.
    pub last_success: Option<i64>,
    /// Last error, while there was no success since.
    pub last_error: Option<String>,
    /// Seconds to the next try, if one is waited for.
    pub next_try_seconds: Option<u64>,
}
