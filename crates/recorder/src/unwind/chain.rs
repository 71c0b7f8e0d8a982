//! Callchains as they are written.

use rprof_records::{ContextMarker, CpuMode, Misc, Sample};
use rprof_unwind::Frame;

/// Set on a SAMPLE whose user stack ends before its root. For samples the kernel leaves this
/// bit unused (it is `PERF_RECORD_MISC_MMAP_DATA`, `COMM_EXEC` and so on elsewhere), and
/// readers look at the CPU mode only.
pub(super) fn truncated(misc: Misc) -> Misc {
    Misc(misc.0 | Misc::TRUNCATED_STACK.0)
}

/// Replaces `chain` by the kernel's part of the sample's callchain.
pub(super) fn kernel_part(sample: &Sample<'_>, chain: &mut Vec<u64>) {
    chain.clear();
    let entries = sample.callchain().into_iter().flat_map(|c| c.iter());
    let user = [ContextMarker::USER.0, ContextMarker::USER_DEFERRED.0];
    chain.extend(entries.take_while(|entry| !user.contains(entry)));
}

/// Replaces `callers` by the user's part of the sample's callchain behind the sampled address: what the kernel found by the
/// frame pointer.
pub(super) fn callers(sample: &Sample<'_>, callers: &mut Vec<u64>) {
    callers.clear();
    let entries = sample.callchain().into_iter().flat_map(|c| c.iter());
    let user = entries.skip_while(|entry| *entry != ContextMarker::USER.0);
    callers.extend(user.skip(2));
}

/// Appends the user's part of which nothing is known but where the sample was taken.
pub(super) fn append_ip_only(sample: &Sample<'_>, misc: Misc, chain: &mut Vec<u64>) {
    if misc.cpu_mode() == CpuMode::User {
        chain.push(ContextMarker::USER.0);
        chain.extend(sample.ip());
    }
}

/// Appends the user's part, unwound.
pub(super) fn append_frames(frames: &[Frame], chain: &mut Vec<u64>) {
    chain.push(ContextMarker::USER.0);
    chain.extend(frames.iter().map(|frame| frame.address));
}
