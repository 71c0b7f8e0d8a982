//! [`merge`]: merges profiles. [`callers_of`]: truncates stacks at a function.

use rustc_hash::FxHashMap;

use crate::builder::ProfileBuilder;
use crate::frame::{
    FileId, Frame, FrameId, Function, FunctionId, Line, Object, ObjectId, ObjectKind,
    SourceFunction,
};
use crate::model::{EventSummary, Profile};
use crate::quality::Quality;
use crate::samples::Thread;
use crate::stacks::StackId;

/// Merges profiles as if one recording had all their samples.
///
/// Equal events share name and unit, functions name and object, objects name and kind. Weights,
/// losses and qualities add up. Frames keep addresses or inlining only if all profiles have them.
/// Single samples are dropped: each recording has its own clock.
///
/// # Examples
///
/// ```
/// use rprof_profile::{ProfileBuilder, WeightUnit, merge};
///
/// let one = |weight| {
///     let mut builder = ProfileBuilder::new();
///     let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
///     let object = builder.intern_object("/usr/bin/sort");
///     let main = builder.intern_function(Ok("main"), object);
///     let thread = builder.intern_thread_name("sort");
///     let stack = builder.intern_stack(&[main]);
///     builder.add_samples(event, thread, stack, 1, weight);
///     builder.finish()
/// };
/// let both = merge(vec![one(3), one(4)]);
/// assert_eq!((both.events.len(), both.functions.len()), (1, 1));
/// assert_eq!((both.events[0].samples, both.events[0].weight), (2, 7));
/// ```
pub fn merge(mut profiles: Vec<Profile>) -> Profile {
    if profiles.len() == 1
        && let Some(only) = profiles.pop()
    {
        return only;
    }
    let mut builder = builder_like(&profiles);
    let (mut merging, mut quality) = (Merging::default(), Quality::default());
    for profile in &profiles {
        merging.add(&mut builder, profile, |_| usize::MAX);
        quality.add(&profile.quality);
    }
    // Unknown if one profile lacks it.
    let times = profiles.iter().map(|profile| profile.quality.cpu_time);
    quality.cpu_time = times.reduce(|sum, more| Some(sum?.plus(&more?))).flatten();
    builder.set_callchains(profiles.iter().any(|profile| profile.has_callchains));
    builder.set_leaves_only(profiles.iter().any(|profile| profile.leaves_only));
    let widest = |(a, b): (u64, u64), (c, d): (u64, u64)| (a.min(c), b.max(d));
    let times = profiles.iter().filter_map(|profile| profile.time);
    builder.set_time(times.reduce(widest));
    let times = profiles.iter().filter_map(|profile| profile.wall_time);
    builder.set_wall_time(times.reduce(widest));
    builder.finish_with_quality(quality)
}

/// Truncates stacks at the outermost call of the given functions, keeping their callers.
///
/// `keeps_callee` also keeps the function as the leaf. Stacks without such a function are dropped.
/// The quality still describes whole stacks.
pub fn callers_of(
    profile: &Profile,
    is_callee: impl Fn(&Function) -> bool,
    keeps_callee: bool,
) -> Profile {
    let is_callee: Vec<bool> = profile.functions.iter().map(is_callee).collect();
    let length = |stack| {
        let outermost = profile.stack(stack).position(|id| is_callee[id.0 as usize]);
        outermost.map_or(0, |at| (at + usize::from(keeps_callee)).max(1))
    };
    let mut builder = builder_like(std::slice::from_ref(profile));
    Merging::default().add(&mut builder, profile, length);
    builder.set_callchains(profile.has_callchains);
    builder.set_leaves_only(profile.leaves_only);
    builder.set_time(profile.time);
    builder.set_wall_time(profile.wall_time);
    builder.finish_with_quality(profile.quality.clone())
}

fn builder_like(profiles: &[Profile]) -> ProfileBuilder {
    let mut builder = match profiles.iter().all(Profile::has_addresses) {
        true => ProfileBuilder::with_addresses(),
        false if profiles.iter().all(Profile::tells_inlined) => ProfileBuilder::with_inlined(),
        false => ProfileBuilder::new(),
    };
    if !profiles.is_empty() && profiles.iter().all(|profile| profile.is_folded) {
        builder = builder.folded();
    }
    let Some(first) = profiles.first() else {
        return builder;
    };
    builder.set_request_key(first.request_key.as_deref());
    builder.source(&first.source)
}

#[derive(Default)]
struct Merging {
    objects: FxHashMap<(Box<str>, ObjectKind), ObjectId>,
    /// Name, unit and index.
    events: Vec<(String, String, usize)>,
}

impl Merging {
    /// Adds a profile's samples, truncated to `length` frames from the root. Length 0 drops a
    /// stack.
    fn add(
        &mut self,
        builder: &mut ProfileBuilder,
        profile: &Profile,
        length: impl Fn(StackId) -> usize,
    ) {
        let events: Vec<usize> = (profile.events.iter())
            .map(|event| {
                let index = self.event(builder, event);
                builder.add_lost(index, event.lost);
                index
            })
            .collect();
        let objects: Vec<ObjectId> = (profile.objects.iter())
            .map(|object| self.object(builder, object))
            .collect();
        let files: Vec<FileId> = profile
            .files
            .iter()
            .map(|f| builder.intern_file(f))
            .collect();
        let functions: Vec<FunctionId> = (profile.functions.iter())
            .map(|function| {
                let object = objects[function.object.0 as usize];
                // In another build, the address belongs to another function.
                let here = profile.objects[function.object.0 as usize].build_id;
                let is_same_build = builder.object(object).build_id == here;
                builder.add_function(moved_function(function, object, is_same_build, &files))
            })
            .collect();
        let comms: Vec<u32> = profile
            .comms
            .iter()
            .map(|c| builder.intern_comm(c))
            .collect();
        let threads: Vec<_> = (profile.threads.iter())
            .map(|thread| {
                builder.intern_thread(Thread {
                    comm: comms[thread.comm as usize],
                    process_comm: thread.process_comm.map(|comm| comms[comm as usize]),
                    ..*thread
                })
            })
            .collect();
        let mut frames: Vec<FrameId> = Vec::new();
        for entry in &profile.aggregated {
            let length = length(entry.stack);
            if length == 0 {
                continue;
            }
            frames.clear();
            frames.extend(profile.frames(entry.stack).take(length).map(|id| {
                let frame = profile.frame(id);
                builder.intern_frame(Frame {
                    function: functions[frame.function.0 as usize],
                    line: frame.line.map(|line| moved_line(line, &files)),
                    ..frame
                })
            }));
            let stack = builder.intern_stack(&frames);
            let thread = threads[entry.thread.0 as usize];
            builder.add_samples(
                events[entry.event],
                thread,
                stack,
                entry.samples,
                entry.weight,
            );
        }
    }

    fn event(&mut self, builder: &mut ProfileBuilder, event: &EventSummary) -> usize {
        let (name, unit) = (event.name.as_str(), event.unit.as_str());
        let known = self.events.iter().find(|(n, u, _)| n == name && u == unit);
        if let Some((.., index)) = known {
            return *index;
        }
        let index = builder.add_event(name, event.unit.clone());
        self.events.push((name.into(), unit.into(), index));
        index
    }

    /// The first build-id wins.
    fn object(&mut self, builder: &mut ProfileBuilder, object: &Object) -> ObjectId {
        let key = (object.name.clone(), object.kind);
        *(self.objects.entry(key)).or_insert_with(|| builder.add_object(object.clone()))
    }
}

/// Copies a function into another profile. A name that is an address is dropped in another build.
fn moved_function(
    function: &Function,
    object: ObjectId,
    is_same_build: bool,
    files: &[FileId],
) -> Function {
    let (name, located) = match (function.located, is_same_build) {
        (Some(reason), false) => (Err(reason), None),
        (located, _) => (function.name.clone(), located),
    };
    let source = function.source.as_deref().map(|source| SourceFunction {
        file: source.file.map(|file| files[file.0 as usize]),
        ..source.clone()
    });
    Function {
        name,
        located,
        object,
        position: function.position,
        line: function.line.map(|line| moved_line(line, files)),
        source: source.map(Box::new),
    }
}

fn moved_line(line: Line, files: &[FileId]) -> Line {
    Line {
        file: files[line.file.0 as usize],
        ..line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::WeightUnit;
    use rprof_image::Reason;

    fn profile(names: &[&str], events: &[&str], lost: u64) -> Profile {
        let mut builder = ProfileBuilder::new();
        let object = builder.intern_object("o");
        let thread = builder.intern_thread_name("t");
        let root = builder.intern_function(Ok("main"), object);
        for event in events {
            let event = builder.add_event(event, WeightUnit::Events);
            for name in names {
                let leaf = builder.intern_function(Ok(name), object);
                let stack = builder.intern_stack(&[root, leaf]);
                builder.add_samples(event, thread, stack, 2, 20);
            }
            builder.add_lost(event, lost);
        }
        let unnamed = builder.intern_function(Err(Reason::Stripped), object);
        let stack = builder.intern_stack(&[unnamed]);
        builder.add_samples(0, thread, stack, 1, 1);
        let mut profile = builder.finish();
        profile.quality.lost = lost;
        profile.quality.warnings = vec!["same".into()];
        profile
    }

    #[test]
    fn inlined_calls_stay_apart_if_all_profiles_tell_them() {
        let one = |mut builder: ProfileBuilder| {
            let object = builder.intern_object("o");
            let function = builder.intern_function(Ok("f"), object);
            let thread = builder.intern_thread_name("t");
            let event = builder.add_event("cycles", WeightUnit::Events);
            let frame = builder.intern_frame(Frame {
                inline_depth: 1,
                ..Frame::of(function)
            });
            let stack = builder.intern_stack(&[frame]);
            builder.add_samples(event, thread, stack, 1, 1);
            builder.finish()
        };
        let depth = |profile: &Profile| {
            let frame = profile.frames(profile.aggregated[0].stack).next().unwrap();
            profile.frame(frame).inline_depth
        };
        let inlined = || one(ProfileBuilder::with_inlined());
        assert_eq!(depth(&merge(vec![inlined(), inlined()])), 1);
        let plain = one(ProfileBuilder::new());
        assert_eq!(depth(&merge(vec![inlined(), plain])), 0);
    }

    #[test]
    fn merged_samples_losses_and_qualities_are_summed() {
        let both = merge(vec![
            profile(&["f", "g"], &["a"], 3),
            profile(&["g", "h"], &["b", "a"], 4),
        ]);
        let events: Vec<_> = (both.events.iter())
            .map(|e| (&*e.name, e.samples, e.weight, e.lost))
            .collect();
        assert_eq!(events, [("a", 9, 81, 7), ("b", 5, 41, 4)]);
        let stacks: std::collections::BTreeMap<String, u64> = (both.aggregated.iter())
            .filter(|entry| entry.event == 0)
            .map(|entry| {
                let names = both.stack(entry.stack);
                let names = names.map(|id| both.function(id).name.as_deref().unwrap_or("?"));
                (names.collect::<Vec<_>>().join(";"), entry.samples)
            })
            .collect();
        let expected = [("?", 1), ("main;f", 2), ("main;g", 4), ("main;h", 2)];
        let expected = expected.map(|(name, samples)| (name.to_owned(), samples));
        assert_eq!(stacks.into_iter().collect::<Vec<_>>(), expected);
        let q = &both.quality;
        assert_eq!((q.frames, q.named, q.lost), (26, 24, 7));
        assert_eq!(q.unnamed[&Reason::Stripped], 2);
        assert_eq!(q.worst, [("o".into(), Reason::Stripped, 2)]);
        assert_eq!(q.warnings, ["same"]);
    }

    #[test]
    fn callers_are_what_stands_outside_the_outermost_call() {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("a", WeightUnit::Events);
        let object = builder.intern_object("o");
        let thread = builder.intern_thread_name("t");
        let [main, f, g] = ["main", "f", "g"].map(|name| builder.intern_function(Ok(name), object));
        for (frames, weight) in [
            (&[main, f, g, f][..], 1),
            (&[main, g, f], 2),
            (&[main, g], 4),
            (&[f, g], 8),
        ] {
            let stack = builder.intern_stack(frames);
            builder.add_samples(event, thread, stack, 1, weight);
        }
        let whole = builder.finish();
        let of = |keeps_callee| {
            let is_f = |function: &Function| function.name.as_deref() == Ok("f");
            let callers = callers_of(&whole, is_f, keeps_callee);
            let mut stacks: Vec<(String, u64)> = (callers.aggregated.iter())
                .map(|entry| {
                    let names = callers.stack(entry.stack);
                    let names = names.map(|id| callers.function(id).name.as_deref().unwrap_or("?"));
                    (names.collect::<Vec<_>>().join(";"), entry.weight)
                })
                .collect();
            stacks.sort();
            stacks
        };
        let owned = |(name, weight): (&str, u64)| (name.to_owned(), weight);
        assert_eq!(of(false), [("f", 8), ("main", 1), ("main;g", 2)].map(owned));
        assert_eq!(
            of(true),
            [("f", 8), ("main;f", 1), ("main;g;f", 2)].map(owned)
        );
    }
}
