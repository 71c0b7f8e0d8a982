//! Distinct frame names, ranked in the order of folded lines.

use std::cmp::Ordering;

use rprof_parallel::map_ranges;
use rprof_profile::{FunctionId, Profile};
use rustc_hash::FxHashMap;

use crate::frame_kind::without_annotation;
use crate::frame_text::{frame_name, shown_name, thread_name};
use crate::names::CleanNames;
use crate::threads::ThreadMerging;

/// Minimum number of elements per thread.
pub(crate) const FEW: usize = 4096;

pub(crate) struct FrameNames {
    pub(crate) distinct: Vec<String>,
    pub(crate) functions: Vec<u32>,
    pub(crate) threads: Vec<u32>,
}

/// Ranks of names in line order. A name has an inner rank, as if `;` followed, and a rank at the
/// end of a stack.
pub(crate) struct Ranks {
    pub(crate) inner: Vec<u32>,
    pub(crate) last: Vec<u32>,
}

impl FrameNames {
    /// Collects the names of a profile. With `merging`, prepares them for a graph, without
    /// annotations.
    pub(crate) fn of(profile: &Profile, merging: Option<&ThreadMerging>) -> FrameNames {
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        numbers.reserve(profile.functions.len());
        let mut number = |name: String| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        };
        let names = map_ranges(profile.functions.len(), FEW, |part| {
            let ids = part.map(|n| FunctionId(n as u32));
            let name = |id| match (merging, profile.is_folded) {
                (Some(_), true) => without_annotation(&shown_name(profile, id)).to_owned(),
                (Some(_), false) => shown_name(profile, id),
                (None, _) => frame_name(profile, id),
            };
            ids.map(name).collect::<Vec<_>>()
        });
        let functions = names.into_iter().flatten().map(&mut number).collect();
        let clean = CleanNames::new(profile);
        let comms = 0..profile.comms.len() as u32;
        let threads = comms.map(|comm| thread_name(&clean.comm(comm)));
        let threads: Vec<String> = match merging {
            // Requests that differ by a number are different.
            Some(merging) if profile.request_key.is_none() => {
                merging.merge(&threads.collect::<Vec<_>>())
            }
            _ => threads.collect(),
        };
        let threads = threads.into_iter().map(&mut number).collect();
        let mut distinct = vec![String::new(); numbers.len()];
        for (name, number) in numbers {
            distinct[number as usize] = name;
        }
        FrameNames {
            distinct,
            functions,
            threads,
        }
    }

    /// Returns the ranks by name number, and the name numbers by rank.
    pub(crate) fn rank(&self) -> (Ranks, Vec<u32>) {
        let name = |number: u32| self.distinct[number as usize].as_bytes();
        let mut all: Vec<(u64, u32, bool)> = Vec::with_capacity(2 * self.distinct.len());
        for (number, name) in (0..).zip(&self.distinct) {
            for is_inner in [false, true] {
                let mut bytes = name.bytes().chain(is_inner.then_some(b';'));
                let head = [(); 8].map(|()| bytes.next().unwrap_or(0));
                all.push((u64::from_be_bytes(head), number, is_inner));
            }
        }
        // The first bytes decide most comparisons.
        all.sort_unstable_by(|a, b| {
            let rest = || in_line_order((name(a.1), a.2), (name(b.1), b.2));
            a.0.cmp(&b.0).then_with(rest)
        });
        let mut ranks = Ranks {
            inner: vec![0; self.distinct.len()],
            last: vec![0; self.distinct.len()],
        };
        for (rank, (_, number, is_inner)) in (0u32..).zip(&all) {
            let ranks = match is_inner {
                true => &mut ranks.inner,
                false => &mut ranks.last,
            };
            ranks[*number as usize] = rank;
        }
        let numbers = all.into_iter().map(|(_, number, _)| number);
        (ranks, numbers.collect())
    }
}

/// Compares two names. An inner name compares as if a `;` followed.
fn in_line_order(a: (&[u8], bool), b: (&[u8], bool)) -> Ordering {
    let common = a.0.len().min(b.0.len());
    let next = |(name, is_inner): (&[u8], bool)| match name.get(common) {
        Some(byte) => Some(*byte),
        None => is_inner.then_some(b';'),
    };
    let begin = a.0[..common].cmp(&b.0[..common]);
    // Names of folded lines contain no `;`, so equal next bytes mean equal names. Those of graphs may,
    // and any order will do.
    begin.then_with(|| next(a).cmp(&next(b)))
}
