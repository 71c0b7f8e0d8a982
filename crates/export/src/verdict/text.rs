//! Findings as text.

use std::fmt;
use std::time::Duration;

use rprof_profile::memory::{Coverage, Requests};
use rprof_profile::unit::counted;
use rprof_profile::waits::idle::IDLE;
use rprof_profile::{LatencyTally, Reason, RecordingCount, Runtime};

use super::Finding;
use crate::amounts::bytes;
use crate::clean::clean;
use crate::rows::percent;

impl Finding {
    /// Returns the finding as text, without advice.
    pub fn statement(&self) -> String {
        match self {
            Finding::Stacks {
                complete,
                lacks_frame_pointers,
                on_other_stack,
                runtime,
            } => stacks_text(*complete, *lacks_frame_pointers, *on_other_stack, *runtime),
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
            } => unnamed_text(*share, *own, object, reason),
            Finding::ByLanguage { shares } => languages_text(shares),
            Finding::Gaps { share, frames } => format!(
                "gaps: {share:.1}% is in stacks with missing functions, shown as {}",
                frames.join(", ")
            ),
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
                "lost: {lost} of {} ({:.2}%): shares may be off",
                counted(*all, "record"),
                percent(*lost, *all)
            ),
            Finding::Throttled { times } => {
                let times = counted(*times, "time");
                format!("throttled: the kernel paused sampling {times}")
            }
            Finding::Unsampled {
                sampled,
                used,
                longer_than_tasks,
                unrecorded_cpus,
                privileged_programs,
            } => format!(
                "samples cover {} of {} s of CPU time: {}",
                seconds(*sampled),
                seconds(*used),
                unsampled_cause(*longer_than_tasks, *unrecorded_cpus, *privileged_programs)
            ),
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
                let stopped = match off_cpu.stopped {
                    Duration::ZERO => String::new(),
                    time => format!(
                        ", {} s stopped by a signal, a debugger or the cgroup freezer",
                        seconds(time)
                    ),
                };
                // Less changes nothing.
                let is_much = off_cpu.unclear > off_cpu.asleep.max(off_cpu.waiting) / 20;
                let (waiting, asleep) = (seconds(off_cpu.waiting), seconds(off_cpu.asleep));
                if off_cpu.unclear > off_cpu.waiting + off_cpu.asleep {
                    let clear = match off_cpu.waiting.max(off_cpu.asleep) < off_cpu.unclear / 20 {
                        true => by,
                        false => {
                            format!(", at least {waiting} s waiting{by}, {asleep} s asleep")
                        }
                    };
                    return format!(
                        "on CPU {used} s of {wall} s: {} s asleep or waiting for a CPU{clear}{stopped}",
                        seconds(off_cpu.unclear + off_cpu.waiting + off_cpu.asleep)
                    );
                }
                let unclear = match is_much {
                    true => format!(", {} s one or the other", seconds(off_cpu.unclear)),
                    false => String::new(),
                };
                format!(
                    "on CPU {used} s of {wall} s: {waiting} s waiting for a CPU{by}, {asleep} s \
                     asleep{unclear}{stopped}"
                )
            }
            Finding::Idle { threads, waited } => idle_text(*threads, *waited),
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
            | Finding::Gaps { .. }
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

fn stacks_text(
    complete: f64,
    lacks_frame_pointers: bool,
    on_other_stack: f64,
    runtime: Option<Runtime>,
) -> String {
    let cut = runtime.and_then(Runtime::cuts_stacks);
    let others = match (lacks_frame_pointers, cut) {
        _ if on_other_stack >= 1.0 => format!(
            "; {on_other_stack:.1}% end at a switch to another stack (Go's runtime, a signal \
             handler): the previous stack was not copied"
        ),
        (true, _) => "; the others end in code built without frame pointers".to_owned(),
        (false, Some(cut)) => format!("; {cut}"),
        (false, None) => String::new(),
    };
    format!("stacks: {complete:.1}% reach their root{others}")
}

fn unnamed_text(share: f64, own: f64, object: &str, reason: &Reason) -> String {
    match (own >= 0.1, share >= 0.1) {
        (true, true) => {
            format!("  {own:.1}% of self is unnamed in {object} ({share:.1}% of frames): {reason}")
        }
        (true, false) => format!("  {own:.1}% of self is unnamed in {object}: {reason}"),
        (false, _) => format!("  {share:.1}% of frames are unnamed in {object}: {reason}"),
    }
}

fn languages_text(shares: &[(&str, f64)]) -> String {
    let shares = shares.iter().filter(|(_, share)| *share >= 0.05);
    let shares = shares.map(|(language, share)| format!("{share:.1}% {language}"));
    let shares: Vec<String> = shares.collect();
    format!(
        "by language: self is {}; interpreters count for the functions that they run",
        shares.join(", ")
    )
}

fn unsampled_cause(
    longer_than_tasks: Option<Duration>,
    unrecorded_cpus: u64,
    privileged_programs: u64,
) -> String {
    match longer_than_tasks {
        _ if unrecorded_cpus > 0 => {
            "CPUs that came online while recording are not recorded".to_owned()
        }
        Some(period) => format!(
            "the end of each thread has no sample: up to {} ms, the time between two",
            milliseconds(period)
        ),
        None if privileged_programs > 0 => format!(
            "the kernel stopped recording {} that changed privileges on start (set-user-ID, \
             set-group-ID or file capabilities)",
            counted(privileged_programs, "program")
        ),
        None => "the clock's interrupts came late, as on an overloaded host".to_owned(),
    }
}

fn idle_text(threads: u64, waited: Duration) -> String {
    let waited = seconds(waited);
    match threads {
        1 => format!("idle: 1 thread waited {waited} s in one place, shown as {IDLE}"),
        n => format!("idle: {n} threads waited {waited} s in one place each, shown as {IDLE}"),
    }
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

/// Compares the bytes seen with the resident memory, if allocations were not seen.
fn beside_resident(all: &Requests) -> String {
    let is_partial = all.unloaded + all.own_malloc > 0 || all.lacks_most();
    match all.resident {
        resident if is_partial && resident > 0 => format!(
            "; seen at the peak: {}, resident in the largest process: {}",
            bytes(all.peak),
            bytes(resident)
        ),
        _ => String::new(),
    }
}

fn requests_text(all: &Requests) -> String {
    if all.probes > 0 && all.samples == 0 {
        return "allocations: none seen, because the program's own probes reported none: its \
                sampling may be switched off"
            .to_owned();
    }
    if all.programs == 0 && all.probes == 0 {
        let beside = beside_resident(all);
        return format!(
            "allocations: none seen, because no program loaded the library of rprof{beside}"
        );
    }
    let mut text = match all.samples {
        0 => "allocations: none sampled".to_owned(),
        samples => format!(
            "allocations: {} ± {} requested, {} ± {} in use at the end; {samples} of about {} \
             allocations sampled",
            bytes(all.bytes),
            bytes(all.error),
            bytes(all.in_use),
            bytes(all.in_use_error),
            all.count
        ),
    };
    if all.probes > 0 {
        text.push_str(" by the program itself (probes in its code)");
    }
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
    text.push_str(&beside_resident(all));
    text
}

pub(super) fn count_text(count: &RecordingCount) -> String {
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
