//! Plan of what to open: the state that steps down change.

use super::degradation::Degradation;
use super::error::OpenError;
use super::opened::Role;
use super::ring_sizes::{self, RingSizes};
use super::traces;
use crate::options::SamplingOptions;
use rprof_events::Rate;
use rprof_events::cpus;
use rprof_events::{Event, EventStacks, Modifiers, TraceUnit};
use rprof_launch::Target;
use rprof_launch::procfs::Procfs;
use rprof_perf_event::{Errno, Limits};
use rprof_records::GENERAL_REGISTERS;

/// State that attempts at opening are made from.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) options: SamplingOptions,
    pub(super) events: Vec<Event>,
    /// True if the user named the events.
    pub(super) explicit: bool,
    pub(super) rings: RingSizes,
    /// Bytes of the AUX area of each CPU, where one event writes a trace.
    pub(super) trace_bytes: usize,
    pub(super) features: Features,
    /// Frequency of the recording in Hz; 0 where its rate is a period.
    pub(super) frequency: u64,
    /// Upper bound in Hz for events with their own `freq=` term.
    pub(super) own_limit: u64,
    pub(super) max_stack: Option<u16>,
    /// Description of each event before any step.
    pub(super) described_at_first: Vec<String>,
    /// Per event: true if `precise_ip` may be lowered silently (modifier `P`).
    pub(super) precision_is_open: Vec<bool>,
    pub(super) kernel_refused: bool,
    /// True if switches are told by SWITCH records alone, without samples.
    pub(super) switch_times_only: bool,
    /// True if wakeups are recorded, by the event before the last.
    pub(super) records_wakeups: bool,
    /// Kind of target.
    pub(super) watching: Watching,
    pub(super) limits: Limits,
    /// Steps taken so far.
    pub(crate) degradations: Vec<Degradation>,
}

/// Kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watching {
    /// Process that has not begun: its exec starts the events.
    Command,
    /// Threads that run already.
    Threads,
    /// Whole CPUs.
    Cpus,
}

/// Newer parts of the attr, true if they are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) read_lost: bool,
    pub(super) kernel_symbols: bool,
    pub(super) clock_id: bool,
    pub(super) max_stack: bool,
    pub(super) split_weight: bool,
}

/// Stage at which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Opening the sample event with this index.
    Sampling(usize),
    /// Filtering the hits of the sample event with this index.
    Filter(usize),
    /// Opening the sideband event.
    Sideband,
    /// Mapping a ring of so many bytes.
    Ring(usize),
    /// Mapping an AUX area of so many bytes.
    Trace(usize),
}

/// Refusal by the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    pub(super) stage: Stage,
    pub(super) cpu: u32,
    pub(super) errno: Errno,
}

/// Tracepoint that a thread hits when it wakes another.
const WAKEUPS: &str = "sched:sched_waking";

/// Fraction of a second for whose samples a ring has room when stacks are copied: 1/40, or 25 ms.
const STACKS_PER_RING: u64 = 40;

/// Returns the event of wakeups, or why it says nothing here.
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
    /// Makes a plan for `events`; none means the default, cycles, which may be replaced.
    ///
    /// # Errors
    /// A rate of zero, and a frequency above the limit when asked for strictly.
    pub(crate) fn new(
        events: Vec<Event>,
        options: SamplingOptions,
        limits: Limits,
    ) -> Result<Plan, OpenError> {
        let events = traces::first(events, &options)?;
        let (frequency, rate) = match options.rate {
            Rate::Frequency(frequency) => (frequency, frequency),
            Rate::Period(period) => (0, period),
        };
        if rate == 0 {
            return Err(OpenError::ZeroRate);
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
        // Behind those that are sampled: the first is what CPUs share their rings by.
        events.extend(wakes);
        events.extend(options.off_cpu.then(Event::context_switches));
        let mut plan = Plan {
            events,
            explicit,
            rings: RingSizes::first(
                (options.ring_bytes).or(options.user_stack.map(|_| {
                    match (options.off_cpu, watching, options.rate) {
                        (true, ..) => ring_sizes::with_switches(online()),
                        (_, Watching::Cpus, Rate::Frequency(hertz)) => {
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

    /// Returns whether threads and processes that watched threads start inherit the events.
    pub(super) fn inherits(&self) -> bool {
        let one_thread = matches!(self.options.target, Target::Threads(_));
        self.options.inherit && !one_thread && self.watching != Watching::Cpus
    }

    /// Returns what the records of the event with this index are for. That of switches is the last, and that of wakeups the one before.
    pub(super) fn role(&self, index: usize) -> Role {
        match self.events.len() - index {
            1 if self.options.off_cpu => Role::OffCpu,
            2 if self.records_wakeups => Role::Wakeups,
            _ => Role::Samples,
        }
    }

    /// Goes without wakeups, if they are recorded. Returns whether they were.
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

    /// Returns whether a CPU is one that is to be watched. On others, switches alone are told: a thread that left a CPU
    /// that is watched may come back on any.
    pub(super) fn watches(&self, cpu: u32) -> bool {
        self.options.cpus.is_empty() || self.options.cpus.contains(&cpu)
    }

    /// Returns the unit whose trace is recorded, if an event is one's.
    pub(crate) fn trace_unit(&self) -> Option<TraceUnit> {
        self.events.first().and_then(Event::trace_unit)
    }

    /// Returns whether sideband is recorded before sampling begins.
    pub(super) fn sideband_from_start(&self) -> bool {
        self.watching != Watching::Command
    }

    /// Returns how often an event is sampled: its own rate, else that of the recording.
    pub(super) fn rate_of(&self, event: &Event) -> Rate {
        if event.trace_unit().is_some() {
            return Rate::Period(1);
        }
        match (event.rate(), event.default_period(), self.options.rate) {
            (Some(Rate::Frequency(wanted)), ..) => Rate::Frequency(wanted.min(self.own_limit)),
            (Some(rate), ..) => rate,
            (None, Some(period), _) if self.options.rate_is_default => Rate::Period(period),
            (None, _, Rate::Frequency(_)) => Rate::Frequency(self.frequency),
            (None, _, rate) => rate,
        }
    }

    /// Returns the bytes of user stack to copy into each sample.
    ///
    /// The kernel reserves all of them, however short the stack is. With `fit_user_stack` they are
    /// as many as let the ring hold the samples of 25 ms at least.
    pub(super) fn user_stack(&self) -> Option<u32> {
        let wanted = self.options.user_stack?;
        if !self.options.fit_user_stack {
            return Some(wanted);
        }
        let a_second = match self.options.rate {
            Rate::Frequency(_) => self.frequency.max(1),
            // Not known; an assumption for events that come in bursts.
            Rate::Period(_) => 10_000,
        };
        let fitting = self.rings.samples as u64 * STACKS_PER_RING / a_second;
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        Some(wanted.min(fitting.max(ring_sizes::SHORTEST_STACK)))
    }

    /// Returns true if a CPU can make copies of stacks without a pause: events with a fixed period have them.
    pub(crate) fn comes_in_bursts(&self) -> bool {
        let copies = |event: &Event| match event.settings().stacks {
            None => self.options.user_stack.is_some(),
            Some(stacks) => stacks == EventStacks::Dwarf,
        };
        (self.events.iter().enumerate()).any(|(index, event)| {
            let is_fixed = matches!(self.rate_of(event), Rate::Period(_));
            is_fixed && self.role(index) == Role::Samples && copies(event)
        })
    }

    /// Returns whether samples in the kernel are left out.
    pub(super) fn excludes_kernel(&self) -> bool {
        self.options.exclude_kernel || self.kernel_refused
    }

    /// Describes an event for a file: with the sides that are really sampled.
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
                // Implied by the kernel's side, and never named by users.
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
