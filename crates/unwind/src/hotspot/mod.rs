//! Java: unwinds code that HotSpot generated.
//!
//! Compiled methods keep no frame pointers, and many contain no path to a return. But all its code
//! lies in *blobs*, each with a header: start and end of the code, size of the frame, first
//! instruction with a complete frame. This module uses it like HotSpot's own stack walker
//! (`frame::sender`):
//!
//! - a method or a stub with a frame: the frame size leads to the return address, with the caller's
//!   frame pointer below. If the method was sampled in code that pushes words (string comparison),
//!   the return address is a few words further up and must follow a call in HotSpot code;
//! - the interpreter: a frame pointer, with the caller's stack pointer below the saved one. Its
//!   callees return to code without a preceding call;
//! - virtual threads: frames are copied from the heap when they are needed. The outermost one on the
//!   stack returns to a barrier, and has the frame pointer of the frame that runs the thread;
//! - other code (stubs without a frame, adapters): like any code.
//!
//! The search for a header runs from the code towards lower addresses. A header is valid only if
//! all its addresses and sizes are consistent and it contains the address. The layouts
//! are from JDK 9 to 22 and of JDK 25 (`src/hotspot/share/code/codeBlob.hpp`); versions with another
//! layout have no valid header.

mod blobs;

pub(crate) use blobs::BlobCache;

use crate::arch::x86_64::{RBP, RSP};
use crate::simulate::{CodeSource, PathState, Stop};
use crate::step::Caller;
use crate::{Arch, FoundBy, Memory, Registers};
use blobs::{Blob, MAX_FRAME};

/// Maximum number of words pushed within a method: big number multiplication pushes five.
const MAX_PUSHED: u64 = 8;
/// Maximum number of instructions of an epilogue, or after a poll in one.
const EPILOGUE: usize = 8;
/// Maximum number of instructions of a prologue; the interpreter's has about 60.
const PROLOGUE: usize = 128;
const RETURN_ENTRY: usize = 16;
/// Bytes of the instruction of a return barrier.
const BARRIER: usize = 7;
/// Distance of the Method's slot below the interpreter's frame pointer.
const METHOD: u64 = 24;
/// Offset of the ConstMethod in a Method. The bytecode is behind the ConstMethod's fields.
const CONST_METHOD: u64 = 8;
/// Maximum bytes of a ConstMethod's fields and bytecode.
const MAX_BYTECODE: u64 = 65_600;
/// DWARF number of r13, which passes the caller's stack pointer to the interpreter.
const R13: u8 = 13;

pub(crate) enum Outcome {
    Caller(Caller, FoundBy),
    /// HotSpot code with an invalid frame: a guess would be wrong.
    Nothing,
    /// Other code, or code without a frame.
    NotMine,
}

/// Steps out of HotSpot code. `exact`: the frame made no call.
pub(crate) fn step(
    blobs: &BlobCache,
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
    exact: bool,
) -> Outcome {
    if registers.arch() != Arch::X86_64 {
        return Outcome::NotMine;
    }
    let inside = registers.ip().wrapping_sub(u64::from(!exact));
    let mut code = [0; BARRIER];
    let len = text.read(registers.ip(), &mut code);
    if !exact && is_return_barrier(code.get(..len).unwrap_or_default()) {
        let found = continuation_entry(registers, memory, text);
        return found.map_or(Outcome::Nothing, |(caller, by)| Outcome::Caller(caller, by));
    }
    let caller = match blobs.find(inside, |avma, into| text.read(avma, into)) {
        Some(blob) if blob.is_interpreter => interpreted(registers, memory, text, exact),
        Some(blob) if blob.frame >= 16 => compiled(blobs, &blob, registers, memory, text, exact),
        _ => return Outcome::NotMine,
    };
    caller.map_or(Outcome::Nothing, |(caller, by)| Outcome::Caller(caller, by))
}

fn caller(address: u64, slot: u64, by: FoundBy) -> (Caller, FoundBy) {
    let caller = Caller {
        return_address: Some(address),
        slot,
        interrupted: false,
    };
    (caller, by)
}

/// Returns true for the code that a frame of a virtual thread returns to if its callers are in the
/// heap: `mov rsp, [r15 + ...]`, to the frame that runs the thread (`generate_cont_thaw` of the JDK).
#[must_use]
pub const fn is_return_barrier(code: &[u8]) -> bool {
    matches!(code, [0x49, 0x8b, 0xa7, _, _, 0, 0, ..])
}

/// Steps out of the frame that runs a virtual thread. The frame above it has the frame pointer.
fn continuation_entry(
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
) -> Option<(Caller, FoundBy)> {
    let fp = registers.frame_pointer()?;
    let slot = fp.wrapping_add(8);
    let (saved, address) = (memory.read_u64(fp)?, memory.read_u64(slot)?);
    let is_frame = fp.is_multiple_of(8)
        && registers.sp() <= fp
        && fp.wrapping_sub(registers.sp()) <= MAX_FRAME
        && text.is_return_address(address);
    if !is_frame {
        return None;
    }
    registers.keep(0);
    registers.set(RBP, saved);
    registers.set(RSP, slot.wrapping_add(8));
    Some(caller(address, slot, FoundBy::FramePointer))
}

fn compiled(
    blobs: &BlobCache,
    blob: &Blob,
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
    exact: bool,
) -> Option<(Caller, FoundBy)> {
    let mut path = PathState::new(registers);
    if exact && registers.ip() < blob.complete {
        let done = |path: &PathState| path.ip() >= blob.complete;
        if !matches!(
            path.follow_straight(memory, text, PROLOGUE, done),
            Stop::Done
        ) {
            return None;
        }
    } else if exact {
        let mut epilogue = PathState::new(registers);
        let stop = epilogue.follow_straight(memory, text, EPILOGUE, |_| false);
        if let Stop::Return { address, slot } = stop
            && text.is_return_address(address)
        {
            *registers = *epilogue.registers();
            registers.keep(1 << RBP | 1 << RSP);
            return Some(caller(address, slot, FoundBy::Code));
        }
        let target = poll_target(registers.ip(), text);
        let handler = target.and_then(|at| blobs.find(at, |avma, into| text.read(avma, into)));
        if handler.is_some_and(|handler| handler.is_safepoint) {
            let slot = registers.sp();
            let address = memory.read_u64(slot)?;
            registers.keep(1 << RBP);
            registers.set(RSP, slot.wrapping_add(8));
            let is_return = text.is_return_address(address);
            return is_return.then(|| caller(address, slot, FoundBy::Code));
        }
    }
    let framed = |pushed: u64| {
        let above = path.registers().sp().wrapping_add(blob.frame + 8 * pushed);
        let (slot, saved) = (above.wrapping_sub(8), above.wrapping_sub(16));
        Some((above, path.read(slot, memory)?, path.read(saved, memory)?))
    };
    let read = |avma, into: &mut [u8]| text.read(avma, into);
    let passed = if exact {
        0
    } else {
        passed_words(registers.ip(), text)
    };
    let passed = framed(passed).filter(|(_, at, _)| text.is_return_address(*at));
    let (mut above, mut address, mut fp) = passed.or_else(|| framed(0))?;
    let polls = |blob: Blob| blob.frame != 0 && blob.complete <= address;
    let mut interrupted = false;
    if !text.is_return_address(address) {
        let polled = blob
            .is_safepoint
            .then(|| blobs.find(address, read))
            .flatten();
        interrupted = polled.is_some_and(polls);
        if !interrupted {
            let calls = |at: u64| {
                text.is_return_address(at) && blobs.find(at.wrapping_sub(1), read).is_some()
            };
            let mut more = (1..=MAX_PUSHED).filter_map(framed);
            (above, address, fp) = more.find(|(_, at, _)| exact && calls(*at))?;
        }
    }
    let slot = above.wrapping_sub(8);
    // An exited process has no readable memory; then only known blobs count.
    if text.read(address, &mut [0]) == 0 && !blobs.has(address) {
        return None;
    }
    registers.keep(0);
    registers.set(RBP, fp);
    registers.set(RSP, above);
    let caller = Caller {
        return_address: Some(address),
        slot,
        interrupted,
    };
    Some((caller, FoundBy::FrameSize))
}

/// Returns where the slow path of a poll at a method's return jumps to. The method has no frame there.
/// The path saves an address for the handler (`C2SafepointPollStub`, `C1SafepointPollStub`).
fn poll_target(ip: u64, text: &dyn CodeSource) -> Option<u64> {
    let mut code = [0; 24];
    let len = text.read(ip, &mut code);
    let mut rest = code.get(..len)?;
    // lea r10, [rip + offset]; mov [r15 + offset], r10; jmp
    for prefix in [[0x4c, 0x8d, 0x15], [0x4d, 0x89, 0x97]] {
        if rest.starts_with(&prefix) {
            rest = rest.get(prefix.len() + 4..)?;
        }
    }
    let offset = rest.strip_prefix(&[0xe9])?.first_chunk()?;
    let next = ip.wrapping_add((len - rest.len() + 5) as u64);
    Some(next.wrapping_add_signed(i32::from_le_bytes(*offset).into()))
}

/// Returns the number of words that a caller has pushed for a stub: C1's code for a slow check of types
/// pushes two, and pops them after the call. An epilogue pops only the frame pointer.
fn passed_words(return_address: u64, text: &dyn CodeSource) -> u64 {
    let mut code = [0; 4];
    let len = text.read(return_address, &mut code);
    let pop = |code: &[u8]| match code {
        [0x41, 0x58..=0x5f, ..] => 2,
        [0x5d, ..] => 0,
        [0x58..=0x5f, ..] => 1,
        _ => 0,
    };
    let code = code.get(..len).unwrap_or_default();
    let first = pop(code);
    let second = code.get(first..).map_or(0, pop);
    if first > 0 && second > 0 { 2 } else { 0 }
}

/// Returns true if an address lies in the bytecode of the method in the interpreter's frame. Class
/// metadata may be mapped right above a thread's stack.
fn runs_bytecode(
    registers: &Registers,
    avma: u64,
    memory: &dyn Memory,
    text: &dyn CodeSource,
) -> bool {
    let slot = registers.frame_pointer().map(|fp| fp.wrapping_sub(METHOD));
    let Some(method) = slot.and_then(|slot| memory.read_u64(slot)) else {
        return false;
    };
    let mut const_method = [0; 8];
    let at = method.wrapping_add(CONST_METHOD);
    text.read(at, &mut const_method) == const_method.len()
        && avma.wrapping_sub(u64::from_le_bytes(const_method)) < MAX_BYTECODE
}

fn interpreted(
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
    exact: bool,
) -> Option<(Caller, FoundBy)> {
    if exact {
        let mut path = PathState::new(registers);
        // Stop at the new frame pointer, or at the return, which is a jump.
        let sets_up = |path: &PathState| {
            let now = path.registers();
            now.frame_pointer() == Some(now.sp())
                && registers.frame_pointer() != now.frame_pointer()
        };
        match path.follow_straight(memory, text, PROLOGUE, sets_up) {
            Stop::Done => {
                let slot = path.registers().sp().wrapping_add(8);
                let address = path.read(slot, memory)?;
                let (sender, fp) = (path.registers().get(R13)?, registers.frame_pointer()?);
                if sender < registers.sp() || !text.is_return_address(address) {
                    return None;
                }
                registers.keep(0);
                registers.set(RBP, fp);
                registers.set(RSP, sender);
                // The return address is not yet in its final slot.
                return Some(caller(address, 0, FoundBy::Code));
            }
            Stop::Jump(address) | Stop::Return { address, .. }
                if text.is_return_address(address) =>
            {
                *registers = *path.registers();
                registers.keep(1 << RBP | 1 << RSP);
                return Some(caller(address, 0, FoundBy::Code));
            }
            _ => {}
        }
        // r13 is the caller's stack pointer between frames and points to bytecode within a frame.
        // Between frames, the frame pointer belongs to another frame, unless a call has just
        // returned and r13 is not yet reloaded.
        let in_frame = |now: &Registers| {
            let Some(r13) = now.get(R13) else {
                return false;
            };
            let is_far = r13.wrapping_sub(registers.sp()) > MAX_FRAME;
            now.frame_pointer() == registers.frame_pointer()
                && (is_far || runs_bytecode(registers, r13, memory, text))
        };
        let mut path = PathState::new(registers);
        if !in_frame(registers) {
            let stop = path.follow_straight(memory, text, RETURN_ENTRY, |path| {
                in_frame(path.registers())
            });
            if !matches!(stop, Stop::Done) {
                return None;
            }
        }
    }
    let fp = registers.frame_pointer()?;
    let slot = fp.wrapping_add(8);
    let address = memory.read_u64(slot)?;
    let saved = memory.read_u64(fp)?;
    let sender = memory.read_u64(fp.wrapping_sub(8))?;
    // A linker of method handles has removed an argument: then the return address is in its place.
    let is_frame = fp.is_multiple_of(8)
        && registers.sp() <= fp
        && slot <= sender
        && sender.wrapping_sub(registers.sp()) <= MAX_FRAME
        && text.is_return_address(address);
    if !is_frame {
        return None;
    }
    registers.keep(0);
    registers.set(RBP, saved);
    registers.set(RSP, sender);
    Some(caller(address, slot, FoundBy::FramePointer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code at an address.
    struct Code(u64, Vec<u8>);

    impl CodeSource for Code {
        fn read(&self, avma: u64, into: &mut [u8]) -> usize {
            let at = usize::try_from(avma.wrapping_sub(self.0)).unwrap_or(usize::MAX);
            let bytes = self.1.get(at..).unwrap_or_default();
            let len = bytes.len().min(into.len());
            into[..len].copy_from_slice(&bytes[..len]);
            len
        }

        fn is_described(&self, _: u64) -> bool {
            false
        }

        fn is_return_address(&self, _: u64) -> bool {
            true
        }
    }

    /// As C2 of JDK 17 writes it: the handler is 0x100 bytes behind the code.
    #[test]
    fn slow_path_of_a_poll_leads_to_the_handler_from_each_instruction() {
        let mut bytes = vec![0x4c, 0x8d, 0x15, 1, 2, 3, 4];
        bytes.extend([0x4d, 0x89, 0x97, 0x50, 3, 0, 0]);
        bytes.extend([0xe9, 0, 1, 0, 0]);
        let code = Code(0x1000, bytes.clone());
        for start in [0x1000, 0x1007, 0x100e] {
            assert_eq!(poll_target(start, &code), Some(0x1013 + 0x100));
        }
        assert_eq!(poll_target(0x1013, &code), None);
        bytes.truncate(16);
        assert_eq!(poll_target(0x1000, &Code(0x1000, bytes)), None, "cut");
    }

    #[test]
    fn arguments_of_a_stub_are_popped_by_two_instructions() {
        let words = |bytes: &[u8]| passed_words(0x1000, &Code(0x1000, bytes.to_vec()));
        assert_eq!(words(&[0x5e, 0x5f, 0x90]), 2);
        assert_eq!(words(&[0x41, 0x5b, 0x41, 0x58]), 2);
        assert_eq!(words(&[0x41, 0x5b, 0x5e]), 2);
        assert_eq!(words(&[0x5d, 0xc3]), 0, "an epilogue");
        assert_eq!(words(&[0x5e, 0xc3]), 0);
        assert_eq!(words(&[]), 0);
    }

    #[test]
    fn frame_with_callers_in_the_heap_leads_to_the_one_that_runs_the_thread() {
        // mov rsp, [r15 + 0x4d0], as JDK 21 writes it
        let barrier = [0x49, 0x8b, 0xa7, 0xd0, 4, 0, 0];
        let code = Code(0x1000, barrier.to_vec());
        // Below the frame pointer, HotSpot keeps data of the thread.
        let words: [u64; 5] = [1, 2, 3, 0x8000, 0x1234];
        let bytes = words.map(u64::to_le_bytes).concat();
        let memory = crate::StackDump::new(0x7000, &bytes);
        let mut registers = Registers::new(Arch::X86_64, 0x1000, 0x7000);
        registers.set(RBP, 0x7018);
        let blobs = BlobCache::default();
        let mut callers = registers;
        let found = step(&blobs, &mut callers, &memory, &code, false);
        let Outcome::Caller(caller, _) = found else {
            panic!("no caller");
        };
        assert_eq!((caller.return_address, caller.slot), (Some(0x1234), 0x7020));
        assert_eq!((callers.sp(), callers.get(RBP)), (0x7028, Some(0x8000)));
        // The frame pointer must be above the stack pointer.
        registers.set(RBP, 0x6ff8);
        let found = step(&blobs, &mut registers, &memory, &code, false);
        assert!(matches!(found, Outcome::Nothing));
    }
}
