//! [`Plan`]: what to open. Steps down change it.

use super::degradation::Degradation;
use super::error::OpenEventsError;
use super::opened::Role;
use super::ring_sizes::{self, RingSizes};
use super::traces;
use crate::options::SamplingOptions;
use rprof_events::SamplingRate;
use rprof_events::cpus;
use rprof_events::{Event, EventStacks, Modifiers, TraceUnit};
use rprof_launch::Target;
use rprof_launch::procfs::Procfs;
use rprof_perf_event::{Errno, Limits};
use rprof_records::GENERAL_REGISTERS;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) options: SamplingOptions,
    pub(super) events: Vec<Event>,
    pub(super) explicit: bool,
    pub(super) rings: RingSizes,
    pub(super) trace_bytes: usize,
    pub(super) features: Features,
    /// Frequency in Hz; 0 for a fixed period.
    pub(super) frequency: u64,
    /// Maximum Hz of events with their own `freq=` term.
    pub(super) own_limit: u64,
    pub(super) max_stack: Option<u16>,
    pub(super) described_at_first: Vec<String>,
    /// True for events that may lose precision silently (modifier `P`).
    pub(super) precision_is_open: Vec<bool>,
    pub(super) kernel_refused: bool,
    /// True if SWITCH records come without samples.
    pub(super) switch_times_only: bool,
    /// The last event but one records wakeups.
    pub(super) records_wakeups: bool,
    pub(super) watching: Watching,
    pub(super) limits: Limits,
    pub(crate) degradations: Vec<Degradation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watching {
    /// A process before its exec, which starts the events.
    Command,
    Threads,
    Cpus,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) read_lost: bool,
    pub(super) kernel_symbols: bool,
    pub(super) clock_id: bool,
    pub(super) max_stack: bool,
    pub(super) split_weight: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Sampling(usize),
    Filter(usize),
    Sideband,
    Ring(usize),
    Trace(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) stage: Stage,
    pub(super) cpu: u32,
    pub(super) errno: Errno,
}

const WAKEUPS: &str = "sched:sched_waking";

/// A ring must hold 1/40 s, or 25 ms, with stack copies.
const STACKS_PER_RING: u64 = 40;

fn wakeup_event() -> Result<Event, String> {
    match Procfs::default().is_in_first_pid_namespace() {
        true => Event::parse(WAKEUPS).map_err(|error| error.to_string()),
        false => Err(
            "the kernel reports wakeups with the thread ids outside of this container (pid \
             namespace). Record from outside"
                .to_owned(),
        ),
    }
}

impl Plan {
    /// Creates a plan. Without `events`, samples cycles, which may be replaced.
    ///
    /// # Errors
    /// A rate of zero, or in strict mode a frequency above the limit.
    pub(crate) fn new(
        events: Vec<Event>,
        options: SamplingOptions,
        limits: Limits,
    ) -> Result<Plan, OpenEventsError> {
        let events = traces::first(events, &options)?;
        let (frequency, rate) = match options.rate {
            SamplingRate::Frequency(frequency) => (frequency, frequency),
            SamplingRate::Period(period) => (0, period),
        };
        if rate == 0 {
            return Err(OpenEventsError::ZeroRate);
        }
        let explicit = !events.is_empty();
        let watching = match options.target {
            Target::Command => Watching::Command,
            Target::System | Target::Cgroups(_) => Watching::Cpus,
            Target::Processes(_) | Target::Threads(_) | Target::User(_) => Watching::Threads,
        };
        let online = || cpus::online().map_or(1, |all| all.len());
        let mut events = match explicit {
            true => events,
            false if options.off_cpu => vec![Event::cpu_clock()],
            false => vec![Event::cycles()],
        };
        let (wakes, no_wakers) = match (options.off_cpu && options.wakers).then(wakeup_event) {
            Some(Ok(event)) => (Some(event), None),
            Some(Err(cause)) => (None, Some(Degradation::NoWakers { cause })),
            None => (None, None),
        };
        let records_wakeups = wakes.is_some();
        // The first event's ring is the shared one.
        events.extend(wakes);
        events.extend(options.off_cpu.then(Event::context_switches));
        let mut plan = Plan {
            events,
            explicit,
            rings: RingSizes::first(
                (options.ring_bytes).or(options.user_stack.map(|_| {
                    match (options.off_cpu, watching, options.rate) {
                        (true, ..) => ring_sizes::with_switches(online()),
                        (_, Watching::Cpus, SamplingRate::Frequency(hertz)) => {
                            ring_sizes::with_stacks_of_everybody(online(), hertz)
                        }
                        _ => ring_sizes::with_stacks(online()),
                    }
                })),
                (options.sideband_ring_bytes).or(watching
                    .eq(&Watching::Cpus)
                    .then(|| ring_sizes::sideband_of_everybody(online()))),
            ),
            trace_bytes: traces::area(options.trace_bytes),
            features: Features {
                read_lost: true,
                kernel_symbols: !options.exclude_kernel,
                clock_id: true,
                max_stack: true,
                split_weight: true,
            },
            frequency,
            own_limit: u64::MAX,
            described_at_first: Vec::new(),
            precision_is_open: Vec::new(),
            max_stack: options.max_stack,
            kernel_refused: false,
            switch_times_only: false,
            records_wakeups,
            watching,
            limits,
            degradations: no_wakers.into_iter().collect(),
            options,
        };
        plan.described_at_first = plan.events.iter().map(Event::describe).collect();
        plan.precision_is_open = vec![false; plan.events.len()];
        let takes_stacks = plan
            .events
            .iter()
            .any(|event| match event.settings().stacks {
                Some(stacks) => stacks == EventStacks::Dwarf,
                None => plan.options.user_stack.is_some(),
            });
        if takes_stacks && GENERAL_REGISTERS == 0 {
            plan.degradations.push(Degradation::NoUserStack);
        }
        plan.lower_frequency()?;
        Ok(plan)
    }

    pub(super) fn watch_whole_cpus(&mut self, step: Degradation) {
        self.watching = Watching::Cpus;
        self.options.exclude_idle = true;
        let online = cpus::online().map_or(1, |all| all.len());
        if self.options.sideband_ring_bytes.is_none() {
            self.rings.sideband = ring_sizes::sideband_of_everybody(online);
        }
        if let (None, Some(_), SamplingRate::Frequency(hertz)) = (
            self.options.ring_bytes,
            self.options.user_stack,
            self.options.rate,
        ) {
            self.rings.samples = ring_sizes::with_stacks_of_everybody(online, hertz);
        }
        self.degradations.push(step);
    }

    pub(super) fn inherits(&self) -> bool {
        let one_thread = matches!(self.options.target, Target::Threads(_));
        self.options.inherit && !one_thread && self.watching != Watching::Cpus
    }

    /// Returns the role of an event. The switch event is the last, the wakeup event the one before.
    pub(super) fn role(&self, index: usize) -> Role {
        match self.events.len() - index {
            1 if self.options.off_cpu => Role::OffCpu,
            2 if self.records_wakeups => Role::Wakeups,
            _ => Role::Samples,
        }
    }

    /// Drops the wakeup event. Returns false if there is none.
    pub(super) fn drop_wakeups(&mut self) -> bool {
        let tells = std::mem::take(&mut self.records_wakeups);
        if tells {
            let index = self.events.len() - 2;
            self.events.remove(index);
            self.described_at_first.remove(index);
            self.precision_is_open.remove(index);
        }
        tells
    }

    /// Returns true if a CPU is sampled. Others record only switches: a thread may come back on any
    /// CPU.
    pub(super) fn watches(&self, cpu: u32) -> bool {
        self.options.cpus.is_empty() || self.options.cpus.contains(&cpu)
    }

    pub(crate) fn records_wakeups(&self) -> bool {
        self.records_wakeups
    }

    pub(crate) fn trace_unit(&self) -> Option<TraceUnit> {
        self.events.first().and_then(Event::trace_unit)
    }

    pub(super) fn sideband_from_start(&self) -> bool {
        self.watching != Watching::Command
    }

    pub(super) fn rate_of(&self, event: &Event) -> SamplingRate {
        if event.trace_unit().is_some() {
            return SamplingRate::Period(1);
        }
        match (event.rate(), event.default_period(), self.options.rate) {
            (Some(SamplingRate::Frequency(wanted)), ..) => {
                SamplingRate::Frequency(wanted.min(self.own_limit))
            }
            (Some(rate), ..) => rate,
            (None, Some(period), _) if self.options.rate_is_default => SamplingRate::Period(period),
            (None, _, SamplingRate::Frequency(_)) => SamplingRate::Frequency(self.frequency),
            (None, _, rate) => rate,
        }
    }

    /// Returns the number of stack bytes to copy into each sample.
    ///
    /// The kernel reserves all of them even for short stacks. With `fit_user_stack` the ring holds
    /// at least 25 ms.
    pub(super) fn user_stack(&self) -> Option<u32> {
        let wanted = self.options.user_stack?;
        if !self.options.fit_user_stack {
            return Some(wanted);
        }
        let a_second = match self.options.rate {
            SamplingRate::Frequency(_) => self.frequency.max(1),
            // Assumes bursts.
            SamplingRate::Period(_) => 10_000,
        };
        let fitting = self.rings.samples as u64 * STACKS_PER_RING / a_second;
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        Some(wanted.min(fitting.max(ring_sizes::SHORTEST_STACK)))
    }

    /// Returns true if a CPU may copy stacks without a pause, as with a fixed period.
    pub(crate) fn comes_in_bursts(&self) -> bool {
        let copies = |event: &Event| match event.settings().stacks {
            None => self.options.user_stack.is_some(),
            Some(stacks) => stacks == EventStacks::Dwarf,
        };
        (self.events.iter().enumerate()).any(|(index, event)| {
            let is_fixed = matches!(self.rate_of(event), SamplingRate::Period(_));
            is_fixed && self.role(index) == Role::Samples && copies(event)
        })
    }

    pub(super) fn excludes_kernel(&self) -> bool {
        self.options.exclude_kernel || self.kernel_refused
    }

    pub(super) fn describe(&self, event: &Event) -> String {
        let named = event.modifiers();
        let all = named.is_empty();
        let real = Modifiers {
            user: (all || named.user) && !self.options.exclude_user,
            kernel: (all || named.kernel) && !self.excludes_kernel(),
            hypervisor: (all || named.hypervisor) && !self.excludes_kernel(),
        };
        let restricted = self.options.exclude_user || self.excludes_kernel();
        match restricted && (real.user || real.kernel) {
            true => event.clone().with_modifiers(Modifiers {
                // Implied by the kernel side.
                hypervisor: named.hypervisor && real.hypervisor,
                ..real
            }),
            false => event.clone(),
        }
        .describe()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
