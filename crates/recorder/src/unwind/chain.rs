//! Builds callchains for the file.

use rprof_records::{ContextMarker, CpuMode, Misc, Sample};
use rprof_unwind::StackFrame;

/// Marks a SAMPLE with a truncated user stack. The kernel does not use this bit in samples (in
/// other records it is `PERF_RECORD_MISC_MMAP_DATA`, `COMM_EXEC` and so on), and readers use only
/// the CPU mode.
pub(super) fn truncated(misc: Misc) -> Misc {
    Misc(misc.0 | Misc::TRUNCATED_STACK.0)
}

/// Replaces `chain` by the kernel part of the sample's callchain.
pub(super) fn kernel_part(sample: &Sample<'_>, chain: &mut Vec<u64>) {
    chain.clear();
    let entries = sample.callchain().into_iter().flat_map(|c| c.iter());
    let user = [ContextMarker::USER.0, ContextMarker::USER_DEFERRED.0];
    chain.extend(entries.take_while(|entry| !user.contains(entry)));
}

/// Replaces `callers` by the user part after the sampled address, from the kernel's frame pointer
/// walk.
pub(super) fn callers(sample: &Sample<'_>, callers: &mut Vec<u64>) {
    callers.clear();
    let entries = sample.callchain().into_iter().flat_map(|c| c.iter());
    let user = entries.skip_while(|entry| *entry != ContextMarker::USER.0);
    callers.extend(user.skip(2));
}

/// Appends a user part with only the sampled address.
pub(super) fn append_ip_only(sample: &Sample<'_>, misc: Misc, chain: &mut Vec<u64>) {
    if misc.cpu_mode() == CpuMode::User {
        chain.push(ContextMarker::USER.0);
        chain.extend(sample.ip());
    }
}

pub(super) fn append_frames(frames: &[StackFrame], chain: &mut Vec<u64>) {
    chain.push(ContextMarker::USER.0);
    chain.extend(frames.iter().map(|frame| frame.address));
}
