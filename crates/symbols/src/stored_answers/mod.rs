//! Disk cache of results from debug information.
//!
//! A lookup scans all units and decompresses whole sections: 15 ms for the C library. Repeated
//! reports of a recording look up mostly the same addresses. So results are stored by address, one
//! cache file per debug file.
//!
//! A result is valid for one [`FileVersion`] of its files and one build of this program. Results
//! that may change are not stored: after a limit, with split DWARF, or from files that are
//! untrusted or recently changed.

mod format;

use crate::dwarf::{DebugInfo, DwarfQuery, Found};
use crate::memory::MemoryLimits;
use format::{Decoder, LIMIT, StoredAnswers, encode};
use rprof_image::FileVersion;
use rprof_output::PrivateCache;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

const PREFIX: &str = "debug-info-";

/// Leading bytes of a key that name the file: query, device and inode.
const SAME: usize = 18;

const MAX_OF_ALL: u64 = 32 << 20;

/// Minimum size of cached debug information, in bytes. Less is read faster than written.
const MINIMUM: u64 = 64 << 10;

/// Maximum length of a cache file to merge into the new one, in bytes. Rewriting a larger one would
/// slow down every recording of the image.
const MAX_AGAIN: usize = 128 << 10;

#[derive(Debug, Default)]
pub(crate) struct AnswerStore {
    stored: OnceLock<Option<StoredAnswers>>,
    /// True once this run has stored results. It stores one batch, as repeated batches come from a
    /// live view.
    is_written: AtomicBool,
}

impl AnswerStore {
    /// Cached results exist only for debug information with readable entries.
    pub(crate) fn has_answers(&self) -> bool {
        self.stored.get().is_some_and(Option::is_some)
    }

    /// Looks up `svmas` as [`DebugInfo::resolve`] does, in the cache first. Stores new results.
    pub(crate) fn resolve(
        &self,
        cache: &PrivateCache,
        memory: &MemoryLimits,
        debug: &DebugInfo<'_>,
        svmas: &[u64],
        query: DwarfQuery,
        threads: usize,
    ) -> Vec<Option<Found>> {
        let versions = match debug.bytes() >= MINIMUM {
            true => debug.versions(),
            false => None,
        };
        let Some((key, versions)) = versions.and_then(|list| Some((key(&list, query)?, list)))
        else {
            return debug.resolve(svmas, query, threads);
        };
        let name = format!("{PREFIX}{:08x}", crc32fast::hash(&key[..SAME]));
        let read = || StoredAnswers::read(&cache.read(&name, LIMIT as u64).ok()?, &key);
        let stored = self.stored.get_or_init(read).as_ref();
        let mut decoder = stored.map(Decoder::new);
        let mut answer = |svma: &u64| decoder.as_mut()?.answer(*svma);
        let mut found: Vec<Option<Option<Found>>> = svmas.iter().map(&mut answer).collect();
        let pairs = svmas.iter().zip(&found);
        let missing: Vec<u64> = (pairs.filter(|(_, found)| found.is_none()))
            .map(|(svma, _)| *svma)
            .collect();
        if !missing.is_empty() {
            let mut read = debug.resolve(&missing, query, threads).into_iter();
            for found in found.iter_mut().filter(|found| found.is_none()) {
                *found = read.next();
            }
        }
        let found: Vec<Option<Found>> = found.into_iter().map(Option::flatten).collect();
        let is_certain = || {
            let now = SystemTime::now();
            memory.refused() == 0
                && debug.has_entries()
                && !debug.split.was_wanted()
                && versions.iter().all(|version| version.is_settled(now))
        };
        if !missing.is_empty() && is_certain() && !self.is_written.swap(true, Ordering::Relaxed) {
            let answers = || svmas.iter().copied().zip(&found);
            let others = stored.filter(|stored| stored.len() <= MAX_AGAIN);
            let file = others.and_then(|others| encode_all(&key, answers(), others));
            if let Some(file) = file.or_else(|| encode(&key, answers())) {
                // A write error only costs the next run time.
                let written = cache.write(&name, &file);
                written.and_then(|()| cache.limit(PREFIX, MAX_OF_ALL)).ok();
            }
        }
        found
    }
}

fn encode_all<'a>(
    key: &[u8],
    answers: impl Iterator<Item = (u64, &'a Option<Found>)>,
    stored: &StoredAnswers,
) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(stored);
    let others = stored.svmas().iter();
    let others: Vec<(u64, Option<Found>)> = others
        .filter_map(|svma| Some((*svma, decoder.answer(*svma)?)))
        .collect();
    let mut all: Vec<(u64, &Option<Found>)> = answers.collect();
    all.extend(others.iter().map(|(svma, found)| (*svma, found)));
    all.sort_by_key(|(svma, _)| *svma);
    all.dedup_by_key(|(svma, _)| *svma);
    encode(key, all.into_iter())
}

/// Returns the cache key: the files, the query, and this program. `None` if the program's version
/// is unknown.
fn key(versions: &[FileVersion], query: DwarfQuery) -> Option<Vec<u8>> {
    static PROGRAM: OnceLock<Option<FileVersion>> = OnceLock::new();
    let read = || Some(FileVersion::of(&std::fs::metadata("/proc/self/exe").ok()?));
    let program = (*PROGRAM.get_or_init(read))?;
    let mut key = vec![u8::from(query.inlines), u8::from(query.lines)];
    for version in versions.iter().chain([&program]) {
        key.extend(version.to_bytes());
    }
    Some(key)
}
