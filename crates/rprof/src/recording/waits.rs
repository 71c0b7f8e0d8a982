//! Waits of threads: recording and display options.

use std::time::Duration;

use rprof_analysis::{Options, WaitOptions};
use rprof_launch::RunDelay;
use rprof_profile::unit::counted;
use rprof_profile::waits::reasons::RUNNING;
use rprof_profile::waits::{WAITS, is_of_waits};
use rprof_profile::{Profile, WallError, WeightUnit};
use rprof_recorder::ThreadTime;
use rprof_records::AttrFlags;
use rprof_sampler::SessionBuilder;

use crate::cli::{TargetArgs, WaitArgs};
use crate::wording::messages::Failure;
use crate::wording::remedies::FOR_MISSING_WAITS;

fn usage(message: String) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

pub(crate) fn add_to(
    builder: SessionBuilder,
    target: &TargetArgs,
    flag: &str,
) -> Result<SessionBuilder, Failure> {
    if target.cgroups.len() > 1 {
        return Err(usage(format!(
            "{flag} needs a single control group: switches of threads in two groups would count \
             twice; name the outer group"
        )));
    }
    let builder = builder.off_cpu(true);
    // rprof's own waits would cause more waits without end.
    let is_by_cpu = target.all_cpus || target.cpus.is_some() || !target.cgroups.is_empty();
    Ok(match is_by_cpu {
        true => builder.exclude_self(true),
        false => builder,
    })
}

/// Adds records of context switches, which tell when threads run.
pub(crate) fn with_switches(builder: SessionBuilder) -> SessionBuilder {
    builder.extras(|extras| extras.records |= AttrFlags::CONTEXT_SWITCH)
}

impl WaitArgs {
    pub(crate) fn flag(&self) -> &'static str {
        match (self.wall, self.off_cpu) {
            (true, _) => "--wall",
            (_, true) => "--off-cpu",
            _ => "--reason",
        }
    }

    /// Selects the shown waits, beside the events that the user chose.
    ///
    /// # Errors
    /// The chosen events exclude waits.
    pub(crate) fn choose(&self, mut options: Options) -> Result<Options, Failure> {
        self.memory.choose(&mut options);
        options.by_request.clone_from(&self.by);
        if !self.is_given() {
            return Ok(options);
        }
        options.waits = WaitOptions {
            fold_idle: !self.no_fold_idle,
            alone: self.shows_waits_alone(),
        };
        self.check(&options.filter.events)?;
        options.filter.reasons.clone_from(&self.reason);
        if self.wall && !options.filter.events.is_empty() {
            // The waits belong to the on-CPU event.
            options.filter.events.push(WAITS.to_owned());
        }
        Ok(options)
    }

    fn check(&self, events: &[String]) -> Result<(), Failure> {
        let flag = self.flag();
        if self.off_cpu && !self.reason.is_empty() && self.reason.iter().all(|word| word == RUNNING)
        {
            return Err(usage(format!(
                "--off-cpu excludes time on CPUs, which --reason {RUNNING} selects; give --wall \
                 instead"
            )));
        }
        let Some(chosen) = events.first() else {
            return Ok(());
        };
        if self.shows_waits_alone() && !events.iter().any(|event| is_of_waits(event)) {
            return Err(usage(format!(
                "{flag} shows waits (event {WAITS}), but --event {chosen} selects another event; \
                 leave one out, or give --wall, which shows both"
            )));
        }
        if !self.wall {
            return Ok(());
        }
        let mut others = events.iter().filter(|event| !is_of_waits(event)).peekable();
        if others.peek().is_none() {
            return Err(usage(format!(
                "--wall shows waits and time on CPUs, but --event {chosen} selects only waits; \
                 leave --event out, or give --off-cpu instead of --wall"
            )));
        }
        let is_time = |event: &String| WeightUnit::of_event(event) == WeightUnit::Nanoseconds;
        match others.any(is_time) {
            true => Ok(()),
            false => Err(usage(format!(
                "--wall adds waits to time on CPUs, but samples of --event {chosen} are not time; \
                 choose cpu-clock, or give --off-cpu for waits only"
            ))),
        }
    }

    /// Joins waits and on-CPU samples into one event, for --wall.
    pub(crate) fn join(&self, profile: &mut Profile) -> Result<(), Failure> {
        if !self.wall {
            return Ok(());
        }
        profile.join_wall_clock().map_err(|error| {
            let remedy = match &error {
                WallError::NotTime(_) => "record it with -e cpu-clock",
                _ => FOR_MISSING_WAITS,
            };
            usage(format!("--wall: {error}; {remedy}"))
        })
    }
}

pub(crate) fn run_delay(delay: &RunDelay) -> String {
    let who = counted(delay.threads, "thread");
    format!(
        "scheduler statistics: {who} that existed throughout waited {:.3} s for a CPU, including the time from wakeup to \
         running",
        delay.time.as_secs_f64()
    )
}

/// Says for how long a process could not run, which the line before counts as blocked.
pub(crate) fn stopped_time(time: Duration) -> String {
    format!(
        "a signal, a debugger or the cgroup freezer stopped a process for {:.3} s, which counts as \
         blocked",
        time.as_secs_f64()
    )
}

pub(crate) fn thread_time(waits: u64, time: &ThreadTime, ring: Option<String>) -> Vec<String> {
    let samples = counted(waits, "sample");
    let seconds = |ns: u64| format!("{:.3} s", Duration::from_nanos(ns).as_secs_f64());
    let threads = counted(time.threads, "thread");
    let waited = counted(time.waits, "wait");
    let total = time.total().as_secs_f64();
    let mut lines = vec![format!(
        "{samples} of {WAITS}, of {waited}; {total:.3} s of {threads}: {} on a CPU, {} blocked, {} waiting for a CPU",
        seconds(time.on_cpu),
        seconds(time.blocked),
        seconds(time.runnable)
    )];
    if time.windows > 0 {
        let windows = counted(time.windows, "window");
        lines.push(format!(
            "context switches came too often to record all: times are estimates from {windows}, \
             extrapolated for the {} between them; --off-cpu-budget 100 records all, but slows the \
             program",
            seconds(time.paused)
        ));
    }
    if time.elsewhere > 0 {
        lines.push(
            "with -C, times include time on these CPUs, and waits that began there, wherever they \
             ended"
                .to_owned(),
        );
    }
    if time.wakers_until.is_some() {
        lines.push(
            "wakers were not recorded to the end: this machine exceeds the limit of 100,000 \
             wakeups per second; later waits do not show their wakers"
                .to_owned(),
        );
    }
    if time.lost_switches == 0 && time.unknown > 0 {
        lines.push(format!(
            "{} of thread time is unknown",
            seconds(time.unknown)
        ));
    }
    if time.lost_switches > 0 {
        lines.push(format!(
            "lost {}: {} of thread time is unknown. To lose fewer: {}--realtime 1",
            counted(time.lost_switches, "context switch"),
            seconds(time.unknown),
            ring.map_or(String::new(), |ring| format!("{ring} or "))
        ));
    }
    lines
}
