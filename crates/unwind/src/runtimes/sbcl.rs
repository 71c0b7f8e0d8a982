//! SBCL: `call_into_lisp`, by which C code calls Lisp, and calls of Lisp by Lisp.
//!
//! In the first thread, Lisp code has a stack of its own, and call frame information leads from there back to the
//! stack on which `main` was called, which no copy of the other one has.
//!
//! The caller makes the callee's frame: it saves its frame pointer there, sets it to the new frame, and calls. The callee begins
//! with putting the return address beside what was saved, and gives the frame pointer back. Between the two, what lies in the
//! return address's place is of an earlier call.

use super::callee;
use crate::arch::x86_64::{RBP, RSP};
use crate::{Memory, Modules, Registers};

/// Bytes before the return address, and behind it: the call of a function object, the choice between one value and several, and
/// the registers that were saved.
const CALL: [u8; 3] = [0xff, 0x50, 0xfd];
const BEHIND: [u8; 14] = [
    0x73, 0x03, 0x48, 0x89, 0xdc, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b,
];

/// Returns true if this is the return address of the call of Lisp code in `call_into_lisp`.
pub(crate) fn called_lisp<P: Modules + ?Sized>(address: u64, modules: &P) -> bool {
    let mut code = [0; CALL.len() + BEHIND.len()];
    let start = address.wrapping_sub(CALL.len() as u64);
    modules.code(start, &mut code) == code.len()
        && code.starts_with(&CALL)
        && code.ends_with(&BEHIND)
}

/// First instruction of a function: `pop [rbp + 8]`.
const ENTRY: [u8; 3] = [0x8f, 0x45, 0x08];

/// Farthest that the callee's frame lies above the stack pointer at a call: what is reserved for its variables.
const MAX_RESERVED: u64 = 64 << 10;

/// `mov [rsp], rbp; mov rbp, rsp`: the frame of a call of any function.
const FULL_CALL: [u8; 7] = [0x48, 0x89, 0x2c, 0x24, 0x48, 0x8b, 0xec];

/// Length of `mov eax, imm32`, which may stand between that and the call, and of `call rel32`.
const LONG: usize = 5;

/// Returns the registers of code that was sampled after it had made its callee's frame, and before the callee's first
/// instruction was done: those it has when the callee has returned.
pub(crate) fn before_call<M: Memory + ?Sized, P: Modules + ?Sized>(
    registers: &Registers,
    memory: &M,
    modules: &P,
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
    // Before them and between them the frame pointer is its own, though what lies on top may be what a prologue leaves there.
    let (saves, sets) = FULL_CALL.split_at(4);
    if behind.starts_with(&FULL_CALL) || (before.ends_with(saves) && behind.starts_with(sets)) {
        return Some(*registers);
    }
    let is_made = match (before, behind) {
        ([made @ .., 0xb8, _, _, _, _], [0xff, 0xd0, ..]) => made.ends_with(&FULL_CALL),
        (_, [0xb8, ..] | [0xff, 0x50, 0xfd, ..]) => before.ends_with(&FULL_CALL),
        // `mov rbp, REG`, of a register that the address of the frame was put into.
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

/// Returns true if the call before a return address calls a function of Lisp.
fn calls_lisp<P: Modules + ?Sized>(address: u64, modules: &P) -> bool {
    let mut code = [0; ENTRY.len()];
    callee(address, modules)
        .is_some_and(|target| modules.code(target, &mut code) == code.len() && code == ENTRY)
}
