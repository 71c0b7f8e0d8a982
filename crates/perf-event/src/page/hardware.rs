//! Instructions that read counters and clocks of the processor.

/// Reads a hardware counter.
///
/// # Safety
/// The kernel has said that this process may: a control page that is mapped has `cap_user_rdpmc`,
/// and the counter's number is its `index` less one.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn counter(number: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // SAFETY: the instruction reads a counter into two registers; that it is allowed, the caller vouches.
    unsafe {
        std::arch::asm!(
            "rdpmc",
            in("ecx") number,
            out("eax") low,
            out("edx") high,
            options(nomem, nostack, preserves_flags),
        );
    }
    Some(u64::from(high) << 32 | u64::from(low))
}

/// Reads the processor's timestamp.
#[cfg(target_arch = "x86_64")]
pub(super) fn tsc() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

/// Reads nothing: it is written for x86-64 alone.
///
/// # Safety
/// Always safe.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn counter(_number: u32) -> Option<u64> {
    None
}

/// Reads nothing: it is written for x86-64 alone.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn tsc() -> Option<u64> {
    None
}
