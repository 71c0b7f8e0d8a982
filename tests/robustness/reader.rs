//! The rprof build that reads hostile files, and its limits.

pub(super) struct Reader {
    pub(super) program: String,
    /// Maximum CPU seconds, independent of other load.
    pub(super) seconds: u64,
    /// Maximum KiB of address space, with mapped files.
    pub(super) addresses: u64,
}

impl Reader {
    /// Returns this build, or the one in RPROF_RELEASE. The guaranteed limits of 512 MiB and 10 s
    /// apply to a release build.
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
