//! Quality of a profile.

use std::collections::BTreeMap;

use rprof_cpu_time::CpuTime;
use rprof_image::Reason;
use rprof_memory::{Coverage, Requests};

use crate::frame::{Function, Object, ObjectId};

/// Tally of stacks with callchains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackEnds {
    /// Samples with a callchain. For memory, all amounts are bytes or numbers of allocations:
    /// see [`sums_memory`](crate::memory::sums_memory).
    pub total: u64,
    /// Stacks that reach a program's or thread's entry, or have only kernel frames.
    pub complete: u64,
    /// Stacks that end before the root.
    pub truncated: u64,
    /// Stacks truncated by missing unwind information.
    pub no_unwind_info: u64,
    /// Stacks truncated for other reasons.
    pub other: u64,
    /// Part of `other` with callers on another, uncopied stack (Go's runtime, signal handlers).
    pub other_stack: u64,
    /// Stacks unwound by rprof, with a known end. Frame names decide about the others.
    pub unwound: u64,
}

impl StackEnds {
    /// Adds another tally.
    pub fn add(&mut self, more: &StackEnds) {
        self.total += more.total;
        self.complete += more.complete;
        self.truncated += more.truncated;
        self.no_unwind_info += more.no_unwind_info;
        self.other += more.other;
        self.other_stack += more.other_stack;
        self.unwound += more.unwound;
    }
}

const WORST: usize = 5;

/// Count of an event over the whole recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingCount {
    /// Event name, of any content.
    pub name: String,
    /// Number of occurrences; nanoseconds for clocks.
    pub value: u64,
    /// True if the event was counted all the time; otherwise `value` is an estimate.
    pub is_exact: bool,
}

/// Idle threads of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleThreads {
    /// Number of threads that were always idle.
    pub threads: u64,
    /// Idle time, in nanoseconds.
    pub weight: u64,
}

/// CPU time and waiting time of a profile [by latency](crate::Profile::mark_latency), in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyTally {
    /// CPU time of the samples.
    pub used: u64,
    /// Wall-clock time while a thread ran: the latency of these samples.
    pub ran: u64,
    /// Wall-clock time while all threads waited: the latency of the shown waits.
    pub waited: u64,
}

impl LatencyTally {
    /// Returns the mean number of threads that ran, while any did; `None` without samples.
    pub fn parallelism(&self) -> Option<f64> {
        (self.ran > 0).then(|| self.used as f64 / self.ran as f64)
    }
}

impl std::iter::Sum for LatencyTally {
    fn sum<I: Iterator<Item = LatencyTally>>(all: I) -> LatencyTally {
        all.fold(LatencyTally::default(), |sum, one| LatencyTally {
            used: sum.used.saturating_add(one.used),
            ran: sum.ran.saturating_add(one.ran),
            waited: sum.waited.saturating_add(one.waited),
        })
    }
}

/// Quality of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// Tally of stacks.
    pub stacks: StackEnds,
    /// Number of frames of all samples.
    pub frames: u64,
    /// Number of frames with a symbol name.
    pub named: u64,
    /// Number of frames without symbol name, located by unwind information.
    pub located: u64,
    /// Number of other unnamed frames, by reason.
    pub unnamed: BTreeMap<Reason, u64>,
    /// Objects with most frames without symbol name, sorted: name, reason, number of frames.
    pub worst: Vec<(String, Reason, u64)>,
    /// Lost records: of the recording, or of the CPUs, times and threads that a filter selects.
    pub lost: u64,
    /// Number of samples before filters on functions, for comparison with `lost`; 0 if unknown.
    pub recorded: u64,
    /// Number of times that the kernel throttled sampling.
    pub throttled: u64,
    /// Objects without inlined frames: Rust code without debug information.
    pub hides_inlined: Vec<String>,
    /// True if part of the recording is missing or unreadable, so that amounts are too low.
    pub damaged: bool,
    /// CPU time, if recorded.
    pub cpu_time: Option<CpuTime>,
    /// Causes of resident memory, if recorded.
    pub memory: Option<Coverage>,
    /// Totals of requested memory, if recorded.
    pub requests: Option<Requests>,
    /// Times of a profile by latency; `None` for others.
    pub latency: Option<LatencyTally>,
    /// Counted events, if recorded.
    pub counted: Vec<RecordingCount>,
    /// Folded idle threads.
    pub idle: IdleThreads,
    /// True if interpreter code is [folded](crate::Profile::fold_languages) into the functions of
    /// its language.
    pub is_by_language: bool,
    /// Warnings, as sentences.
    pub warnings: Vec<String>,
}

impl Quality {
    /// Counts named and unnamed frames, given the number of samples of each function.
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

    /// Adds another profile's quality, except CPU time, memory and counted events. Drops duplicate
    /// warnings.
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
        self.is_by_language |= more.is_by_language;
        let both = self.latency.into_iter().chain(more.latency);
        self.latency = both
            .map(Some)
            .reduce(|a, b| Some([a, b].into_iter().flatten().sum()))
            .flatten();
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

    /// Returns the share of named frames, from 0 to 1; 1 without frames.
    pub fn named_share(&self) -> f64 {
        share(self.named, self.frames)
    }

    /// Returns the share of complete stacks, from 0 to 1; 1 without stacks.
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
