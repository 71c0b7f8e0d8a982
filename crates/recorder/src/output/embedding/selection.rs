//! [`Embedding`]: selects the files to embed.

/// Files to embed in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Embedding {
    /// No files.
    Nothing,
    /// Perf maps, jitdumps, and programs and libraries that may leave their paths.
    #[default]
    Unreachable,
    /// Also all other sampled programs and libraries, and jitdumps with machine code, for analysis
    /// elsewhere.
    All,
}
