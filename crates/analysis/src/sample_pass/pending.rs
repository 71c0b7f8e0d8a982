//! Pending samples: parsed, but not yet aggregated.

use rprof_processes::SpaceId;
use rprof_records::{Callchain, ContextMarker, CpuMode, Endian, Sample};

use crate::location::leaf;
use crate::sample_pass::fingerprint::{FingerprintKeys, ListFingerprint};

/// Callchain of a sample, by its source.
#[derive(Clone)]
pub(crate) enum Chain<'c> {
    /// Chain in this machine's byte order.
    Raw(&'c [[u8; 8]]),
    /// Copied: from the other byte order, several pieces, or deferred parts.
    Turned(Box<[u64]>),
    /// Chain of the unwinder or LBR, leaf first.
    Words(&'c [u64]),
    /// Sample's address, without a callchain.
    Ip(u64),
}

impl Chain<'_> {
    /// Makes a chain of a sample without callchain: its address, or nothing for a wait without a
    /// stack.
    pub(crate) fn of_address(ip: u64, is_wait: bool) -> Self {
        match is_wait && ip == 0 {
            true => Chain::Words(&[]),
            false => Chain::Ip(ip),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct SampledThread {
    pub(crate) space: SpaceId,
    pub(crate) time: u64,
    pub(crate) pid: i32,
    /// Samples of one state (mappings, name, JIT epoch) resolve and group alike.
    pub(crate) state: u32,
}

pub(crate) struct PendingSample<'c> {
    pub(crate) chain: Chain<'c>,
    pub(crate) thread: SampledThread,
    /// Id of its group without the stack: see `SampleGroups`.
    pub(crate) context: u32,
    pub(crate) weight: u64,
    pub(crate) leaf: Option<(u64, CpuMode)>,
    pub(crate) fingerprint: ListFingerprint,
    pub(crate) skip: usize,
    pub(crate) mode: CpuMode,
}

impl<'c> Chain<'c> {
    pub(crate) fn recorded(chain: Callchain<'c>, endian: Endian) -> Chain<'c> {
        let bytes = chain.raw().in_one_piece();
        match bytes.filter(|_| endian == Endian::NATIVE) {
            Some(bytes) => Chain::Raw(bytes.as_chunks::<8>().0),
            None => Chain::Turned(chain.iter().collect()),
        }
    }
}

impl<'c> PendingSample<'c> {
    /// Splits `chain` into leaf and callers, and hashes the callers. `mode` is its initial mode.
    #[inline]
    pub(crate) fn new(
        chain: Chain<'c>,
        mode: CpuMode,
        thread: SampledThread,
        (context, weight): (u32, u64),
        fingerprint_keys: &FingerprintKeys,
    ) -> PendingSample<'c> {
        let word = |word: &[u8; 8]| u64::from_ne_bytes(*word);
        let of = |leaf: Option<(u64, CpuMode, usize)>| match leaf {
            Some((address, mode, skip)) => (Some((address, mode)), mode, skip),
            None => (None, mode, usize::MAX),
        };
        let seed = |mode: CpuMode| u64::from(thread.state) << 32 | mode as u64;
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
            // Never a marker, even in the markers' range.
            Chain::Ip(ip) => ((Some((*ip, mode)), mode, usize::MAX), none(mode)),
        };
        let (leaf, mode, skip) = found;
        PendingSample {
            chain,
            thread,
            context,
            weight,
            leaf,
            fingerprint,
            skip,
            mode,
        }
    }

    /// Reads only the leaf.
    #[inline]
    pub(crate) fn of_leaf(
        chain: &Chain<'c>,
        mode: CpuMode,
        thread: SampledThread,
        (context, weight): (u32, u64),
        fingerprint_keys: &FingerprintKeys,
    ) -> PendingSample<'c> {
        let found = match chain {
            Chain::Raw(words) => {
                let words = words.iter().map(|word| u64::from_ne_bytes(*word));
                leaf(words, mode)
            }
            Chain::Words(words) => leaf(words.iter().copied(), mode),
            Chain::Turned(words) => leaf(words.iter().copied(), mode),
            Chain::Ip(ip) => Some((*ip, mode, 0)),
        };
        PendingSample {
            chain: Chain::Words(&[]),
            thread,
            context,
            weight,
            leaf: found.map(|(address, mode, _)| (address, mode)),
            fingerprint: fingerprint_keys.of(0, std::iter::empty()),
            skip: usize::MAX,
            mode,
        }
    }

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

/// Returns the callchain without its cookie, if it has an address. For stack dumps without kernel
/// frames, the kernel writes only a marker.
#[inline]
pub(crate) fn callchain<'a>(sample: &Sample<'a>) -> Option<Callchain<'a>> {
    let chain = sample.callchain()?.without_cookie();
    (chain.iter().any(|entry| !ContextMarker::is_marker(entry))).then_some(chain)
}
