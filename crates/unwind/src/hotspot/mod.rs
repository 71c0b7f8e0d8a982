//! Java: frames of code that HotSpot made.
//!
//! Compiled methods keep no frame pointers, and from many of them no path leads to a
//! return, as paths that were never taken are not compiled. But all of its code lies in
//! *blobs*, each with a header that says where code begins and ends, how large the frame is and
//! from which instruction on it is there. HotSpot's own walker (`frame::sender`) goes by
//! that, and so does this one:
//!
//! - a method or a stub with a frame: the frame's size leads to the return address, below it lies
//!   the caller's frame pointer. Where the method was sampled in code that pushes (the comparison
//!   of strings), up to some words further, if a call out of such code stands before the address;
//! - the interpreter: a frame pointer, and below the saved one the caller's stack pointer. What
//!   calls returns to code that no call stands before;
//! - others (stubs without a frame, adapters): as any code.
//!
//! Headers are searched for upwards from the code, in the process's memory. A header counts
//! only if all eight places and sizes in it fit together and enclose the address, so data that
//! happens to be there is not taken for one. The layout is that of JDK 9 to 21
//! (`src/hotspot/share/code/codeBlob.hpp`); where it is another no header is found.

mod blobs;

pub(crate) use blobs::BlobCache;

use crate::arch::x86_64::{RBP, RSP};
use crate::simulate::{CodeSource, PathState, Stop};
use crate::step::Caller;
use crate::{Arch, FoundBy, Memory, Registers};
use blobs::{Blob, MAX_FRAME};

/// Maximum number of words that code within a method pushes for itself: multiplying large numbers takes five.
const MAX_PUSHED: u64 = 8;
/// Maximum number of instructions of an epilogue, or of the code behind a poll that interrupts it.
const EPILOGUE: usize = 8;
/// Maximum number of instructions of a prologue; that of the interpreter has some 60.
const PROLOGUE: usize = 128;
/// Maximum number of instructions of the interpreter until it has reloaded its bytecode pointer.
const RETURN_ENTRY: usize = 16;
/// DWARF number of r13, in which the interpreter gets its caller's stack pointer.
const R13: u8 = 13;

/// Outcome of [`step`].
pub(crate) enum Outcome {
    Caller(Caller, FoundBy),
    /// The code is HotSpot's and has a frame, but this is none: guesses would be wrong.
    Nothing,
    /// Other code, or code without a frame.
    NotMine,
}

/// Steps out of code of HotSpot.
///
/// `exact`: the frame did not make a call.
pub(crate) fn step<M: Memory + ?Sized, C: CodeSource>(
    blobs: &BlobCache,
    registers: &mut Registers,
    memory: &M,
    text: &C,
    exact: bool,
) -> Outcome {
    if registers.arch() != Arch::X86_64 {
        return Outcome::NotMine;
    }
    let inside = registers.ip().wrapping_sub(u64::from(!exact));
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

fn compiled<M: Memory + ?Sized, C: CodeSource>(
    blobs: &BlobCache,
    blob: &Blob,
    registers: &mut Registers,
    memory: &M,
    text: &C,
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
    }
    let framed = |pushed: u64| {
        let above = path.registers().sp().wrapping_add(blob.frame + 8 * pushed);
        let (slot, saved) = (above.wrapping_sub(8), above.wrapping_sub(16));
        Some((above, path.read(slot, memory)?, path.read(saved, memory)?))
    };
    let read = |avma, into: &mut [u8]| text.read(avma, into);
    let (mut above, mut address, mut fp) = framed(0)?;
    // A poll is an instruction anywhere in a method.
    let polls = |blob: Blob| blob.frame != 0 && blob.complete <= address;
    let mut interrupted = false;
    if !text.is_return_address(address) {
        let polled = blob
            .is_safepoint
            .then(|| blobs.find(address, read))
            .flatten();
        interrupted = polled.is_some_and(polls);
        if !interrupted {
            // Comparing strings and the like is done by code that pushes some words meanwhile.
            let calls = |at: u64| {
                text.is_return_address(at) && blobs.find(at.wrapping_sub(1), read).is_some()
            };
            let mut more = (1..=MAX_PUSHED).filter_map(framed);
            (above, address, fp) = more.find(|(_, at, _)| exact && calls(*at))?;
        }
    }
    let slot = above.wrapping_sub(8);
    // Of a process that has ended there is less to go by.
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

fn interpreted<M: Memory + ?Sized, C: CodeSource>(
    registers: &mut Registers,
    memory: &M,
    text: &C,
    exact: bool,
) -> Option<(Caller, FoundBy)> {
    if exact {
        let mut path = PathState::new(registers);
        // Up to where the new frame pointer is there; or to the return, which is a jump.
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
                // Where it is now is not where it will be.
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
        // Between frames r13 is the caller's stack pointer, in frames it points to bytecode. In the
        // former case the frame pointer is that of another frame, unless the code just came back
        // to it from a call, and is about to load r13 anew.
        let in_frame = |now: &Registers| {
            let r13 = now.get(R13).map(|r13| r13.wrapping_sub(registers.sp()));
            r13.is_some_and(|above| above > MAX_FRAME)
                && now.frame_pointer() == registers.frame_pointer()
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
    let is_frame = fp.is_multiple_of(8)
        && registers.sp() <= fp
        && slot < sender
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
