//! [`Sent`]: upload counters of a destination.

/// Upload counters by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sent {
    /// Uploaded files.
    pub files: u64,
    /// Uploaded bytes.
    pub bytes: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Rejected files.
    pub refused: u64,
    /// Time of the last successful upload, in seconds since 1970.
    pub last_success: Option<i64>,
    /// Last error since the last success.
    pub last_error: Option<String>,
    /// Seconds until the next attempt, if one is scheduled.
    pub next_try_seconds: Option<u64>,
}
