//! Amount and quality of the samples.

use std::time::Duration;

use rprof_export::names::CleanNames;
use rprof_export::rows::percent;
use rprof_export::verdict::{Finding, on_cpu_time, throttled};
use rprof_profile::unit::inflected;
use rprof_profile::waits::is_of_waits;
use rprof_profile::{Profile, WeightUnit};

use crate::sentence::{Sentence, Topic};
use crate::stacks::{share_text, time_text};

/// Losses and incomplete stacks below this share are no reason to doubt, in percent.
const DOUBTFUL: f64 = 1.0;

/// Share of the time without a running thread that is worth a sentence, in percent.
const IDLE: f64 = 20.0;

pub(crate) fn sentences(profile: &Profile) -> Vec<Sentence> {
    let quality = &profile.quality;
    let mut found = Vec::new();
    let mut add = |text: String, command: &str, importance: f64| {
        found.push(Sentence {
            topic: Topic::Measured,
            text,
            command: command.to_owned(),
            importance,
        });
    };
    if let Some(event) = profile.main_event() {
        let samples = profile.events[event].samples;
        let names = CleanNames::new(profile);
        let is_memory = profile.events[event].unit == WeightUnit::Bytes;
        let name = names.event(event);
        let mut text = match is_memory {
            true => format!(
                "{:.1} MiB of {name} in {samples} {}",
                profile.events[event].weight as f64 / f64::from(1 << 20),
                inflected(samples, "stack")
            ),
            // Folded stacks: their numbers are often nanoseconds.
            false if &*name == "samples" => {
                format!("{samples} in all, of a unit that the input does not name")
            }
            false => format!("{samples} {} of {name}", inflected(samples, "sample"),),
        };
        // Samples may begin late and end early.
        let wall = quality.cpu_time.as_ref().and_then(|time| time.wall);
        let between = profile
            .time
            .map_or(0, |(first, last)| last.saturating_sub(first));
        match wall.map_or(between, nanoseconds) {
            0 => {}
            time => text += &format!(" in {}", time_text(time)),
        }
        if let Some(time) = &quality.cpu_time {
            let used = time_text(nanoseconds(time.used));
            text += &format!("; the program used {used} of CPU time");
        }
        // Memory is counted, not sampled.
        if samples < 100 && !is_memory {
            text += ": too few for shares below 10%; record for longer, or with a higher -F";
        }
        // Profiles of other tools have no header.
        let command = match quality.recorded {
            0 => "report",
            _ => "header",
        };
        add(text + ".", command, 1000.0);
    }
    let findings = quality.cpu_time.as_ref().map(on_cpu_time);
    for found in findings.unwrap_or_default() {
        if let Finding::Unsampled {
            longer_than_tasks, ..
        } = &found
        {
            let statement = found.statement();
            let remedy = match longer_than_tasks {
                Some(_) => ". Record with -F 20000, or with -a",
                None => "",
            };
            let text = format!("S{}{remedy}.", &statement[1..]);
            add(text, "report", 950.0);
        }
    }
    let all = quality.lost.saturating_add(match quality.recorded {
        0 => quality.stacks.total,
        recorded => recorded,
    });
    let lost = percent(quality.lost, all);
    if lost >= DOUBTFUL {
        let text = format!(
            "{} of the samples are lost, so amounts are too low.",
            share_text(lost)
        );
        add(text, "report", 900.0);
    }
    let complete = 100.0 * quality.complete_share();
    if profile.has_callchains && quality.stacks.total > 0 && complete <= 100.0 - DOUBTFUL {
        let text = format!(
            "{} of the stacks reach their root; callers of the others are unknown beyond a point.",
            share_text(complete)
        );
        add(text, "report", 800.0);
    }
    if quality.damaged {
        let text = "Part of the recording is missing or unreadable, so amounts are too low.";
        add(text.to_owned(), "report", 900.0);
    }
    let has_waits =
        (profile.events.iter()).any(|event| is_of_waits(&event.name) && event.samples > 0);
    if let Some(time) = quality.cpu_time.as_ref().filter(|_| !has_waits)
        && let (Some(wall), Some(off)) = (time.wall, time.off_cpu())
    {
        let share = |part: Duration| 100.0 * part.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        let (asleep, waiting) = (share(off.asleep), share(off.waiting));
        let at_least = if share(off.unclear) >= 1.0 {
            "at least "
        } else {
            ""
        };
        if share(off.unclear) >= IDLE {
            let text = format!(
                "For {} of the time no thread ran, and some waited for a CPU or all slept: which of \
                 them is unclear without --off-cpu.",
                share_text(share(off.unclear))
            );
            add(text, "report", 550.0);
        }
        if asleep >= IDLE {
            let text = format!(
                "For {at_least}{} of the time all threads slept, and CPU time does not show what they waited \
                 for: record with --off-cpu.",
                share_text(asleep)
            );
            add(text, "report", 700.0 + asleep);
        }
        let stopped = share(off.stopped);
        if stopped >= IDLE {
            let text = format!(
                "For {} of the time a signal, a debugger or the cgroup freezer had stopped the program.",
                share_text(stopped)
            );
            add(text, "report", 650.0 + stopped);
        }
        if waiting >= IDLE {
            let throttled = throttled(time).map(|time| time_text(nanoseconds(time)));
            let cause = match throttled {
                Some(throttled) => {
                    format!("the quota of its control group stopped it for {throttled}")
                }
                None => "other programs used them".to_owned(),
            };
            let text = format!(
                "For {at_least}{} of the time the program could run but had no CPU: {cause}.",
                share_text(waiting)
            );
            add(text, "report", 600.0 + waiting);
        }
    }
    found
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
