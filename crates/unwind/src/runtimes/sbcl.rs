//! SBCL: C code that calls Lisp through `call_into_lisp`, and Lisp-to-Lisp calls.
//!
//! In the first thread, Lisp code has a stack of its own. The frame pointer leads from there back to the
//! stack of `main`, which is not in the copy.
//!
//! The caller prepares the callee's frame: it saves its frame pointer there, sets it to the new
//! frame, and calls. The callee first moves the return address beside the saved frame pointer.
//! Until then, that slot holds an earlier call's return address.

use super::callee;
use crate::arch::x86_64::{RBP, RSP};
use crate::step::Caller;
use crate::{Memory, Modules, Registers};

/// Code around the return address: the call of a function object, the test for several values, and
/// the restore of registers.
const CALL: [u8; 3] = [0xff, 0x50, 0xfd];
const BEHIND: [u8; 14] = [
    0x73, 0x03, 0x48, 0x89, 0xdc, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b,
];

/// Canonical frame address of `call_into_lisp` from the preparation of the callee's frame on:
/// `DW_OP_breg6 0; DW_OP_deref; DW_OP_lit16; DW_OP_plus`. Only one call is in this code.
const PREPARED: [u8; 5] = [0x76, 0, 0x06, 0x40, 0x22];

/// Returns true for the return address of `call_into_lisp`'s call of Lisp code. If the code is
/// unreadable, `cfa` decides, the expression of the canonical frame address.
pub(crate) fn called_lisp(address: u64, cfa: Option<&[u8]>, modules: &dyn Modules) -> bool {
    let mut code = [0; CALL.len() + BEHIND.len()];
    let start = address.wrapping_sub(CALL.len() as u64);
    match modules.code(start, &mut code) == code.len() {
        true => code.starts_with(&CALL) && code.ends_with(&BEHIND),
        false => cfa == Some(&PREPARED),
    }
}

/// Returns true if code at `ip`, sampled or interrupted, may be of `call_into_lisp` behind the call,
/// where its call frame information does not hold, but is unreadable.
pub(crate) fn may_be_end(ip: u64, cfa: Option<&[u8]>, modules: &dyn Modules) -> bool {
    cfa == Some(&PREPARED) && modules.code(ip, &mut [0]) == 0
}

/// Rest of `call_into_lisp`: `mov rax, rdx; leave; ret`.
const END: [u8; 5] = [0x48, 0x89, 0xd0, 0xc9, 0xc3];

/// Returns the caller of `call_into_lisp`, if its code behind the call of Lisp code was sampled or
/// interrupted at `ip`. Its call frame information does not hold there either. Replaces the
/// registers by the caller's. The inner `None` is that of [`caller_of_c`].
pub(crate) fn caller_of_end(
    ip: u64,
    registers: &mut Registers,
    memory: &dyn Memory,
    modules: &dyn Modules,
) -> Option<Option<Caller>> {
    let len = BEHIND.len() + END.len();
    let mut code = [0; 2 * (BEHIND.len() + END.len()) - 1];
    let start = ip.checked_sub(len as u64 - 1)?;
    if modules.code(start, &mut code) < code.len() {
        return None;
    }
    let is_end = |code: &[u8]| code.starts_with(&BEHIND) && code.ends_with(&END);
    let behind = (0..len).find(|at| is_end(&code[*at..*at + len]))?;
    if behind > 0 {
        return Some(caller_of_c(registers, memory));
    }
    // At `ret`, the frame pointer is the caller's.
    let slot = registers.sp();
    let caller = registers.get(RBP).zip(memory.read_u64(slot));
    Some(caller.map(|(fp, address)| {
        registers.keep(0);
        registers.set(RSP, slot.wrapping_add(8));
        registers.set(RBP, fp);
        Caller {
            return_address: Some(address),
            slot,
            interrupted: false,
        }
    }))
}

/// Returns the caller of `call_into_lisp`, if Lisp code has returned to it and restored its frame
/// pointer. Its call frame information holds only until the call: the frame pointer then points to the
/// frame that it has prepared for the callee. `None` if the caller is on another stack. Replaces the
/// registers by the caller's.
pub(crate) fn caller_of_c(registers: &mut Registers, memory: &dyn Memory) -> Option<Caller> {
    let fp = registers.get(RBP)?;
    let slot = fp.wrapping_add(8);
    let (saved, address) = (memory.read_u64(fp)?, memory.read_u64(slot)?);
    registers.keep(0);
    registers.set(RSP, slot.wrapping_add(8));
    registers.set(RBP, saved);
    Some(Caller {
        return_address: Some(address),
        slot,
        interrupted: false,
    })
}

/// First instruction of a function: `pop [rbp + 8]`.
const ENTRY: [u8; 3] = [0x8f, 0x45, 0x08];

/// Maximum distance in bytes of the callee's frame above the stack pointer: the space for its
/// variables.
const MAX_RESERVED: u64 = 64 << 10;

/// `mov [rsp], rbp; mov rbp, rsp`: sets up the frame of a full call.
const FULL_CALL: [u8; 7] = [0x48, 0x89, 0x2c, 0x24, 0x48, 0x8b, 0xec];

/// Length of `mov eax, imm32`, which may precede the call, and of `call rel32`.
const LONG: usize = 5;

/// Returns the registers after the callee's return, for code sampled between preparing its callee's
/// frame and the callee's first instruction.
pub(crate) fn before_call(
    registers: &Registers,
    memory: &dyn Memory,
    modules: &dyn Modules,
) -> Option<Registers> {
    let (ip, sp) = (registers.ip(), registers.sp());
    let fp = registers.get(RBP)?;
    let is_frame = fp.is_multiple_of(8) && fp.checked_sub(sp)? <= MAX_RESERVED;
    let own = memory.read_u64(fp).filter(|own| is_frame && *own > fp)?;
    let mut code = [0; 2 * FULL_CALL.len() + LONG];
    let start = ip.checked_sub((FULL_CALL.len() + LONG) as u64)?;
    if modules.code(start, &mut code) < code.len() {
        return None;
    }
    let (before, behind) = code.split_at(FULL_CALL.len() + LONG);
    // Before these instructions the frame pointer is still its own, even if the stack looks like a
    // prologue's.
    let (saves, sets) = FULL_CALL.split_at(4);
    if behind.starts_with(&FULL_CALL) || (before.ends_with(saves) && behind.starts_with(sets)) {
        return Some(*registers);
    }
    let is_made = match (before, behind) {
        ([made @ .., 0xb8, _, _, _, _], [0xff, 0xd0, ..]) => made.ends_with(&FULL_CALL),
        (_, [0xb8, ..] | [0xff, 0x50, 0xfd, ..]) => before.ends_with(&FULL_CALL),
        // `mov rbp, REG`, where REG holds the address of the frame.
        ([.., 0x48 | 0x49, 0x8b, 0xe8..=0xef], [0xe8, ..]) => {
            before.ends_with(&FULL_CALL) || calls_lisp(ip.wrapping_add(LONG as u64), modules)
        }
        _ => false,
    };
    let mut callers = *registers;
    callers.set(RBP, own);
    callers.set(RSP, fp.wrapping_add(16));
    is_made.then_some(callers)
}

fn calls_lisp(address: u64, modules: &dyn Modules) -> bool {
    let mut code = [0; ENTRY.len()];
    callee(address, modules)
        .is_some_and(|target| modules.code(target, &mut code) == code.len() && code == ENTRY)
}
