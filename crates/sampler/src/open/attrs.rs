//! Attrs of all kinds of events.
//!
//! *Sample* events only sample, except for the one with switch records. The *sideband* event is a
//! dummy whose records describe processes and mappings. It has a ring of its own, so that no flood
//! of samples displaces a mapping. An *anchor* only holds the ring of several threads' events. The
//! *minimal* event checks for permission.

use super::opened::Role;
use super::plan::{Plan, Watching};
use crate::options::Extras;
use rprof_events::SamplingRate;
use rprof_events::{Event, EventStacks};
use rprof_records::{
    Attr, AttrFlags, BranchSampleType, GENERAL_REGISTERS, ReadFormat, SampleType, request_context,
};

/// Every record's trailer has time and CPU, and the event id has a fixed place.
const COMMON: SampleType = SampleType::IDENTIFIER
    .union(SampleType::IP)
    .union(SampleType::TID)
    .union(SampleType::TIME)
    .union(SampleType::CPU);

/// Maximum bytes of a stack copy: a multiple of 8 that keeps the record below 64 KiB
/// (`PERF_SAMPLE_STACK_USER`).
const MAX_STACK: u32 = 65_528;

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
        // Time to wake up and read before the ring is full.
        wakeup: u32::try_from(ring_bytes / 4).unwrap_or(u32::MAX),
        clockid: match plan.features.clock_id {
            true => plan.options.clock.unwrap_or_default().number(),
            false => 0,
        },
        ..Attr::default()
    }
}

/// Maximum bytes of a stack copy at a switch, made with the CPU's run queue locked. Longer stacks
/// are completed like others.
const MAX_STACK_OFF_CPU: u32 = 16 << 10;

pub(super) fn of_event(plan: &Plan, index: usize) -> Attr {
    let event = &plan.events[index];
    match plan.role(index) {
        Role::OffCpu => off_cpu(plan, event),
        Role::Wakeups => wakeups(plan, event),
        Role::Samples | Role::Sideband | Role::Contexts => sampling(plan, event),
    }
}

/// Returns the attr of the switch event.
///
/// It has no `PERF_SAMPLE_PERIOD`: the kernel would then ignore any period but 1
/// (`perf_swevent_event`). With `exclude_kernel` the kernel takes no samples of switches
/// (`perf_exclude_event`), but still writes SWITCH records.
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
    // Branches need running code.
    attr.sample_type.remove(SampleType::BRANCH_STACK);
    attr.branch_sample_type = BranchSampleType::empty();
    attr.sample_stack_user = attr.sample_stack_user.min(MAX_STACK_OFF_CPU);
    if attr.sample_type.contains(SampleType::CALLCHAIN) {
        let flags = &mut attr.flags;
        let hides_kernel = plan.excludes_kernel() || plan.switch_times_only;
        flags.set(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, hides_kernel);
        *flags |= match plan.options.exclude_user {
            true => AttrFlags::EXCLUDE_CALLCHAIN_USER,
            false => AttrFlags::empty(),
        };
    }
    attr
}

/// Returns the attr of a CPU's wakeup event. No exec enables it, so it starts enabled.
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

/// Returns the attr of the event whose samples a [`ContextProgram`] writes. It runs from the start:
/// the program decides when there is a sample.
///
/// [`ContextProgram`]: rprof_perf_event::ContextProgram
pub(super) fn contexts(plan: &Plan) -> Attr {
    let mut attr = base(plan, &Event::dummy(), plan.rings.samples);
    attr.flags.remove(AttrFlags::INHERIT | AttrFlags::DISABLED);
    attr.config = request_context::BPF_OUTPUT;
    attr.period_or_freq = 1;
    attr.sample_type |= SampleType::RAW;
    attr
}

/// Returns the switch event's attr for an unsampled CPU: no samples and stacks.
pub(super) fn switches_alone(attr: &Attr) -> Attr {
    let mut attr = attr.clone();
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    if attr.sample_type.contains(SampleType::CALLCHAIN) {
        attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
    }
    attr
}

pub(super) fn sampling(plan: &Plan, event: &Event) -> Attr {
    let mut attr = base(plan, event, plan.rings.samples);
    let options = &plan.options;
    let on_exec = plan.watching == Watching::Command && options.enabled_from_start;
    attr.flags.set(AttrFlags::ENABLE_ON_EXEC, on_exec);
    attr.read_format |= ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    match plan.rate_of(event) {
        SamplingRate::Frequency(frequency) => {
            attr.flags |= AttrFlags::FREQ;
            attr.period_or_freq = frequency;
        }
        SamplingRate::Period(period) => attr.period_or_freq = period,
    }
    event.apply(&mut attr);
    if tells_period(&attr) {
        attr.sample_type |= SampleType::PERIOD;
    }
    if event.trace_unit().is_some() {
        // The unit takes no samples.
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

/// Returns true if samples must contain their period: if the kernel adapts it, or with period 1,
/// since an event may count more at once (nanoseconds). Any other fixed period is in the attr. In
/// samples, it would make the kernel sample every hit of software events and tracepoints
/// (`perf_swevent_event`).
fn tells_period(attr: &Attr) -> bool {
    attr.flags.contains(AttrFlags::FREQ) || attr.period_or_freq <= 1
}

fn exclude(plan: &Plan, event: &Event, attr: &mut Attr) {
    let excludes_idle = plan.options.exclude_idle && event.ticks_when_idle();
    attr.flags.set(AttrFlags::EXCLUDE_IDLE, excludes_idle);
    if plan.excludes_kernel() {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    }
    let excludes_user = plan.options.exclude_user || attr.flags.contains(AttrFlags::EXCLUDE_USER);
    attr.flags.set(AttrFlags::EXCLUDE_USER, excludes_user);
}

fn extras(plan: &Plan, event: &Event, attr: &mut Attr) {
    let extras = plan.options.extras;
    let mut fields = extras.fields & Extras::FIELDS;
    if fields.contains(SampleType::WEIGHT_STRUCT) {
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
        // As in perf, the event's own term takes precedence.
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

/// Returns true for the event with context switch records. It is a sample event: they are as
/// frequent as samples.
fn tells_switches(plan: &Plan, event: &Event) -> bool {
    let records = plan.options.extras.records;
    // A trace decoder must distinguish threads.
    let asked = records.contains(AttrFlags::CONTEXT_SWITCH) || plan.trace_unit().is_some();
    asked && !plan.options.off_cpu && plan.events.first() == Some(event)
}

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
        // Linux refuses kernel callchains to users who may not sample the kernel (7.2, 6.12.117).
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
        attr.branch_sample_type = BranchSampleType::USER
            | BranchSampleType::CALL_STACK
            | BranchSampleType::NO_CYCLES
            | BranchSampleType::NO_FLAGS;
    }
    if let Some(bytes) = dump {
        attr.sample_type |= SampleType::REGS_USER | SampleType::STACK_USER;
        attr.sample_regs_user = GENERAL_REGISTERS;
        attr.sample_stack_user = bytes.next_multiple_of(8).min(MAX_STACK);
        // Immediate unwinding uses the callchain to continue on other stacks.
        let is_unwound = plan.options.fit_user_stack && !plan.options.overwrite;
        (attr.flags).set(AttrFlags::EXCLUDE_CALLCHAIN_USER, !is_unwound);
    }
}

/// Returns the attr of the sideband event.
///
/// It never has `build_id`. Linux marks a build-id (`PERF_RECORD_MISC_MMAP_BUILD_ID`) in the one
/// record that it passes to all listeners in turn, and keeps the mark even for listeners without
/// `build_id` (`perf_event_mmap_output`, at least 6.18). These read device and inode as a build-id,
/// and perf 6.1 crashes.
pub(super) fn sideband(plan: &Plan) -> Attr {
    let mut attr = base(plan, &Event::dummy(), plan.rings.sideband);
    let on_exec = plan.watching == Watching::Command;
    attr.flags.set(AttrFlags::ENABLE_ON_EXEC, on_exec);
    attr.flags |= AttrFlags::MMAP
        | AttrFlags::MMAP2
        | AttrFlags::COMM
        | AttrFlags::COMM_EXEC
        | AttrFlags::TASK
        // The dummy counts nothing; this avoids the need for kernel permission.
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

pub(super) fn anchor(plan: &Plan, ring_bytes: usize) -> Attr {
    let mut attr = base(plan, &Event::dummy(), ring_bytes);
    attr.flags.remove(AttrFlags::INHERIT);
    attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    attr
}

pub(super) fn minimal() -> Attr {
    Attr {
        kind: Event::dummy().kind(),
        config: Event::dummy().config(),
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..Attr::default()
    }
}
