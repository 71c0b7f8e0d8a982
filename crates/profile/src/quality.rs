//! Quality of a profile: shares of complete stacks and named frames, with reasons for the rest.

use std::collections::BTreeMap;

use rprof_cpu_time::CpuTime;
use rprof_image::Reason;

use crate::frame::{Function, Object, ObjectId};
use crate::idle::IdleThreads;

/// Tally of complete and truncated stacks, of samples with a callchain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackTally {
    /// Samples that were recorded with a callchain.
    pub total: u64,
    /// Stacks that reach a root, a program's or a thread's entry, or that have kernel frames only.
    pub complete: u64,
    /// Stacks that end before their root.
    pub truncated: u64,
    /// Truncated stacks that end since an image has no unwind information.
    pub no_unwind_info: u64,
    /// Truncated stacks that end for another reason.
    pub other: u64,
    /// Those of `other` whose callers are on another stack, which was not copied: beyond Go's runtime, or a signal's handler.
    pub other_stack: u64,
    /// Stacks whose end is known, since rprof unwound them. The others are judged by the names of
    /// their frames.
    pub unwound: u64,
}

impl StackTally {
    /// Adds another tally.
    pub fn add(&mut self, more: &StackTally) {
        self.total += more.total;
        self.complete += more.complete;
        self.truncated += more.truncated;
        self.no_unwind_info += more.no_unwind_info;
        self.other += more.other;
        self.other_stack += more.other_stack;
        self.unwound += more.unwound;
    }
}

/// Objects that [`Quality::worst`] names.
const WORST: usize = 5;

/// Count of an event, taken beside the samples over the whole recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedEvent {
    /// Name of the event; nothing is known of what is in it.
    pub name: String,
    /// Number of times that it happened; nanoseconds for clocks.
    pub value: u64,
    /// True if it was counted all the time, and the value is no estimate.
    pub is_exact: bool,
}

/// Quality of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Tally of stacks.
    pub stacks: StackTally,
    /// Number of frames of all samples.
    pub frames: u64,
    /// Number of frames that have a name.
    pub named: u64,
    /// Number of frames whose function has no name, but is located by unwinding information.
    pub located: u64,
    /// Number of frames without a name that are not located either, by reason.
    pub unnamed: BTreeMap<Reason, u64>,
    /// Objects with most frames without a name, located or not, most first: name, reason, number of frames.
    pub worst: Vec<(String, Reason, u64)>,
    /// Number of records lost: in the whole recording, or on the CPUs, in the time and in the threads that a filter wants.
    pub lost: u64,
    /// Number of samples of which the lost ones are a share: all, or those that a filter by thread, CPU or time wants,
    /// whatever their functions are; 0 if that is not known.
    pub recorded: u64,
    /// Number of times that the kernel throttled sampling.
    pub throttled: u64,
    /// Objects whose inlined calls are no frames of their own: Rust code without debug information.
    pub hides_inlined: Vec<String>,
    /// True if part of the recording is missing or cannot be read, so that amounts are too small.
    pub damaged: bool,
    /// CPU time, of recordings that tell of it.
    pub cpu_time: Option<CpuTime>,
    /// Counts that were taken beside the samples, of recordings that have them.
    pub counted: Vec<CountedEvent>,
    /// Threads whose waits are shown as those of idle threads.
    pub idle: IdleThreads,
    /// Warnings for the user, in sentences.
    pub warnings: Vec<String>,
}

impl Quality {
    /// Counts the frames that have a name, and those that have none by reason and object, of how
    /// many samples each function is in.
    pub fn of_frames(functions: &[Function], objects: &[Object], samples: &[u64]) -> Quality {
        let mut quality = Quality::default();
        let mut nameless: BTreeMap<(ObjectId, Reason), u64> = BTreeMap::new();
        let seen = functions.iter().zip(samples);
        for (function, count) in seen.filter(|(_, count)| **count > 0) {
            quality.frames = quality.frames.saturating_add(*count);
            let tally = match (&function.name, function.located) {
                (Ok(_), None) => &mut quality.named,
                (Ok(_), Some(_)) => &mut quality.located,
                (Err(reason), _) => quality.unnamed.entry(*reason).or_default(),
            };
            *tally = tally.saturating_add(*count);
            if let Some(reason) = function.nameless() {
                let of_object = nameless.entry((function.object, reason)).or_default();
                *of_object = of_object.saturating_add(*count);
            }
        }
        let named = |(object, reason): (ObjectId, Reason), count| {
            let object = &objects[object.0 as usize];
            (object.name.to_string(), reason, count)
        };
        (quality.worst).extend(nameless.into_iter().map(|(key, count)| named(key, count)));
        quality.keep_worst();
        quality
    }

    /// Adds the quality of another profile, but for the CPU time. A warning that both have is kept once.
    pub fn add(&mut self, more: &Quality) {
        self.stacks.add(&more.stacks);
        self.frames += more.frames;
        self.named += more.named;
        self.located += more.located;
        for (reason, count) in &more.unnamed {
            *self.unnamed.entry(*reason).or_default() += count;
        }
        for (object, reason, count) in &more.worst {
            let same =
                |worst: &&mut (String, Reason, u64)| worst.0 == *object && worst.1 == *reason;
            match self.worst.iter_mut().find(same) {
                Some(known) => known.2 += count,
                None => self.worst.push((object.clone(), *reason, *count)),
            }
        }
        self.keep_worst();
        self.lost = self.lost.saturating_add(more.lost);
        self.recorded = self.recorded.saturating_add(more.recorded);
        self.throttled = self.throttled.saturating_add(more.throttled);
        self.damaged |= more.damaged;
        self.idle.threads += more.idle.threads;
        self.idle.weight = self.idle.weight.saturating_add(more.idle.weight);
        for object in &more.hides_inlined {
            if !self.hides_inlined.contains(object) {
                self.hides_inlined.push(object.clone());
            }
        }
        for warning in &more.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
    }

    fn keep_worst(&mut self) {
        (self.worst).sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.cmp(b)));
        self.worst.truncate(WORST);
    }

    /// Returns the share of frames with a name, from 0 to 1; 1 if there are no frames.
    pub fn named_share(&self) -> f64 {
        share(self.named, self.frames)
    }

    /// Returns the share of stacks that reach their root, from 0 to 1; 1 if there are none.
    pub fn complete_share(&self) -> f64 {
        share(self.stacks.complete, self.stacks.total)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 1.0,
        _ => part as f64 / whole as f64,
    }
}
