//! Answers of debug information as they are stored from one run to the next.
//!
//! To find the inlined calls and the line of one address, a unit is read; but before that all units are told apart, and
//! compressed sections are decompressed, all of them: 15 ms for the C library. A recording is looked at several times, in several
//! ways, and mostly asks for the same addresses. So what was found is stored by address, for each file of debug information.
//!
//! An answer holds for one state of the files that it was read from ([`FileVersion`]), and for one build of this program. Not
//! stored are answers that may be others the next time: where memory or work came to its end, where parts of units are in
//! files of their own (split DWARF), where files belong to strangers or changed just now.

mod format;

use crate::dwarf::{DebugInfo, DwarfQuery, Found};
use crate::memory::Memory;
use format::{Decoder, MOST, StoredAnswers, encode};
use rprof_image::FileVersion;
use rprof_output::PrivateCache;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Beginning of the names of the files in the cache.
const PREFIX: &str = "debug-info-";

/// Bytes of a key by which the file is named, so that it is replaced by that of a later state: details, device and inode.
const SAME: usize = 18;

/// Most bytes of all files together.
const MOST_OF_ALL: u64 = 32 << 20;

/// Least debug information, in bytes, whose answers are stored: less is read faster than a file is written.
const LEAST: u64 = 64 << 10;

/// Longest file, in bytes, whose answers are kept along when others are stored: writing them again costs every recording of the
/// same image time.
const MOST_AGAIN: usize = 128 << 10;

/// Answers of an image's debug information: those that are stored, and by them the others.
#[derive(Debug, Default)]
pub(crate) struct AnswerStore {
    /// Answers that earlier runs stored, read at first use.
    stored: OnceLock<Option<StoredAnswers>>,
    /// True once answers were stored by this run. Later ones are not: whoever asks again and again is shown a process that lives.
    is_written: AtomicBool,
}

impl AnswerStore {
    /// Returns true if answers were read from the cache, which are stored of debug information with readable entries only.
    pub(crate) fn has_answers(&self) -> bool {
        self.stored.get().is_some_and(Option::is_some)
    }

    /// Looks up `svmas`, which are sorted, as [`DebugInfo::resolve`] does: in the cache, and what is not there in debug information.
    /// Stores what was found there, where that can be.
    pub(crate) fn resolve(
        &self,
        cache: &PrivateCache,
        memory: &Memory,
        debug: &DebugInfo<'_>,
        svmas: &[u64],
        query: DwarfQuery,
        threads: usize,
    ) -> Vec<Option<Found>> {
        let versions = match debug.bytes() >= LEAST {
            true => debug.versions(),
            false => None,
        };
        let Some((key, versions)) = versions.and_then(|list| Some((key(&list, query)?, list)))
        else {
            return debug.resolve(svmas, query, threads);
        };
        let name = format!("{PREFIX}{:08x}", crc32fast::hash(&key[..SAME]));
        let read = || StoredAnswers::read(&cache.read(&name, MOST as u64).ok()?, &key);
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
            let others = stored.filter(|stored| stored.len() <= MOST_AGAIN);
            let file = others.and_then(|others| encode_all(&key, answers(), others));
            if let Some(file) = file.or_else(|| encode(&key, answers())) {
                // Where nothing can be stored, the next run takes as long.
                let written = cache.write(&name, &file);
                written.and_then(|()| cache.limit(PREFIX, MOST_OF_ALL)).ok();
            }
        }
        found
    }
}

/// Makes the file of these answers and of the others that are stored. `None` if it would be too long.
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

/// Returns what answers depend on: the files, the details that were asked for, and this program. `None` if the latter cannot be told.
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
