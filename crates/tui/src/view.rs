//! [`View`]: the seven views.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    /// Functions by self and total.
    #[default]
    Functions,
    /// Call tree, from the root or from the leaves.
    Tree,
    Flame,
    Calls,
    Threads,
    Time,
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

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn step(self, places: usize) -> View {
        View::ALL[(self.index() + places) % View::ALL.len()]
    }
}
