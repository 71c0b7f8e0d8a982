//! The attrs of the two kinds of events.
//!
//! *Sample* events sample and say nothing else. The *sideband* event is a dummy that
//! never samples and tells who runs and what is mapped. Each has a ring of its own, so
//! that no flood of samples can displace a mapping.

use super::plan::Plan;
use crate::event::Event;
use crate::options::Rate;
use rprof_records::{Attr, AttrFlags, ReadFormat, SampleType};

/// Sample fields of both, so that the trailer of every record has its time and CPU, and the
/// event id stands in the same place whichever event a record is of.
const COMMON: SampleType = SampleType::IDENTIFIER
    .union(SampleType::IP)
    .union(SampleType::TID)
    .union(SampleType::TIME)
    .union(SampleType::CPU);

/// What both have in common.
fn base(plan: &Plan, event: &Event, ring_bytes: usize) -> Attr {
    let mut flags = AttrFlags::DISABLED
        | AttrFlags::ENABLE_ON_EXEC
        | AttrFlags::SAMPLE_ID_ALL
        | AttrFlags::WATERMARK;
    flags.set(AttrFlags::INHERIT, plan.options.inherit);
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
            true => libc::CLOCK_MONOTONIC,
            false => 0,
        },
        ..Attr::default()
    }
}

/// The attr of a sample event.
pub(super) fn sampling(plan: &Plan, event: &Event) -> Attr {
    let mut attr = base(plan, event, plan.rings.samples);
    let options = &plan.options;
    attr.sample_type |= SampleType::PERIOD;
    attr.sample_type
        .set(SampleType::CALLCHAIN, options.callchains);
    if options.callchains {
        attr.sample_max_stack = plan.max_stack.unwrap_or(0);
    }
    attr.read_format |= ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    match options.rate {
        Rate::Frequency(_) => {
            attr.flags |= AttrFlags::FREQ;
            attr.period_or_freq = plan.frequency;
        }
        Rate::Period(period) => attr.period_or_freq = period,
    }
    attr.flags |= event.modifiers().exclude_flags();
    if plan.excludes_kernel() {
        attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
    }
    attr.flags.set(
        AttrFlags::EXCLUDE_USER,
        options.exclude_user || attr.flags.contains(AttrFlags::EXCLUDE_USER),
    );
    // What the user may not sample he may not see in callchains either.
    if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) && options.callchains {
        attr.flags |= AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
    }
    attr
}

/// The attr of the sideband event.
pub(super) fn sideband(plan: &Plan) -> Attr {
    let mut attr = base(plan, &Event::dummy(), plan.rings.sideband);
    attr.flags |= AttrFlags::MMAP
        | AttrFlags::MMAP2
        | AttrFlags::COMM
        | AttrFlags::COMM_EXEC
        | AttrFlags::TASK
        // The dummy counts nothing, so this costs nothing, and spares the question
        // whether this user may watch the kernel.
        | AttrFlags::EXCLUDE_KERNEL
        | AttrFlags::EXCLUDE_HV;
    attr.flags.set(AttrFlags::BUILD_ID, plan.features.build_id);
    attr.flags
        .set(AttrFlags::KSYMBOL, plan.features.kernel_symbols);
    attr.flags
        .set(AttrFlags::BPF_EVENT, plan.features.kernel_symbols);
    attr
}
