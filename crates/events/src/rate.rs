//! [`Rate`].

/// Sampling rate of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Samples per second on each busy CPU; the kernel adapts the period.
    Frequency(u64),
    /// Number of events between samples; nanoseconds for clocks.
    Period(u64),
}
