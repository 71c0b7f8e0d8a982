//! One step by call frame information: a rule applied to registers and memory.

use crate::expression::{Fault, evaluate};
use crate::table::{Cfa, RuleRef, Value};
use crate::{Arch, Memory, Registers, arch};

/// Maximum distance in bytes of popped registers below the stack pointer: callee-saved ones are at most 12.
const MAX_POPPED: u64 = 256;

/// Caller that a rule or the code has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// `None`: there is no caller.
    pub(crate) return_address: Option<u64>,
    /// Address of the slot it was read from; 0 if it was in a register.
    pub(crate) slot: u64,
    /// True if the caller did not call but was interrupted.
    pub(crate) interrupted: bool,
}

/// Turns the registers of a frame into those of its caller, except for the program counter.
/// After an error they are as they were.
#[inline]
pub(crate) fn apply<M: Memory + ?Sized>(
    rule: RuleRef<'_>,
    registers: &mut Registers,
    memory: &M,
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
    let value = |value: Value, default: Option<u8>| match value {
        Value::Default | Value::Same => {
            let register = default.ok_or(Fault::Bad)?;
            let value = registers.get(register).ok_or(Fault::Register(register))?;
            Ok((value, 0))
        }
        Value::AtCfa(offset) => {
            let slot = cfa.wrapping_add_signed(offset.into());
            Ok((memory.read_u64(slot).ok_or(Fault::Memory(slot))?, slot))
        }
        Value::CfaPlus(offset) => Ok((cfa.wrapping_add_signed(offset.into()), 0)),
        Value::Register(register) => {
            let value = registers.get(register).ok_or(Fault::Register(register))?;
            Ok((value, 0))
        }
        Value::At(index) => {
            let code = rule.expression(index).ok_or(Fault::Bad)?;
            let slot = evaluate(code, Some(cfa), registers, memory)?;
            Ok((memory.read_u64(slot).ok_or(Fault::Memory(slot))?, slot))
        }
        Value::Expression(index) => {
            let code = rule.expression(index).ok_or(Fault::Bad)?;
            Ok((evaluate(code, Some(cfa), registers, memory)?, 0))
        }
        Value::Undefined | Value::Bad => Err(Fault::Bad),
    };

    // In AArch64 code that saved nothing the return address is still in its register.
    let default = match arch {
        Arch::X86_64 => None,
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
        // A register that cannot be had matters only if somebody needs it.
        match value(saved.value, Some(saved.register)) {
            Ok((value, _)) => caller.set(saved.register, value),
            // In an epilogue: it was popped, which compilers do not describe, as the stack below
            // the stack pointer has the same value. But that is not in a dump.
            Err(Fault::Memory(slot)) if is_popped(slot, registers.sp()) => {}
            Err(_) => caller.forget(saved.register),
        }
    }
    if caller.get(arch.sp()).is_none() {
        return Err(Fault::Bad);
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

/// Returns the caller's stack pointer, which is the CFA by definition. But glibc's `_dl_runtime_resolve`
/// for AArch64 is jumped to from the PLT, which has pushed two words, the return address
/// among them, and its description has the CFA below those. What was pushed lies
/// below the caller's stack pointer, which is a multiple of 16.
#[inline]
fn caller_sp(arch: Arch, cfa: u64, slot: u64) -> u64 {
    match arch == Arch::Aarch64 && slot >= cfa && slot != 0 {
        true => (slot & !15).wrapping_add(16),
        false => cfa,
    }
}

/// Returns true if the slot lies just below the stack pointer.
#[inline]
pub(crate) fn is_popped(slot: u64, sp: u64) -> bool {
    let below = sp.wrapping_sub(slot);
    (8..=MAX_POPPED).contains(&below)
}
