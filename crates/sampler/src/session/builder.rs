//! [`SessionBuilder`]: from options to a session.

use super::overwritten::OverwrittenRings;
use super::{Session, SessionError};
use crate::clock::since_boot;
use crate::drain::{DrainConfig, DrainThreads, StackBases};
use crate::inherited_filter::InheritedEventFilter;
use crate::open::{self, Degradation, Opened, Plan, Role, Scope, Threads};
use crate::options::{Extras, SamplingOptions};
use rprof_events::{Event, Rate, cpus};
use rprof_launch::{Cgroup, Child, Launcher, Selection, Target, TargetExitWatcher};
use rprof_perf_event::Clock;
use rprof_perf_event::Limits;
use rprof_records::{Endian, SampleLayout, SampleType};
use std::time::Duration;

/// Description of a recording: a sentence that ends in [`launch`](Self::launch) or
/// [`attach`](Self::attach).
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

    /// Sets the samples a second on each busy CPU. Without this and [`period`](Self::period) it is
    /// 999, and each tracepoint, probe and breakpoint hit is a sample.
    pub fn frequency(mut self, hertz: u64) -> Self {
        self.options.rate = Rate::Frequency(hertz);
        self.options.rate_is_default = false;
        self
    }

    /// Takes one sample for so many events.
    pub fn period(mut self, events: u64) -> Self {
        self.options.rate = Rate::Period(events);
        self.options.rate_is_default = false;
        self
    }

    /// Fails when the frequency is above the kernel's limit, in place of lowering it.
    pub fn strict_frequency(mut self, strict: bool) -> Self {
        self.options.strict_frequency = strict;
        self
    }

    /// Records callchains. Default: yes.
    pub fn callchains(mut self, on: bool) -> Self {
        self.options.callchains = on;
        self
    }

    /// Sets the largest number of addresses in a callchain.
    pub fn max_stack(mut self, addresses: u16) -> Self {
        self.options.max_stack = Some(addresses);
        self
    }

    /// Leaves out samples in the kernel.
    pub fn exclude_kernel(mut self, exclude: bool) -> Self {
        self.options.exclude_kernel = exclude;
        self
    }

    /// Leaves out samples in user mode.
    pub fn exclude_user(mut self, exclude: bool) -> Self {
        self.options.exclude_user = exclude;
        self
    }

    /// Watches the threads and processes that the target starts as well. Default: yes.
    pub fn inherit(mut self, inherit: bool) -> Self {
        self.options.inherit = inherit;
        self
    }

    /// Sets the bytes of sample ring for each CPU; rounded up to a power of two of pages.
    pub fn ring_bytes(mut self, bytes: usize) -> Self {
        self.options.ring_bytes = Some(bytes);
        self
    }

    /// Sets the bytes of sideband ring for each CPU; rounded up to a power of two of pages.
    pub fn sideband_ring_bytes(mut self, bytes: usize) -> Self {
        self.options.sideband_ring_bytes = Some(bytes);
        self
    }

    /// Sets the target. Default: the command.
    pub fn target(mut self, target: Target) -> Self {
        self.options.target = target;
        self
    }

    /// Sets the CPUs to watch; without a [target](Self::target) and a command, everything on them.
    pub fn cpus(mut self, cpus: Vec<u32>) -> Self {
        self.options.cpus = cpus;
        self
    }

    /// With `false`, nothing is sampled before [`Session::enable`]. Processes are
    /// followed from the start all the same.
    pub fn enabled_from_start(mut self, enabled: bool) -> Self {
        self.options.enabled_from_start = enabled;
        self
    }

    /// Leaves this process itself out of the recording.
    pub fn exclude_self(mut self, exclude: bool) -> Self {
        self.options.exclude_self = exclude;
        self
    }

    /// Leaves out samples of clocks on CPUs that have nothing to do.
    pub fn exclude_idle(mut self, exclude: bool) -> Self {
        self.options.exclude_idle = exclude;
        self
    }

    /// Runs the drain threads under SCHED_FIFO with this priority, 1 to 99.
    pub fn realtime(mut self, priority: u8) -> Self {
        self.options.drain.realtime = Some(priority);
        self
    }

    /// Copies so many bytes of the user's stack into each sample, with the user's registers,
    /// in place of the user part of the callchain.
    pub fn user_stack(mut self, bytes: Option<u32>) -> Self {
        self.options.user_stack = bytes;
        self
    }

    /// Takes the user's side of callchains from the processor's record of branches.
    pub fn branch_call_stacks(mut self, on: bool) -> Self {
        self.options.branch_call_stacks = on;
        self
    }

    /// Takes the bytes of [`user_stack`](Self::user_stack) for an upper bound, and copies fewer where
    /// the ring would not hold the samples of 25 ms. For those who unwind at once: callchains keep the user's side.
    pub fn fit_user_stack(mut self, fit: bool) -> Self {
        self.options.fit_user_stack = fit;
        self
    }

    /// Records more of each sample, and more kinds of records.
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

    /// Keeps the last samples of each CPU in its ring, where later ones overwrite them, until
    /// [`Session::snapshot`] or the end.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.options.overwrite = overwrite;
        self
    }

    /// Sets the bytes of the AUX area of each CPU, for an event that writes a trace; rounded up to a power of two of
    /// pages.
    pub fn trace_bytes(mut self, bytes: Option<usize>) -> Self {
        self.options.trace_bytes = bytes;
        self
    }

    /// Stamps records with this clock. Default: CLOCK_MONOTONIC.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.options.clock = Some(clock);
        self
    }

    /// Tells when threads leave their CPU and come back, with the stack of each that leaves. Default: no.
    pub fn off_cpu(mut self, on: bool) -> Self {
        self.options.off_cpu = on;
        self
    }

    /// Records who wakes threads, beside [`off_cpu`](Self::off_cpu). Default: no.
    pub fn wakers(mut self, on: bool) -> Self {
        self.options.wakers = on;
        self
    }

    /// Changes any setting, those of the drain threads among them.
    pub fn configure(mut self, change: impl FnOnce(&mut SamplingOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Prepares the program, and opens the events. Nothing runs before [`Session::start`].
    ///
    /// With the target [`Target::Command`], the program is what is watched; with any other,
    /// it runs unwatched, unless the target includes it, and its end ends the recording.
    ///
    /// # Errors
    /// [`SessionError`]; the prepared child is gone then.
    pub fn launch(self, command: &Launcher) -> Result<Session, SessionError> {
        // Before the child, so that it is no open file more to it.
        let plan = Plan::new(self.events.clone(), self.options.clone(), Limits::read())?;
        let child = command.spawn()?;
        self.open(plan, Some(child))
    }

    /// Opens the events for what runs already. Nothing is sampled before [`Session::start`].
    ///
    /// # Errors
    /// [`SessionError`]; [`SessionError::NoTarget`] when the target is [`Target::Command`] and
    /// no CPUs were named.
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

    fn open(self, mut plan: Plan, child: Option<Child>) -> Result<Session, SessionError> {
        // A process's start is rounded down to a tick of 10 ms.
        let opened_at = since_boot().saturating_sub(Duration::from_millis(10));
        let target = &self.options.target;
        let mut cpus = cpus::select(&self.options.cpus)?;
        let watched = (!self.options.cpus.is_empty()).then(|| cpus.clone());
        if self.options.off_cpu && watched.is_some() {
            cpus = cpus::select(&[])?;
        }
        let selection = Selection::from_target(target, self.options.exclude_self);
        let (opened, threads) = match (&selection, &child, target) {
            (Some(selection), ..) => open::open_threads(&mut plan, selection, &mut cpus)?,
            (None, Some(child), Target::Command) => {
                let scope = Scope::Command(child.pid());
                (
                    open::open(&mut plan, &scope, &mut cpus)?,
                    Threads::default(),
                )
            }
            (None, _, Target::Cgroups(names)) => {
                let scope = Scope::Cgroups(Cgroup::open_all(names)?);
                (
                    open::open(&mut plan, &scope, &mut cpus)?,
                    Threads::default(),
                )
            }
            (None, ..) => (
                open::open(&mut plan, &Scope::All, &mut cpus)?,
                Threads::default(),
            ),
        };
        let Opened {
            events,
            cpus,
            rings,
            overwritten,
            sets,
        } = opened;
        let overwritten = OverwrittenRings::new(overwritten);
        let layout = |role| {
            let of_role = events.iter().find(|event| event.role == role);
            let attr = of_role.map(|event| event.attr.clone()).unwrap_or_default();
            SampleLayout::new(&attr, Endian::NATIVE)
        };
        let (samples, sideband) = (layout(Role::Samples), layout(Role::Sideband));
        let excluded = self.options.exclude_self.then(std::process::id);
        let inherited_filter = InheritedEventFilter::new(
            samples.clone(),
            sideband.clone(),
            &threads.suspects,
            excluded,
        )
        .abandoned(threads.abandoned);
        let ring_bytes = (rings.first()).map_or((0, 0), |rings| {
            let samples = overwritten.ring_bytes().unwrap_or(rings.samples.size());
            (samples, rings.sideband.size())
        });
        let dumps = (events.iter())
            .filter(|event| event.attr.sample_type.contains(SampleType::STACK_USER))
            .flat_map(|event| {
                let layout = SampleLayout::new(&event.attr, Endian::NATIVE);
                event.ids.iter().map(move |id| (*id, layout.clone()))
            })
            .collect();
        let stack_bases = StackBases::default();
        let config = DrainConfig {
            cpus: cpus.iter().cloned().zip(rings).collect(),
            samples,
            sideband,
            dumps,
            bases: stack_bases.clone(),
            clock: self.options.clock.unwrap_or_default(),
            snapshot_bytes: overwritten.bytes(),
            comes_in_bursts: plan.comes_in_bursts(),
            options: self.options.drain.clone(),
        };
        let (running, batches, recycler) =
            DrainThreads::start(config).map_err(SessionError::Threads)?;
        let trace = plan.trace_unit();
        let mut degradations = plan.degradations;
        let drain = &self.options.drain;
        if let (Some(wanted), Some(errno)) = (drain.nice, running.nice_refused) {
            degradations.push(Degradation::PriorityUnchanged { wanted, errno });
        }
        if let (Some(wanted), Some(errno)) = (drain.realtime, running.realtime_refused) {
            degradations.push(Degradation::RealtimeRefused { wanted, errno });
        }
        Ok(Session {
            numbers: cpus.iter().map(|events| events.cpu).collect(),
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
            opened_at,
            events,
            degradations,
            batches,
            recycler,
            stack_bases,
            overwritten,
            trace,
            unsent: 0,
            ring_bytes,
            realtime: self.options.drain.realtime,
            counts: None,
        })
    }
}
