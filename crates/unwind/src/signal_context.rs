//! Recognises signal frames by their contents: of musl's `__restore_rt` and Go's `sigreturn`, which
//! have no call frame information for it, and of AArch64, where it is incomplete.

use crate::arch::{aarch64, x86_64};
use crate::step::Caller;
use crate::{Arch, Memory, Modules, Registers};

/// Size in bytes of `struct rt_sigframe` of AArch64. A frame record follows, to which x29 points.
const FRAME_AARCH64: u64 = 4688;

/// Replaces the registers of a handler's caller by those that the signal interrupted, if the kernel's
/// signal frame lies at the stack pointer. `None`, with unchanged registers, otherwise. On AArch64 a
/// frame pointer may have led there, so that the stack pointer is unknown.
pub(crate) fn step(
    registers: &mut Registers,
    memory: &dyn Memory,
    modules: &dyn Modules,
) -> Option<Caller> {
    let arch = registers.arch();
    let sp = match (registers.get(arch.sp()), registers.frame_pointer()) {
        (None, Some(record)) if arch == Arch::Aarch64 => record.wrapping_sub(FRAME_AARCH64),
        _ => registers.sp(),
    };
    let interrupted = interrupted(arch, sp, memory, modules)?;
    *registers = interrupted;
    Some(Caller {
        return_address: Some(interrupted.ip()),
        slot: 0,
        interrupted: true,
    })
}

/// Returns the registers that a signal interrupted, if the kernel's signal frame lies at `sp`, the
/// stack pointer after the handler returned. Several words must have rare values.
fn interrupted(
    arch: Arch,
    sp: u64,
    memory: &dyn Memory,
    modules: &dyn Modules,
) -> Option<Registers> {
    match arch {
        Arch::X86_64 => interrupted_x86_64(sp, memory, modules),
        Arch::Aarch64 => interrupted_aarch64(sp, memory, modules),
        Arch::X86 => interrupted_x86(sp, memory, modules),
    }
}

/// DWARF numbers in the order of `struct sigcontext`, without rip. Source:
/// `arch/x86/include/uapi/asm/sigcontext.h`.
const ORDER_X86_64: [u8; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7];

/// `struct ucontext` starts at `sp`: flags, link, stack (3 words), then the registers.
fn interrupted_x86_64(sp: u64, memory: &dyn Memory, modules: &dyn Modules) -> Option<Registers> {
    let word = |number: u64| memory.read_u64(sp.wrapping_add(number * 8));
    // cs selects 64-bit user code; ss selects user data, or is 0 on old kernels.
    let segments = word(23)?;
    let flags = word(22)?;
    let plausible = segments & 0xffff == 0x33
        && matches!(segments >> 48, 0x2b | 0)
        && flags & 2 != 0
        && flags < 1 << 22
        && word(0)? < 8;
    let ip = word(21)?;
    if !plausible || (ip != 0 && modules.find(ip).is_none()) {
        return None;
    }
    let mut registers = Registers::new(Arch::X86_64, ip, 0);
    for (register, number) in ORDER_X86_64.into_iter().zip(5..) {
        registers.set(register, word(number)?);
    }
    debug_assert!(registers.get(x86_64::RBX).is_some());
    Some(registers)
}

/// DWARF numbers in the order of `struct sigcontext_32`, from edi to eax. Source: as above.
const ORDER_X86: [u8; 8] = [7, 6, 5, 4, 3, 2, 1, 0];

/// The signal's number lies at `sp`. `struct sigcontext_32` follows, for a handler with `SA_SIGINFO`
/// behind pointers, siginfo (128 bytes) and the start of ucontext. Source:
/// `arch/x86/include/asm/sigframe.h`.
fn interrupted_x86(sp: u64, memory: &dyn Memory, modules: &dyn Modules) -> Option<Registers> {
    const PLAIN: u64 = 1;
    const WITH_INFO: u64 = 1 + 2 + 32 + 5;
    let word = |number: u64| Arch::X86.read_word(memory, sp.wrapping_add(number * 4));
    if !(1..=64).contains(&word(0)?) {
        return None;
    }
    let of = |first: u64| {
        let (flags, cs, ss) = (word(first + 16)?, word(first + 15)?, word(first + 18)?);
        // cs and ss of user code, on kernels for x86-64 and i386.
        let plausible = matches!((cs & 0xffff, ss & 0xffff), (0x23, 0x2b) | (0x73, 0x7b))
            && flags & 2 != 0
            && flags < 1 << 22
            // The stack pointer, twice.
            && word(first + 7) == word(first + 17);
        let ip = word(first + 14)?;
        if !plausible || (ip != 0 && modules.find(ip).is_none()) {
            return None;
        }
        let mut registers = Registers::new(Arch::X86, ip, 0);
        for (register, number) in ORDER_X86.into_iter().zip(first + 4..) {
            registers.set(register, word(number)?);
        }
        Some(registers)
    };
    let points_to = |number: u64, to: u64| word(number) == Some(sp.wrapping_add(to * 4));
    match points_to(1, 3) && points_to(2, WITH_INFO - 5) {
        true => of(WITH_INFO),
        false => of(PLAIN),
    }
}

/// Record header after the registers: `FPSIMD_MAGIC` and the size.
const FPSIMD_AARCH64: u64 = 0x210 << 32 | 0x4650_8001;

/// `struct rt_sigframe` starts at `sp`: siginfo (128 bytes), then ucontext, which has the registers
/// at its offset 176. The siginfo is stale unless the handler has `SA_SIGINFO`. Source:
/// `arch/arm64/kernel/signal.c`, `uapi/asm/sigcontext.h`.
fn interrupted_aarch64(sp: u64, memory: &dyn Memory, modules: &dyn Modules) -> Option<Registers> {
    let read = |offset: u64| memory.read_u64(sp.wrapping_add(offset));
    const REGISTERS: u64 = 128 + 176 + 8;
    let ip = read(REGISTERS + 8 * 32)?;
    let state = read(REGISTERS + 8 * 33)?;
    // Memory of zeros is no frame.
    let has_signal =
        || ip != 0 && read(0).is_some_and(|word| (1..=64).contains(&(word & 0xffff_ffff)));
    // `uc_flags` and `uc_link`.
    let plausible = read(128)? == 0
        && read(136)? == 0
        // PSTATE: 64-bit user mode, upper half 0.
        && state & 0x1f == 0
        && state >> 32 == 0
        && ip.is_multiple_of(4)
        && (read(REGISTERS + 8 * 35) == Some(FPSIMD_AARCH64) || has_signal());
    if !plausible || (ip != 0 && modules.find(ip).is_none()) {
        return None;
    }
    let mut registers = Registers::new(Arch::Aarch64, ip, 0);
    for register in 0..=aarch64::SP {
        registers.set(register, read(REGISTERS + 8 * u64::from(register))?);
    }
    Some(registers)
}
