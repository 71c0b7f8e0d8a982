//! How often an event is sampled.

/// Sampling rate of an event: by frequency or by period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Samples a second on each busy CPU; the kernel adapts the period to it.
    Frequency(u64),
    /// One sample each time the event has happened this often (for cpu-clock: nanoseconds).
    Period(u64),
}
