//! Erlang: code of its JIT compiler (BeamAsm, since OTP 24).
//!
//! A process has its stack in its heap. Its outermost function returns to the *start* of a function
//! that ends the process. `ErtsCodeInfo` precedes each function: a call, module and name as atoms,
//! and the arity.
//!
//! A function keeps terms on the stack. Their lowest bits differ from a return address's. With an
//! emulator option, it also keeps frame pointers.
//!
//! C code runs on the stack of a scheduler thread, with the scheduler's registers at its low end.
//! The calling Erlang code has their address in a register.

use crate::arch::x86_64::RBX;
use crate::{Arch, Memory, Modules, Registers};

/// Size of `ErtsCodeInfo` in bytes.
const INFO: usize = 40;
const TAG: u64 = 0x3f;
/// Bits that are 0 in return addresses, but not in terms.
const TERM: u64 = 3;
/// Maximum number of terms of a function. Compilers generate fewer.
const MAX_TERMS: u64 = 1024;
const ATOM: u64 = 0x0b;
/// Distance in bytes from the stack pointer to the scheduler's registers during a C call.
const ABOVE: u64 = 0x80;
const ALIGN: u64 = 64;

/// Returns true if an Erlang function without parameters starts here. Calls never return there; a
/// process that returns there ends.
pub(crate) fn ends_process(address: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> bool {
    let mut info = [0; INFO];
    let Some(start) = address.checked_sub(INFO as u64) else {
        return false;
    };
    if !address.is_multiple_of(4) || read(start, &mut info) < INFO || info.first() != Some(&0xe8) {
        return false;
    }
    let word = |at: usize| {
        let bytes = info.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u64::from_le_bytes(*bytes))
    };
    let is_atom = |word: Option<u64>| word.is_some_and(|word| word & TAG == ATOM);
    is_atom(word(16)) && is_atom(word(24)) && word(32) == Some(0)
}

/// Returns the first stack slot that holds no term, and its word: the return address, or the frame
/// pointer below it. The error is the first unreadable slot.
pub(crate) fn first_address(sp: u64, memory: &dyn Memory) -> Option<Result<(u64, u64), u64>> {
    (0..=MAX_TERMS).find_map(|term| {
        let slot = sp.wrapping_add(8 * term);
        match memory.read_u64(slot) {
            Some(word) => (word & TERM == 0).then_some(Ok((slot, word))),
            None => Some(Err(slot)),
        }
    })
}

/// Returns true for the caller, without an image, of C code on a scheduler's stack. Its own caller
/// is on another stack, or it has none.
pub(crate) fn is_on_scheduler(registers: &Registers, modules: &dyn Modules) -> bool {
    let sp = registers.sp();
    let above = registers.get(RBX).map(|rbx| rbx.wrapping_sub(sp));
    if registers.arch() != Arch::X86_64 || above != Some(ABOVE) || !sp.is_multiple_of(ALIGN) {
        return false;
    }
    // `call *%rax` or `call *disp(%rip)`, as Erlang code calls C functions.
    let mut before = [0; 6];
    let start = registers.ip().wrapping_sub(before.len() as u64);
    modules.code(start, &mut before) == before.len()
        && matches!(before, [0xff, 0x15, ..] | [.., 0xff, 0xd0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_told_by_what_lies_before_it() {
        let mut memory = [0u8; 64];
        memory[8] = 0xe8;
        memory[24..32].copy_from_slice(&0x0001_0c4b_u64.to_le_bytes());
        memory[32..40].copy_from_slice(&0x0001_714b_u64.to_le_bytes());
        let starts = |memory: [u8; 64], at: u64| {
            ends_process(0x1000 + at, |avma, into| {
                let from = (avma - 0x1000) as usize;
                into.copy_from_slice(&memory[from..from + into.len()]);
                into.len()
            })
        };
        assert!(starts(memory, 48));
        assert!(!starts(memory, 44), "elsewhere");
        for (at, byte) in [(8, 0x90), (24, 0), (32, 0x40), (40, 1)] {
            let mut other = memory;
            other[at] = byte;
            assert!(!starts(other, 48), "{at}");
        }
        assert!(!ends_process(8, |_, _| 0));
    }
}
