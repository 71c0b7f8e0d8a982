//! [`MemoryUse`]: totals of a recording of memory.

use std::io;

use rprof_memory::Coverage;

/// Results of a recording of memory. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Number of recorded page faults.
    pub faults: u64,
    /// Number of looks at the resident pages of a process.
    pub looks: u64,
    /// Resident memory of all processes at the end: when the command ended, or at the last look.
    pub end: u64,
    /// Largest resident memory of all processes at a look or at the end.
    pub peak: u64,
    /// Time of the peak, in nanoseconds of the recording's clock.
    pub peak_time: u64,
    /// Memory that ever became resident.
    pub touched: u64,
    /// Comparison with the kernel at the last look before the end.
    pub coverage: Coverage,
    /// Largest resident memory of any one of the command's processes (`ru_maxrss`); 0 if unknown.
    pub most_resident: u64,
    /// Why the kernel refused looks; `None` if it did not.
    pub refusal: Option<io::ErrorKind>,
    /// Faults with stacks beyond the limits.
    pub further_stacks: u64,
}

impl MemoryUse {
    /// Returns the figures as notes for the file.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let figures = [
            ("faults", self.faults),
            ("looks", self.looks),
            ("end", self.end),
            ("peak", self.peak),
            ("peak.time", self.peak_time),
            ("touched", self.touched),
        ];
        let note = |(key, value): (&str, u64)| (format!("memory.{key}"), value.to_string());
        let mut notes: Vec<(String, String)> = figures.map(note).into();
        notes.extend(self.coverage.notes());
        notes
    }
}
