//! Attrs of the kinds of events that a session opens.
//!
//! *Sample* events sample and say nothing else, but for the one that tells of switches. The *sideband* event is a dummy that
//! never samples; its records say who runs and what is mapped. Each has a ring of its own, so
//! that no flood of samples can displace a mapping. An *anchor* does neither: where threads
//! come and go it holds the ring that their events share. The *minimal* event is opened to find
//! out whether a process may be watched at all.

use super::opened::Role;
use super::plan::{Plan, Watching};
use crate::options::Extras;
use rprof_events::Rate;
use rprof_events::{Event, EventStacks};
use rprof_records::{Attr, AttrFlags, BranchSampleType, GENERAL_REGISTERS, ReadFormat, SampleType};

/// Sample fields of all events, so that the trailer of every record has its time and CPU, and the
/// event id stands in the same place whichever event a record is of.
const COMMON: SampleType = SampleType::IDENTIFIER
    .union(SampleType::IP)
    .union(SampleType::TID)
    .union(SampleType::TIME)
    .union(SampleType::CPU);

/// Largest number of bytes of user stack in a sample: a multiple of 8 that, with the rest of the record,
/// stays below the 64 KiB that a record can have (`PERF_SAMPLE_STACK_USER`).
const MOST_STACK: u32 = 65_528;

/// Returns the fields that all attrs have in common.
fn base(plan: &Plan, event: &Event, ring_bytes: usize) -> Attr {
    let mut flags = AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL | AttrFlags::WATERMARK;
    flags.set(AttrFlags::INHERIT, plan.inherits());
    flags.set(AttrFlags::USE_CLOCKID, plan.features.clock_id);
    let mut read_format = ReadFormat::ID;
    read_format.set(ReadFormat::LOST, plan.features.read_lost);
    Attr {
        kind: event.kind(),
        config: event.config(),
        sample_type: COMMON,
        read_format,
        flags,
        // A quarter: time enough to be woken and to read before the ring is full.
        wakeup: u32::try_from(ring_bytes / 4).unwrap_or(u32::MAX),
        clockid: match plan.features.clock_id {
            true => plan.options.clock.unwrap_or_default().number(),
            false => 0,
        },
        ..Attr::default()
    }
}

/// Largest number of bytes of user stack that are copied when a thread leaves its CPU. The kernel copies them with the
/// CPU's run queue locked. A stack that goes on above is completed as any other.
const MOST_STACK_OFF_CPU: u32 = 16 << 10;

/// Returns the attr of the plan's event with this index.
pub(super) fn of_event(plan: &Plan, index: usize) -> Attr {
    let event = &plan.events[index];
    match plan.role(index) {
        Role::OffCpu => off_cpu(plan, event),
        Role::Wakeups => wakeups(plan, event),
        Role::Samples | Role::Sideband => sampling(plan, event),
    }
}

/// Returns the attr of the event that tells of switches.
///
/// It has no `PERF_SAMPLE_PERIOD`, with which the kernel would ignore any period but 1 (`perf_swevent_event`). With
/// `exclude_kernel` the kernel counts no switch and takes no sample (`perf_exclude_event`), and writes SWITCH records all the same.
fn off_cpu(plan: &Plan, event: &Event) -> Attr {
    let mut attr = base(plan, event, plan.rings.samples);
    let on_exec = plan.watching == Watching::Command && plan.options.enabled_from_start;
    attr.flags.set(AttrFlags::ENABLE_ON_EXEC, on_exec);
    attr.flags |= AttrFlags::CONTEXT_SWITCH;
    attr.read_format |= ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    attr.period_or_freq = 1;
    if plan.switch_times_only {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    }
    stacks(plan, event, &mut attr);
    // Branches are of code that runs.
    attr.sample_type.remove(SampleType::BRANCH_STACK);
    attr.branch_sample_type = BranchSampleType::empty();
    attr.sample_stack_user = attr.sample_stack_user.min(MOST_STACK_OFF_CPU);
    if attr.sample_type.contains(SampleType::CALLCHAIN) {
        let flags = &mut attr.flags;
        flags.set(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, plan.excludes_kernel());
        *flags |= match plan.options.exclude_user {
            true => AttrFlags::EXCLUDE_CALLCHAIN_USER,
            false => AttrFlags::empty(),
        };
    }
    attr
}

/// Returns the attr of the event of wakeups on a whole CPU. No exec starts it, so before one it is on already.
fn wakeups(plan: &Plan, event: &Event) -> Attr {
    let mut attr = base(plan, event, plan.rings.samples);
    attr.flags.remove(AttrFlags::INHERIT);
    let is_on = plan.watching == Watching::Command && plan.options.enabled_from_start;
    attr.flags.set(AttrFlags::DISABLED, !is_on);
    attr.read_format |= ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    attr.period_or_freq = 1;
    event.apply(&mut attr);
    attr
}

/// Returns the attr of the event that tells of switches, for a CPU that is not watched itself: no samples, and so no copies of stacks.
pub(super) fn switches_alone(attr: &Attr) -> Attr {
    let mut attr = attr.clone();
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

/// Returns the attr of a sample event.
pub(super) fn sampling(plan: &Plan, event: &Event) -> Attr {
    let mut attr = base(plan, event, plan.rings.samples);
    let options = &plan.options;
    let on_exec = plan.watching == Watching::Command && options.enabled_from_start;
    attr.flags.set(AttrFlags::ENABLE_ON_EXEC, on_exec);
    attr.read_format |= ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    match plan.rate_of(event) {
        Rate::Frequency(frequency) => {
            attr.flags |= AttrFlags::FREQ;
            attr.period_or_freq = frequency;
        }
        Rate::Period(period) => attr.period_or_freq = period,
    }
    event.apply(&mut attr);
    if tells_period(&attr) {
        attr.sample_type |= SampleType::PERIOD;
    }
    if event.trace_unit().is_some() {
        // The unit takes no samples; woken when a quarter of the area is full.
        attr.aux_watermark = u32::try_from(plan.trace_bytes / 4).unwrap_or(u32::MAX);
        (attr.flags).set(AttrFlags::CONTEXT_SWITCH, tells_switches(plan, event));
        exclude(plan, event, &mut attr);
        return attr;
    }
    (attr.flags).set(AttrFlags::WRITE_BACKWARD, plan.options.overwrite);
    (attr.flags).set(AttrFlags::CONTEXT_SWITCH, tells_switches(plan, event));
    exclude(plan, event, &mut attr);
    stacks(plan, event, &mut attr);
    extras(plan, event, &mut attr);
    attr
}

/// Returns true if samples have to hold their period: one that the kernel adapts, and what each single event counts (of
/// a tracepoint, say nanoseconds). Another fixed period is the attr's; asked for in samples, the kernel would ignore it
/// in software events and tracepoints, and take a sample of each (`perf_swevent_event`).
fn tells_period(attr: &Attr) -> bool {
    attr.flags.contains(AttrFlags::FREQ) || attr.period_or_freq <= 1
}

/// Leaves out the sides that the user does not want, or may not watch.
fn exclude(plan: &Plan, event: &Event, attr: &mut Attr) {
    let excludes_idle = plan.options.exclude_idle && event.ticks_when_idle();
    attr.flags.set(AttrFlags::EXCLUDE_IDLE, excludes_idle);
    if plan.excludes_kernel() {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    }
    let excludes_user = plan.options.exclude_user || attr.flags.contains(AttrFlags::EXCLUDE_USER);
    attr.flags.set(AttrFlags::EXCLUDE_USER, excludes_user);
}

/// Sets what samples hold beyond the usual.
fn extras(plan: &Plan, event: &Event, attr: &mut Attr) {
    let extras = plan.options.extras;
    let mut fields = extras.fields & Extras::FIELDS;
    if fields.contains(SampleType::WEIGHT_STRUCT) {
        // The kernel takes one of the two.
        fields.remove(SampleType::WEIGHT);
        if !plan.features.split_weight {
            fields.remove(SampleType::WEIGHT_STRUCT);
            fields |= SampleType::WEIGHT;
        }
    }
    attr.sample_type |= fields;
    if extras.thread_counts && plan.inherits() {
        attr.flags |= AttrFlags::INHERIT_STAT;
    }
    match event.settings().branches {
        None if extras.branches.is_empty() => {}
        None => {
            attr.sample_type |= SampleType::BRANCH_STACK;
            attr.branch_sample_type |= extras.branches;
        }
        // The event's own term goes before the recording's, as in perf.
        Some(none) if none.is_empty() => {
            attr.sample_type.remove(SampleType::BRANCH_STACK);
            attr.branch_sample_type = none;
        }
        Some(own) => {
            attr.sample_type |= SampleType::BRANCH_STACK;
            attr.branch_sample_type |= own;
        }
    }
    if extras.user_registers != 0 {
        attr.sample_type |= SampleType::REGS_USER;
        attr.sample_regs_user |= extras.user_registers;
    }
    if extras.interrupt_registers != 0 {
        attr.sample_type |= SampleType::REGS_INTR;
        attr.sample_regs_intr = extras.interrupt_registers;
    }
}

/// Returns true for the event whose ring takes the records of context switches.
///
/// It is a sample event, as they come as often as samples do: they must not displace a mapping.
fn tells_switches(plan: &Plan, event: &Event) -> bool {
    let records = plan.options.extras.records;
    // Who decodes a trace has to tell threads apart.
    let asked = records.contains(AttrFlags::CONTEXT_SWITCH) || plan.trace_unit().is_some();
    // One event tells of each switch.
    asked && !plan.options.off_cpu && plan.events.first() == Some(event)
}

/// Sets the fields for callchains and stack copies.
fn stacks(plan: &Plan, event: &Event, attr: &mut Attr) {
    let settings = event.settings();
    let (callchain, dump) = match settings.stacks {
        None => (plan.options.callchains, plan.user_stack()),
        Some(EventStacks::None) => (false, None),
        Some(EventStacks::Dwarf) => {
            let bytes = settings.stack_size.or(plan.user_stack());
            (true, Some(bytes.unwrap_or(8192)))
        }
        Some(_) => (true, None),
    };
    let dump = dump.filter(|bytes| *bytes > 0 && GENERAL_REGISTERS != 0);
    attr.sample_type.set(SampleType::CALLCHAIN, callchain);
    if callchain {
        let depth = settings.max_stack.or(plan.max_stack);
        attr.sample_max_stack = match plan.features.max_stack {
            true => depth.unwrap_or(0),
            false => 0,
        };
        // A user who may not sample the kernel may not see it in callchains either.
        if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
            attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
        }
    }
    let branches = match settings.stacks {
        None => plan.options.callchains && plan.options.branch_call_stacks,
        Some(stacks) => stacks == EventStacks::Lbr,
    };
    if branches {
        attr.sample_type |= SampleType::BRANCH_STACK;
        // As perf asks for it.
        attr.branch_sample_type = BranchSampleType::USER
            | BranchSampleType::CALL_STACK
            | BranchSampleType::NO_CYCLES
            | BranchSampleType::NO_FLAGS;
    }
    if let Some(bytes) = dump {
        attr.sample_type |= SampleType::REGS_USER | SampleType::STACK_USER;
        attr.sample_regs_user = GENERAL_REGISTERS;
        attr.sample_stack_user = bytes.next_multiple_of(8).min(MOST_STACK);
        // Who unwinds at once goes on with the callchain where stacks are switched; who reads copies in a file takes one of
        // the two.
        let is_unwound = plan.options.fit_user_stack && !plan.options.overwrite;
        (attr.flags).set(AttrFlags::EXCLUDE_CALLCHAIN_USER, !is_unwound);
    }
}

/// Returns the attr of the sideband event.
///
/// It never has `build_id`: Linux sets the mark of a build-id (`PERF_RECORD_MISC_MMAP_BUILD_ID`) in the one record that it
/// hands to all listeners of a task or CPU in turn, and takes it away from none behind the first that asked for it
/// (`perf_event_mmap_output`, 6.18 at least). Their device and inode are then read as a build-id, of which perf 6.1 dies.
pub(super) fn sideband(plan: &Plan) -> Attr {
    let mut attr = base(plan, &Event::dummy(), plan.rings.sideband);
    let on_exec = plan.watching == Watching::Command;
    attr.flags.set(AttrFlags::ENABLE_ON_EXEC, on_exec);
    attr.flags |= AttrFlags::MMAP
        | AttrFlags::MMAP2
        | AttrFlags::COMM
        | AttrFlags::COMM_EXEC
        | AttrFlags::TASK
        // The dummy counts nothing, so this costs nothing, and spares the question
        // whether this user may watch the kernel.
        | AttrFlags::EXCLUDE_KERNEL
        | AttrFlags::EXCLUDE_HV;
    let records = plan.options.extras.records & Extras::RECORDS;
    attr.flags |= records.difference(AttrFlags::CONTEXT_SWITCH);
    attr.flags
        .set(AttrFlags::KSYMBOL, plan.features.kernel_symbols);
    attr.flags
        .set(AttrFlags::BPF_EVENT, plan.features.kernel_symbols);
    attr
}

/// Returns the attr of an event that only holds a ring of this size.
pub(super) fn anchor(plan: &Plan, ring_bytes: usize) -> Attr {
    let mut attr = base(plan, &Event::dummy(), ring_bytes);
    attr.flags.remove(AttrFlags::INHERIT);
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

/// Returns the attr that asks for least.
pub(super) fn minimal() -> Attr {
    Attr {
        kind: Event::dummy().kind(),
        config: Event::dummy().config(),
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    }
}
