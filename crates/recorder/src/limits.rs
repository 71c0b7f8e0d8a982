//! Limits on the recorder's own cost, and which were reached.

use std::collections::BTreeMap;

/// A limit on the resources that recorded programs can make the recorder use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// COMM and mapping records dropped because their process floods them.
    Flood,
    /// Mappings beyond the maximum, of one process or in total.
    Mappings,
    /// Mapped images beyond the maximum.
    Images,
    /// Images skipped because their unwind information is implausibly long.
    LongUnwindInfo,
    /// Sparse images skipped: nearly all holes, which need memory here but no disk space.
    SparseImage,
    /// Images not opened because of too many open files.
    OpenFiles,
    /// Images not opened at once, because other files of the same user do not respond.
    SilentImages,
    /// Unwind tables dropped to free memory; they are built again on demand.
    UnwindTables,
    /// Stacks that took too long to unwind, or that waited for a slow image.
    SlowStacks,
    /// Jitdumps that grow faster than the unwinder reads them.
    Jitdumps,
    /// Reads of process memory that timed out, or were skipped after others had timed out.
    ProcessMemory,
    /// Reads of jitdumps that timed out.
    JitdumpTime,
    /// Images not named in the counts of truncated stacks.
    TruncatedImages,
    /// Paths missing from the file's build-id table.
    BuildIds,
    /// Mappings whose files were not checked for embedding, because there were too many.
    EmbeddingEvents,
    /// Recordings without all embedded files, because reading took too long.
    EmbeddingTime,
    /// Files not embedded because reading them timed out.
    SilentFiles,
}

impl Limit {
    /// Returns a stable `snake_case` key for the file.
    pub fn key(self) -> &'static str {
        match self {
            Limit::Flood => "flood",
            Limit::Mappings => "mappings",
            Limit::Images => "images",
            Limit::LongUnwindInfo => "long_unwind_info",
            Limit::SparseImage => "sparse_image",
            Limit::OpenFiles => "open_files",
            Limit::SilentImages => "silent_images",
            Limit::UnwindTables => "unwind_tables",
            Limit::SlowStacks => "slow_stacks",
            Limit::Jitdumps => "jitdumps",
            Limit::ProcessMemory => "process_memory",
            Limit::JitdumpTime => "jitdump_time",
            Limit::TruncatedImages => "truncated_images",
            Limit::BuildIds => "build_ids",
            Limit::EmbeddingEvents => "embedding_events",
            Limit::EmbeddingTime => "embedding_time",
            Limit::SilentFiles => "silent_files",
        }
    }
}

/// Reached limits and their counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachedLimits(BTreeMap<Limit, u64>);

impl ReachedLimits {
    /// Returns the reached limits and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        self.0.iter().map(|(limit, times)| (*limit, *times))
    }

    pub(crate) fn add(&mut self, limit: Limit, times: u64) {
        if times > 0 {
            *self.0.entry(limit).or_default() += times;
        }
    }

    pub(crate) fn extend(&mut self, others: &ReachedLimits) {
        others
            .iter()
            .for_each(|(limit, times)| self.add(limit, times));
    }

    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let note =
            |(limit, times): (Limit, u64)| (format!("limit.{}", limit.key()), times.to_string());
        self.iter().map(note).collect()
    }
}
