//! The program that reads hostile files, and what it may take.

/// A build of rprof, and its limits.
pub(super) struct Reader {
    pub(super) program: String,
    /// Most CPU time for one file, in seconds, which is the same on a busy machine.
    pub(super) seconds: u64,
    /// Most address space in KiB, all that is mapped of files included.
    pub(super) addresses: u64,
}

impl Reader {
    /// Returns this build; or the release build that RPROF_RELEASE names. What is promised, 512 MiB and 10 s, is of a
    /// release build: one that is not optimized is larger and slower.
    pub(super) fn new() -> Reader {
        let release = std::env::var("RPROF_RELEASE").ok();
        let is_release = release.is_some() || !cfg!(debug_assertions);
        Reader {
            program: release.unwrap_or_else(|| env!("CARGO_BIN_EXE_rprof").to_owned()),
            seconds: if is_release { 10 } else { 60 },
            addresses: if is_release { 512 << 10 } else { 1 << 20 },
        }
    }
}
