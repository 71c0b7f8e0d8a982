//! A recording, from the first event to the last count.
//!
//! | module | holds |
//! |---|---|
//! | `builder` | [`SessionBuilder`]: from what is asked for to a session |
//! | `counts` | [`FinalCounts`]: what there is to know at the end |

mod builder;
mod counts;

pub use builder::SessionBuilder;
pub use counts::{CpuCounts, FinalCounts};

use crate::drain::{Batch, DrainThreads, Haste, Recycler, StackTops};
use crate::open::{CpuEvents, Degradation, EventIds, OpenError, Watch};
use crate::sieve::Sieve;
use crate::sys;
use crossbeam_channel::Receiver;
use rprof_events::cpus::CpuListError;
use rprof_launch::{CgroupError, Target, TargetExitWatcher, TargetThread};
use rprof_launch::{Child, ExecError, LaunchError, WaitOutcome};
use rprof_perf_event::Count;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What can go wrong on the way to a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The list of CPUs.
    #[error(transparent)]
    Cpus(#[from] CpuListError),
    /// The child could not be prepared.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Events could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The program could not be executed.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// Neither a command nor anything else to watch.
    #[error(
        "there is nothing to watch: name a command, processes, threads, a user, or the whole system"
    )]
    NoTarget,
    /// A control group.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The drain threads could not be started.
    #[error("cannot start the threads that read the ring buffers: {0}; is `ulimit -u` reached?")]
    Threads(#[source] io::Error),
}

/// A recording of a program and of what it starts, or of what runs already.
///
/// The threads run from the beginning; records come once the program does. Dropping the session
/// stops them, and ends a program that was never started.
#[derive(Debug)]
pub struct Session {
    // First, so that it is dropped first.
    threads: DrainThreads,
    cpus: Vec<Arc<CpuEvents>>,
    numbers: Vec<u32>,
    /// All events.
    watches: Vec<Watch>,
    child: Option<Child>,
    living: Option<TargetExitWatcher>,
    target: Target,
    enabled_from_start: bool,
    sieve: Sieve,
    opened_at: Duration,
    attached: Vec<TargetThread>,
    events: Vec<EventIds>,
    degradations: Vec<Degradation>,
    batches: Receiver<Batch>,
    recycler: Recycler,
    stack_tops: StackTops,
    ring_bytes: (usize, usize),
    counts: Option<FinalCounts>,
}

impl Session {
    /// Begins a description of what to record.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// The steps down that were taken, in order.
    pub fn degradations(&self) -> &[Degradation] {
        &self.degradations
    }

    /// The events as they were opened, with their ids: sample events in the order they were asked
    /// for, and the sideband event last.
    pub fn events(&self) -> &[EventIds] {
        &self.events
    }

    /// The CPUs that are watched, in ascending order.
    pub fn cpus(&self) -> &[u32] {
        &self.numbers
    }

    /// Bytes of sample ring and of sideband ring that each CPU got.
    pub fn ring_bytes(&self) -> (usize, usize) {
        self.ring_bytes
    }

    /// Whether the watermarks of all CPUs are exact, as each thread is bound to its CPU.
    pub fn has_exact_watermarks(&self) -> bool {
        self.threads.pinned
    }

    /// The program, if one was launched.
    pub fn child(&self) -> Option<&Child> {
        self.child.as_ref()
    }

    /// The program, to wait for it or to signal it.
    pub fn child_mut(&mut self) -> Option<&mut Child> {
        self.child.as_mut()
    }

    /// The threads that are watched and were there before. Empty when only a command is
    /// watched, and when whole CPUs are: then it is everything that there is.
    pub fn attached(&self) -> &[TargetThread] {
        &self.attached
    }

    /// When the first event was opened: the time since the machine was started, as /proc has it for
    /// processes (CLOCK_BOOTTIME), less one of its ticks.
    pub fn opened_at(&self) -> Duration {
        self.opened_at
    }

    /// Adds a step down to those that are told.
    pub fn add_degradation(&mut self, step: Degradation) {
        self.degradations.push(step);
    }

    /// What is watched.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Tells which samples count: where threads were attached to, some may be taken twice.
    pub fn sieve(&self) -> Sieve {
        self.sieve.clone()
    }

    /// Begins sampling, and lets the program begin.
    ///
    /// Where something was attached to, processes have been followed since the session
    /// was made; what they had mapped before is to be read before this is called
    /// ([`attached`](Self::attached)), so that no sample comes before its mapping.
    ///
    /// # Errors
    /// [`ExecError`] when the program cannot be executed. The recording is then stopped, and
    /// empty.
    pub fn start(&mut self) -> Result<(), ExecError> {
        if self.enabled_from_start && self.target != Target::Command {
            self.enable();
        }
        let started = self.child.as_mut().map_or(Ok(()), Child::release);
        if started.is_err() {
            self.stop();
        }
        started
    }

    /// Begins sampling, or goes on after [`disable`](Self::disable).
    pub fn enable(&self) {
        for watch in &self.watches {
            watch.enable();
        }
    }

    /// Stops sampling until [`enable`](Self::enable). Processes are followed all the same.
    pub fn disable(&self) {
        for watch in &self.watches {
            watch.disable();
        }
    }

    /// Waits until the program ends, all that was attached to is gone, `other` is readable, or the
    /// time is over (`None`: no bound). Of several, the first in this order is told.
    ///
    /// With a program, its end alone counts. Whole CPUs are never gone.
    ///
    /// # Errors
    /// As [`Child::wait`], and what poll(2) says.
    pub fn wait_or(
        &mut self,
        other: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> io::Result<WaitOutcome> {
        if let Some(child) = &mut self.child {
            return child.wait_or(other, timeout);
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self
                .living
                .as_mut()
                .is_some_and(TargetExitWatcher::all_exited)
            {
                return Ok(WaitOutcome::TargetsExited);
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(WaitOutcome::Timeout);
            }
            // poll(2) skips negative descriptors.
            let mut fds = vec![sys::readable(other.map_or(-1, |fd| fd.as_raw_fd()))];
            fds.extend(
                self.living
                    .iter()
                    .flat_map(TargetExitWatcher::fds)
                    .map(|fd| sys::readable(fd.as_raw_fd())),
            );
            let patience = self
                .living
                .as_ref()
                .and_then(TargetExitWatcher::poll_interval);
            let nap = [left, patience].into_iter().flatten().min();
            sys::poll(&mut fds, nap)?;
            if fds[0].revents != 0 {
                return Ok(WaitOutcome::Other);
            }
        }
    }

    /// Where batches arrive, from all CPUs. After [`stop`](Self::stop) it is disconnected once the
    /// last batch was taken. Clone it to receive on another thread.
    pub fn batches(&self) -> &Receiver<Batch> {
        &self.batches
    }

    /// Gives a batch's buffer back, once its records are taken out of it.
    pub fn recycle(&self, batch: Batch) {
        self.recycler.recycle(batch);
    }

    /// What gives buffers back from another thread.
    pub fn recycler(&self) -> Recycler {
        self.recycler.clone()
    }

    /// Where to tell how much of each thread's stack is of use.
    pub fn stack_tops(&self) -> &StackTops {
        &self.stack_tops
    }

    /// Where to say that samples are wanted soon after they are taken.
    pub fn haste(&self) -> &Haste {
        &self.threads.haste
    }

    /// Ends the recording: no event counts any more, and everything recorded is in
    /// [`batches`](Self::batches). The program, if it still runs, goes on unwatched.
    ///
    /// Nothing needs to receive meanwhile. A second call gives the same counts.
    pub fn stop(&mut self) -> FinalCounts {
        if let Some(counts) = &self.counts {
            return counts.clone();
        }
        for watch in &self.watches {
            watch.disable_all();
        }
        let drained = self.threads.stop();
        let mut counts: Vec<CpuCounts> = (self.cpus.iter().zip(drained))
            .map(|(cpu, drain)| CpuCounts {
                cpu: cpu.cpu,
                events: vec![Count::default(); self.events.len().saturating_sub(1)],
                sideband: Count::default(),
                drain,
            })
            .collect();
        for watch in &self.watches {
            if let Some(cpu) = counts.get_mut(watch.place) {
                watch.add_counts(&mut cpu.events, &mut cpu.sideband);
            }
        }
        let lost = counts.iter().filter(|cpu| cpu.drain.cpu_went_offline);
        let lost = lost.map(|cpu| Degradation::CpuLost { cpu: cpu.cpu });
        self.degradations.extend(lost);
        let counts = FinalCounts { cpus: counts };
        self.counts = Some(counts.clone());
        counts
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}
