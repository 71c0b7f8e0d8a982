//! The quality verdict: findings about how reliable a profile is.

use std::fmt;
use std::time::Duration;

use rprof_profile::memory::{Coverage, Requests};
use rprof_profile::waits::idle::IDLE;
use rprof_profile::{
    CountedEvent, CpuTime, Language, LatencyTally, OffCpuTime, Profile, Reason, Runtime,
    StackPosition,
};

use crate::amounts::bytes;
use crate::clean::{brief, clean};
use crate::heat;
use crate::names::CleanNames;
use crate::rows::percent;

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
        /// Self share by language, in percent of the main event's weight, largest first.
        shares: Vec<(Language, f64)>,
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

impl Finding {
    /// Returns the finding as text, without advice.
    pub fn statement(&self) -> String {
        match self {
            Finding::Stacks {
                complete,
                lacks_frame_pointers,
                on_other_stack,
                runtime,
            } => {
                let cut = runtime.and_then(Runtime::cuts_stacks);
                let others = match (lacks_frame_pointers, cut) {
                    _ if *on_other_stack >= 1.0 => format!(
                        "; {on_other_stack:.1}% end at a switch to another stack (Go's runtime, a \
                         signal handler): the previous stack was not copied"
                    ),
                    (true, _) => "; the others end in code built without frame pointers".to_owned(),
                    (false, Some(cut)) => format!("; {cut}"),
                    (false, None) => String::new(),
                };
                format!("stacks: {complete:.1}% reach their root{others}")
            }
            Finding::Frames { named, located } if *located >= 0.05 => format!(
                "frames: {named:.1}% have a name, {located:.1}% are located by their start \
                 (OBJECT+0xSTART)"
            ),
            Finding::Frames { named, .. } => format!("frames: {named:.1}% have a name"),
            Finding::Unnamed {
                share,
                own,
                object,
                reason,
                ..
            } => match (*own >= 0.1, *share >= 0.1) {
                (true, true) => format!(
                    "  {own:.1}% of self is unnamed in {object} ({share:.1}% of frames): {reason}"
                ),
                (true, false) => {
                    format!("  {own:.1}% of self is unnamed in {object}: {reason}")
                }
                (false, _) => {
                    format!("  {share:.1}% of frames are unnamed in {object}: {reason}")
                }
            },
            Finding::ByLanguage { shares } => {
                let shares = shares.iter().filter(|(_, share)| *share >= 0.05);
                let shares =
                    shares.map(|(language, share)| format!("{share:.1}% {}", language.name()));
                let shares: Vec<String> = shares.collect();
                format!(
                    "by language: self is {}; interpreters count for the functions that they run",
                    shares.join(", ")
                )
            }
            Finding::Interpreter {
                share,
                function,
                object,
            } => format!(
                "interpreted: {share:.1}% is in {function} of {object}, which hides the functions \
                 that it runs"
            ),
            Finding::HidesInlined { share, function } => {
                format!("inlined calls are hidden in {function}, {share:.0}% of self")
            }
            Finding::ClockArtefact { share, functions } => format!(
                "clock: {share:.1}% of self in {} is skew: the time passed in earlier kernel code, \
                 which the clock cannot interrupt",
                functions.join(" and ")
            ),
            Finding::Lost { lost, all } => format!(
                "lost: {lost} of {all} records ({:.2}%): shares may be off",
                percent(*lost, *all)
            ),
            Finding::Throttled { times } => {
                format!("throttled: {times} times the kernel paused sampling")
            }
            Finding::Unsampled {
                sampled,
                used,
                longer_than_tasks,
                unrecorded_cpus,
            } => {
                let cause = match longer_than_tasks {
                    _ if *unrecorded_cpus > 0 => {
                        "CPUs that came online while recording are not recorded".to_owned()
                    }
                    Some(period) => format!(
                        "most threads end within {} ms, the time between two samples",
                        milliseconds(*period)
                    ),
                    None => "the clock's interrupts came late, as on an overloaded host".to_owned(),
                };
                format!(
                    "samples cover {} of {} s of CPU time: {cause}",
                    seconds(*sampled),
                    seconds(*used)
                )
            }
            Finding::Waited {
                used,
                wall,
                off_cpu,
                throttled,
            } => {
                let (used, wall) = (seconds(*used), seconds(*wall));
                let Some(off_cpu) = off_cpu else {
                    return format!(
                        "on CPU {used} s of {wall} s: asleep or waiting for a CPU otherwise"
                    );
                };
                let by = throttled.map_or_else(String::new, |time| {
                    format!(" (control group throttled for {} s)", seconds(time))
                });
                format!(
                    "on CPU {used} s of {wall} s: {} s waiting for a CPU{by}, {} s asleep",
                    seconds(off_cpu.waiting),
                    seconds(off_cpu.asleep)
                )
            }
            Finding::Idle { threads, waited } => match threads {
                1 => format!(
                    "idle: 1 thread waited {} s in one place, shown as {IDLE}",
                    seconds(*waited)
                ),
                threads => format!(
                    "idle: {threads} threads waited {} s in one place each, shown as {IDLE}",
                    seconds(*waited)
                ),
            },
            Finding::Memory(coverage) => memory_text(coverage),
            Finding::Requests(requests) => requests_text(requests),
            Finding::Latency(tally) => latency_text(tally),
            Finding::Counted(counts) => format!("counted: {}", counts.join(", ")),
            Finding::Warning(warning) => format!("warning: {warning}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.statement())?;
        match self {
            Finding::Unnamed { reason, .. } => match reason.remedy() {
                Some(remedy) => write!(f, ". {remedy}"),
                None => Ok(()),
            },
            Finding::Lost { .. } => f.write_str("; larger rings or fewer samples lose less"),
            Finding::Throttled { .. } => f.write_str(
                "; take fewer samples a second, or raise kernel.perf_event_max_sample_rate",
            ),
            Finding::Unsampled {
                longer_than_tasks: Some(_),
                unrecorded_cpus: 0,
                ..
            } => f.write_str("; take more samples a second"),
            Finding::Stacks { .. }
            | Finding::Frames { .. }
            | Finding::Unsampled { .. }
            | Finding::Waited { .. }
            | Finding::Idle { .. }
            | Finding::ByLanguage { .. }
            | Finding::Interpreter { .. }
            | Finding::HidesInlined { .. }
            | Finding::ClockArtefact { .. }
            | Finding::Memory(_)
            | Finding::Requests(_)
            | Finding::Latency(_)
            | Finding::Counted(_)
            | Finding::Warning(_) => Ok(()),
        }
    }
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
        .filter(|(own, share, ..)| *own >= 0.1 || !q.is_by_language && *share >= 0.1)
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
        // There are at most about ten runtimes.
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
        // By language, most unnamed frames belong to interpreters and are folded.
        if !q.is_by_language {
            findings.push(Finding::Frames {
                named: percent(q.named, q.frames),
                located: percent(q.located, q.frames),
            });
        }
        findings.extend(unnamed(profile));
    }
    findings.extend(heat::self_by_language(profile).map(|shares| Finding::ByLanguage { shares }));
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

fn latency_text(tally: &LatencyTally) -> String {
    let of = |ns| seconds(Duration::from_nanos(ns));
    let ran = tally.parallelism().map(|running| {
        format!(
            "{} s of CPU time in {} s, {running:.1} threads at a time",
            of(tally.used),
            of(tally.ran)
        )
    });
    let waited =
        (tally.waited > 0).then(|| format!("{} s in which no thread ran", of(tally.waited)));
    let both: Vec<String> = ran.into_iter().chain(waited).collect();
    match both.is_empty() {
        true => "latency: weights are divided among the threads that ran".to_owned(),
        false => format!("latency: {}", both.join("; ")),
    }
}

fn memory_text(memory: &Coverage) -> String {
    let Some(share) = memory.explained_share() else {
        return "memory: the program ended before its resident pages could be read; memory that it \
                gave back counts as resident"
            .to_owned();
    };
    let mut text = format!(
        "memory: stacks explain {} of {} resident ({:.1}%)",
        bytes(memory.explained),
        bytes(memory.resident),
        100.0 * share
    );
    match memory.before_end.as_millis() {
        0 => {}
        ms => text.push_str(&format!(" {ms} ms before the end")),
    }
    for (amount, cause) in [
        (memory.before, "resident before recording"),
        (memory.unseen, "without a page fault seen"),
    ] {
        if amount > 0 {
            text.push_str(&format!(", {} {cause}", bytes(amount)));
        }
    }
    text
}

fn requests_text(all: &Requests) -> String {
    if all.programs == 0 {
        return "allocations: none seen, because no program loaded the library of rprof".to_owned();
    }
    let mut text = format!(
        "allocations: {} ± {} requested, {} ± {} in use at the end; {} of about {} allocations \
         sampled",
        bytes(all.bytes),
        bytes(all.error),
        bytes(all.in_use),
        bytes(all.in_use_error),
        all.samples,
        all.count
    );
    if all.unfollowed > 0 {
        let unknown = bytes(all.unfollowed);
        text.push_str(&format!("; unknown if {unknown} of them are in use"));
    }
    for (number, cause) in [
        (all.unloaded, "did not load the library of rprof"),
        (all.own_malloc, "brought its own malloc"),
    ] {
        match number {
            0 => {}
            1 => text.push_str(&format!("; not counted: 1 program that {cause}")),
            n => text.push_str(&format!("; not counted: {n} programs: each {cause}")),
        }
    }
    text
}

fn count_text(count: &CountedEvent) -> String {
    let mark = if count.is_exact { "" } else { "~" };
    let name = clean(&count.name);
    match name.starts_with("task-clock") || name.starts_with("cpu-clock") {
        true => format!(
            "{mark}{} s {name}",
            seconds(Duration::from_nanos(count.value))
        ),
        false => format!("{mark}{} {name}", count.value),
    }
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
        });
    }
    if let (Some(wall), Some(share)) = (time.wall, time.idle_share())
        && share > MUCH_WAITING
        && wall >= MIN_WALL
    {
        let off_cpu = time.off_cpu();
        let waiting = off_cpu.map_or(Duration::ZERO, |off_cpu| off_cpu.waiting);
        findings.push(Finding::Waited {
            used: time.used,
            wall,
            off_cpu,
            throttled: (time.throttled).filter(|time| *time > waiting.mul_f64(MUCH_THROTTLED)),
        });
    }
    findings
}

fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        long if long >= 1.0 => format!("{long:.2}"),
        short => format!("{short:.3}"),
    }
}

fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms >= 0.1 {
        true => format!("{ms:.1}"),
        false => format!("{ms:.3}"),
    }
}

#[cfg(test)]
mod tests;
