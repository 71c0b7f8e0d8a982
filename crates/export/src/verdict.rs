//! The quality verdict: findings about how reliable a profile is.

mod text;

use std::time::Duration;

use rprof_profile::memory::{Coverage, Requests};
use rprof_profile::{CpuTime, LatencyTally, OffCpuTime, Profile, Reason, Runtime, StackPosition};

use crate::clean::brief;
use crate::heat;
use crate::names::CleanNames;
use crate::rows::percent;
use text::count_text;

/// Finding of the quality verdict.
///
/// `Display` adds general advice. A program with better advice can print the
/// [`statement`](Self::statement) instead.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Finding {
    /// Share of stacks that reach their root.
    Stacks {
        /// Share in percent.
        complete: f64,
        /// True if many stacks are incomplete and frame pointers recorded all.
        lacks_frame_pointers: bool,
        /// Percentage of stacks that continue on another stack, which was not copied.
        on_other_stack: f64,
        /// Runtime that causes many of the incomplete stacks.
        runtime: Option<Runtime>,
    },
    /// Share of frames whose function has a name.
    Frames {
        /// Share in percent.
        named: f64,
        /// Percentage of frames without a name, but with bounds from unwind information.
        located: f64,
    },
    /// Unnamed frames of one object, for one reason.
    Unnamed {
        /// Share of all frames, in percent.
        share: f64,
        /// Share of the main event's weight with such a leaf, in percent.
        own: f64,
        /// Clean name of the object.
        object: String,
        /// Reason why the names are missing.
        reason: Reason,
        /// Runtime that owns the code, if known.
        runtime: Option<Runtime>,
    },
    /// Interpreter code is folded into the functions that it runs.
    ByLanguage {
        /// Self share by language, in percent of the main event's weight, largest first. Waits have
        /// no language, and are `waiting`.
        shares: Vec<(&'static str, f64)>,
    },
    /// Stacks with functions of an interpreted language that could not be read or proven.
    Gaps {
        /// Share of the main event's weight with such a stack, in percent.
        share: f64,
        /// Names of the frames that stand for these functions.
        frames: Vec<String>,
    },
    /// Stacks show the functions of an interpreter instead of the interpreted program.
    Interpreter {
        /// Share of the main event's weight whose stacks contain it, in percent.
        share: f64,
        /// Main loop of the interpreter.
        function: &'static str,
        /// Clean name of its object.
        object: String,
    },
    /// Rust function with much of the weight, whose inlined calls are hidden without debug
    /// information.
    HidesInlined {
        /// Self share of the function, in percent of the main event's weight.
        share: f64,
        /// Clean name of the function.
        function: String,
    },
    /// Clock samples whose interrupt was delayed until the kernel enabled interrupts.
    ClockArtefact {
        /// Share of the main event's weight, in percent.
        share: f64,
        /// Functions that enable interrupts.
        functions: Vec<&'static str>,
    },
    /// Lost records.
    Lost {
        /// Number of lost records.
        lost: u64,
        /// Number of samples plus lost records.
        all: u64,
    },
    /// Pauses of sampling by the kernel.
    Throttled {
        /// Number of pauses.
        times: u64,
    },
    /// CPU time that no samples cover.
    Unsampled {
        /// CPU time covered by samples.
        sampled: Duration,
        /// CPU time used.
        used: Duration,
        /// Sampling period, if shorter threads are the cause.
        longer_than_tasks: Option<Duration>,
        /// Number of CPUs that came online while recording, if any.
        unrecorded_cpus: u64,
        /// Number of programs that the kernel stopped recording when they started, if any.
        privileged_programs: u64,
    },
    /// Time off the CPU, which CPU time samples do not show.
    Waited {
        /// CPU time used.
        used: Duration,
        /// Wall time of the same interval.
        wall: Duration,
        /// Reasons of the waits, if known.
        off_cpu: Option<OffCpuTime>,
        /// Time over the CPU quota of the control group, if that is much of the wait.
        throttled: Option<Duration>,
    },
    /// Idle threads, which waited in one place all the time.
    Idle {
        /// Number of threads.
        threads: u64,
        /// Waiting time, summed over the threads.
        waited: Duration,
    },
    /// Resident memory with and without known causes.
    Memory(Coverage),
    /// Requested memory, with the error of sampling.
    Requests(Requests),
    /// Wall-clock time of the program, for a profile by latency.
    Latency(LatencyTally),
    /// Counters recorded beside the samples, most relevant first: clean names with values.
    Counted(Vec<String>),
    /// Clean warning about the recording.
    Warning(String),
}

/// Returns the main causes of unnamed frames, sorted by hidden self share, then by frames.
fn unnamed(profile: &Profile) -> Vec<Finding> {
    let q = &profile.quality;
    let own = heat::unnamed_self(profile);
    let mut causes: Vec<(f64, f64, &str, Reason)> = (q.worst.iter())
        .map(|(object, reason, count)| {
            let own = own.get(&(&**object, *reason)).copied().unwrap_or(0.0);
            (own, percent(*count, q.frames), &**object, *reason)
        })
        .collect();
    for ((object, reason), own) in own {
        if !causes
            .iter()
            .any(|cause| (cause.2, cause.3) == (object, reason))
        {
            causes.push((own, 0.0, object, reason));
        }
    }
    causes.sort_by(|a, b| {
        let by_weight = b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1));
        by_weight.then_with(|| (a.2, a.3).cmp(&(b.2, b.3)))
    });
    let is_generated = |reason| {
        matches!(
            reason,
            Reason::JitWithoutMap | Reason::AnonymousMemory | Reason::NotAnElf
        )
    };
    (causes.into_iter())
        // By language, most unnamed frames are folded.
        .map(|(own, share, object, reason)| {
            let share = if q.is_by_language { 0.0 } else { share };
            (own, share, object, reason)
        })
        .filter(|(own, share, ..)| *own >= 0.1 || *share >= 0.1)
        .take(3)
        .map(|(own, share, object, reason)| Finding::Unnamed {
            share,
            own,
            object: brief(object),
            reason,
            runtime: runtime_of(profile, object).filter(|_| is_generated(reason)),
        })
        .collect()
}

/// Returns the runtime that generated an object's code, or owns its file.
fn runtime_of(profile: &Profile, object: &str) -> Option<Runtime> {
    let named = (profile.objects.iter()).filter(|candidate| *candidate.name == *object);
    let mut runtimes = named.map(|found| found.runtime.or(Runtime::of_file(found.base_name())));
    let first = runtimes.next()??;
    runtimes.all(|other| other == Some(first)).then_some(first)
}

/// Returns the runtime that cuts stacks, if at least half of the truncated stacks end in its code.
fn cutting_runtime(profile: &Profile) -> Option<Runtime> {
    let mut of_object: Vec<Option<Runtime>> = (profile.objects.iter())
        .map(|object| object.runtime.or(Runtime::of_file(object.base_name())))
        .collect();
    for function in &profile.functions {
        let proven = function.name.as_deref().ok().and_then(Runtime::of_function);
        if proven.is_some() {
            of_object[function.object.0 as usize] = proven;
        }
    }
    of_object
        .iter()
        .flatten()
        .find(|runtime| runtime.cuts_stacks().is_some())?;
    let (mut all, mut by_runtime) = (0_u64, Vec::<(Runtime, u64)>::new());
    for sample in &profile.aggregated {
        let Some(root) = profile.stack(sample.stack).next() else {
            continue;
        };
        let root = profile.function(root);
        if root.position != StackPosition::Inner {
            continue;
        }
        all = all.saturating_add(sample.samples);
        let runtime = of_object[root.object.0 as usize].filter(|r| r.cuts_stacks().is_some());
        let Some(runtime) = runtime else {
            continue;
        };
        // About ten runtimes.
        match by_runtime.iter_mut().find(|(other, _)| *other == runtime) {
            Some((_, sum)) => *sum = sum.saturating_add(sample.samples),
            None => by_runtime.push((runtime, sample.samples)),
        }
    }
    let (most, share) = by_runtime.into_iter().max_by_key(|(_, sum)| *sum)?;
    (share.saturating_mul(2) >= all).then_some(most)
}

/// Returns the findings about a profile. Omits normal results, except the share of complete stacks.
pub fn findings(profile: &Profile) -> Vec<Finding> {
    let (q, names) = (&profile.quality, CleanNames::new(profile));
    let mut findings = Vec::new();
    let s = &q.stacks;
    if s.total > 0 {
        let complete = percent(s.complete, s.total);
        findings.push(Finding::Stacks {
            complete,
            lacks_frame_pointers: complete < 90.0 && s.unwound == 0,
            on_other_stack: percent(s.other_stack, s.total),
            runtime: (complete < 95.0)
                .then(|| cutting_runtime(profile))
                .flatten(),
        });
    }
    if q.frames > 0 && q.named < q.frames {
        // By language, most unnamed frames are folded.
        if !q.is_by_language {
            findings.push(Finding::Frames {
                named: percent(q.named, q.frames),
                located: percent(q.located, q.frames),
            });
        }
        findings.extend(unnamed(profile));
    }
    findings.extend(heat::self_by_language(profile).map(|shares| Finding::ByLanguage { shares }));
    findings.extend(heat::gaps(profile).map(|(share, frames)| Finding::Gaps { share, frames }));
    findings.extend(heat::interpreter(profile).map(|told| Finding::Interpreter {
        share: told.share,
        function: told.name,
        object: brief(&profile.object(profile.function(told.function).object).name),
    }));
    let hidden = heat::hides_inlined(profile);
    findings.extend(hidden.map(|(function, share)| Finding::HidesInlined {
        share,
        function: brief(function),
    }));
    let artefact = heat::clock_artefact(profile);
    findings.extend(artefact.map(|(share, functions)| Finding::ClockArtefact { share, functions }));
    if q.lost > 0 {
        let samples = profile.events.iter().map(|e| e.samples);
        findings.push(Finding::Lost {
            lost: q.lost,
            // Losses are independent of function filters, so the total is too.
            all: (samples.fold(0, u64::saturating_add).max(q.recorded)).saturating_add(q.lost),
        });
    }
    if q.throttled > 0 {
        findings.push(Finding::Throttled { times: q.throttled });
    }
    findings.extend(profile.cpu_time_beside_waits().iter().flat_map(on_cpu_time));
    if q.idle.threads > 0 {
        findings.push(Finding::Idle {
            threads: q.idle.threads,
            waited: Duration::from_nanos(q.idle.weight),
        });
    }
    findings.extend(q.memory.map(Finding::Memory));
    findings.extend(q.requests.map(Finding::Requests));
    findings.extend(q.latency.map(Finding::Latency));
    if !q.counted.is_empty() {
        findings.push(Finding::Counted(q.counted.iter().map(count_text).collect()));
    }
    findings.extend(names.warnings().map(|w| Finding::Warning(w.into_owned())));
    findings
}

/// Minimum number of missing periods to report. Each CPU loses one at the end.
const MISSING_PERIODS: u32 = 10;

/// A smaller sampled share of the CPU time is reported.
const ENOUGH_SAMPLED: f64 = 0.9;

/// A larger throttled share of the waiting time is reported.
const MUCH_THROTTLED: f64 = 0.1;

/// A larger waiting share of the wall time is reported, unless the wall time is short.
const MUCH_WAITING: f64 = 0.5;
const MIN_WALL: Duration = Duration::from_millis(100);

/// Returns the findings about too few samples, and about more waiting than running.
pub fn on_cpu_time(time: &CpuTime) -> Vec<Finding> {
    let mut findings = Vec::new();
    let missing = time.used.saturating_sub(time.sampled.unwrap_or(time.used));
    let is_sampled = (time.sampled_share()).is_none_or(|share| share >= ENOUGH_SAMPLED);
    if let Some(sampled) = time.sampled
        && !is_sampled
        && missing >= time.period.saturating_mul(MISSING_PERIODS)
    {
        findings.push(Finding::Unsampled {
            sampled,
            used: time.used,
            longer_than_tasks: time.lacks_short_tasks().then_some(time.period),
            unrecorded_cpus: time.unrecorded_cpus,
            privileged_programs: time.privileged_programs,
        });
    }
    if let (Some(wall), Some(share)) = (time.wall, time.idle_share())
        && share > MUCH_WAITING
        && wall >= MIN_WALL
    {
        findings.push(Finding::Waited {
            used: time.used,
            wall,
            off_cpu: time.off_cpu(),
            throttled: throttled(time),
        });
    }
    findings
}

/// Returns the time over the CPU quota of the control group, if that is much of the wait.
pub fn throttled(time: &CpuTime) -> Option<Duration> {
    let waiting = time
        .off_cpu()
        .map_or(Duration::ZERO, |off_cpu| off_cpu.waiting + off_cpu.unclear);
    (time.throttled).filter(|time| *time > waiting.mul_f64(MUCH_THROTTLED))
}

#[cfg(test)]
mod tests;
