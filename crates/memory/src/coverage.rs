//! [`Coverage`]: how much of the resident memory has known causes.

use std::time::Duration;

/// Prefix of the keys of notes.
const PREFIX: &str = "memory.";

/// Resident memory by the kernel, and its causes, at the last look at each process.
///
/// The recorder writes it to the file as notes, and readers decode it.
///
/// # Examples
/// ```
/// use rprof_memory::Coverage;
///
/// let coverage = Coverage {
///     resident: 1000,
///     explained: 990,
///     unseen: 10,
///     ..Coverage::default()
/// };
/// assert_eq!(coverage.explained_share(), Some(0.99));
/// assert_eq!(Coverage::from_notes(&coverage.notes()), Some(coverage));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Resident bytes by the kernel (`Rss` in `/proc/PID/smaps`); 0 without a look.
    pub resident: u64,
    /// Bytes with the stack of a page fault.
    pub explained: u64,
    /// Bytes that were resident before the recording.
    pub before: u64,
    /// Bytes that became resident without a known fault.
    pub unseen: u64,
    /// Time from the look to the end of the recording, or of the command.
    pub before_end: Duration,
}

impl Coverage {
    /// Returns the explained part of the resident bytes, from 0 to 1; `None` without a look.
    pub fn explained_share(&self) -> Option<f64> {
        (self.resident > 0).then(|| self.explained as f64 / self.resident as f64)
    }

    /// Adds another process.
    pub fn add(&mut self, other: &Coverage) {
        self.resident = self.resident.saturating_add(other.resident);
        self.explained = self.explained.saturating_add(other.explained);
        self.before = self.before.saturating_add(other.before);
        self.unseen = self.unseen.saturating_add(other.unseen);
        self.before_end = self.before_end.max(other.before_end);
    }

    /// Returns notes for the file.
    pub fn notes(&self) -> Vec<(String, String)> {
        let ns = u64::try_from(self.before_end.as_nanos()).unwrap_or(u64::MAX);
        let notes = [
            ("resident", self.resident),
            ("explained", self.explained),
            ("before", self.before),
            ("unseen", self.unseen),
            ("before_end.ns", ns),
        ];
        let note = |(key, value): (&str, u64)| (format!("{PREFIX}{key}"), value.to_string());
        notes.map(note).into()
    }

    /// Decodes the notes of a file; `None` if it has none.
    pub fn from_notes(notes: &[(String, String)]) -> Option<Coverage> {
        let number = |name: &str| {
            let mut notes = notes.iter();
            let (_, value) = notes.find(|(key, _)| key.strip_prefix(PREFIX) == Some(name))?;
            value.parse::<u64>().ok()
        };
        Some(Coverage {
            resident: number("resident")?,
            explained: number("explained")?,
            before: number("before")?,
            unseen: number("unseen")?,
            before_end: Duration::from_nanos(number("before_end.ns")?),
        })
    }
}
