//! A recording, from the first event to the last count.

use crate::cpus::{self, CpuListError};
use crate::drain::{Batch, DrainCounts, DrainThreads, Recycler, Start};
use crate::event::Event;
use crate::launch::{Child, ExecError, LaunchError, Launcher};
use crate::limits::Limits;
use crate::open::{self, Count, CpuEvents, CpuRings, Degradation, EventIds, OpenError, Plan, Role};
use crate::options::{Rate, SamplingOptions};
use crossbeam_channel::Receiver;
use rprof_records::{Endian, SampleLayout};
use std::sync::Arc;

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
    /// The drain threads could not be started.
    #[error("cannot start the threads that read the ring buffers: {0}; is `ulimit -u` reached?")]
    Threads(#[source] std::io::Error),
}

/// What to record and how: a sentence that ends in [`launch`](Self::launch).
///
/// ```no_run
/// use rprof_sampler::{Launcher, Session};
///
/// let mut session = Session::builder()
///     .frequency(999)
///     .callchains(true)
///     .launch(&Launcher::new("make").arg("-j4"))?;
/// for step in session.degradations() {
///     println!("note: {step}");
/// }
/// session.start()?;
/// # Ok::<(), rprof_sampler::SessionError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    events: Vec<Event>,
    options: SamplingOptions,
}

impl SessionBuilder {
    /// Adds an event to sample. Without any, it is cycles, or cpu-clock where there are none.
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    /// Adds events.
    pub fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    /// Samples a second on each busy CPU.
    pub fn frequency(mut self, hertz: u64) -> Self {
        self.options.rate = Rate::Frequency(hertz);
        self
    }

    /// One sample for so many events.
    pub fn period(mut self, events: u64) -> Self {
        self.options.rate = Rate::Period(events);
        self
    }

    /// Fail when the frequency is above the kernel's limit, in place of lowering it.
    pub fn strict_frequency(mut self, strict: bool) -> Self {
        self.options.strict_frequency = strict;
        self
    }

    /// Whether to record callchains.
    pub fn callchains(mut self, on: bool) -> Self {
        self.options.callchains = on;
        self
    }

    /// Most addresses in a callchain.
    pub fn max_stack(mut self, addresses: u16) -> Self {
        self.options.max_stack = Some(addresses);
        self
    }

    /// Leave out samples in the kernel.
    pub fn exclude_kernel(mut self, exclude: bool) -> Self {
        self.options.exclude_kernel = exclude;
        self
    }

    /// Leave out samples in user mode.
    pub fn exclude_user(mut self, exclude: bool) -> Self {
        self.options.exclude_user = exclude;
        self
    }

    /// Whether to watch what the program starts as well.
    pub fn inherit(mut self, inherit: bool) -> Self {
        self.options.inherit = inherit;
        self
    }

    /// Bytes of sample ring for each CPU; rounded up to a power of two of pages.
    pub fn ring_bytes(mut self, bytes: usize) -> Self {
        self.options.ring_bytes = Some(bytes);
        self
    }

    /// Bytes of sideband ring for each CPU; rounded up to a power of two of pages.
    pub fn sideband_ring_bytes(mut self, bytes: usize) -> Self {
        self.options.sideband_ring_bytes = Some(bytes);
        self
    }

    /// Changes any setting, those of the drain threads among them.
    pub fn configure(mut self, change: impl FnOnce(&mut SamplingOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Prepares the program, and opens the events for it on every CPU. Nothing runs before
    /// [`Session::start`].
    ///
    /// # Errors
    /// [`SessionError`]; the prepared child is gone then.
    pub fn launch(self, command: &Launcher) -> Result<Session, SessionError> {
        let plan = Plan::new(self.events, self.options.clone(), Limits::read())?;
        let cpus = cpus::online()?;
        let child = command.spawn()?;
        let opened = open::open(plan, child.pid(), cpus)?;
        let degradations = opened.degradations;
        let layout = |role| {
            let of_role = opened.events.iter().find(|event| event.role == role);
            let attr = of_role.map(|event| event.attr.clone()).unwrap_or_default();
            SampleLayout::new(&attr, Endian::NATIVE)
        };
        let (samples, sideband) = (layout(Role::Samples), layout(Role::Sideband));
        let cpus: Vec<Arc<CpuEvents>> = (opened.cpus.iter())
            .map(|(events, _)| Arc::clone(events))
            .collect();
        let ring_bytes = opened
            .cpus
            .first()
            .map_or((0, 0), |(_, CpuRings { samples, sideband })| {
                (samples.size(), sideband.size())
            });
        let start = Start {
            cpus: opened.cpus,
            samples,
            sideband,
            options: self.options.drain.clone(),
        };
        let (threads, batches, recycler) =
            DrainThreads::start(start).map_err(SessionError::Threads)?;
        let mut session = Session {
            numbers: cpus.iter().map(|events| events.cpu).collect(),
            threads,
            cpus,
            child,
            events: opened.events,
            degradations,
            batches,
            recycler,
            ring_bytes,
            counts: None,
        };
        if let (Some(wanted), Some(errno)) = (self.options.drain.nice, session.threads.nice_refused)
        {
            let step = Degradation::PriorityUnchanged { wanted, errno };
            session.degradations.push(step);
        }
        Ok(session)
    }
}

/// A recording of one program and of what it starts.
///
/// The threads run from the beginning; records come once the program does. Dropping the session
/// stops them, and ends a program that was never started.
#[derive(Debug)]
pub struct Session {
    // First, so that it is dropped first.
    threads: DrainThreads,
    cpus: Vec<Arc<CpuEvents>>,
    numbers: Vec<u32>,
    child: Child,
    events: Vec<EventIds>,
    degradations: Vec<Degradation>,
    batches: Receiver<Batch>,
    recycler: Recycler,
    ring_bytes: (usize, usize),
    counts: Option<FinalCounts>,
}

/// Counts at the end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalCounts {
    /// One entry for each CPU, in the order of [`Session::cpus`].
    pub cpus: Vec<CpuCounts>,
}

/// What there is to know of one CPU at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounts {
    /// The CPU.
    pub cpu: u32,
    /// A reading of each sample event, in the order of [`Session::events`].
    pub events: Vec<Count>,
    /// A reading of the sideband event: its `lost` says how many mappings and names are missing.
    pub sideband: Count,
    /// What the drain thread did.
    pub drain: DrainCounts,
}

impl FinalCounts {
    /// Samples dropped in full rings, on all CPUs; `None` when the kernel does not tell.
    ///
    /// More than the sum of all LOST records by those that were dropped last, after which
    /// no record could be written any more.
    pub fn lost_samples(&self) -> Option<u64> {
        let events = self.cpus.iter().flat_map(|cpu| &cpu.events);
        events.map(|count| count.lost).sum()
    }

    /// Sideband records dropped in full rings, on all CPUs; `None` when the kernel does not tell.
    pub fn lost_sideband(&self) -> Option<u64> {
        self.cpus.iter().map(|cpu| cpu.sideband.lost).sum()
    }
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

    /// The program.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// The program, to wait for it or to signal it.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Lets the program begin, and with it the recording.
    ///
    /// # Errors
    /// [`ExecError`] when it cannot be executed. The recording is then stopped, and empty.
    pub fn start(&mut self) -> Result<(), ExecError> {
        let started = self.child.go();
        if started.is_err() {
            self.stop();
        }
        started
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

    /// Ends the recording: no event counts any more, and everything recorded is in
    /// [`batches`](Self::batches). The program, if it still runs, goes on unwatched.
    ///
    /// Nothing needs to receive meanwhile. A second call gives the same counts.
    pub fn stop(&mut self) -> FinalCounts {
        if let Some(counts) = &self.counts {
            return counts.clone();
        }
        for events in &self.cpus {
            events.disable();
        }
        let drained = self.threads.stop();
        let counts = (self.cpus.iter().zip(drained))
            .map(|(cpu, drain)| {
                let (events, sideband) = cpu.counts();
                CpuCounts {
                    cpu: cpu.cpu,
                    events,
                    sideband,
                    drain,
                }
            })
            .collect();
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
