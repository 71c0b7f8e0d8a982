//! Guile: code of its JIT compiler.
//!
//! C code calls a trampoline through a pointer. The trampoline makes a frame, saves the
//! callee-saved registers, and jumps into the JIT code, which keeps this frame until it jumps back.
//! So the trampoline's first instructions describe the frame, if the return address lies at the
//! distance that they imply.

use super::NotedReads;
use crate::arch::x86_64::{RBP, RBX, RSP};
use crate::step::Caller;
use crate::{Arch, Memory, Modules, Registers};

/// Maximum size of a frame in words: all callee-saved registers, and some for alignment.
const MAX_WORDS: u64 = 8;
const TRAMPOLINE: usize = 64;

#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    size: u64,
    /// Saved registers with their stack offsets.
    saved: Vec<(u8, u8)>,
}

/// Steps out of code behind a trampoline. `None`, with unchanged registers, if nothing fits.
pub(crate) fn step(
    registers: &mut Registers,
    memory: &dyn Memory,
    modules: &dyn Modules,
) -> Option<Caller> {
    if registers.arch() != Arch::X86_64 {
        return None;
    }
    let sp = registers.sp();
    let modules = NotedReads::new(modules);
    let (caller, stepped) = modules.first_known(1..=MAX_WORDS, |words| {
        let slot = sp.wrapping_add(8 * words);
        let address = memory.read_u64(slot)?;
        modules.find(address.wrapping_sub(1))?.table?;
        let frame = called_trampoline(address, &modules)?;
        if frame.size != 8 * words {
            return None;
        }
        let mut caller = *registers;
        caller.keep(Arch::X86_64.callee_saved());
        for (register, offset) in frame.saved {
            caller.set(register, memory.read_u64(sp.wrapping_add(offset.into()))?);
        }
        caller.set(RSP, slot.wrapping_add(8));
        let called = Caller {
            return_address: Some(address),
            slot,
            interrupted: false,
        };
        Some((called, caller))
    })?;
    *registers = stepped;
    Some(caller)
}

/// Returns the frame of the trampoline called by `call *pointer(%rip)` before a return address.
fn called_trampoline(address: u64, modules: &dyn Modules) -> Option<Frame> {
    let mut call = [0; 6];
    let start = address.checked_sub(call.len() as u64)?;
    if modules.code(start, &mut call) < call.len() {
        return None;
    }
    let [0xff, 0x15, offset @ ..] = call else {
        return None;
    };
    let target = super::pointer(super::relative(address, offset), modules)?;
    if modules.find(target)?.table.is_some() {
        return None;
    }
    let mut code = [0; TRAMPOLINE];
    let len = modules.code(target, &mut code);
    frame_of(code.get(..len)?)
}

/// Decodes a trampoline: `sub $size, %rsp`, then `mov %register, offset(%rsp)` for each saved
/// register.
fn frame_of(code: &[u8]) -> Option<Frame> {
    let [0x48, 0x83, 0xec, size, rest @ ..] = code else {
        return None;
    };
    let mut frame = Frame {
        size: u64::from(*size),
        saved: Vec::new(),
    };
    let mut rest = rest;
    while let Some((register, offset, behind)) = stored(rest) {
        frame.saved.push((register, offset));
        rest = behind;
    }
    let fits = |(_, offset): &(u8, u8)| u64::from(*offset) + 8 <= frame.size;
    (!frame.saved.is_empty() && frame.saved.iter().all(fits)).then_some(frame)
}

fn stored(code: &[u8]) -> Option<(u8, u8, &[u8])> {
    let (prefix, rest) = match code {
        [prefix @ (0x48 | 0x4c), 0x89, rest @ ..] => (*prefix, rest),
        _ => return None,
    };
    let (modes, offset, rest) = match rest {
        [modes, 0x24, rest @ ..] if modes >> 6 == 0 => (*modes, 0, rest),
        [modes, 0x24, offset, rest @ ..] if modes >> 6 == 1 => (*modes, *offset, rest),
        _ => return None,
    };
    // A SIB byte follows, with rsp as the base.
    let register = match (prefix, modes >> 3 & 7, modes & 7) {
        (0x48, 3, 4) => RBX,
        (0x48, 5, 4) => RBP,
        (0x4c, low @ 4..=7, 4) => 8 + low,
        _ => return None,
    };
    Some((register, offset, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trampoline_says_what_it_saves() {
        // sub $0x18,%rsp; mov %rbx,(%rsp); mov %r12,8(%rsp); mov %r13,16(%rsp); mov %rdi,%rbx
        let code = [
            0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x1c, 0x24, 0x4c, 0x89, 0x64, 0x24, 0x08, 0x4c,
            0x89, 0x6c, 0x24, 0x10, 0x48, 0x89, 0xfb,
        ];
        let frame = frame_of(&code).unwrap();
        assert_eq!(frame.size, 0x18);
        assert_eq!(frame.saved, [(RBX, 0), (12, 8), (13, 16)]);
        assert_eq!(frame_of(&code[..4]), None, "it saves nothing");
        let mut small = code;
        small[3] = 0x10;
        assert_eq!(frame_of(&small), None, "it saves beyond its frame");
        assert_eq!(frame_of(&[]), None);
    }
}
