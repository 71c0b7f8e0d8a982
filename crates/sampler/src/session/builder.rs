//! [`SessionBuilder`]: creates a session from options.

use super::online::OnlineCpus;
use super::{Session, SessionError};
use crate::clock::since_boot;
use crate::drain::OverwrittenRings;
use crate::drain::{Aliases, DrainConfig, DrainThreads, Dumps, StackBases};
use crate::inherited_filter::InheritedEventFilter;
use crate::open::{
    self, Contexts, CpuRings, Degradation, EventIds, Opened, Plan, Probe, Role, Scope, Threads,
};
use crate::options::{DrainOptions, Extras, SamplingOptions};
use crate::target_only::TargetOnly;
use rprof_events::{Event, SamplingRate, cpus};
use rprof_launch::{Cgroup, Child, Launcher, Target, TargetExitWatcher, ThreadSelection};
use rprof_perf_event::{Clock, Limits};
use rprof_records::{Endian, SampleLayout, SampleType};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Description of a recording. Ends with [`launch`](Self::launch) or [`attach`](Self::attach).
///
/// ```no_run
/// use rprof_launch::Launcher;
/// use rprof_sampler::Session;
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
    /// Adds an event to sample. Default: cycles, or cpu-clock without a cycle counter.
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event);
        self
    }

    /// Adds events.
    pub fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.events.extend(events);
        self
    }

    /// Sets the frequency in Hz. Default: see [`SamplingOptions::rate`].
    pub fn frequency(mut self, hertz: u64) -> Self {
        self.options.rate = SamplingRate::Frequency(hertz);
        self.options.rate_is_default = false;
        self
    }

    /// Takes one sample per `events` events.
    pub fn period(mut self, events: u64) -> Self {
        self.options.rate = SamplingRate::Period(events);
        self.options.rate_is_default = false;
        self
    }

    /// Fails if the frequency exceeds the kernel's limit. Default: lowers it.
    pub fn strict_frequency(mut self, strict: bool) -> Self {
        self.options.strict_frequency = strict;
        self
    }

    /// Records callchains. Default: yes.
    pub fn callchains(mut self, on: bool) -> Self {
        self.options.callchains = on;
        self
    }

    /// Sets the maximum number of addresses in a callchain.
    pub fn max_stack(mut self, addresses: u16) -> Self {
        self.options.max_stack = Some(addresses);
        self
    }

    /// Excludes samples in the kernel.
    pub fn exclude_kernel(mut self, exclude: bool) -> Self {
        self.options.exclude_kernel = exclude;
        self
    }

    /// Excludes samples in user mode.
    pub fn exclude_user(mut self, exclude: bool) -> Self {
        self.options.exclude_user = exclude;
        self
    }

    /// Sets whether to sample threads and processes that the target starts. Default: yes.
    pub fn inherit(mut self, inherit: bool) -> Self {
        self.options.inherit = inherit;
        self
    }

    /// Sets the size of each CPU's sample ring in bytes.
    pub fn ring_bytes(mut self, bytes: usize) -> Self {
        self.options.ring_bytes = Some(bytes);
        self
    }

    /// Sets the size of each CPU's sideband ring in bytes.
    pub fn sideband_ring_bytes(mut self, bytes: usize) -> Self {
        self.options.sideband_ring_bytes = Some(bytes);
        self
    }

    /// Sets the target. Default: the command.
    pub fn target(mut self, target: Target) -> Self {
        self.options.target = target;
        self
    }

    /// Sets the CPUs to sample. Default: all.
    pub fn cpus(mut self, cpus: Vec<u32>) -> Self {
        self.options.cpus = cpus;
        self
    }

    /// Sets whether sampling begins at once. With `false`, it waits for [`Session::enable`].
    /// Sideband is recorded from the start.
    pub fn enabled_from_start(mut self, enabled: bool) -> Self {
        self.options.enabled_from_start = enabled;
        self
    }

    /// Excludes this process.
    pub fn exclude_self(mut self, exclude: bool) -> Self {
        self.options.exclude_self = exclude;
        self
    }

    /// Excludes clock samples on idle CPUs.
    pub fn exclude_idle(mut self, exclude: bool) -> Self {
        self.options.exclude_idle = exclude;
        self
    }

    /// Runs the drain threads under SCHED_FIFO with this priority, 1 to 99.
    pub fn realtime(mut self, priority: u8) -> Self {
        self.options.drain.realtime = Some(priority);
        self
    }

    /// Copies `bytes` of stack into each sample, see [`SamplingOptions::user_stack`].
    pub fn user_stack(mut self, bytes: Option<u32>) -> Self {
        self.options.user_stack = bytes;
        self
    }

    /// Takes user callchains from the processor.
    pub fn branch_call_stacks(mut self, on: bool) -> Self {
        self.options.branch_call_stacks = on;
        self
    }

    /// Allows shorter stack copies, see [`SamplingOptions::fit_user_stack`].
    pub fn fit_user_stack(mut self, fit: bool) -> Self {
        self.options.fit_user_stack = fit;
        self
    }

    /// Adds sample fields and records.
    ///
    /// ```
    /// use rprof_records::SampleType;
    /// use rprof_sampler::Session;
    ///
    /// let with_addresses = Session::builder().extras(|extras| {
    ///     extras.fields |= SampleType::ADDR | SampleType::PHYS_ADDR;
    /// });
    /// ```
    pub fn extras(mut self, change: impl FnOnce(&mut Extras)) -> Self {
        change(&mut self.options.extras);
        self
    }

    /// Keeps the last samples in overwritten rings until [`Session::snapshot`] or the end.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.options.overwrite = overwrite;
        self
    }

    /// Sets the size of each CPU's AUX area in bytes.
    pub fn trace_bytes(mut self, bytes: Option<usize>) -> Self {
        self.options.trace_bytes = bytes;
        self
    }

    /// Sets the clock of the records. Default: CLOCK_MONOTONIC.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = Some(clock);
        self
    }

    /// Records when threads leave their CPU, with their stack, and come back. Default: no.
    pub fn off_cpu(mut self, on: bool) -> Self {
        self.options.off_cpu = on;
        self
    }

    /// Sets whether to record which thread ends a wait, with [`off_cpu`](Self::off_cpu). Default:
    /// no.
    pub fn wakers(mut self, on: bool) -> Self {
        self.options.wakers = on;
        self
    }

    /// Sets whether to record the request that each sample belongs to. Default: no.
    pub fn requests(mut self, on: bool) -> Self {
        self.options.requests = on;
        self
    }

    /// Changes any setting.
    pub fn configure(mut self, change: impl FnOnce(&mut SamplingOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Prepares the program and opens the events. The program runs at [`Session::start`].
    ///
    /// With other targets than [`Target::Command`], the program runs unsampled unless the target
    /// includes it. Its end ends the recording.
    ///
    /// # Errors
    /// [`SessionError`]. The prepared child has then been removed.
    pub fn launch(self, command: &Launcher) -> Result<Session, SessionError> {
        // Before the fork, so that the child inherits no descriptors.
        let plan = Plan::new(self.events.clone(), self.options.clone(), Limits::read())?;
        let child = command.spawn()?;
        self.open(plan, Some(child))
    }

    /// Opens the events for running targets. Sampling begins at [`Session::start`].
    ///
    /// # Errors
    /// [`SessionError`]; [`SessionError::NoTarget`] for [`Target::Command`] without CPUs.
    pub fn attach(mut self) -> Result<Session, SessionError> {
        if self.options.target == Target::Command {
            if self.options.cpus.is_empty() {
                return Err(SessionError::NoTarget);
            }
            self.options.target = Target::System;
        }
        let plan = Plan::new(self.events.clone(), self.options.clone(), Limits::read())?;
        self.open(plan, None)
    }

    /// Opens the events on the first CPU, and closes them again: of this thread for
    /// [`Target::Command`], else of the whole CPU.
    ///
    /// The result shows whether a recording with these attrs would work here.
    ///
    /// # Errors
    /// [`SessionError`] if the options are invalid, or the online CPUs are unknown.
    pub fn probe(self) -> Result<Probe, SessionError> {
        let scope = match self.options.target {
            Target::Command => Scope::Command(0),
            _ => Scope::All,
        };
        let cpus = cpus::select(&self.options.cpus)?;
        let mut plan = Plan::new(self.events, self.options, Limits::read())?;
        let first = cpus.first().copied().unwrap_or(0);
        Ok(open::probe(&mut plan, &scope, first))
    }

    fn open(self, mut plan: Plan, child: Option<Child>) -> Result<Session, SessionError> {
        // A start time is rounded down to a tick of 10 ms.
        let opened_at = since_boot().saturating_sub(Duration::from_millis(10));
        let (mut cpus, watched) = self.chosen_cpus()?;
        let selection =
            ThreadSelection::from_target(&self.options.target, self.options.exclude_self);
        let OpenedTarget {
            mut opened,
            scope,
            threads,
            only,
        } = match &selection {
            Some(selection) => OpenedTarget::of_threads(&mut plan, selection, &mut cpus)?,
            None => {
                let scope = self.scope(child.as_ref())?;
                OpenedTarget::of_scope(&mut plan, scope, &mut cpus)?
            }
        };
        let contexts = self.open_contexts(&mut plan, &mut opened);
        let Opened {
            events,
            cpus,
            rings,
            overwritten,
            sets,
        } = opened;
        let overwritten = OverwrittenRings::new(overwritten);
        let samples = EventIds::layout(&events, Role::Samples);
        let sideband = EventIds::layout(&events, Role::Sideband);
        let excluded = self.options.exclude_self.then(std::process::id);
        let follows_children = only.as_ref().is_some_and(TargetOnly::follows);
        let is_filtered = only.is_some();
        let inherited_filter = InheritedEventFilter::new(
            samples.clone(),
            sideband.clone(),
            &threads.suspects,
            excluded,
        )
        .abandoned(threads.abandoned)
        .only(only);
        let ring_bytes = ring_bytes(&rings, &overwritten);
        let stack_bases = StackBases::default();
        let config = DrainConfig {
            cpus: cpus.iter().cloned().zip(rings).collect(),
            samples,
            sideband,
            dumps: layouts_of_dumps(&events),
            aliases: Aliases::of(&events),
            bases: stack_bases.clone(),
            clock: self.options.clock.unwrap_or_default(),
            snapshot_bytes: overwritten.bytes(),
            comes_in_bursts: plan.comes_in_bursts(),
            options: self.options.drain.clone(),
        };
        let (running, batches, recycler) =
            DrainThreads::start(config).map_err(SessionError::Threads)?;
        let trace = plan.trace_unit();
        let mut degradations = std::mem::take(&mut plan.degradations);
        let numbers: Vec<u32> = cpus.iter().map(|events| events.cpu).collect();
        degradations.extend(refused_priorities(&self.options.drain, &running));
        Ok(Session {
            online: OnlineCpus::new(plan, scope, &numbers),
            is_enabled: AtomicBool::new(false),
            switches_paused: Arc::default(),
            numbers,
            threads: running,
            cpus,
            sets,
            child,
            exits: selection.map(|selection| TargetExitWatcher::new(selection, &threads.attached)),
            attached: threads.attached,
            target: self.options.target,
            extras: self.options.extras,
            clock: self.options.clock,
            enabled_from_start: self.options.enabled_from_start,
            watched,
            inherited_filter,
            is_filtered,
            follows_children,
            opened_at,
            events,
            degradations,
            batches,
            recycler,
            stack_bases,
            overwritten,
            trace,
            contexts,
            unsent: 0,
            ring_bytes,
            realtime: self.options.drain.realtime,
            counts: None,
        })
    }

    /// Returns the CPUs to open events on, and the chosen CPUs, if any. Waits of a thread begin and
    /// end on any CPU.
    fn chosen_cpus(&self) -> Result<(Vec<u32>, Option<Vec<u32>>), SessionError> {
        let chosen = cpus::select(&self.options.cpus)?;
        Ok(match (self.options.cpus.is_empty(), self.options.off_cpu) {
            (true, _) => (chosen, None),
            (false, true) => (cpus::select(&[])?, Some(chosen)),
            (false, false) => (chosen.clone(), Some(chosen)),
        })
    }

    fn scope(&self, child: Option<&Child>) -> Result<Scope, SessionError> {
        Ok(match (child, &self.options.target) {
            (Some(child), Target::Command) => Scope::Command(child.pid()),
            (_, Target::Cgroups(names)) => Scope::Cgroups(Cgroup::open_all(names)?),
            _ => Scope::All,
        })
    }

    fn open_contexts(&self, plan: &mut Plan, opened: &mut Opened) -> Option<Contexts> {
        if !self.options.requests || self.options.overwrite {
            return None;
        }
        match Contexts::open(plan, opened) {
            Ok(contexts) => Some(contexts),
            Err(errno) => {
                plan.degradations.push(Degradation::NoRequests { errno });
                None
            }
        }
    }
}

struct OpenedTarget {
    opened: Opened,
    scope: Scope,
    /// Threads with events of their own.
    threads: Threads,
    only: Option<TargetOnly>,
}

impl OpenedTarget {
    /// Opens events of running threads, or of whole CPUs if there are too many.
    fn of_threads(
        plan: &mut Plan,
        selection: &ThreadSelection,
        cpus: &mut Vec<u32>,
    ) -> Result<OpenedTarget, SessionError> {
        Ok(match open::open_threads(plan, selection, cpus) {
            Ok((opened, threads)) => OpenedTarget {
                opened,
                scope: Scope::Threads,
                threads,
                only: None,
            },
            Err(refused) => {
                let (opened, threads, only) =
                    open::open_whole_cpus(plan, selection, cpus, refused)?;
                OpenedTarget {
                    opened,
                    scope: Scope::All,
                    threads,
                    only: Some(only),
                }
            }
        })
    }

    fn of_scope(
        plan: &mut Plan,
        scope: Scope,
        cpus: &mut Vec<u32>,
    ) -> Result<OpenedTarget, SessionError> {
        Ok(OpenedTarget {
            opened: open::open(plan, &scope, cpus)?,
            scope,
            threads: Threads::default(),
            only: None,
        })
    }
}

fn ring_bytes(rings: &[CpuRings], overwritten: &OverwrittenRings) -> (usize, usize) {
    rings.first().map_or((0, 0), |rings| {
        let samples = overwritten.ring_bytes().unwrap_or(rings.samples.size());
        (samples, rings.sideband.size())
    })
}

fn layouts_of_dumps(events: &[EventIds]) -> Dumps {
    let with_dumps = |event: &&EventIds| event.attr.sample_type.contains(SampleType::STACK_USER);
    let layouts = events.iter().filter(with_dumps).flat_map(|event| {
        let layout = SampleLayout::new(&event.attr, Endian::NATIVE);
        event.ids.iter().map(move |id| (*id, layout.clone()))
    });
    layouts.collect()
}

fn refused_priorities(
    wanted: &DrainOptions,
    threads: &DrainThreads,
) -> impl Iterator<Item = Degradation> {
    let nice = wanted.nice.zip(threads.nice_refused);
    let nice = nice.map(|(wanted, errno)| Degradation::PriorityUnchanged { wanted, errno });
    let realtime = wanted.realtime.zip(threads.realtime_refused);
    let realtime = realtime.map(|(wanted, errno)| Degradation::RealtimeRefused { wanted, errno });
    nice.into_iter().chain(realtime)
}
