//! [`Requests`]: totals of sampled allocations.

use crate::sampled::Estimate;

/// Prefix of the keys of notes.
const PREFIX: &str = "alloc.";

/// Resident memory of programs and libraries themselves, in bytes.
const LITTLE: u64 = 16 << 20;

/// Totals of sampled allocations, and the number of missing ones.
///
/// The recorder writes them to the file as notes, and readers decode them. Bytes and their standard
/// errors are estimates.
///
/// # Examples
/// ```
/// use rprof_memory::Requests;
///
/// let requests = Requests { mean: 512 << 10, samples: 3, ..Requests::default() };
/// assert_eq!(Requests::from_notes(&requests.notes()), Some(requests));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Mean distance of two points of the sampling, in bytes.
    pub mean: u64,
    /// Number of sampled allocations.
    pub samples: u64,
    /// Number of allocations.
    pub count: u64,
    /// Bytes ever requested, released or not.
    pub bytes: u64,
    /// Standard error of `bytes`.
    pub error: u64,
    /// Requested bytes in use at the end.
    pub in_use: u64,
    /// Standard error of `in_use`.
    pub in_use_error: u64,
    /// Requested bytes in use at the peak.
    pub peak: u64,
    /// Bytes with unknown releases, outside of `in_use`.
    pub unfollowed: u64,
    /// Number of programs that loaded the library.
    pub programs: u64,
    /// Number of programs that did not load it.
    pub unloaded: u64,
    /// Number of programs with their own `malloc`.
    pub own_malloc: u64,
    /// Number of probes of the programs themselves that reported allocations, in place of the
    /// library; 0 with the library.
    pub probes: u64,
    /// Largest resident memory of any one process, in bytes; 0 if unknown.
    pub resident: u64,
}

impl Requests {
    /// Sets the totals of all moments: in use at the end, at the peak, and ever.
    pub fn with_sums(self, end: Estimate, peak: Estimate, ever: Estimate) -> Requests {
        Requests {
            samples: ever.samples,
            count: ever.count.round() as u64,
            bytes: ever.bytes.round() as u64,
            error: ever.error().round() as u64,
            in_use: end.bytes.round() as u64,
            in_use_error: end.error().round() as u64,
            peak: peak.bytes.round() as u64,
            ..self
        }
    }

    /// Returns true if the largest process had much more resident memory than was requested here at
    /// the peak: mmap(2), mapped files, a garbage-collected heap, or an allocator with other names
    /// made it.
    pub fn lacks_most(&self) -> bool {
        self.resident > self.peak.saturating_mul(2).saturating_add(LITTLE)
    }

    /// Returns notes for the file.
    pub fn notes(&self) -> Vec<(String, String)> {
        let notes = [
            ("mean", self.mean),
            ("samples", self.samples),
            ("count", self.count),
            ("bytes", self.bytes),
            ("error", self.error),
            ("in_use", self.in_use),
            ("in_use.error", self.in_use_error),
            ("peak", self.peak),
            ("unfollowed", self.unfollowed),
            ("programs", self.programs),
            ("programs.unloaded", self.unloaded),
            ("programs.own_malloc", self.own_malloc),
            ("probes", self.probes),
            ("resident", self.resident),
        ];
        let note = |(key, value): (&str, u64)| (format!("{PREFIX}{key}"), value.to_string());
        notes.map(note).into()
    }

    /// Decodes the notes of a file; `None` if it has none.
    pub fn from_notes(notes: &[(String, String)]) -> Option<Requests> {
        let number = |name: &str| {
            let mut notes = notes.iter();
            let (_, value) = notes.find(|(key, _)| key.strip_prefix(PREFIX) == Some(name))?;
            value.parse::<u64>().ok()
        };
        Some(Requests {
            mean: number("mean")?,
            samples: number("samples")?,
            count: number("count")?,
            bytes: number("bytes")?,
            error: number("error")?,
            in_use: number("in_use")?,
            in_use_error: number("in_use.error")?,
            peak: number("peak")?,
            unfollowed: number("unfollowed")?,
            programs: number("programs")?,
            unloaded: number("programs.unloaded")?,
            own_malloc: number("programs.own_malloc")?,
            // Earlier files have none.
            probes: number("probes").unwrap_or(0),
            resident: number("resident").unwrap_or(0),
        })
    }
}
