//! Samples on their way to be counted.

use rprof_processes::SpaceId;
use rprof_records::{Callchain, ContextMarker, CpuMode, Sample};

use crate::identity::{Identities, Identity};
use crate::location::{Location, Place, leaf};
use crate::stacks::NO_LEAF;

/// The callchain of a sample: what it was found in decides how its words are read.
#[derive(Clone, Copy)]
pub(crate) enum Chain<'c> {
    /// As recorded.
    Recorded(Callchain<'c>),
    /// As recorded, in this machine's byte order.
    Raw(&'c [[u8; 8]]),
    /// As found out.
    Words(&'c [u64]),
    /// None: where the sample was taken.
    Ip(u64),
}

/// The process that addresses are meant in.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) space: SpaceId,
    pub(crate) time: u64,
    pub(crate) pid: i32,
    /// Number of all that is the same for many samples of the thread.
    pub(crate) number: u32,
}

/// A sample that is to be counted, and what has been found out of it.
pub(crate) struct Waiting<'c> {
    pub(crate) chain: Chain<'c>,
    pub(crate) task: Task,
    /// Number of what it is counted under beside its stack.
    pub(crate) context: u32,
    pub(crate) weight: u64,
    /// The address of its leaf, and the mode that is meant in.
    pub(crate) leaf: Option<(u64, CpuMode)>,
    /// That of the callers.
    pub(crate) identity: Identity,
    /// Words of the chain before the callers.
    pub(crate) skip: usize,
    /// The mode at the first of the callers.
    pub(crate) mode: CpuMode,
    /// Where its leaf lies; of no meaning without one.
    pub(crate) location: Location,
    /// The number of that.
    pub(crate) number: u32,
    /// The number of the callers' list, if it is known.
    pub(crate) list: Option<u32>,
}

impl<'c> Waiting<'c> {
    /// Of a chain that is meant in a mode to begin with.
    #[inline]
    pub(crate) fn new(
        chain: Chain<'c>,
        mode: CpuMode,
        task: Task,
        (context, weight): (u32, u64),
        identities: &Identities,
    ) -> Waiting<'c> {
        let word = |word: &[u8; 8]| u64::from_ne_bytes(*word);
        let of = |leaf: Option<(u64, CpuMode, usize)>| match leaf {
            Some((address, mode, skip)) => (Some((address, mode)), mode, skip),
            None => (None, mode, usize::MAX),
        };
        let seed = |mode: CpuMode| u64::from(task.number) << 32 | mode as u64;
        let none = |mode| identities.of(seed(mode), std::iter::empty());
        let (found, identity) = match &chain {
            Chain::Recorded(chain) => {
                let found = of(leaf(chain.iter(), mode));
                (
                    found,
                    identities.of(seed(found.1), chain.iter().skip(found.2)),
                )
            }
            Chain::Raw(words) => {
                let found = of(leaf(words.iter().map(word), mode));
                let rest = words.get(found.2..).unwrap_or_default();
                (found, identities.of(seed(found.1), rest.iter().map(word)))
            }
            Chain::Words(words) => {
                let found = of(leaf(words.iter().copied(), mode));
                let rest = words.get(found.2..).unwrap_or_default();
                (found, identities.of(seed(found.1), rest.iter().copied()))
            }
            // An address in the markers' range is one here.
            Chain::Ip(ip) => ((Some((*ip, mode)), mode, usize::MAX), none(mode)),
        };
        let (leaf, mode, skip) = found;
        Waiting {
            chain,
            task,
            context,
            weight,
            leaf,
            identity,
            skip,
            mode,
            location: Location {
                place: Place::Unmapped,
                lookup: 0,
                caller: false,
            },
            number: NO_LEAF,
            list: None,
        }
    }

    /// The words of the callers.
    pub(crate) fn callers(&self, words: &mut Vec<u64>) {
        words.clear();
        match &self.chain {
            Chain::Recorded(chain) => words.extend(chain.iter().skip(self.skip)),
            Chain::Raw(raw) => {
                let raw = raw.get(self.skip..).unwrap_or_default();
                words.extend(raw.iter().map(|word| u64::from_ne_bytes(*word)));
            }
            Chain::Words(all) => words.extend(all.get(self.skip..).unwrap_or_default()),
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
