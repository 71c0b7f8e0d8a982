//! Sample weights by address in selected functions, for annotated listings.

use rustc_hash::FxHashMap;

use crate::frame::{Frame, FrameId};
use crate::model::Profile;
use crate::views::top::WeighBy;

/// Samples of one event with equal addresses in the selected functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressHit {
    /// Sorted, distinct [lookup addresses](crate::FrameAddress::lookup_address) in the selected
    /// functions.
    pub addresses: Box<[u64]>,
    /// Sampled address, if it lies in the selected functions.
    pub leaf: Option<u64>,
    /// Sum of the weights.
    pub weight: u64,
    /// Number of samples with these addresses.
    pub samples: u64,
}

/// Addresses and leaf address of a hit.
type Place = (Box<[u64]>, Option<u64>);

/// Sums an event's samples by their addresses in frames that `is_wanted` accepts.
///
/// Inlined calls have the address of their enclosing function. The result is sorted by address, and
/// empty without addresses in the profile.
pub fn address_hits(
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    is_wanted: impl Fn(&Frame) -> bool,
) -> Vec<AddressHit> {
    let Some(frames) = &profile.frames else {
        return Vec::new();
    };
    let wanted: Vec<bool> = frames.iter().map(&is_wanted).collect();
    let is_wanted = |id: &FrameId| wanted.get(id.0 as usize).is_some_and(|wanted| *wanted);
    let address = |id: FrameId| Some(profile.frame(id).address?.lookup_address());
    let mut sums: FxHashMap<Place, (u64, u64)> = FxHashMap::default();
    let mut found = Vec::new();
    for entry in profile.aggregated.iter().filter(|e| e.event == event) {
        found.clear();
        found.extend(
            profile
                .frames(entry.stack)
                .filter(&is_wanted)
                .filter_map(address),
        );
        if found.is_empty() {
            continue;
        }
        let leaf = innermost(profile, entry.stack)
            .find(&is_wanted)
            .and_then(address);
        found.sort_unstable();
        found.dedup();
        let amount = match weight {
            WeighBy::Period => entry.weight,
            WeighBy::Samples => entry.samples,
        };
        let sum = sums.entry((found.as_slice().into(), leaf)).or_default();
        sum.0 = sum.0.saturating_add(amount);
        sum.1 = sum.1.saturating_add(entry.samples);
    }
    let mut hits: Vec<AddressHit> = (sums.into_iter())
        .map(|((addresses, leaf), (weight, samples))| AddressHit {
            addresses,
            leaf,
            weight,
            samples,
        })
        .collect();
    hits.sort_unstable_by(|a, b| (&a.addresses, a.leaf).cmp(&(&b.addresses, b.leaf)));
    hits
}

/// Iterates over the frames at a stack's leaf address: inlined calls, innermost first, then their
/// enclosing function.
pub fn innermost(profile: &Profile, stack: crate::StackId) -> impl Iterator<Item = FrameId> + '_ {
    let mut is_over = false;
    profile.frames(stack).rev().take_while(move |id| {
        let goes_on = !is_over;
        is_over |= profile.frame(*id).inline_depth == 0;
        goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameAddress, ProfileBuilder, WeightUnit};

    #[test]
    fn addresses_of_callers_lie_in_the_call_and_recursion_counts_once() {
        let mut builder = ProfileBuilder::with_addresses();
        let event = builder.add_event("cycles", WeightUnit::of_event("cycles"));
        let (thread, object) = (builder.intern_thread_name("t"), builder.intern_object("o"));
        let [main, inlined] =
            ["main", "inlined"].map(|name| builder.intern_function(Ok(name), object));
        let mut frame = |function, address, inline_depth| {
            builder.intern_frame(Frame {
                address: Some(address),
                inline_depth,
                ..Frame::of(function)
            })
        };
        let call = frame(main, FrameAddress::ReturnAddress(0x15), 0);
        let outer = frame(main, FrameAddress::InstructionPointer(0x20), 0);
        let inner = frame(inlined, FrameAddress::InstructionPointer(0x20), 1);
        let recursive = builder.intern_stack(&[call, call, outer, inner]);
        let plain = builder.intern_stack(&[outer, inner]);
        builder.add_samples(event, thread, recursive, 2, 10);
        builder.add_samples(event, thread, plain, 1, 7);
        let profile = builder.finish();
        let hits = |function| {
            address_hits(&profile, 0, WeighBy::Period, |frame| {
                frame.function == function
            })
        };
        let expected = |addresses: &[u64], leaf, weight, samples| AddressHit {
            addresses: addresses.into(),
            leaf,
            weight,
            samples,
        };
        assert_eq!(
            hits(main),
            [
                expected(&[0x14, 0x20], Some(0x20), 10, 2),
                expected(&[0x20], Some(0x20), 7, 1)
            ]
        );
        assert_eq!(hits(inlined), [expected(&[0x20], Some(0x20), 17, 3)]);
    }
}
