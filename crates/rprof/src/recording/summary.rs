//! The closing summary of a recording.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use indicatif::{BinaryBytes, HumanCount};
use rprof_cpu_time::CpuTime;
use rprof_export::clean::brief;
use rprof_export::verdict::{Finding, on_cpu_time};
use rprof_output::Whereabouts;
use rprof_perfdata::AuxTally;
use rprof_profile::unit::{counted, counted_are, counted_were};
use rprof_recorder::{
    InterpretedTally, Limit, LossAdvice, NotEmbedded, Notice, StackCause, StackTally,
    SuggestedRate, Summary, Throttling,
};
use rprof_sampler::Degradation;

use crate::recording::rights::hidden_by;
use crate::recording::waits::{run_delay, stopped_time, thread_time};
use crate::recording::{alloc, memory};
use crate::wording::messages::say;
use crate::wording::remedies;

/// Prints the results and losses of a recording. `program` is the recorded program, if any.
pub(crate) fn print_summary(summary: &Summary, program: Option<&OsStr>) {
    lines(summary, program).iter().for_each(say);
}

fn lines(summary: &Summary, program: Option<&OsStr>) -> Vec<String> {
    let mut lines = Vec::new();
    let duration = summary.duration.as_secs_f64();
    let samples = counted(summary.samples, "sample");
    let events = match (&summary.memory, &summary.allocations) {
        (Some(_), _) => "resident memory".to_owned(),
        (None, Some(_)) => "requested memory".to_owned(),
        (None, None) => summary.events.join(", "),
    };
    match &summary.files[..] {
        // Each file is reported below.
        [] if !summary.moved.is_empty() => {
            lines.push(format!("{samples} of {events} in {duration:.3} s"));
        }
        [] => lines.push(format!(
            "{samples} of {events} in {duration:.3} s, in {} ({})",
            summary.path.display(),
            BinaryBytes(summary.file_bytes)
        )),
        [.., last] => lines.push(format!(
            "{samples} of {events} in {duration:.3} s; {} kept, the last is {} ({})",
            counted_are(summary.files.len() as u64, "file"),
            last.display(),
            BinaryBytes(summary.file_bytes)
        )),
    }
    if let Some(time) = &summary.thread_time {
        let ring = summary.loss_advice.as_ref().and_then(larger_ring);
        lines.extend(thread_time(summary.waits, time, ring));
        let stopped = (summary.cpu_time.as_ref()).and_then(|time| time.stopped);
        lines.extend(stopped.map(stopped_time));
    }
    lines.extend(summary.memory.iter().flat_map(memory::lines));
    lines.extend(summary.allocations.iter().flat_map(alloc::lines));
    lines.extend(summary.run_delay.as_ref().map(run_delay));
    lines.extend(summary.moved.iter().map(moved));
    loss_lines(summary, &mut lines);
    if let (Some(time), true) = (&summary.cpu_time, summary.samples > 0) {
        let findings = on_cpu_time(time);
        let told = |found: &Finding| {
            summary.thread_time.is_some() && matches!(found, Finding::Waited { .. })
        };
        let untold = findings.iter().filter(|found| !told(found));
        lines.extend(untold.map(remedies::of_finding));
    }
    if let Some(stacks) = &summary.stacks {
        stack_lines(stacks, &mut lines);
    }
    if let Some(trace) = &summary.trace {
        lines.push(traced(trace));
    }
    if let Some(throttling) = &summary.throttling {
        lines.push(throttled(throttling));
    }
    let late_steps = |step: &&Degradation| {
        matches!(
            step,
            Degradation::CpuLost { .. }
                | Degradation::CpuCame { .. }
                | Degradation::CounterFailed { .. }
        )
    };
    for step in summary.degradations.iter().filter(late_steps) {
        lines.push(step.to_string());
    }
    for notice in &summary.notices {
        lines.push(noticed(notice));
    }
    for (limit, times) in summary.limits.iter() {
        lines.push(limited(limit, times));
    }
    if summary.late > 0 {
        let late = counted_are(summary.late, "record");
        lines.push(format!("{late} out of order in the file"));
    }
    if summary.damaged_bytes > 0 {
        lines.push(format!(
            "skipped {} of a ring buffer without valid records; please report this",
            counted(summary.damaged_bytes, "byte")
        ));
    }
    if !summary.left_running.is_empty() {
        let some: Vec<_> = (summary.left_running.iter().take(5))
            .map(ToString::to_string)
            .collect();
        let more = if summary.left_running.len() > 5 {
            ", …"
        } else {
            ""
        };
        let left = match summary.left_running.len() {
            1 => "1 process started by the command still runs and is".to_owned(),
            n => format!("{n} processes started by the command still run and are"),
        };
        lines.push(format!(
            "{left} no longer recorded: {}{more}",
            some.join(", ")
        ));
    }
    if summary.samples + summary.waits == 0 && summary.lost_samples() == 0 {
        let not_counted = |step: &Degradation| matches!(step, Degradation::CounterFailed { .. });
        let why = program.and_then(hidden_by).or_else(|| {
            if let Some(made) = &summary.allocations {
                return alloc::without_samples(made);
            }
            Some(match summary.degradations.iter().any(not_counted) {
                true => "the event was not counted, see above".to_owned(),
                false => without_samples(summary.cpu_time.as_ref(), &summary.events),
            })
        });
        lines.extend(why.map(|why| format!("no samples: {why}")));
    }
    lines
}

fn moved((path, now): &(PathBuf, Whereabouts)) -> String {
    let path = path.display();
    match now {
        Whereabouts::Deleted => format!(
            "{path} was deleted during recording: its data is lost; any file there now is not of \
             this recording"
        ),
        Whereabouts::Moved(to) => format!(
            "{path} was renamed to {} during recording, and holds the data",
            to.display()
        ),
        Whereabouts::Unmoved => format!("{path} holds the data"),
    }
}

/// Explains an empty recording by the CPU time used, or by its events if they are no clocks.
fn without_samples(time: Option<&CpuTime>, events: &[String]) -> String {
    let Some(time) = time else {
        return remedies::of_rare_event(events.iter().map(String::as_str))
            .unwrap_or_else(|| "the target did not run, or not for long enough".to_owned());
    };
    let findings = on_cpu_time(time);
    if let Some(found) = (findings.iter()).find(|found| matches!(found, Finding::Unsampled { .. }))
    {
        return remedies::of_finding(found);
    }
    let used = time.used.as_secs_f64() * 1e3;
    let ran = match time.wall {
        Some(wall) => format!("{used:.3} ms of CPU time in {:.3} s", wall.as_secs_f64()),
        None => format!("{used:.3} ms of CPU time"),
    };
    let period = time.period.as_secs_f64() * 1e3;
    if time.sampled.is_none() && time.used > 10 * time.period {
        return format!("the target used {ran}, but none of it in the sampled code");
    }
    match (time.idle_share(), time.off_cpu()) {
        (Some(share), Some(off_cpu)) if share > 0.9 && off_cpu.waiting > off_cpu.asleep => format!(
            "the target waited {:.3} s for a CPU, and used {ran}",
            off_cpu.waiting.as_secs_f64()
        ),
        (Some(share), Some(off_cpu)) if share > 0.9 && off_cpu.stopped > off_cpu.asleep => format!(
            "a signal, a debugger or the cgroup freezer stopped the target for {:.3} s, and it used \
             {ran}; `kill -CONT PID` ends the stop of a signal",
            off_cpu.stopped.as_secs_f64()
        ),
        (Some(share), Some(_)) if share > 0.9 => {
            format!("the target slept all the time, and used {ran}")
        }
        (Some(share), None) if share > 0.9 => {
            format!("the target slept or waited for a CPU all the time, and used {ran}")
        }
        _ => format!("the target used {ran}, with one sample per {period:.1} ms; try a higher -F"),
    }
}

/// Adds the share of complete stacks, and where the others end.
fn stack_lines(stacks: &StackTally, lines: &mut Vec<String>) {
    if stacks.total == 0 {
        return;
    }
    let share = 100.0 * stacks.complete as f64 / stacks.total as f64;
    let share = match stacks.complete == stacks.total {
        true => "100".to_owned(),
        false => format!("{:.2}", share.min(99.99)),
    };
    lines.push(format!("stacks: {share}% reach their root"));
    interpreted_lines(&stacks.interpreted, lines);
    let mut worst: Vec<_> = stacks.truncated.iter().collect();
    worst.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for ((cause, image), count) in worst.into_iter().take(3) {
        let share = 100.0 * *count as f64 / stacks.total as f64;
        if share < 0.1 {
            break;
        }
        let remedy = remedy(*cause, image).map_or(String::new(), |r| format!("; {r}"));
        let cause = in_words(*cause);
        let image = brief(image);
        lines.push(format!("  {share:.2}% end in {image}: {cause}{remedy}"));
    }
}

/// Adds how many stacks lack functions of an interpreted language.
fn interpreted_lines(stacks: &InterpretedTally, lines: &mut Vec<String>) {
    let all = stacks.total + stacks.unread;
    let share = |part: u64| 100.0 * part as f64 / all.max(1) as f64;
    let missing = [
        (
            stacks.unproven,
            "have unproven callers, shown as a gap: memory changed before it was read",
        ),
        (
            stacks.unnamed,
            "have functions without names: their names could not be read",
        ),
        (
            stacks.unread,
            "have no functions of the program: its memory was not read in time",
        ),
    ];
    for (count, cause) in missing {
        if share(count) >= 0.1 {
            lines.push(format!(
                "  {:.1}% of {all} interpreted stacks {cause}",
                share(count)
            ));
        }
    }
}

fn in_words(cause: StackCause) -> &'static str {
    match cause {
        StackCause::StackEnded => "deeper than the copied part of the stack",
        StackCause::NoUnwindInfo => "no unwind information",
        StackCause::BadUnwindInfo => "unusable unwind information",
        StackCause::BadMemory => "unwinding needs a value that was not recorded",
        StackCause::OtherStack => "callers are on another stack, which was not copied",
        StackCause::NotMapped => "a return address points to no code",
        StackCause::TooDeep => "more frames than a record can hold",
        StackCause::Compat => "32-bit ARM, which rprof does not unwind",
        StackCause::NotOpened => "not opened: too many open files",
        StackCause::FileNotOpened => "its file could not be opened",
        StackCause::NoMappings => "the mappings of the process are unknown",
        StackCause::TooSlow => "unwinding took too long",
        _ => "another reason",
    }
}

fn remedy(cause: StackCause, image: &str) -> Option<&'static str> {
    // PHP's OPcache keeps its code in shared memory.
    let is_made_at_run_time = ["//anon", "[", "/dev/zero"]
        .iter()
        .any(|start| image.starts_with(start));
    match cause {
        StackCause::NoUnwindInfo if image.starts_with("/memfd:vmem") => Some(
            "if this is Erlang (beam.smp), --runtimes or `erl +JPperf true` keeps frame pointers",
        ),
        StackCause::NoUnwindInfo if rprof_symbols::is_by_ghc(Path::new(image)) => Some(
            "Haskell keeps callers on a heap stack, which samples do not copy; GHC's own profiler \
             shows them",
        ),
        StackCause::NoUnwindInfo if is_made_at_run_time => Some(
            "generated code shows its callers with frame pointers or a jitdump, unless it keeps them \
             in the heap, as Chez Scheme and Racket do",
        ),
        StackCause::NoUnwindInfo if rprof_symbols::has_generated_code(Path::new(image)) => Some(
            "it is the dump of a process with generated code (as of GNU Common Lisp), which has none",
        ),
        StackCause::NotOpened => Some("raise `ulimit -n`"),
        StackCause::NoUnwindInfo => Some("build it with unwind information or frame pointers"),
        StackCause::Compat => Some("--call-graph fp follows frame pointers"),
        _ => None,
    }
}

fn shown(path: &Path) -> String {
    brief(&path.to_string_lossy())
}

fn noticed(notice: &Notice) -> String {
    match notice {
        Notice::ImagesEmbedded {
            first,
            count,
            bytes,
            without_code,
        } => {
            let (and_more, are) = match count.saturating_sub(1) {
                0 => (String::new(), "is"),
                n => (format!(" and {n} more"), "are"),
            };
            let (path, kib) = (shown(first), bytes.div_ceil(1024));
            let part = match without_code {
                0 => String::new(),
                n if n == count => ", without code".to_owned(),
                n => format!(", {n} without code"),
            };
            format!(
                "{path}{and_more} {are} embedded in the recording: not reachable by path from here \
                 ({kib} KiB before compression{part}; -v names all)"
            )
        }
        Notice::ImageTooLong {
            path,
            bytes,
            others,
        } => {
            let and_more = match others {
                0 => String::new(),
                n => format!(" (and {n} more)"),
            };
            format!(
                "{}{and_more} is not embedded: too large ({}), and not reachable by its \
                 path; its functions may have no names",
                shown(path),
                counted(*bytes, "byte")
            )
        }
        Notice::ImageGone { path, others } => {
            let and_more = match others {
                0 => String::new(),
                n => format!(" (and {n} more)"),
            };
            format!(
                "{}{and_more} is not embedded: deleted before it could be copied; its functions \
                 may have no names",
                shown(path)
            )
        }
        Notice::TooManyImages { known, left_out } => format!(
            "limit: samples lie in more than {known} programs and libraries; {} more {} not embedded \
             if deleted",
            left_out,
            if *left_out == 1 { "is" } else { "are" }
        ),
        Notice::NotEmbedded { path, reason } => {
            let why = match reason {
                NotEmbedded::Unusable(why) => why,
                NotEmbedded::NoRoom => "the limit for such files is reached",
                NotEmbedded::NoEntries => "it has no valid entries",
                NotEmbedded::NotReadable => {
                    "its process may not read it, or rprof may not act as that process's user"
                }
                _ => "unknown cause",
            };
            format!("{} is not embedded: {why}", shown(path))
        }
        Notice::BadLines { path, lines } => {
            let lines = counted_were(*lines, "invalid line");
            format!("{}: {lines} skipped", shown(path))
        }
        Notice::TooManyRuntimes { followed } => format!(
            "limit: perf maps of only {} embedded; more processes may generate code",
            counted_are(*followed as u64, "process")
        ),
        _ => "some files that reports need are not embedded".to_owned(),
    }
}

fn limited(limit: Limit, times: u64) -> String {
    let n = |noun| counted(times, noun);
    let are = |noun| counted_are(times, noun);
    let were = |noun| counted_were(times, noun);
    let text = match limit {
        Limit::Flood => format!(
            "dropped {} of processes that flood them: their code may have no names",
            n("mapping or name record")
        ),
        Limit::Mappings => {
            format!("{} not followed: too many in one process", are("mapping"))
        }
        Limit::Images => format!(
            "{} without an image: too many images were mapped at a time",
            n("mapping")
        ),
        Limit::LongUnwindInfo => {
            format!("unwind information of {} too large", are("image"))
        }
        Limit::SparseImage => format!("{} not read: nothing but holes", are("image")),
        Limit::OpenFiles => format!(
            "{} not opened: too many open files (`ulimit -n`)",
            were("image")
        ),
        Limit::SilentImages => format!(
            "{} deferred: opening others of the same user timed out",
            were("image")
        ),
        Limit::UnwindTables => format!(
            "unwind information of {} dropped to make room for others",
            were("image")
        ),
        Limit::SlowStacks => format!("{} cut short: unwinding took too long", were("stack")),
        Limit::Jitdumps => format!(
            "jitdumps grew too fast to be read ({}): stacks in their code may be cut short",
            n("time")
        ),
        Limit::ProcessMemory => format!(
            "reading process memory timed out ({}): deep stacks may be cut short",
            n("time")
        ),
        Limit::JitdumpTime => format!(
            "reading jitdumps timed out ({}): stacks in their code may be cut short",
            n("time")
        ),
        Limit::TruncatedImages => format!(
            "{} counted without the name of the image",
            were("truncated stack")
        ),
        Limit::BuildIds => format!(
            "{} without a build-id in the recording: too many files",
            n("mapping")
        ),
        Limit::EmbeddingEvents => format!(
            "files of {} not checked, as too many came: if deleted, their functions may have no \
             names",
            were("mapping")
        ),
        Limit::EmbeddingTime => {
            "some files were not embedded: reading them took too long".to_owned()
        }
        Limit::SilentFiles => format!(
            "{} not embedded: reading timed out, here or for others of the same user",
            were("file")
        ),
        _ => format!("an unknown limit was reached {}", n("time")),
    };
    format!("limit: {text}")
}

fn loss_lines(summary: &Summary, lines: &mut Vec<String>) {
    let by_cpu = |losses: &[(u32, u64)]| {
        let cpus: Vec<String> = (losses.iter())
            .map(|(cpu, n)| format!("CPU {cpu}: {}", HumanCount(*n)))
            .collect();
        cpus.join(", ")
    };
    let sum = |losses: &[(u32, u64)]| losses.iter().map(|(_, n)| n).sum();
    if summary.lost_samples() == 0 {
        lines.push("lost 0 samples".to_owned());
    }
    if !summary.lost.is_empty() {
        let why = match summary.lagged {
            0 => "the ring buffers were full",
            _ => "the disk or the CPU did not keep up",
        };
        // Recordings of memory have no rate.
        let has_rate = summary.memory.is_none() && summary.allocations.is_none();
        let advice = summary.loss_advice.clone().map(|advice| LossAdvice {
            rate: advice.rate.filter(|_| has_rate),
            ..advice
        });
        let advice = advice.as_ref().and_then(fewer_losses);
        let advice = advice.map_or(String::new(), |settings| {
            format!(". To lose fewer: {settings}")
        });
        lines.push(format!(
            "lost {} ({}): {why}; shares may be off{advice}",
            counted(sum(&summary.lost), "sample"),
            by_cpu(&summary.lost)
        ));
    }
    if !summary.dropped.is_empty() {
        lines.push(format!(
            "the processor itself dropped {} ({}); a lower -F or higher -c helps",
            counted(sum(&summary.dropped), "sample"),
            by_cpu(&summary.dropped)
        ));
    }
    if summary.lost_sideband > 0 {
        lines.push(format!(
            "lost {}: some frames will have no name",
            counted(summary.lost_sideband, "name or mapping record")
        ));
    }
}

fn fewer_losses(advice: &LossAdvice) -> Option<String> {
    let ring = larger_ring(advice);
    let rate = advice.rate.map(|rate| match rate {
        SuggestedRate::Frequency(hertz) => format!("-F {hertz}"),
        SuggestedRate::Period(period) => format!("-c {period}"),
    });
    let no_copies = (advice.copies_stacks).then(|| "--call-graph fp".to_owned());
    let options: Vec<String> = [ring, rate, no_copies].into_iter().flatten().collect();
    match &options[..] {
        [] => None,
        [only] => Some(only.clone()),
        [first @ .., last] => Some(format!("{} or {last}", first.join(", "))),
    }
}

/// Returns the option for a larger ring buffer, and the privilege it needs.
pub(crate) fn larger_ring(advice: &LossAdvice) -> Option<String> {
    let mib = advice.ring? >> 20;
    Some(match advice.mlock_kb {
        None => format!("-m {mib}M"),
        Some(kib) => format!("-m {mib}M as root or with `sysctl kernel.perf_event_mlock_kb={kib}`"),
    })
}

fn traced(trace: &AuxTally) -> String {
    match (trace.pieces, trace.has_gaps()) {
        (0, _) => "nothing was traced".to_owned(),
        (_, true) => format!("{trace}; enlarge the buffer, the second number of -m"),
        _ => trace.to_string(),
    }
}

fn throttled(throttling: &Throttling) -> String {
    let limit = match throttling.limit {
        Some(limit) => format!(
            ", as its limit (kernel.perf_event_max_sample_rate) is now {} per second",
            HumanCount(limit)
        ),
        None => String::new(),
    };
    let rate = match throttling.suggested_rate {
        Some(SuggestedRate::Frequency(hertz)) => format!("-F {hertz} avoids this"),
        Some(SuggestedRate::Period(period)) => format!("-c {period} avoids this"),
        None => "a lower -F or higher -c helps".to_owned(),
    };
    format!(
        "throttled: the kernel paused sampling of {} {}{limit}; {rate}",
        throttling.event,
        counted(throttling.times, "time")
    )
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
