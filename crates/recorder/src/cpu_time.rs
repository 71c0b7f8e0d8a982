//! Measures the CPU time of the target, to compare it with the sampled time.

use std::time::Duration;

use rprof_cpu_time::CpuTime;
use rprof_launch::cpu_time::family_cpu_time;
use rprof_launch::procfs::Procfs;
use rprof_launch::{Child, CpuTimeWatcher, Delay, DelayWatcher, Delayed, Target, ThreadSelection};
use rprof_records::{Attr, AttrFlags, EventKind};
use rprof_sampler::{EventIds, FinalCounts, Role, Session};

use crate::output::Tally;

/// Shortest period of a clock event in nanoseconds (`perf_swevent_start_hrtimer` in
/// kernel/events/core.c).
const SHORTEST_PERIOD: u64 = 10_000;

/// Configurations of `cpu-clock` and `task-clock` (`PERF_COUNT_SW_CPU_CLOCK`,
/// `PERF_COUNT_SW_TASK_CLOCK`).
const CLOCKS: [u64; 2] = [0, 1];

/// Shortest system-wide recording with a CPU time: its source has the resolution of clock ticks.
const MIN_OF_SYSTEM: Duration = Duration::from_secs(1);

/// Kernel statistics of the target's CPU time since the start of a recording.
///
/// The clock event counts too, but misses the end of each thread: a tenth of the time of short
/// processes. So the larger value is used.
#[derive(Debug)]
pub(crate) enum Accounts {
    /// A command that started with the recording.
    Command,
    /// Attached processes or threads.
    Attached(CpuTimeWatcher),
    /// Whole CPUs, with their busy time at the start.
    Cpus(Duration),
    None,
}

impl Accounts {
    /// Reads the initial values at the start of a recording, or when it is enabled later.
    pub(crate) fn begin(session: &Session, is_late: bool) -> Accounts {
        match session.target() {
            // The statistics include time before sampling started.
            Target::Command if is_late => Accounts::None,
            Target::Command => Accounts::Command,
            Target::System => {
                let busy = Procfs::default().busy_time(watched_cpus(session));
                busy.map_or(Accounts::None, Accounts::Cpus)
            }
            target => match ThreadSelection::from_target(target, false) {
                Some(selection) => {
                    Accounts::Attached(CpuTimeWatcher::new(&selection, session.attached()))
                }
                None => Accounts::None,
            },
        }
    }

    /// Returns true for a command that has ended: its CPU time does not change any more.
    pub(crate) fn are_final(&self, session: &Session) -> bool {
        let ended = session.child().and_then(Child::ended_at);
        matches!(self, Accounts::Command) && ended.is_some()
    }

    /// Returns the CPU time used so far. Call it before sampling stops, because the target runs on,
    /// or later if they [are final](Self::are_final). It reaps a command that has ended.
    pub(crate) fn used(&self, session: &Session) -> Option<Duration> {
        let inherits = session.inherits();
        match self {
            Accounts::Command if inherits => {
                let child = session.child()?;
                let ended = child.usage().map(|usage| usage.user + usage.system);
                ended.or_else(|| family_cpu_time(u32::try_from(child.pid()).ok()?))
            }
            Accounts::Attached(watcher) => Some(watcher.used(inherits)),
            Accounts::Cpus(before) => {
                let busy = Procfs::default().busy_time(watched_cpus(session))?;
                Some(busy.saturating_sub(*before))
            }
            Accounts::Command | Accounts::None => None,
        }
    }

    /// Returns the CPU time of the processes in `unfinished`, which the command left running.
    /// Returns 0 while the command runs, because the clock event counts them then.
    fn left_behind(&self, session: &Session, unfinished: &[i32]) -> Duration {
        match (self, session.child()) {
            (Accounts::Command, Some(child)) if child.ended_at().is_some() => (unfinished.iter())
                .filter(|pid| **pid != child.pid())
                .filter_map(|pid| family_cpu_time(u32::try_from(*pid).ok()?))
                .sum(),
            _ => Duration::ZERO,
        }
    }
}

/// Begins to measure how long the target waits for a CPU; `None` for whole CPUs and cgroups.
pub(crate) fn watch_delays(session: &Session) -> Option<DelayWatcher> {
    let watched = match session.target() {
        Target::System | Target::Cgroups(_) => return None,
        Target::Command => Delayed::Command(u32::try_from(session.child()?.pid()).ok()?),
        Target::Threads(_) => Delayed::Threads(session.attached().to_vec()),
        Target::Processes(_) | Target::User(_) => {
            let mut pids: Vec<u32> = session.attached().iter().map(|thread| thread.pid).collect();
            pids.dedup();
            Delayed::Processes(pids)
        }
    };
    Some(DelayWatcher::begin(watched))
}

pub(crate) fn with_delays(
    time: CpuTime,
    session: &Session,
    delays: Option<&DelayWatcher>,
) -> CpuTime {
    let whole = session.child().and_then(Child::schedule);
    let delay = delays.and_then(|delays| delays.so_far(time.used, whole));
    CpuTime {
        waiting: delay.map(|delay: Delay| delay.waiting),
        unclear: delay.map_or(Duration::ZERO, |delay| delay.unclear),
        throttled: delay
            .map(|delay| delay.throttled)
            .filter(|time| !time.is_zero()),
        stopped: delay
            .map(|delay| delay.stopped)
            .filter(|time| !time.is_zero()),
        ..time
    }
}

fn watched_cpus(session: &Session) -> &[u32] {
    session.watched_cpus().unwrap_or(session.cpus())
}

/// Returns the CPU time of a finished recording; `None` for cgroups or without a clock event.
/// `used` is [`Accounts::used`] before sampling stopped, and `sampled` the CPU time that samples of
/// several periods stand for.
pub(crate) fn measured(
    session: &Session,
    (accounts, used): (&Accounts, Option<Duration>),
    counts: &FinalCounts,
    (total, sampled): (&Tally, Option<Duration>),
    unfinished: &[i32],
    wall: Duration,
) -> Option<CpuTime> {
    let samples = total.samples + total.all_lost() - total.idle;
    if session.counts_others() {
        let mut time = of_counts(session.events(), counts, samples, Some(wall), total.born)?;
        time.used = used?;
        return Some(time);
    }
    if session.target().is_by_cpu() {
        let mut time = of_counts(session.events(), counts, samples, None, total.born)?;
        time.used = used?;
        return (wall >= MIN_OF_SYSTEM).then_some(time);
    }
    let online = rprof_events::cpus::online().unwrap_or_default();
    let came = (online.iter()).filter(|cpu| !session.cpus().contains(cpu));
    let came = came.count();
    // The kernel's statistics include CPUs that came later, and all events count elsewhere.
    let is_everywhere = match session.watched_cpus() {
        Some(_) => came == 0,
        None => came == 0 || used.is_some(),
    };
    let wall = is_everywhere.then_some(wall);
    let mut time = of_counts(session.events(), counts, samples, wall, total.born)?;
    if let (true, Some(used)) = (is_everywhere, used) {
        let used = used + accounts.left_behind(session, unfinished);
        time.used = time.used.max(used);
    }
    if session.watched_cpus().is_none() {
        time.unrecorded_cpus = came as u64;
    }
    time.privileged_programs = total.privileged;
    if let (Some(sampled), true) = (sampled, time.sampled.is_some()) {
        let lost = u32::try_from(total.all_lost()).unwrap_or(u32::MAX);
        time.sampled = Some(sampled + time.period.saturating_mul(lost));
    }
    Some(time)
}

/// Returns the CPU time from the events' final counts; `None` if no clock was sampled.
///
/// A clock event counts the running time of its threads, including ended ones. So its count is the
/// used CPU time, and samples times period is the sampled time. They differ for short threads: each
/// begins a new period.
fn of_counts(
    events: &[EventIds],
    counts: &FinalCounts,
    samples: u64,
    wall: Option<Duration>,
    tasks: u64,
) -> Option<CpuTime> {
    let sampled: Vec<_> = events.iter().filter(|e| e.role == Role::Samples).collect();
    let place = sampled.iter().position(|event| is_clock(&event.attr))?;
    let attr = &sampled[place].attr;
    let each = counts.cpus.iter().filter_map(|cpu| cpu.events.get(place));
    let used = each.filter_map(rprof_sampler::EventCount::value).sum();
    let period = period_ns(attr);
    let leaves_out = AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL;
    let is_whole = sampled.len() == 1 && !attr.flags.intersects(leaves_out);
    Some(CpuTime {
        used: Duration::from_nanos(used),
        sampled: is_whole.then(|| Duration::from_nanos(samples.saturating_mul(period))),
        period: Duration::from_nanos(period),
        wall,
        tasks,
        ..CpuTime::default()
    })
}

fn is_clock(attr: &Attr) -> bool {
    attr.kind == EventKind::SOFTWARE && CLOCKS.contains(&attr.config)
}

/// Returns the sampling period of an event that counts CPU time; `None` for other events.
pub(crate) fn period_of_clock(attr: &Attr) -> Option<Duration> {
    is_clock(attr).then(|| Duration::from_nanos(period_ns(attr)))
}

/// Returns the fixed period of a clock event, converted from a frequency as in the kernel.
fn period_ns(attr: &Attr) -> u64 {
    let period = match attr.flags.contains(AttrFlags::FREQ) {
        true => 1_000_000_000 / attr.period_or_freq.max(1),
        false => attr.period_or_freq,
    };
    period.max(SHORTEST_PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_sampler::{CpuCounts, EventCount};

    fn clock(flags: AttrFlags) -> EventIds {
        EventIds {
            role: Role::Samples,
            name: "cpu-clock".into(),
            ids: Vec::new(),
            attr: Attr {
                kind: EventKind::SOFTWARE,
                period_or_freq: 1000,
                flags: AttrFlags::FREQ | flags,
                ..Attr::default()
            },
        }
    }

    fn counts(values: &[u64]) -> FinalCounts {
        let cpus = values.iter().map(|value| {
            let sum = Some(rprof_perf_event::Reading {
                value: *value,
                ..Default::default()
            });
            CpuCounts {
                events: vec![EventCount { sum, failure: None }],
                ..CpuCounts::default()
            }
        });
        FinalCounts {
            cpus: cpus.collect(),
        }
    }

    #[test]
    fn what_was_used_is_the_count_and_what_samples_stand_for_is_their_number() {
        let wall = Some(Duration::from_secs(1));
        let of = |event| of_counts(&[event], &counts(&[300_000_000, 1]), 20, wall, 7).unwrap();
        let time = of(clock(AttrFlags::empty()));
        assert_eq!(time.used, Duration::from_nanos(300_000_001));
        assert_eq!(time.sampled, Some(Duration::from_millis(20)));
        assert_eq!(time.period, Duration::from_millis(1));
        // The excluded half is not sampled at all.
        assert_eq!(of(clock(AttrFlags::EXCLUDE_KERNEL)).sampled, None);
        let mut faults = clock(AttrFlags::empty());
        faults.attr.config = 2;
        assert_eq!(of_counts(&[faults], &counts(&[1]), 1, None, 0), None);
    }

    #[test]
    fn no_period_is_shorter_than_the_kernel_has_it() {
        let mut attr = clock(AttrFlags::empty()).attr;
        attr.period_or_freq = 1_000_000;
        assert_eq!(period_ns(&attr), 10_000);
        attr.flags = AttrFlags::empty();
        assert_eq!(period_ns(&attr), 1_000_000);
    }
}
