//! Applies one rule of call frame information to registers and memory.

use crate::expression::{Fault, evaluate};
use crate::table::{Cfa, RuleRef, Saved, Value};
use crate::{Arch, Memory, Registers, arch};

/// Maximum distance in bytes of popped registers below the stack pointer; at most 12 are
/// callee-saved.
const MAX_POPPED: u64 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) return_address: Option<u64>,
    /// Slot of the return address; 0 for a register.
    pub(crate) slot: u64,
    /// True if a signal interrupted the caller.
    pub(crate) interrupted: bool,
}

/// Replaces the registers by the caller's, except for the program counter. On error they are
/// unchanged.
#[inline]
pub(crate) fn apply(
    rule: RuleRef<'_>,
    registers: &mut Registers,
    memory: &dyn Memory,
) -> Result<Caller, Fault> {
    let arch = registers.arch();
    let cfa = match rule.rule.cfa {
        Cfa::Register(register, offset) => registers
            .get(register)
            .ok_or(Fault::Register(register))?
            .wrapping_add_signed(offset.into()),
        Cfa::Expression(index) => {
            let code = rule.expression(index).ok_or(Fault::Bad)?;
            evaluate(code, None, registers, memory)?
        }
        Cfa::Bad => return Err(Fault::Bad),
    };
    let word = |slot| arch.read_word(memory, slot).ok_or(Fault::Memory(slot));
    let value = |value: Value, default: Option<u8>| match value {
        Value::Default | Value::Same => {
            let register = default.ok_or(Fault::Bad)?;
            let value = registers.get(register).ok_or(Fault::Register(register))?;
            Ok((value, 0))
        }
        Value::AtCfa(offset) => {
            let slot = cfa.wrapping_add_signed(offset.into());
            Ok((word(slot)?, slot))
        }
        Value::CfaPlus(offset) => Ok((cfa.wrapping_add_signed(offset.into()), 0)),
        Value::Register(register) => {
            let value = registers.get(register).ok_or(Fault::Register(register))?;
            Ok((value, 0))
        }
        Value::At(index) => {
            let code = rule.expression(index).ok_or(Fault::Bad)?;
            let slot = evaluate(code, Some(cfa), registers, memory)?;
            Ok((word(slot)?, slot))
        }
        Value::Expression(index) => {
            let code = rule.expression(index).ok_or(Fault::Bad)?;
            Ok((evaluate(code, Some(cfa), registers, memory)?, 0))
        }
        Value::Undefined | Value::Bad => Err(Fault::Bad),
    };

    // AArch64 leaf functions keep the return address in its register.
    let default = match arch {
        Arch::X86_64 | Arch::X86 => None,
        Arch::Aarch64 => Some(arch::aarch64::LR),
    };
    let (return_address, slot) = match rule.rule.return_address {
        Value::Undefined => (None, 0),
        other => {
            let (address, slot) = value(other, default)?;
            (Some(address), slot)
        }
    };

    let mut caller = *registers;
    caller.set(arch.sp(), caller_sp(arch, cfa, slot));
    if !rule.rule.signal {
        caller.return_to_caller(arch.callee_saved());
    }
    for saved in rule.saved() {
        if is_restored(rule, saved, registers, cfa) {
            continue;
        }
        // An unknown register is an error only if a later rule needs it.
        match value(saved.value, Some(saved.register)) {
            Ok((value, _)) => caller.set(saved.register, value),
            // In an epilogue the register was already popped. Compilers do not describe this, since
            // the slot below the stack pointer keeps the value. But a dump does not contain it.
            Err(Fault::Memory(slot)) if is_popped(arch, slot, registers.sp()) => {}
            Err(_) => caller.forget(saved.register),
        }
    }
    if caller.get(arch.sp()).is_none() {
        return Err(Fault::Bad);
    }
    if let Cfa::Register(0..=18, _) = rule.rule.cfa
        && arch == Arch::Aarch64
    {
        // `longjmp`: a buffer in memory, which has the registers, counts as the frame.
        caller.forget(arch.sp());
    }
    if arch == Arch::Aarch64 && !rule.rule.signal {
        // The call overwrote it.
        caller.forget(arch::aarch64::LR);
    }
    *registers = caller;
    Ok(Caller {
        return_address,
        slot,
        interrupted: rule.rule.signal,
    })
}

/// Returns true if the frame pointer is the caller's already, although the rule says that it points to
/// the saved value. In functions with a realigned stack, gcc 12 does not describe that `leave` or `pop`
/// has restored it. Then it points outside of the frame, which ends at the CFA.
fn is_restored(rule: RuleRef<'_>, saved: &Saved, registers: &Registers, cfa: u64) -> bool {
    let (Value::At(index), Some(fp)) = (saved.value, registers.get(saved.register)) else {
        return false;
    };
    // DW_OP_breg of the same register, with an offset of 0.
    let points_to_itself = saved.register == registers.arch().fp()
        && rule.expression(index) == Some(&[0x70_u8.wrapping_add(saved.register), 0]);
    points_to_itself && !rule.rule.signal && !(registers.sp()..cfa).contains(&fp)
}

/// Returns the caller's stack pointer, which is the CFA by definition. One exception: the PLT of
/// AArch64 pushes two words and jumps to glibc's `_dl_runtime_resolve`. Its CFI puts the CFA below
/// them. The caller's stack pointer is the next multiple of 16.
#[inline]
fn caller_sp(arch: Arch, cfa: u64, slot: u64) -> u64 {
    match arch == Arch::Aarch64 && slot >= cfa && slot != 0 {
        true => (slot & !15).wrapping_add(16),
        false => cfa,
    }
}

#[inline]
pub(crate) fn is_popped(arch: Arch, slot: u64, sp: u64) -> bool {
    let below = sp.wrapping_sub(slot);
    (arch.word_size()..=MAX_POPPED).contains(&below)
}
