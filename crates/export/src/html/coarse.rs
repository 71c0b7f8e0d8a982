//! Steps by which a page that is too large becomes coarser.

/// Step of coarseness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Coarseness {
    /// Unit of times, in nanoseconds; `u64::MAX` for none at all.
    pub(super) tick: u64,
    /// Keep lines of source.
    pub(super) lines: bool,
    /// Part of the whole below which nodes are put together.
    pub(super) smallest: Option<f64>,
    /// What this step costs, beside those before it.
    pub(super) told: Option<&'static str>,
}

impl Coarseness {
    /// Returns whether samples keep their times.
    pub(super) fn keeps_times(&self) -> bool {
        self.tick != u64::MAX
    }
}

/// All steps, the finest first; each has what those before it have.
pub(super) const STEPS: [Coarseness; 8] = [
    step(1_000, true, None, None),
    step(1_000_000, true, None, Some("times are kept by millisecond")),
    step(
        10_000_000,
        true,
        None,
        Some("times are kept by 10 milliseconds"),
    ),
    step(10_000_000, false, None, Some("source lines are left out")),
    step(
        10_000_000,
        false,
        Some(0.0001),
        Some("frames below 0.01 % are put together"),
    ),
    step(
        100_000_000,
        false,
        Some(0.001),
        Some("frames below 0.1 % are put together, and times kept by 100 milliseconds"),
    ),
    step(u64::MAX, false, Some(0.001), Some("times are left out")),
    step(
        u64::MAX,
        false,
        Some(0.01),
        Some("frames below 1 % are put together"),
    ),
];

const fn step(
    tick: u64,
    lines: bool,
    smallest: Option<f64>,
    told: Option<&'static str>,
) -> Coarseness {
    Coarseness {
        tick,
        lines,
        smallest,
        told,
    }
}
