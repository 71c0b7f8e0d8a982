//! CPU time of a recording: the time used, and the time that its samples represent.
//!
//! The recorder writes both to the file ([`CpuTime::notes`]). A reader decodes them
//! ([`CpuTime::from_notes`]) and compares them.
//!
//! ```
//! use rprof_cpu_time::CpuTime;
//! use std::time::Duration;
//!
//! let time = CpuTime {
//!     used: Duration::from_millis(1300),
//!     sampled: Some(Duration::from_millis(65)),
//!     period: Duration::from_millis(1),
//!     wall: Some(Duration::from_millis(1500)),
//!     tasks: 2000,
//!     waiting: Some(Duration::from_millis(150)),
//!     unclear: Duration::ZERO,
//!     throttled: None,
//!     stopped: Some(Duration::from_millis(20)),
//!     unrecorded_cpus: 0,
//!     privileged_programs: 0,
//! };
//! assert_eq!(time.sampled_share(), Some(0.05));
//! assert!(time.lacks_short_tasks());
//! let off_cpu = time.off_cpu().expect("both wall time and waiting are known");
//! assert_eq!(off_cpu.waiting, Duration::from_millis(150));
//! assert_eq!(off_cpu.stopped, Duration::from_millis(20));
//! assert_eq!(off_cpu.asleep, Duration::from_millis(30));
//! assert_eq!(CpuTime::from_notes(&time.notes()), Some(time));
//! ```

use std::time::Duration;

/// Prefix of the keys of notes.
const PREFIX: &str = "cpu.";

/// CPU time used by the workload, and CPU time that its samples represent, over the whole
/// recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// CPU time used during sampling, as the kernel accounts it.
    pub used: Duration,
    /// CPU time that the samples represent, including lost samples. `None` if user or kernel mode
    /// is excluded, or if several events are sampled.
    pub sampled: Option<Duration>,
    /// Sampling period of a running thread.
    pub period: Duration,
    /// Wall time of the sampling. `None` for whole CPUs, which never wait, or if threads could run
    /// unseen.
    pub wall: Option<Duration>,
    /// Number of threads and processes started during sampling.
    pub tasks: u64,
    /// Wall time that a thread was runnable without a CPU and none ran, at most. `None` if unknown.
    pub waiting: Option<Duration>,
    /// Part of it that may be sleep, because several threads waited at the same time.
    pub unclear: Duration,
    /// Time that the workload's cgroup was throttled by its CPU quota. `None` if unknown.
    pub throttled: Option<Duration>,
    /// Time that a process of the workload was stopped by a signal, a debugger or the cgroup
    /// freezer. `None` if unknown.
    pub stopped: Option<Duration>,
    /// Number of CPUs that came online during the recording. The used CPU time includes them, and no
    /// sample does.
    pub unrecorded_cpus: u64,
    /// Number of programs that changed privileges when they started (set-user-ID and the like). The
    /// kernel then stops recording them, and the used CPU time includes them.
    pub privileged_programs: u64,
}

/// Wall time when no thread ran, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpuTime {
    /// A thread was runnable but had no CPU.
    pub waiting: Duration,
    /// All threads slept.
    pub asleep: Duration,
    /// Either of them.
    pub unclear: Duration,
    /// A signal, a debugger or the cgroup freezer had stopped a process.
    pub stopped: Duration,
}

impl CpuTime {
    /// Returns the share of the used CPU time that samples represent, from 0 to 1.
    pub fn sampled_share(&self) -> Option<f64> {
        let share = self.sampled?.as_secs_f64() / self.used.as_secs_f64();
        share.is_finite().then_some(share.min(1.0))
    }

    /// Returns the share of wall time without a running thread, from 0 to 1. Time on two CPUs
    /// counts twice, so it is a lower bound.
    pub fn idle_share(&self) -> Option<f64> {
        let busy = self.used.as_secs_f64() / self.wall?.as_secs_f64();
        busy.is_finite().then_some((1.0 - busy).max(0.0))
    }

    /// Splits the idle wall time into waiting for a CPU, stops and sleep; `None` if the wall time or
    /// the waiting is unknown.
    pub fn off_cpu(&self) -> Option<OffCpuTime> {
        let all = self.wall?.saturating_sub(self.used);
        let waiting = self.waiting?.min(all);
        let unclear = self.unclear.min(waiting);
        let rest = all.saturating_sub(waiting);
        let stopped = self.stopped.unwrap_or_default().min(rest);
        Some(OffCpuTime {
            waiting: waiting.saturating_sub(unclear),
            unclear,
            asleep: rest.saturating_sub(stopped),
            stopped,
        })
    }

    /// Adds the times of another recording, as if one followed the other.
    #[must_use]
    pub fn plus(&self, other: &CpuTime) -> CpuTime {
        let sum = |mine: Option<Duration>, other: Option<Duration>| {
            (mine.zip(other)).map(|(mine, other)| mine.saturating_add(other))
        };
        CpuTime {
            used: self.used.saturating_add(other.used),
            sampled: sum(self.sampled, other.sampled),
            period: self.period.max(other.period),
            wall: sum(self.wall, other.wall),
            tasks: self.tasks.saturating_add(other.tasks),
            waiting: sum(self.waiting, other.waiting),
            unclear: self.unclear.saturating_add(other.unclear),
            throttled: sum(self.throttled, other.throttled),
            stopped: sum(self.stopped, other.stopped),
            unrecorded_cpus: self.unrecorded_cpus.max(other.unrecorded_cpus),
            privileged_programs: (self.privileged_programs)
                .saturating_add(other.privileged_programs),
        }
    }

    /// Returns true if short threads may explain the missing samples: each begins a new sampling
    /// period, and loses its last one.
    pub fn lacks_short_tasks(&self) -> bool {
        let missing = self.used.saturating_sub(self.sampled.unwrap_or(self.used));
        let cut = self.period.as_secs_f64() * (self.tasks as f64 + 1.0);
        2.0 * cut >= missing.as_secs_f64()
    }

    /// Returns keys and values for the private section of a perf.data file.
    pub fn notes(&self) -> Vec<(String, String)> {
        let note = |key: &str, value: u128| (format!("{PREFIX}{key}"), value.to_string());
        let mut notes = vec![
            note("used.ns", self.used.as_nanos()),
            note("period.ns", self.period.as_nanos()),
            note("tasks", self.tasks.into()),
        ];
        notes.extend((self.wall).map(|wall| note("wall.ns", wall.as_nanos())));
        notes.extend((self.sampled).map(|sampled| note("sampled.ns", sampled.as_nanos())));
        notes.extend((self.waiting).map(|waiting| note("waiting.ns", waiting.as_nanos())));
        let unclear = Some(self.unclear).filter(|time| !time.is_zero());
        notes.extend(unclear.map(|time| note("unclear.ns", time.as_nanos())));
        notes.extend((self.throttled).map(|time| note("throttled.ns", time.as_nanos())));
        notes.extend((self.stopped).map(|time| note("stopped.ns", time.as_nanos())));
        let unrecorded = Some(self.unrecorded_cpus).filter(|cpus| *cpus > 0);
        notes.extend(unrecorded.map(|cpus| note("unrecorded_cpus", cpus.into())));
        let privileged = Some(self.privileged_programs).filter(|programs| *programs > 0);
        notes.extend(privileged.map(|programs| note("privileged_programs", programs.into())));
        notes
    }

    /// Decodes the notes of a recording. Returns `None` if a required note is missing or invalid.
    pub fn from_notes(notes: &[(String, String)]) -> Option<CpuTime> {
        let number = |name: &str| {
            let mut notes = notes.iter();
            let (_, value) = notes.find(|(key, _)| key.strip_prefix(PREFIX) == Some(name))?;
            value.parse::<u64>().ok()
        };
        let time = |name| number(name).map(Duration::from_nanos);
        Some(CpuTime {
            used: time("used.ns")?,
            sampled: time("sampled.ns"),
            period: time("period.ns")?,
            wall: time("wall.ns"),
            tasks: number("tasks")?,
            waiting: time("waiting.ns"),
            unclear: time("unclear.ns").unwrap_or_default(),
            throttled: time("throttled.ns"),
            stopped: time("stopped.ns"),
            unrecorded_cpus: number("unrecorded_cpus").unwrap_or(0),
            privileged_programs: number("privileged_programs").unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_not_known() {
        let notes = |text: &str| -> Vec<(String, String)> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.map(|(k, v)| (k.into(), v.into())).collect()
        };
        let all = "samples=3 cpu.used.ns=100 cpu.period.ns=10 cpu.tasks=2";
        let known = CpuTime {
            used: Duration::from_nanos(100),
            period: Duration::from_nanos(10),
            tasks: 2,
            ..CpuTime::default()
        };
        assert_eq!(CpuTime::from_notes(&notes(all)), Some(known));
        assert_eq!(
            CpuTime::from_notes(&notes("samples=3 cpu.used.ns=100")),
            None
        );
        let negative = all.replace("100", "-1");
        assert_eq!(CpuTime::from_notes(&notes(&negative)), None);
        assert_eq!(CpuTime::from_notes(&known.notes()), Some(known));
    }

    #[test]
    fn shares_of_nothing_are_unknown_and_none_is_beyond_all() {
        assert_eq!(CpuTime::default().sampled_share(), None);
        let second = Some(Duration::from_secs(1));
        let time = CpuTime {
            used: Duration::from_millis(900),
            sampled: second,
            wall: second,
            ..CpuTime::default()
        };
        assert_eq!(time.sampled_share(), Some(1.0));
        assert!((time.idle_share().unwrap() - 0.1).abs() < 1e-9);

        // The bound may be longer than the time.
        let crowded = CpuTime {
            waiting: second,
            ..time
        };
        let hundred = Duration::from_millis(100);
        let off_cpu = OffCpuTime {
            waiting: hundred,
            ..OffCpuTime::default()
        };
        assert_eq!((time.off_cpu(), crowded.off_cpu()), (None, Some(off_cpu)));
        let unclear = CpuTime {
            unclear: Duration::from_millis(70),
            ..crowded
        };
        let off_cpu = unclear.off_cpu().unwrap();
        assert_eq!(
            (off_cpu.unclear, off_cpu.waiting),
            (hundred * 7 / 10, hundred * 3 / 10)
        );
        assert_eq!(CpuTime::from_notes(&unclear.notes()), Some(unclear));
        assert_eq!(time.plus(&CpuTime::default()).wall, None);
        assert_eq!(time.plus(&time).used, Duration::from_millis(1800));
    }
}
