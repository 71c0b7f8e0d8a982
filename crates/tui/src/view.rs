//! The seven views.

/// View of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// Table of functions by self and total.
    #[default]
    Functions,
    /// Tree of calls, from the root or from what ran.
    Tree,
    /// Flame graph in cells.
    Flame,
    /// Callers and callees of one function.
    Calls,
    /// Processes, threads, CPUs.
    Threads,
    /// Samples over time.
    Time,
    /// Quality verdict.
    Verdict,
}

impl View {
    pub(crate) const ALL: [View; 7] = [
        View::Functions,
        View::Tree,
        View::Flame,
        View::Calls,
        View::Threads,
        View::Time,
        View::Verdict,
    ];

    /// Returns the name in the line of views.
    pub(crate) fn name(self) -> &'static str {
        match self {
            View::Functions => "functions",
            View::Tree => "tree",
            View::Flame => "flame",
            View::Calls => "callers/callees",
            View::Threads => "threads",
            View::Time => "time",
            View::Verdict => "verdict",
        }
    }

    /// Index in [`View::ALL`].
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Returns the view some places further, in a circle.
    pub(crate) fn step(self, places: usize) -> View {
        View::ALL[(self.index() + places) % View::ALL.len()]
    }
}
