//! Events of one subject on one CPU: a thread, a control group, or everything.

use super::attrs;
use super::opened::{CpuEvents, EventIds, Role};
use super::plan::{Plan, Refusal, Stage};
use rprof_perf_event::{Errno, OpenOptions, PerfFd, ReadError, Reading, Subject};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetSubject {
    First,
    Wakeups,
    /// Control group, by its index.
    Cgroup(usize),
}

#[derive(Debug)]
pub(crate) struct EventSet {
    /// Index in the list of recorded CPUs.
    pub(crate) cpu_index: usize,
    pub(crate) cpu: u32,
    pub(crate) subject: SetSubject,
    /// Events by index in the plan; `None` for other CPUs.
    pub(crate) samples: Vec<Option<Arc<PerfFd>>>,
    pub(crate) sideband: Option<Arc<PerfFd>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlFailure {
    pub(crate) index: usize,
    pub(crate) cpu: u32,
    pub(crate) errno: Errno,
}

impl EventSet {
    pub(super) fn new(cpu_index: usize, cpu: u32) -> EventSet {
        EventSet {
            cpu_index,
            cpu,
            subject: SetSubject::First,
            samples: Vec::new(),
            sideband: None,
        }
    }

    pub(super) fn of(self, subject: SetSubject) -> EventSet {
        EventSet { subject, ..self }
    }

    pub(crate) fn is_of_wakeups(&self) -> bool {
        self.subject == SetSubject::Wakeups
    }

    /// Starts one sample event, if this set has it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn enable_event(&self, index: usize) -> Result<(), ControlFailure> {
        self.control(index, PerfFd::enable)
    }

    /// Stops one sample event, if this set has it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn disable_event(&self, index: usize) -> Result<(), ControlFailure> {
        self.control(index, PerfFd::disable)
    }

    fn control(
        &self,
        index: usize,
        call: impl Fn(&PerfFd) -> Result<(), Errno>,
    ) -> Result<(), ControlFailure> {
        let event = self.samples.get(index).and_then(Option::as_ref);
        event.map_or(Ok(()), |fd| call(fd)).map_err(|errno| {
            let cpu = self.cpu;
            ControlFailure { index, cpu, errno }
        })
    }

    /// Returns the number of sample events, including those of other CPUs.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    pub(crate) fn disable_all(&self) {
        for index in 0..self.len() {
            let _ = self.disable_event(index);
        }
        if let Some(fd) = &self.sideband {
            let _ = fd.disable();
        }
    }

    pub(crate) fn readings(
        &self,
    ) -> impl Iterator<Item = (usize, Result<Reading, ReadError>)> + '_ {
        let events = self.samples.iter().enumerate();
        events.filter_map(|(index, fd)| Some((index, fd.as_ref()?.reading())))
    }

    pub(crate) fn sideband_reading(&self) -> Option<Result<Reading, ReadError>> {
        Some(self.sideband.as_ref()?.reading())
    }

    pub(super) fn open_sideband(
        &mut self,
        events: &mut [EventIds],
        subject: Subject<'_>,
    ) -> Result<(), Refusal> {
        let at = |errno| self.refusal(Stage::Sideband, errno);
        let Some(event) = events.last_mut() else {
            return Err(at(Errno::INVAL));
        };
        let options = OpenOptions::new(&event.attr).subject(subject).cpu(self.cpu);
        let fd = options.open().map_err(at)?;
        event.ids.push(fd.id().map_err(at)?);
        self.sideband = Some(Arc::new(fd));
        Ok(())
    }

    pub(super) fn open_samples(
        &mut self,
        plan: &Plan,
        events: &mut [EventIds],
        subject: Subject<'_>,
    ) -> Result<(), Refusal> {
        let mut leader: Option<Arc<PerfFd>> = None;
        let is_watched = plan.watches(self.cpu);
        for (index, (event, ids)) in plan.events.iter().zip(events).enumerate() {
            let at = |errno| self.refusal(Stage::Sampling(index), errno);
            if event.is_leader() {
                leader = None;
            }
            let is_elsewhere = event.cpus().is_some_and(|cpus| !cpus.contains(&self.cpu));
            let role = plan.role(index);
            if is_elsewhere || !is_watched && role != Role::OffCpu || role == Role::Wakeups {
                self.samples.push(None);
                continue;
            }
            let attr = match is_watched {
                true => Cow::Borrowed(&ids.attr),
                false => Cow::Owned(attrs::switches_alone(&ids.attr)),
            };
            let mut options = OpenOptions::new(&attr).subject(subject).cpu(self.cpu);
            if let Some(leader) = &leader {
                options = options.leader(leader);
            }
            if let Some(path) = event.probe_path() {
                options = options.probe_path(path);
            }
            let fd = options.open().map_err(at)?;
            ids.ids.push(fd.id().map_err(at)?);
            if let Some(filter) = event.filter() {
                fd.set_filter(filter)
                    .map_err(|errno| self.refusal(Stage::Filter(index), errno))?;
            }
            let fd = Arc::new(fd);
            if event.is_leader() && event.group().is_some() {
                leader = Some(Arc::clone(&fd));
            }
            self.samples.push(Some(fd));
        }
        Ok(())
    }

    /// Opens the wakeup event for all threads. One thread's event would miss wakeups by others.
    pub(super) fn open_wakeups(
        &mut self,
        plan: &Plan,
        events: &mut [EventIds],
    ) -> Result<(), Refusal> {
        for (index, event) in (0..plan.events.len()).zip(events) {
            if event.role != Role::Wakeups {
                self.samples.push(None);
                continue;
            }
            let at = |errno| self.refusal(Stage::Sampling(index), errno);
            let options = OpenOptions::new(&event.attr).subject(Subject::All);
            let fd = options.cpu(self.cpu).open().map_err(at)?;
            event.ids.push(fd.id().map_err(at)?);
            self.samples.push(Some(Arc::new(fd)));
        }
        Ok(())
    }

    pub(super) fn redirect_sideband(&self, rings: &CpuEvents) -> Result<(), Refusal> {
        let redirected =
            (self.sideband.as_ref()).map_or(Ok(()), |fd| redirect(fd, &rings.sideband));
        redirected.map_err(|errno| self.refusal(Stage::Sideband, errno))
    }

    pub(super) fn redirect_samples(&self, rings: &CpuEvents) -> Result<(), Refusal> {
        for (index, fd) in self.samples.iter().enumerate() {
            if let Some(fd) = fd {
                redirect(fd, &rings.samples)
                    .map_err(|errno| self.refusal(Stage::Sampling(index), errno))?;
            }
        }
        Ok(())
    }

    pub(super) fn enable_sideband(&self) -> Result<(), Refusal> {
        let enabled = self.sideband.as_ref().map_or(Ok(()), |fd| fd.enable());
        enabled.map_err(|errno| self.refusal(Stage::Sideband, errno))
    }

    fn refusal(&self, stage: Stage, errno: Errno) -> Refusal {
        Refusal {
            stage,
            cpu: self.cpu,
            errno,
        }
    }
}

/// Redirects an event once. The second time takes about 10 ms: the kernel waits for all readers of
/// the first ring (`synchronize_rcu`).
fn redirect(fd: &Arc<PerfFd>, ring: &Arc<PerfFd>) -> Result<(), Errno> {
    match Arc::ptr_eq(fd, ring) {
        true => Ok(()),
        false => fd.redirect_to(ring),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::ReadFormat;

    fn no_event(answer: &[u8]) -> Arc<PerfFd> {
        let (read, write) = rustix::pipe::pipe().unwrap();
        if !answer.is_empty() {
            rustix::io::write(&write, answer).unwrap();
        }
        Arc::new(PerfFd::from_fd(read, ReadFormat::empty()))
    }

    #[test]
    fn a_refusal_names_the_cpu_and_not_its_index() {
        let set = EventSet {
            sideband: Some(no_event(&[])),
            ..EventSet::new(0, 4)
        };
        let refusal = set.enable_sideband().unwrap_err();
        assert_eq!((refusal.cpu, refusal.errno), (4, Errno::NOTTY));
        assert_eq!(refusal.stage, Stage::Sideband);
    }

    #[test]
    fn events_that_cannot_be_started_are_an_error() {
        let set = EventSet {
            samples: vec![None, Some(no_event(&[]))],
            ..EventSet::new(1, 7)
        };
        let failure = ControlFailure {
            index: 1,
            cpu: 7,
            errno: Errno::NOTTY,
        };
        assert_eq!(set.enable_event(1), Err(failure));
        assert_eq!(set.disable_event(1), Err(failure));
        assert_eq!(set.disable_event(0), Ok(()));
    }

    #[test]
    fn a_counter_that_cannot_be_read_is_no_zero() {
        let set = EventSet {
            samples: vec![
                None,
                Some(no_event(&5u64.to_ne_bytes())),
                Some(no_event(&[])),
            ],
            ..EventSet::new(0, 0)
        };
        let readings: Vec<_> = set.readings().collect();
        let five = Reading {
            value: 5,
            ..Reading::default()
        };
        assert_eq!(
            readings,
            [(1, Ok(five)), (2, Err(ReadError::PinnedWithoutCounter))]
        );
        assert_eq!(set.sideband_reading(), None);
    }
}
