//! [`AnnotatedCode`]: a function to annotate.

use std::collections::BTreeMap;

use rprof_profile::pattern::matches_function;
use rprof_profile::views::address_hits::innermost;
use rprof_profile::{Function, FunctionId, ObjectId, Profile, WeighBy};

use crate::amount::Amount;

/// Function to annotate: one object's code with the parts that a compiler split off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedCode {
    /// Name; `None` for unnamed code. May contain any character.
    pub name: Option<Box<str>>,
    /// Object that contains its code.
    pub object: ObjectId,
    /// Functions of the profile: this one and its split-off parts.
    pub functions: Vec<FunctionId>,
    /// True if the function exists only as inlined calls.
    pub is_inlined: bool,
    /// Samples of the function.
    pub amount: Amount,
}

/// Returns the hottest functions by self until they reach `share` of all samples, at most `most`.
/// Inlined calls belong to the containing function.
pub fn hottest(
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    most: usize,
    share: f64,
) -> Vec<AnnotatedCode> {
    let mut subjects = subjects(profile, event, weight, |_| true, false);
    subjects.retain(|subject| subject.amount.own > 0);
    let whole: u64 = subjects.iter().map(|subject| subject.amount.own).sum();
    let enough = (whole as f64 * share) as u64;
    let mut sum = 0u64;
    let count = subjects.iter().take_while(|subject| {
        let goes_on = sum < enough;
        sum = sum.saturating_add(subject.amount.own);
        goes_on
    });
    let count = count.count().min(most);
    subjects.truncate(count);
    subjects
}

/// Returns the functions that match a name or [pattern](rprof_profile::pattern), hottest first. If
/// none has own code, returns functions that exist only as inlined calls.
pub fn named(profile: &Profile, event: usize, weight: WeighBy, name: &str) -> Vec<AnnotatedCode> {
    let is_it = |function: &Function| {
        (function.name.as_deref())
            .is_ok_and(|found| matches_function(name, found) || is_part(found, name))
    };
    let found = subjects(profile, event, weight, is_it, false);
    if !found.is_empty() {
        return found;
    }
    subjects(profile, event, weight, is_it, true)
}

/// Returns true for a split-off part's name: `sort.cold`, `sort.part.0`.
fn is_part(name: &str, whole: &str) -> bool {
    let Some(rest) = name.strip_prefix(whole) else {
        return false;
    };
    [".cold", ".part", " [clone .cold", " [clone .part"]
        .iter()
        .any(|mark| rest.starts_with(mark))
}

fn whole_of(name: &str) -> &str {
    let marks = [".cold", ".part", " [clone .cold", " [clone .part"];
    let cut = marks.iter().filter_map(|mark| name.find(mark)).min();
    cut.filter(|at| *at > 0).map_or(name, |at| &name[..at])
}

fn subjects(
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    is_wanted: impl Fn(&Function) -> bool,
    inlined: bool,
) -> Vec<AnnotatedCode> {
    let mut by_name: BTreeMap<(Option<&str>, ObjectId), Vec<FunctionId>> = BTreeMap::new();
    for (id, function) in (0..).zip(&profile.functions) {
        if is_wanted(function) {
            let name = function.name.as_deref().ok().map(whole_of);
            let same = by_name.entry((name, function.object)).or_default();
            same.push(FunctionId(id));
        }
    }
    let mut number = vec![usize::MAX; profile.functions.len()];
    for (at, functions) in by_name.values().enumerate() {
        for function in functions {
            number[function.0 as usize] = at;
        }
    }
    let mut amounts = vec![Amount::default(); by_name.len()];
    // Number of the last entry that each subject counted.
    let mut counted = vec![0; by_name.len()];
    let entries = profile.aggregated.iter().filter(|e| e.event == event);
    for (entry, count) in entries.zip(1..) {
        let amount = match weight {
            WeighBy::Period => entry.weight,
            WeighBy::Samples => entry.samples,
        };
        let subject = |frame: rprof_profile::Frame| {
            let is_here = inlined || frame.inline_depth == 0;
            let number = number.get(frame.function.0 as usize).copied();
            number.filter(|number| is_here && *number != usize::MAX)
        };
        for id in profile.frames(entry.stack) {
            if let Some(at) = subject(profile.frame(id))
                && std::mem::replace(&mut counted[at], count) != count
            {
                amounts[at] += Amount::of(amount, entry.samples, false);
            }
        }
        let mut leaves: Vec<usize> = innermost(profile, entry.stack)
            .filter_map(|id| subject(profile.frame(id)))
            .collect();
        leaves.sort_unstable();
        leaves.dedup();
        for at in leaves {
            amounts[at].own = amounts[at].own.saturating_add(amount);
            amounts[at].own_samples += entry.samples;
        }
    }
    let mut subjects: Vec<AnnotatedCode> = (by_name.into_iter().zip(amounts))
        .filter(|(_, amount)| amount.total > 0)
        .map(|(((name, object), functions), amount)| AnnotatedCode {
            name: name.map(Into::into),
            object,
            functions,
            is_inlined: inlined,
            amount,
        })
        .collect();
    subjects.sort_by_key(|s| (u64::MAX - s.amount.own, u64::MAX - s.amount.total));
    subjects
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Frame, FrameAddress, ProfileBuilder, WeightUnit};

    /// Samples: 60 in `hot`, called by main; 30 in `hot.cold`; 10 in `tiny`, inlined into main.
    fn profile() -> Profile {
        let mut builder = ProfileBuilder::with_addresses();
        let event = builder.add_event("cycles", WeightUnit::of_event("cycles"));
        let (thread, object) = (builder.intern_thread_name("t"), builder.intern_object("o"));
        let [main, hot, cold, tiny] = ["main", "hot", "hot.cold", "tiny"]
            .map(|name| builder.intern_function(Ok(name), object));
        let mut frame = |function, address, inline_depth| {
            builder.intern_frame(Frame {
                address: Some(address),
                inline_depth,
                ..Frame::of(function)
            })
        };
        use FrameAddress::{InstructionPointer as At, ReturnAddress as Behind};
        let call = frame(main, Behind(0x15), 0);
        let stacks = [
            (vec![call, frame(hot, At(0x100), 0)], 60),
            (vec![call, frame(cold, At(0x900), 0)], 30),
            (vec![frame(main, At(0x20), 0), frame(tiny, At(0x20), 1)], 10),
        ];
        for (frames, weight) in stacks {
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, weight, weight);
        }
        builder.finish()
    }

    #[test]
    fn parts_belong_to_their_function_and_inlined_calls_to_where_they_are() {
        let profile = profile();
        let name = |s: &AnnotatedCode| s.name.as_deref().unwrap_or("?").to_owned();
        let all = hottest(&profile, 0, WeighBy::Period, 10, 1.0);
        let found: Vec<_> = all
            .iter()
            .map(|s| (name(s), s.amount.own, s.amount.total))
            .collect();
        assert_eq!(found, [("hot".into(), 90, 90), ("main".into(), 10, 100)]);
        assert_eq!(hottest(&profile, 0, WeighBy::Period, 10, 0.8).len(), 1);
        assert_eq!(hottest(&profile, 0, WeighBy::Period, 1, 1.0).len(), 1);
    }

    #[test]
    fn functions_are_found_by_name_also_where_they_are_only_inlined() {
        let profile = profile();
        let find = |text| named(&profile, 0, WeighBy::Period, text);
        assert_eq!(find("hot")[0].functions.len(), 2);
        assert_eq!(find("h*").len(), 1);
        let tiny = find("tiny");
        assert!(tiny[0].is_inlined && tiny[0].amount.own == 10);
        assert!(!find("main")[0].is_inlined);
        assert!(find("ho").is_empty() && find("x+0x1").is_empty());
    }
}
