//! User registers that are copied into samples with a stack copy.

/// All registers that unwinding may need. On x86-64: all but the segments that its kernel does not
/// give (`PERF_REGS_MASK` in perf, `asm/perf_regs.h`).
#[cfg(target_arch = "x86_64")]
pub(super) const USER_REGISTERS: u64 = 0x00ff_0fff;
/// All registers that unwinding may need: x0 to x29, lr, sp and pc (`asm/perf_regs.h`).
#[cfg(target_arch = "aarch64")]
pub(super) const USER_REGISTERS: u64 = (1 << 33) - 1;
/// None are known on this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const USER_REGISTERS: u64 = 0;
