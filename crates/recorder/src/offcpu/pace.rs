//! [`Pace`]: limits the cost of recording switches.
//!
//! Recording a switch costs some microseconds, and a workload may switch at any rate. If the cost
//! exceeds the budget, switches are recorded only in windows, for a share of time that depends on
//! the rate. Gaps have random lengths, so that no program runs in step with them.
//! [`windows`](super::windows) extrapolates the results.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rprof_launch::procfs::Procfs;
use rprof_records::AttrFlags;
use rprof_sampler::{Clock, FastDrain, Role, Session, SwitchEvents};

use super::boundaries::{Boundaries, Change};
use super::sleeping::Reading;

/// Interval of rate checks while all switches are recorded.
const LOOK: Duration = Duration::from_millis(20);

/// Mean time from one window to the next.
const PERIOD: Duration = Duration::from_millis(400);

/// Minimum length of a window: much longer than starting and stopping the events of a few threads.
const SHORTEST: Duration = Duration::from_millis(2);

/// Maximum time from one window to the next, with windows of minimum length.
const LONGEST_PERIOD: Duration = Duration::from_secs(2);

/// Cost, as a multiple of the budget, that starts windows. They end below the budget.
const TOO_MUCH: f64 = 2.0;

/// Maximum credit in CPU seconds before windows begin, for bursts as at program start. Unused
/// budget refills it.
const BURST: f64 = 0.02;

/// Time of frequent draining after a window.
const BEHIND: Duration = Duration::from_millis(10);

/// Maximum share of a window's time for stopping and starting the events.
const CONTROL: f64 = 0.1;

/// Cost in CPU seconds of a switch with a sample, and with a SWITCH record alone.
const COST: (f64, f64) = (6e-6, 1.2e-6);

/// Maximum wakeups per second on one CPU: some 5 % of its time. Beyond it, wakeups are not recorded
/// any more. Averaged over [`WAKEUPS_OVER`].
const MAX_WAKEUPS: f64 = 100_000.0;

const WAKEUPS_OVER: Duration = Duration::from_secs(1);

/// Maximum switch samples per second that the recorder can handle: a fifth of a CPU.
const MAX_SAMPLED: f64 = 20_000.0;

#[derive(Debug)]
pub(crate) struct Pace {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pace {
    /// Limits the cost of a session's switches to a share of a CPU's time. Returns `None` without
    /// switches or limit, if the thread cannot be started, or if the records' clock cannot be read.
    pub(crate) fn begin(
        session: &Session,
        boundaries: &Arc<Boundaries>,
        budget: f64,
    ) -> Option<Pace> {
        let events = session.switch_events()?;
        if budget >= 1.0 || !session.is_stamped_by_clock() {
            return None;
        }
        let its = |event: &&rprof_sampler::EventIds| event.role == Role::OffCpu;
        let flags = session.events().iter().find(its)?.attr.flags;
        let samples = !flags.contains(AttrFlags::EXCLUDE_KERNEL);
        let (stop, stopped) = bounded(0);
        let pacer = Pacer {
            events,
            boundaries: Arc::clone(boundaries),
            clock: session.clock(),
            fast_drain: session.fast_drain().clone(),
            stopped,
            budget,
            cost: if samples { COST.0 } else { COST.1 },
            samples,
            rate: Rate::default(),
            wakeups: session.wakeups().map(|events| (events, Instant::now(), 0)),
        };
        let thread = std::thread::Builder::new().name("rprof-pace".into());
        let thread = thread.spawn(move || {
            rprof_sampler::prefer_this_thread();
            pacer.run();
        });
        Some(Pace {
            stop: Some(stop),
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Debug, Default)]
struct Rate {
    counted: Vec<u64>,
    /// Sums of the checks, each with half the weight of the next: switches per CPU, seconds.
    switches: Vec<f64>,
    seconds: f64,
    /// Switches of the busiest CPU since the previous check.
    latest: u64,
}

impl Rate {
    fn look(&mut self, counted: Vec<u64>, time: Duration) {
        self.counted.resize(counted.len(), 0);
        self.switches.resize(counted.len(), 0.0);
        let since = counted.iter().zip(&self.counted);
        let since = since.map(|(now, before)| now.saturating_sub(*before));
        self.latest = since.max().unwrap_or(0);
        for (sum, (now, before)) in
            (self.switches.iter_mut()).zip(counted.iter().zip(&self.counted))
        {
            *sum = *sum / 2.0 + now.saturating_sub(*before) as f64;
        }
        self.seconds = self.seconds / 2.0 + time.as_secs_f64();
        self.counted = counted;
    }

    /// Returns the switches per second of the busiest CPU, and of all CPUs.
    fn rates(&self) -> (f64, f64) {
        let seconds = self.seconds.max(1e-6);
        let most = self.switches.iter().copied().fold(0.0, f64::max);
        (most / seconds, self.switches.iter().sum::<f64>() / seconds)
    }
}

struct Pacer {
    events: SwitchEvents,
    boundaries: Arc<Boundaries>,
    clock: Clock,
    fast_drain: FastDrain,
    stopped: Receiver<()>,
    budget: f64,
    cost: f64,
    samples: bool,
    rate: Rate,
    /// Events of wakeups while they are recorded, with time and value of the last count.
    wakeups: Option<(SwitchEvents, Instant, u64)>,
}

impl Pacer {
    fn run(mut self) {
        let mut credit = BURST;
        while let Some(passed) = self.wait(LOOK) {
            self.bound_wakeups();
            self.rate.look(self.boundaries.switches(), passed);
            let earned = self.budget * passed.as_secs_f64();
            let spent = self.rate.latest as f64 * self.cost;
            credit = (credit + earned - spent).min(BURST);
            if credit < 0.0 && self.part() * TOO_MUCH < 1.0 {
                self.tell(Change::Begin);
                if self.run_windows().is_none() {
                    return;
                }
                credit = 0.0;
            }
        }
    }

    /// Records in windows until all switches can be recorded again; `None` at the end.
    fn run_windows(&mut self) -> Option<()> {
        // The first window is short at any rate, because the cost was unlimited before.
        let mut passed = self.wait(SHORTEST)?;
        let mut control = Duration::ZERO;
        loop {
            let counting = Instant::now();
            let readings = self.count_sleepers();
            let counting = counting.elapsed();
            self.tell(Change::Pause(readings));
            let started = Instant::now();
            self.events.pause();
            control = (control + started.elapsed()) / 2;
            let (window, gap) = lengths(self.part(), control, random());
            self.wait(gap)?;
            self.drain_for(window);
            self.rate.look(self.boundaries.switches(), passed);
            let started = Instant::now();
            self.events.resume();
            control += started.elapsed();
            self.tell(Change::Resume);
            // Count threads while the window is still open.
            let Some(open) = self.wait(window.saturating_sub(counting).max(window / 2)) else {
                // Close the last window like any other.
                let readings = self.count_sleepers();
                self.tell(Change::Pause(readings));
                return None;
            };
            passed = open + counting;
            self.bound_wakeups();
            if self.part() >= 1.0 {
                let readings = self.count_sleepers();
                self.tell(Change::Settle(readings));
                return Some(());
            }
        }
    }

    fn bound_wakeups(&mut self) {
        let Some((events, since, before)) = &mut self.wakeups else {
            return;
        };
        let passed = since.elapsed();
        if passed < WAKEUPS_OVER {
            return;
        }
        let now = self.boundaries.wakeups();
        let rate = now.saturating_sub(*before) as f64 / passed.as_secs_f64();
        (*since, *before) = (Instant::now(), now);
        if rate > MAX_WAKEUPS {
            events.pause();
            self.events.leave_out(events);
            self.wakeups = None;
            self.tell(Change::NoWakeups);
        }
    }

    /// Requests frequent draining during the new window and shortly after it. The writer drains if
    /// possible, from an idle CPU, because a drain thread preempts the workload. Sleeping threads
    /// must be inspected before they wake.
    fn drain_for(&self, window: Duration) {
        let time = u64::try_from((window + BEHIND).as_nanos()).unwrap_or(u64::MAX);
        let now = rprof_sampler::monotonic_ns();
        self.fast_drain.begin_until(now.saturating_add(time));
    }

    fn count_sleepers(&self) -> Vec<Reading> {
        let proc = Procfs::default();
        let count = |tid: i32| {
            let at = self.clock.now_ns();
            let switches = proc.switches(u32::try_from(tid).ok()?)?;
            Some(Reading { tid, switches, at })
        };
        (self.boundaries.sleepers().into_iter())
            .filter_map(count)
            .collect()
    }

    /// Waits; returns the elapsed time, or `None` at the end.
    fn wait(&self, time: Duration) -> Option<Duration> {
        let started = Instant::now();
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Some(started.elapsed()),
            _ => None,
        }
    }

    fn tell(&self, change: Change) {
        self.boundaries.tell(change, || self.clock.now_ns());
    }

    /// Returns the affordable share of time for recording; more than 1 below the budget.
    fn part(&self) -> f64 {
        let (busiest, all) = self.rate.rates();
        let of_cpu = self.budget / (busiest * self.cost).max(1e-9);
        match self.samples {
            true => of_cpu.min(MAX_SAMPLED / all.max(1e-9)),
            false => of_cpu,
        }
    }
}

/// Returns the lengths of a window and of the gap before it. `part` is the share of time in
/// windows, `control` the time to start and stop one, and `random` is from 0 to 1.
fn lengths(part: f64, control: Duration, random: f64) -> (Duration, Duration) {
    let part = part.clamp(1e-4, 1.0);
    let shortest = SHORTEST.max(control.div_f64(CONTROL));
    let window = PERIOD.mul_f64(part).max(shortest);
    let period = window.div_f64(part).min(LONGEST_PERIOD.max(window * 2));
    let gap = period.saturating_sub(window).mul_f64(0.5 + random);
    (window, gap)
}

fn random() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn windows_take_the_part_of_the_time_that_they_may() {
        for part in [0.9, 0.5, 0.05, 0.01, 0.002] {
            let (mut windows, mut gaps) = (0.0, 0.0);
            for n in 0..1000 {
                let (window, gap) = lengths(part, Duration::ZERO, f64::from(n) / 999.0);
                assert!(window >= SHORTEST);
                windows += window.as_secs_f64();
                gaps += gap.as_secs_f64();
            }
            let found = windows / (windows + gaps);
            assert!((found / part - 1.0).abs() < 0.01, "{found} of {part}");
        }
        // Slow stopping makes windows longer and rarer.
        let (window, gap) = lengths(0.05, 3 * MS, 0.5);
        assert_eq!((window, gap), (30 * MS, 570 * MS));
    }

    #[test]
    fn the_rate_is_that_of_the_busiest_cpu_and_forgets() {
        let mut rate = Rate::default();
        rate.look(vec![1000, 10], 100 * MS);
        assert_eq!((rate.rates(), rate.latest), ((10_000.0, 10_100.0), 1000));
        for _ in 0..20 {
            rate.look(vec![1000, 10], 100 * MS);
        }
        assert!(rate.rates().1 < 1.0, "{rate:?}");
    }

    #[test]
    fn who_sees_a_later_record_sees_the_change() {
        let boundaries = Boundaries::new(&[0, 3]);
        boundaries.tell(Change::Pause(Vec::new()), || 5);
        boundaries.count_switch(3);
        boundaries.count_switch(9);
        assert_eq!(boundaries.take(), [(5, Change::Pause(Vec::new()))]);
        assert!(boundaries.take().is_empty());
        assert_eq!(boundaries.switches(), [0, 0, 0, 1]);
    }
}
