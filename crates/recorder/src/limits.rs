//! Limits that keep a recorder within bounds beside strangers, and whether they were reached.

use std::collections::BTreeMap;

/// A limit of what a recorder takes in, remembers or waits for, be it asked to by the programs it records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Names and mappings that were left out, as their process makes them without end.
    Flood,
    /// More mappings than are followed: those of one process, or of all together.
    Mappings,
    /// More images mapped at a time than are followed.
    Images,
    /// An image whose unwind information is longer than any honest one.
    LongUnwindInfo,
    /// An image that is nearly all holes, which take no room on its disk and all the more here.
    SparseImage,
    /// Images that were not opened, as there were too many open files.
    OpenFiles,
    /// Images that were not opened at once, as others of the same user do not answer.
    SilentImages,
    /// Unwind tables that were dropped to make room for others, and are made again when needed.
    UnwindTables,
    /// Stacks that took too long, or had to wait for an image that did.
    SlowStacks,
    /// Jitdumps that are written faster than they are read for unwinding.
    Jitdumps,
    /// Looks into the memory of processes that were not answered in time, or not made, since others were not.
    ProcessMemory,
    /// Reads of jitdumps that were not answered in time.
    JitdumpTime,
    /// Names of images that are left out from the counts of truncated stacks.
    TruncatedImages,
    /// Paths that are left out from the file's table of build-ids.
    BuildIds,
    /// Mappings of which the files were not looked at, as too many came.
    EmbeddingEvents,
    /// Recordings without what was to be embedded in them, as it took too long to read.
    EmbeddingTime,
    /// Files that did not answer when they were to be embedded.
    SilentFiles,
}

impl Limit {
    /// A stable `snake_case` word, for the file.
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

/// Limits that were reached, each with how many times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachedLimits(BTreeMap<Limit, u64>);

impl ReachedLimits {
    /// Returns the limits that were reached, with how many times.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, u64)> + '_ {
        self.0.iter().map(|(limit, times)| (*limit, *times))
    }

    /// Counts that a limit was reached; nothing for 0 times.
    pub(crate) fn add(&mut self, limit: Limit, times: u64) {
        if times > 0 {
            *self.0.entry(limit).or_default() += times;
        }
    }

    /// Adds those of another part of the recorder.
    pub(crate) fn extend(&mut self, others: &ReachedLimits) {
        others
            .iter()
            .for_each(|(limit, times)| self.add(limit, times));
    }

    /// Makes keys and values for the file's private section.
    pub(crate) fn notes(&self) -> Vec<(String, String)> {
        let note =
            |(limit, times): (Limit, u64)| (format!("limit.{}", limit.key()), times.to_string());
        self.iter().map(note).collect()
    }
}
