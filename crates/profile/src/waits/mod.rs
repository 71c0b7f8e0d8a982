//! Off-CPU samples: wait reasons as leaf frames, and wall-clock time as one event.
//!
//! A sample of `offcpu-time` is a wait of as many nanoseconds as its period. Its stack ends in the
//! kernel's scheduler, whose callers reveal the reason.

pub mod idle;
pub mod locks;
pub mod reasons;

use std::borrow::Cow;

use rprof_cpu_time::CpuTime;
use rustc_hash::FxHashMap;

use crate::event_names::by_latency;
pub use crate::event_names::{
    WAITS, WALL_CLOCK, is_by_latency, is_of_waits, is_of_wall_clock, noun_of_time,
};
use crate::frame::{Frame, Function, FunctionId, Object, ObjectId, ObjectKind, StackPosition};
use crate::model::Profile;
use crate::samples::ThreadId;
use crate::stacks::StackId;
use crate::unit::WeightUnit;
use crate::waits::reasons::{OFF_CPU, RUNNING, is_known, is_reason, reason, reason_by_program};

/// Name of the object that contains wait reasons and wakers.
pub const WAIT_OBJECT: &str = "[off-cpu]";

/// Frame of a wait ended by an interrupt. Longer than any thread name.
pub const WOKEN_BY_INTERRUPT: &str = "[woken by a timer or device]";

/// Frame of a wait ended by an unnamed thread. Longer than any thread name.
pub const WOKEN_BY_UNNAMED: &str = "[woken by an unnamed thread]";

/// Prefix of waker frame names.
const WOKEN_BY: &str = "[woken by ";

/// Reason of a wait without a stack.
pub(crate) const NO_STACK: &str = "[stack not taken]";

/// Reason why a profile has no wall-clock event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WallError {
    /// The recording has no off-CPU samples.
    #[error("the recording has no waits")]
    NoWaits,
    /// The on-CPU samples do not measure time, so they cannot be added to waits.
    #[error("samples of {} do not measure time and cannot be added to waits", .0)]
    NotTime(String),
}

/// Returns the object of wait reasons, added if necessary.
pub fn wait_object(objects: &mut Vec<Object>) -> ObjectId {
    let is_it = |object: &Object| object.kind == ObjectKind::Waiting;
    let known = objects.iter().position(is_it);
    let number = known.unwrap_or_else(|| {
        objects.push(Object {
            name: WAIT_OBJECT.into(),
            kind: ObjectKind::Waiting,
            build_id: None,
            runtime: None,
        });
        objects.len() - 1
    });
    ObjectId(number as u32)
}

/// Returns the frame name of a waker.
pub fn woken_by(name: &str) -> String {
    format!("{WOKEN_BY}{name}]")
}

/// Returns true for a waker's frame name: [`woken_by`], [`WOKEN_BY_INTERRUPT`] or
/// [`WOKEN_BY_UNNAMED`].
pub fn is_waker(name: &str) -> bool {
    name.starts_with(WOKEN_BY) && name.ends_with(']')
}

/// Derives the wait reason from a stack, leaf first. Each item tells whether the frame belongs to
/// the kernel, and its name. User-space names replace missing kernel names.
pub fn reason_of<'a>(stack: impl Iterator<Item = (bool, Option<&'a str>)>) -> Cow<'static, str> {
    let mut stack = stack.peekable();
    if stack.peek().is_none() {
        return NO_STACK.into();
    }
    let kernel = std::iter::from_fn(|| stack.next_if(|(is_kernel, _)| *is_kernel));
    let found = reason(kernel.filter_map(|(_, name)| name));
    match found == OFF_CPU {
        true => reason_by_program(stack.filter_map(|(_, name)| name)).map_or(found, Cow::Borrowed),
        false => found,
    }
}

impl Profile {
    /// Returns the off-CPU event, if there is one.
    pub fn waits(&self) -> Option<usize> {
        (self.events.iter()).position(|event| is_of_waits(&event.name))
    }

    /// Returns the used CPU time, without wall time if off-CPU samples measure it better.
    pub fn cpu_time_beside_waits(&self) -> Option<CpuTime> {
        let has_waits = self.waits().is_some();
        self.quality.cpu_time.map(|time| CpuTime {
            wall: time.wall.filter(|_| !has_waits),
            ..time
        })
    }

    /// Appends the wait reason (`[futex]`, `[disk]`) as a leaf to off-CPU stacks, after a waker
    /// frame. Does nothing without callers.
    pub fn name_waits(&mut self) {
        let Some(waits) = self.waits().filter(|_| !self.leaves_only) else {
            return;
        };
        let reason_of = |profile: &Profile, stack| {
            let function = |id| {
                let function = profile.function(id);
                let kind = profile.object(function.object).kind;
                (kind, function.name.as_deref().ok())
            };
            let mut functions = profile.stack(stack).rev().map(function).peekable();
            if let Some((ObjectKind::Waiting, name)) = functions.peek() {
                if !name.is_some_and(is_waker) {
                    return None;
                }
                functions.next();
            }
            let of_kernel = |(kind, name)| (kind == ObjectKind::Kernel, name);
            Some(reason_of(functions.map(of_kernel)))
        };
        self.put_leaves(waits, reason_of);
    }

    /// Merges off-CPU samples and a clock event into one event, `wall-clock`.
    ///
    /// The clock event is the first one in nanoseconds, preferably with samples. Off-CPU stacks get
    /// a leaf for the wait.
    ///
    /// # Errors
    /// [`WallError`]. The profile then stays unchanged.
    pub fn join_wall_clock(&mut self) -> Result<(), WallError> {
        let Some(waits) = self.waits() else {
            return match self.is_of_wall_clock() {
                true => Ok(()),
                false => Err(WallError::NoWaits),
            };
        };
        let others = || {
            self.events
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != waits)
        };
        let is_time =
            |(_, event): &(usize, &crate::EventSummary)| event.unit == WeightUnit::Nanoseconds;
        let sampled = others().find(|other| is_time(other) && other.1.samples > 0);
        let Some((on, _)) = sampled.or_else(|| others().find(is_time)) else {
            let sampled = others().find(|(_, event)| event.samples > 0);
            let name = sampled
                .or_else(|| others().next())
                .map(|(_, event)| &*event.name);
            return Err(WallError::NotTime(name.unwrap_or("nothing").to_owned()));
        };
        self.put_leaves(waits, |profile, stack| {
            profile.reason_at(stack).is_none().then_some(OFF_CPU.into())
        });
        for entry in &mut self.aggregated {
            if entry.event == waits {
                entry.event = on;
            }
        }
        if let Some(samples) = &mut self.samples {
            samples.move_event(waits, on);
        }
        let is_latency = is_by_latency(&self.events[waits].name);
        let (samples, weight) = (self.events[waits].samples, self.events[waits].weight);
        (self.events[waits].samples, self.events[waits].weight) = (0, 0);
        let event = &mut self.events[on];
        event.name = match is_latency {
            true => by_latency(WALL_CLOCK),
            false => WALL_CLOCK.to_owned(),
        };
        event.samples += samples;
        event.weight = event.weight.saturating_add(weight);
        Ok(())
    }

    /// Marks all events as latency: their weights are wall-clock time, divided among the threads
    /// that ran.
    pub fn mark_latency(&mut self) {
        for event in &mut self.events {
            event.name = by_latency(&event.name);
        }
    }

    fn put_leaves(
        &mut self,
        event: usize,
        leaf: impl Fn(&Profile, StackId) -> Option<Cow<'static, str>>,
    ) {
        let stacks: Vec<StackId> = (self.aggregated.iter())
            .filter(|entry| entry.event == event)
            .map(|entry| entry.stack)
            .collect();
        let mut longer: FxHashMap<StackId, StackId> = FxHashMap::default();
        let mut frames: FxHashMap<Cow<'static, str>, u32> = FxHashMap::default();
        for stack in stacks {
            if longer.contains_key(&stack) {
                continue;
            }
            let Some(name) = leaf(self, stack) else {
                continue;
            };
            let frame = match frames.get(&name) {
                Some(frame) => *frame,
                None => {
                    let frame = self.reason_frame(&name);
                    frames.insert(name, frame);
                    frame
                }
            };
            let (outer, inner) = self.stacks.lists(stack);
            let mut list = self.stacks.list(inner).to_vec();
            list.push(frame);
            let inner = self.stacks.intern_list(&list);
            longer.insert(stack, self.stacks.push(outer, inner));
        }
        self.replace_stacks(event, |_, stack| longer.get(&stack).copied());
    }

    /// Returns the wait reason at the leaf; `None` for a running thread.
    ///
    /// # Panics
    /// If the stack belongs to another profile.
    pub fn reason_at(&self, stack: StackId) -> Option<FunctionId> {
        let leaf = self.stack(stack).next_back()?;
        let object = self.object(self.function(leaf).object);
        (object.kind == ObjectKind::Waiting).then_some(leaf)
    }

    fn is_of_wall_clock(&self) -> bool {
        let has_waits = || {
            self.aggregated
                .iter()
                .any(|entry| self.names_wait(entry.stack).is_some())
        };
        self.events
            .iter()
            .any(|event| is_of_wall_clock(&event.name))
            || self.is_folded && has_waits()
    }

    /// Returns the wait reason at the leaf. Without objects, only [known](is_known) names count.
    fn names_wait(&self, stack: StackId) -> Option<&str> {
        let function = self.function(self.stack(stack).next_back()?);
        let name = function.name.as_deref().ok()?;
        let is_reason = self.object(function.object).kind == ObjectKind::Waiting || is_known(name);
        is_reason.then_some(name)
    }

    fn state_of(&self, event: usize, stack: StackId) -> &str {
        let is_wait = || {
            self.events
                .get(event)
                .is_some_and(|event| is_of_waits(&event.name))
        };
        match self.names_wait(stack) {
            Some(name) => name,
            None if is_wait() => OFF_CPU,
            None => RUNNING,
        }
    }

    /// Keeps samples by wait reasons ([patterns](is_reason)). [`RUNNING`] selects time on CPU.
    pub fn retain_reasons(&mut self, patterns: &[String]) {
        let wants = |state: &str| patterns.iter().any(|pattern| is_reason(pattern, state));
        self.retain_states(wants);
    }

    /// Keeps off-CPU samples. Returns true if there are any.
    pub fn retain_waits(&mut self) -> bool {
        self.retain_states(|state| state != RUNNING);
        self.events.iter().any(|event| event.samples > 0)
    }

    fn retain_states(&mut self, wants: impl Fn(&str) -> bool) {
        let mut wanted: FxHashMap<(usize, StackId), bool> = FxHashMap::default();
        for entry in &self.aggregated {
            let key = (entry.event, entry.stack);
            wanted
                .entry(key)
                .or_insert_with(|| wants(self.state_of(entry.event, entry.stack)));
        }
        self.retain_samples(|_, event, stack| {
            wanted.get(&(event, stack)).is_some_and(|wanted| *wanted)
        });
    }

    /// Keeps one event's samples.
    pub fn retain_event(&mut self, wanted: usize) {
        self.retain_samples(|_, event, _| event == wanted);
    }

    fn retain_samples(&mut self, is_wanted: impl Fn(&Profile, usize, StackId) -> bool) {
        let aggregated = std::mem::take(&mut self.aggregated);
        let mut numbers: Vec<Option<u32>> = Vec::with_capacity(aggregated.len());
        for entry in aggregated {
            let is_kept = is_wanted(self, entry.event, entry.stack);
            numbers.push(is_kept.then_some(self.aggregated.len() as u32));
            self.aggregated.extend(is_kept.then_some(entry));
        }
        for event in &mut self.events {
            (event.samples, event.weight) = (0, 0);
        }
        for entry in &self.aggregated {
            let event = &mut self.events[entry.event];
            event.samples += entry.samples;
            event.weight = event.weight.saturating_add(entry.weight);
        }
        if let Some(samples) = self.samples.take() {
            self.samples = Some(samples.filtered(|event, stack| is_wanted(self, event, stack)));
        }
        if let Some(streams) = &self.streams {
            let number = |entry: u32| numbers.get(entry as usize).copied().flatten();
            self.streams = Some(streams.renumbered(number));
        }
    }

    pub(crate) fn replace_stacks(
        &mut self,
        event: usize,
        other: impl Fn(ThreadId, StackId) -> Option<StackId>,
    ) {
        for entry in self
            .aggregated
            .iter_mut()
            .filter(|entry| entry.event == event)
        {
            entry.stack = other(entry.thread, entry.stack).unwrap_or(entry.stack);
        }
        if let Some(samples) = &mut self.samples {
            samples.replace_stacks(event, other);
        }
    }

    pub(crate) fn reason_frame(&mut self, name: &str) -> u32 {
        let object = wait_object(&mut self.objects);
        let is_it =
            |function: &Function| function.object == object && function.name.as_deref() == Ok(name);
        let known = self.functions.iter().position(is_it);
        let number = known.unwrap_or_else(|| {
            self.functions.push(Function {
                name: Ok(name.into()),
                object,
                position: StackPosition::Inner,
                line: None,
                located: None,
                source: None,
            });
            self.functions.len() - 1
        });
        let function = FunctionId(number as u32);
        match &mut self.frames {
            None => function.0 << u32::from(self.tells_inlined),
            Some(frames) => {
                frames.push(Frame::of(function));
                frames.len() as u32 - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::ProfileBuilder;

    /// A program that computes 30 ms, sleeps 50 ms, and waits 20 ms without a stack.
    fn profile(builder: ProfileBuilder, clock: &str) -> Profile {
        let mut builder = builder;
        let on = builder.add_event(clock, WeightUnit::of_event(clock));
        let off = builder.add_event(WAITS, WeightUnit::of_event(WAITS));
        let app = builder.intern_object("/usr/bin/app");
        let kernel = builder.add_object(Object {
            name: "[kernel.kallsyms]".into(),
            kind: ObjectKind::Kernel,
            build_id: None,
            runtime: None,
        });
        let thread = builder.intern_thread_name("app");
        let main = builder.intern_function(Ok("main"), app);
        let sleep = builder.intern_function(Ok("do_nanosleep"), kernel);
        let schedule = builder.intern_function(Ok("schedule"), kernel);
        let frame =
            |builder: &mut ProfileBuilder, function| builder.intern_frame(Frame::of(function));
        let frames = [main, sleep, schedule].map(|function| frame(&mut builder, function));
        let running = builder.intern_stack(&frames[..1]);
        let sleeping = builder.intern_stack(&frames);
        let none = builder.intern_stack(&frames[..0]);
        builder.add_samples(on, thread, running, 30, 30_000_000);
        builder.add_samples(off, thread, sleeping, 1, 50_000_000);
        builder.add_samples(off, thread, none, 2, 20_000_000);
        builder.finish()
    }

    fn texts(profile: &Profile) -> Vec<(usize, String, u64)> {
        let name = |id| profile.function(id).name.clone().unwrap_or_default();
        let mut texts: Vec<_> = (profile.aggregated.iter())
            .map(|entry| {
                let names: Vec<_> = profile.stack(entry.stack).map(name).collect();
                (entry.event, names.join(";"), entry.weight)
            })
            .collect();
        texts.sort();
        texts
    }

    #[test]
    fn waits_have_their_reason_for_a_leaf() {
        let builders = [
            ProfileBuilder::new(),
            ProfileBuilder::with_inlined(),
            ProfileBuilder::with_addresses(),
        ];
        for builder in builders {
            let mut profile = profile(builder, "cpu-clock");
            assert_eq!(profile.waits(), Some(1));
            profile.name_waits();
            let expected = [
                (0, "main".to_owned(), 30_000_000),
                (1, "[stack not taken]".to_owned(), 20_000_000),
                (
                    1,
                    "main;do_nanosleep;schedule;[sleep]".to_owned(),
                    50_000_000,
                ),
            ];
            assert_eq!(texts(&profile), expected);
            profile.join_wall_clock().unwrap();
            let expected = expected.map(|(_, text, weight)| (0, text, weight));
            let mut joined = texts(&profile);
            joined.sort_by_key(|(_, text, _)| {
                expected.iter().position(|(_, other, _)| other == text)
            });
            assert_eq!(joined, expected);
            let wall = &profile.events[0];
            assert_eq!(
                (&*wall.name, wall.samples, wall.weight),
                (WALL_CLOCK, 33, 100_000_000)
            );
            assert_eq!(profile.main_event(), Some(0));
        }
    }

    #[test]
    fn who_ended_a_wait_lies_below_its_reason() {
        let mut builder = ProfileBuilder::new();
        let off = builder.add_event(WAITS, WeightUnit::of_event(WAITS));
        let app = builder.intern_object("/usr/bin/app");
        let [kernel, waiting] = [ObjectKind::Kernel, ObjectKind::Waiting].map(|kind| {
            builder.add_object(Object {
                name: format!("{kind:?}").into(),
                kind,
                build_id: None,
                runtime: None,
            })
        });
        let thread = builder.intern_thread_name("app");
        let by = woken_by("hostile] name");
        let names = [
            ("main", app),
            ("do_nanosleep", kernel),
            ("schedule", kernel),
            (&by, waiting),
            ("[waiting for a CPU]", waiting),
        ];
        let [main, sleep, schedule, by, cpu] = names.map(|(name, object)| {
            let function = builder.intern_function(Ok(name), object);
            builder.intern_frame(Frame::of(function))
        });
        let woken = builder.intern_stack(&[main, sleep, schedule, by]);
        let awake = builder.intern_stack(&[main, sleep, schedule, cpu]);
        let unknown = builder.intern_stack(&[by]);
        for (stack, ns) in [(woken, 10), (awake, 20), (unknown, 30)] {
            builder.add_samples(off, thread, stack, 1, ns);
        }
        let mut profile = builder.finish();
        let functions = profile.functions.len();
        profile.name_waits();
        let texts: Vec<_> = texts(&profile)
            .into_iter()
            .map(|(_, text, _)| text)
            .collect();
        let expected = [
            "[woken by hostile] name];[stack not taken]",
            "main;do_nanosleep;schedule;[waiting for a CPU]",
            "main;do_nanosleep;schedule;[woken by hostile] name];[sleep]",
        ];
        assert_eq!(texts, expected);
        profile.retain_reasons(&["cpu".to_owned()]);
        assert_eq!(profile.events[0].weight, 20);
        assert_eq!(
            profile.functions.len(),
            functions + 2,
            "[sleep], [stack not taken]"
        );
    }

    #[test]
    fn what_is_no_time_is_not_added_to_waits() {
        let mut cycles = profile(ProfileBuilder::new(), "cycles");
        let error = cycles.join_wall_clock().unwrap_err();
        assert_eq!(error, WallError::NotTime("cycles".into()));
        let mut builder = ProfileBuilder::new();
        builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let mut without = builder.finish();
        without.name_waits();
        assert_eq!(without.join_wall_clock(), Err(WallError::NoWaits));
    }
}
