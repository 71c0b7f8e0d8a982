//! Which native frames may run a Java method?

use rprof_unwind::FrameKind;

use crate::{CodeKind, Stack};

/// Maximum number of frames looked at on one stack.
const MAX_FRAMES: usize = 1024;

/// Slots of an interpreter's frame, in bytes below its frame pointer: the caller's stack pointer, and
/// the Method (`frame_x86.hpp` of the JDK).
const SENDER: u64 = 8;
const METHOD: u64 = 24;

/// DWARF number of rbx, which holds the Method while the interpreter sets up its frame.
const RBX: u8 = 3;

/// Frame in generated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JavaFrame {
    /// Index of the native frame.
    pub(super) native: usize,
    /// Address of the instruction: for callers, the return address.
    pub(super) pc: u64,
    /// Address in the code, for lookups.
    pub(super) inside: u64,
    /// Stack pointer.
    pub(super) sp: u64,
    /// True for callers.
    pub(super) has_called: bool,
    /// Method in its slot, if the frame has the shape of an interpreter's.
    pub(super) method: Option<u64>,
    /// Word in the register that passes the Method to the interpreter, for the sampled frame.
    pub(super) entered: Option<u64>,
}

impl JavaFrame {
    /// Returns the frame at another instruction.
    pub(super) const fn at(self, pc: u64) -> Self {
        Self { pc, ..self }
    }
}

/// Returns the frames in generated code, innermost first.
pub(super) fn candidates(stack: &Stack<'_>) -> Vec<JavaFrame> {
    let is_generated = |index: &usize| {
        let frame = stack.frames.get(*index);
        frame.is_some_and(|frame| frame.code == CodeKind::Generated)
    };
    let frame_at = |index: usize| {
        let native = stack.frames.get(index)?;
        let is_sampled = native.frame.kind == FrameKind::Sampled;
        Some(JavaFrame {
            native: index,
            pc: native.frame.address,
            inside: native.frame.lookup_address(),
            sp: native.frame.sp,
            has_called: native.frame.kind == FrameKind::Caller,
            method: method_slot(stack, index),
            entered: native.registers.get(RBX).filter(|_| is_sampled),
        })
    };
    (0..stack.frames.len())
        .filter(is_generated)
        .filter_map(frame_at)
        .take(MAX_FRAMES)
        .collect()
}

/// Returns the Method of an interpreter's frame. The frame pointer is the frame's own if the slots
/// above and below it hold the return address and the stack pointer of the caller.
fn method_slot(stack: &Stack<'_>, index: usize) -> Option<u64> {
    let own = stack.frames.get(index)?;
    let caller = stack.frames.get(index + 1)?.frame;
    let fp = own.registers.frame_pointer()?;
    let slot = |avma: u64| stack.memory.read_u64(avma);
    let sender = slot(fp.checked_sub(SENDER)?)?;
    let is_own = fp.checked_add(8)? <= sender
        && sender == caller.sp
        && slot(fp.checked_add(8)?)? == caller.address;
    let method = fp.checked_sub(METHOD)?;
    // Below the stack pointer nothing is live.
    (is_own && method >= own.frame.sp).then(|| slot(method))?
}
