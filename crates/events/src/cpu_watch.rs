//! [`CpuWatch`]: CPUs that go offline and come back while they are watched.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Follows the list of online CPUs.
///
/// The kernel removes the events of a CPU that goes offline, without a notice to their owner, and
/// does not restore them when it comes back.
#[derive(Clone, Debug, Default)]
pub struct CpuWatch {
    watched: Vec<u32>,
    absences: BTreeMap<u32, Vec<Absence>>,
    came: BTreeMap<u32, Duration>,
}

/// Time without a CPU, since the start of the watch, to within the interval between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Time when it was first missing.
    pub from: Duration,
    /// Time when it was first seen again; `None` while it is offline.
    pub until: Option<Duration>,
}

/// Changes since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuChanges {
    /// Watched CPUs that went offline.
    pub gone: Vec<u32>,
    /// Watched CPUs that came back.
    pub back: Vec<u32>,
}

impl CpuWatch {
    /// Creates a watch of these CPUs, which are online.
    pub fn new(watched: &[u32]) -> CpuWatch {
        CpuWatch {
            watched: watched.to_vec(),
            ..CpuWatch::default()
        }
    }

    /// Compares with the CPUs online at `now`, the time since the start.
    pub fn look(&mut self, online: &[u32], now: Duration) -> CpuChanges {
        let mut changes = CpuChanges::default();
        for cpu in self.watched.iter().copied() {
            let is_online = online.contains(&cpu);
            let absences = self.absences.entry(cpu).or_default();
            let last = absences.last_mut();
            match last.filter(|absence| absence.until.is_none()) {
                Some(absence) if is_online => {
                    absence.until = Some(now);
                    changes.back.push(cpu);
                }
                None if !is_online => {
                    absences.push(Absence {
                        from: now,
                        until: None,
                    });
                    changes.gone.push(cpu);
                }
                _ => {}
            }
        }
        for cpu in online.iter().filter(|cpu| !self.watched.contains(cpu)) {
            self.came.entry(*cpu).or_insert(now);
        }
        changes
    }

    /// Returns the CPUs that were offline, with their absences.
    pub fn absences(&self) -> impl Iterator<Item = (u32, &[Absence])> {
        let absences = self.absences.iter().filter(|(_, times)| !times.is_empty());
        absences.map(|(cpu, times)| (*cpu, times.as_slice()))
    }

    /// Returns the CPUs that came online and are not watched, with the time when they were first
    /// seen.
    pub fn came(&self) -> impl Iterator<Item = (u32, Duration)> {
        self.came.iter().map(|(cpu, at)| (*cpu, *at))
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from.as_secs_f64();
        match self.until {
            Some(until) => write!(f, "from {from:.1} s to {:.1} s", until.as_secs_f64()),
            None => write!(f, "from {from:.1} s on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_goes_and_comes_twice_has_two_absences() {
        let at = |tenths: u64| Duration::from_millis(tenths * 100);
        let mut watch = CpuWatch::new(&[0, 1, 3]);
        let looks: [(&[u32], &[u32], &[u32]); 6] = [
            (&[0, 1, 3], &[], &[]),
            (&[0, 1], &[3], &[]),
            (&[0, 1], &[], &[]),
            (&[0, 1, 3], &[], &[3]),
            (&[0], &[1, 3], &[]),
            (&[0, 1, 2], &[], &[1]),
        ];
        for (time, (online, gone, back)) in (0..).zip(looks) {
            let changes = watch.look(online, at(time));
            assert_eq!(
                (&changes.gone[..], &changes.back[..]),
                (gone, back),
                "{time}"
            );
        }
        let absences: Vec<String> = (watch.absences())
            .flat_map(|(cpu, times)| times.iter().map(move |time| format!("{cpu} {time}")))
            .collect();
        assert_eq!(
            absences,
            [
                "1 from 0.4 s to 0.5 s",
                "3 from 0.1 s to 0.3 s",
                "3 from 0.4 s on"
            ]
        );
        assert_eq!(watch.came().collect::<Vec<_>>(), [(2, at(5))]);
    }
}
