//! [`Embedding`]: selects the files to embed.

/// Files to embed in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Embedding {
    /// No files.
    Nothing,
    /// Perf maps, jitdumps, and programs and libraries that their paths may no longer name later.
    #[default]
    Unreachable,
    /// Also all other sampled programs and libraries, and jitdumps with their machine code, for
    /// analysis on another machine.
    All,
}
