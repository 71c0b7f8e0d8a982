//! [`Embedding`]: which files are wanted in a recording.

/// Which files are embedded in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Embedding {
    /// None.
    Nothing,
    /// Perf maps, jitdumps, and the programs and libraries that will not be found by their paths.
    #[default]
    Unreachable,
    /// Programs and libraries that will be found as well, and jitdumps with their machine code, for a recording that is read on
    /// another machine.
    All,
}
