//! The stacks of the event that measures CPU time, with clean names.

use rprof_export::clean::shorten;
use rprof_export::names::{CleanName, CleanNames};
use rprof_export::rows::percent;
use rprof_profile::pattern::matches_name;
use rprof_profile::waits::{is_of_waits, is_of_wall_clock};
use rprof_profile::{AggregatedStack, FrameId, FunctionId, ObjectKind, Profile, WeightUnit};

/// Fewest samples whose shares mean something.
const MIN_SAMPLES: u64 = 30;

/// Characters of a name in a sentence.
const MAX_NAME: usize = 80;

/// An event of a profile.
pub(crate) struct Stacks<'p> {
    pub(crate) profile: &'p Profile,
    pub(crate) event: usize,
    /// Weight of all samples.
    pub(crate) whole: u64,
}

impl<'p> Stacks<'p> {
    /// Returns the event of CPU time, or the first other event that is no wait.
    pub(crate) fn of_cpu(profile: &'p Profile) -> Option<Stacks<'p>> {
        let events = profile.events.iter().enumerate();
        let mut events = events.filter(|(_, event)| {
            event.weight > 0 && !is_of_waits(&event.name) && !is_of_wall_clock(&event.name)
        });
        let event = events.next()?.0;
        let is_exact = profile.is_folded || profile.events[event].unit == WeightUnit::Bytes;
        let is_enough = is_exact || profile.events[event].samples >= MIN_SAMPLES;
        is_enough.then(|| Stacks::of(profile, event))
    }

    pub(crate) fn of(profile: &'p Profile, event: usize) -> Stacks<'p> {
        Stacks {
            profile,
            event,
            whole: profile.events[event].weight,
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &'p AggregatedStack> + '_ {
        let entries = self.profile.aggregated.iter();
        entries.filter(|entry| entry.event == self.event)
    }

    pub(crate) fn frames(&self, entry: &AggregatedStack) -> Vec<FrameId> {
        self.profile.frames(entry.stack).collect()
    }

    pub(crate) fn share(&self, weight: u64) -> f64 {
        percent(weight, self.whole)
    }

    /// Returns a noun for the weights: `the CPU time`, `the page-faults`.
    pub(crate) fn noun(&self) -> String {
        let event = &self.profile.events[self.event];
        match &event.unit {
            WeightUnit::Nanoseconds => "the CPU time".to_owned(),
            WeightUnit::Bytes => "the memory".to_owned(),
            _ if self.profile.is_folded => "the samples".to_owned(),
            _ => format!("the {}", CleanNames::new(self.profile).event(self.event)),
        }
    }

    pub(crate) fn function_of(&self, frame: FrameId) -> FunctionId {
        self.profile.frame(frame).function
    }

    pub(crate) fn name(&self, id: FunctionId) -> String {
        let names = CleanNames::new(self.profile);
        match names.function(id) {
            Some(name) => shorten(&name, MAX_NAME).into_owned(),
            None => {
                let object = self.profile.function(id).object;
                format!("unnamed code of {}", &*names.object_base(object))
            }
        }
    }

    /// Returns the whole name, for commands; `None` if there is none.
    pub(crate) fn whole_name(&self, id: FunctionId) -> Option<String> {
        let name = CleanNames::new(self.profile).function(id);
        name.map(CleanName::into_owned)
    }

    /// Returns the innermost function that the user wrote, root first; none for gaps.
    pub(crate) fn user_function(&self, frames: &[FrameId]) -> Option<FunctionId> {
        let mut functions = frames.iter().rev().map(|frame| self.function_of(*frame));
        let found = functions.find(|id| !self.is_library(*id))?;
        let is_gap =
            (self.profile.function(found).name.as_deref()).is_ok_and(|name| name.starts_with('['));
        (!is_gap).then_some(found)
    }

    /// Returns true for code that people call and do not write: the kernel, shared libraries of the
    /// system, standard libraries.
    pub(crate) fn is_library(&self, id: FunctionId) -> bool {
        const LIBRARIES: [&str; 8] = [
            "std::",
            "core::",
            "alloc::",
            "__gnu_cxx::",
            "<std::",
            "<core::",
            "<alloc::",
            "__rust",
        ];
        let function = self.profile.function(id);
        let object = self.profile.object(function.object);
        let is_shared = || {
            let base = object.base_name();
            let is_system = object.name.starts_with("/usr/lib") || object.name.starts_with("/lib");
            is_system && (base.contains(".so") || base.starts_with("ld-"))
        };
        let has_prefix = || match &function.name {
            Ok(name) => LIBRARIES.iter().any(|prefix| name.starts_with(prefix)),
            Err(_) => false,
        };
        if function.source.is_some() {
            // Modules that come with the interpreter.
            let is_installed = || {
                !["/site-packages/", "/dist-packages/"]
                    .iter()
                    .any(|part| object.name.contains(part))
            };
            let is_python = matches_name("*/lib/python?.*", &object.name) && is_installed();
            return is_python || object.name.starts_with("node:");
        }
        object.kind == ObjectKind::Kernel || has_prefix() || is_shared()
    }
}

/// Formats a share: `7.3%`, `42%`, `all`.
pub(crate) fn share_text(share: f64) -> String {
    match share {
        99.95.. => "100%".to_owned(),
        9.95.. => format!("{share:.0}%"),
        _ => format!("{share:.1}%"),
    }
}

/// Formats a part of something that is named before: `all of it`, `62% of it`.
pub(crate) fn part_text(share: f64) -> String {
    match share {
        99.5.. => "all of it".to_owned(),
        _ => format!("{share:.0}% of it"),
    }
}

/// Formats nanoseconds: `2.31 s`, `41 ms`.
pub(crate) fn time_text(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        0.9995.. => format!("{seconds:.2} s"),
        _ => format!("{:.0} ms", seconds * 1e3),
    }
}
