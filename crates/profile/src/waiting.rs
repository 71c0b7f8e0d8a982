//! Samples on their way to be counted.

use rprof_processes::{Moment, SpaceId};
use rprof_records::{Callchain, ContextMarker, CpuMode, Misc, Sample};

use crate::identity::{Identities, Identity};
use crate::location::Location;
use crate::unwind::StackEnd;

/// The callchain of a sample: what it was found in decides how its words are read.
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

impl Chain<'_> {
    #[inline]
    fn identity(&self, identities: &Identities, seed: u64) -> Identity {
        match self {
            Chain::Recorded(chain) => match chain.raw().in_one_piece() {
                Some(bytes) => {
                    let (words, _) = bytes.as_chunks::<8>();
                    identities.of(seed, words.iter().map(|w| u64::from_ne_bytes(*w)))
                }
                None => identities.of(seed, chain.iter()),
            },
            Chain::Raw(words) => identities.of(seed, words.iter().map(|w| u64::from_ne_bytes(*w))),
            Chain::Words(words) => identities.of(seed, words.iter().copied()),
            Chain::Ip(ip) => identities.of(seed, std::iter::once(*ip)),
        }
    }
}

/// A sample that is to be counted.
pub(crate) struct Waiting<'c> {
    pub(crate) taken: Taken<'c>,
    pub(crate) event: u32,
    pub(crate) weight: u64,
    pub(crate) identity: Identity,
}

/// A sample's thread and stack, as far as they decide where it is counted.
pub(crate) struct Taken<'c> {
    pub(crate) chain: Chain<'c>,
    pub(crate) moment: Moment,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) misc: Misc,
    pub(crate) end: StackEnd,
    pub(crate) time: u64,
    /// Number of all that is the same for many samples of the thread.
    pub(crate) task: u32,
}

/// The process that addresses are meant in.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    pub(crate) space: SpaceId,
    pub(crate) time: u64,
    pub(crate) pid: i32,
}

/// A sample that was not seen before, on its way to a stack.
pub(crate) struct Fresh {
    pub(crate) leaf: Option<Location>,
    /// Where its callers stand in the worker's words.
    pub(crate) callers: std::ops::Range<usize>,
    /// That of the callers.
    pub(crate) identity: Identity,
    pub(crate) task: Task,
    /// That of all that is the same for many samples of the thread.
    pub(crate) number: u32,
    /// The mode at the first of the callers.
    pub(crate) mode: CpuMode,
    /// The number of the callers' list, if it is known.
    pub(crate) list: Option<u32>,
    pub(crate) stack: u32,
    pub(crate) group: u32,
}

impl Taken<'_> {
    #[inline]
    pub(crate) fn identity(&self, identities: &Identities, event: u32) -> Identity {
        let kind = match self.chain {
            Chain::Ip(_) => 0,
            Chain::Recorded(_) | Chain::Raw(_) | Chain::Words(_) => 1,
        };
        let seed = u64::from(self.task) << 32
            | u64::from(event & 0xff_ffff) << 8
            | u64::from(self.misc.0 & 7) << 5
            | (self.end as u64) << 1
            | kind;
        self.chain.identity(identities, seed)
    }
}

/// The callchain, if it has an address. Where an unwinder shall find the user side, the
/// kernel writes a marker and nothing behind it.
#[inline]
pub(crate) fn callchain<'a>(sample: &Sample<'a>) -> Option<Callchain<'a>> {
    (sample.callchain()).filter(|c| c.iter().any(|e| !ContextMarker::is_marker(e)))
}
