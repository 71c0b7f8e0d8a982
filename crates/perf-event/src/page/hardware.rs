//! Instructions that read processor counters and clocks.

/// Reads a hardware counter.
///
/// # Safety
/// The kernel must allow it: a mapped control page has `cap_user_rdpmc`, and `number` is its
/// `index` minus one.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn counter(number: u32) -> Option<u64> {
    let (low, high): (u32, u32);
    // SAFETY: the instruction reads a counter into two registers. The caller guarantees permission.
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

#[cfg(target_arch = "x86_64")]
pub(super) fn tsc() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

/// Returns `None`: only implemented on x86-64.
///
/// # Safety
/// Always safe.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn counter(_number: u32) -> Option<u64> {
    None
}

/// Returns `None`: only implemented on x86-64.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn tsc() -> Option<u64> {
    None
}
