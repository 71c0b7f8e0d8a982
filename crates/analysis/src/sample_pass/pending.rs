//! Samples on their way to be counted.

use rprof_processes::SpaceId;
use rprof_records::{Callchain, ContextMarker, CpuMode, Endian, Sample};

use crate::location::leaf;
use crate::sample_pass::fingerprint::{FingerprintKeys, ListFingerprint};

/// The callchain of a sample: what it was found in decides how its words are read.
#[derive(Clone)]
pub(crate) enum Chain<'c> {
    /// As recorded, in this machine's byte order.
    Raw(&'c [[u8; 8]]),
    /// As recorded, in the other.
    Turned(Box<[u64]>),
    /// As found out.
    Words(&'c [u64]),
    /// None: where the sample was taken.
    Ip(u64),
}

/// The process that addresses are meant in.
#[derive(Clone, Copy)]
pub(crate) struct SampledThread {
    pub(crate) space: SpaceId,
    pub(crate) time: u64,
    pub(crate) pid: i32,
    /// Number of all that is the same for many samples of the thread.
    pub(crate) number: u32,
}

/// A sample that is to be counted.
pub(crate) struct PendingSample<'c> {
    pub(crate) chain: Chain<'c>,
    pub(crate) task: SampledThread,
    /// Number of what it is counted under beside its stack.
    pub(crate) context: u32,
    pub(crate) weight: u64,
    /// The address of its leaf, and the mode that is meant in.
    pub(crate) leaf: Option<(u64, CpuMode)>,
    /// That of the callers.
    pub(crate) fingerprint: ListFingerprint,
    /// Words of the chain before the callers.
    pub(crate) skip: usize,
    /// The mode at the first of the callers.
    pub(crate) mode: CpuMode,
}

impl<'c> Chain<'c> {
    /// One that was recorded in a byte order.
    pub(crate) fn recorded(chain: Callchain<'c>, endian: Endian) -> Chain<'c> {
        let bytes = chain.raw().in_one_piece();
        match bytes.filter(|_| endian == Endian::NATIVE) {
            Some(bytes) => Chain::Raw(bytes.as_chunks::<8>().0),
            None => Chain::Turned(chain.iter().collect()),
        }
    }
}

impl<'c> PendingSample<'c> {
    /// Of a chain that is meant in a mode to begin with.
    #[inline]
    pub(crate) fn new(
        chain: Chain<'c>,
        mode: CpuMode,
        task: SampledThread,
        (context, weight): (u32, u64),
        fingerprint_keys: &FingerprintKeys,
    ) -> PendingSample<'c> {
        let word = |word: &[u8; 8]| u64::from_ne_bytes(*word);
        let of = |leaf: Option<(u64, CpuMode, usize)>| match leaf {
            Some((address, mode, skip)) => (Some((address, mode)), mode, skip),
            None => (None, mode, usize::MAX),
        };
        let seed = |mode: CpuMode| u64::from(task.number) << 32 | mode as u64;
        let none = |mode| fingerprint_keys.of(seed(mode), std::iter::empty());
        let of_words = |words: &[u64]| {
            let found = of(leaf(words.iter().copied(), mode));
            let rest = words.get(found.2..).unwrap_or_default();
            (
                found,
                fingerprint_keys.of(seed(found.1), rest.iter().copied()),
            )
        };
        let (found, fingerprint) = match &chain {
            Chain::Raw(words) => {
                let found = of(leaf(words.iter().map(word), mode));
                let rest = words.get(found.2..).unwrap_or_default();
                (
                    found,
                    fingerprint_keys.of(seed(found.1), rest.iter().map(word)),
                )
            }
            Chain::Words(words) => of_words(words),
            Chain::Turned(words) => of_words(words),
            // An address in the markers' range is one here.
            Chain::Ip(ip) => ((Some((*ip, mode)), mode, usize::MAX), none(mode)),
        };
        let (leaf, mode, skip) = found;
        PendingSample {
            chain,
            task,
            context,
            weight,
            leaf,
            fingerprint,
            skip,
            mode,
        }
    }

    /// The words of the callers.
    pub(crate) fn callers(&self, words: &mut Vec<u64>) {
        words.clear();
        match &self.chain {
            Chain::Raw(raw) => {
                let raw = raw.get(self.skip..).unwrap_or_default();
                words.extend(raw.iter().map(|word| u64::from_ne_bytes(*word)));
            }
            Chain::Words(all) => words.extend(all.get(self.skip..).unwrap_or_default()),
            Chain::Turned(all) => words.extend(all.get(self.skip..).unwrap_or_default()),
            Chain::Ip(_) => {}
        }
    }
}

/// The callchain, if it has an address. Where an unwinder shall find the user side, the
/// kernel writes a marker and nothing behind it.
#[inline]
pub(crate) fn callchain<'a>(sample: &Sample<'a>) -> Option<Callchain<'a>> {
    (sample.callchain()).filter(|c| c.iter().any(|e| !ContextMarker::is_marker(e)))
}
