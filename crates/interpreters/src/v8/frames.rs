//! Which native frames may run a JavaScript function?

use super::heap::{is_object, smi};
use super::identity::JsFrame;
use super::layout::Layout;
use crate::{CodeKind, Stack};

/// Maximum number of frames looked at on one stack.
const MAX_FRAMES: usize = 1024;

/// Returns the frames with a function's slots, and all in generated code, innermost first.
pub(super) fn candidates(stack: &Stack<'_>, layout: &Layout) -> Vec<JsFrame> {
    let frame_at = |index: usize| {
        let frame = stack.frames.get(index)?;
        let code = match frame.code {
            CodeKind::Generated => Some(frame.frame.lookup_address()),
            CodeKind::Image(_) => None,
            CodeKind::Other => return None,
        };
        let slots = slots(stack, layout, index);
        if code.is_none() && slots.is_none() {
            return None;
        }
        let (function, bytecode) = slots.unwrap_or_default();
        // Frames of the interpreter have both.
        if code.is_none() && (function.is_none() || bytecode.is_none()) {
            return None;
        }
        Some(JsFrame {
            native: index,
            code,
            function,
            bytecode,
        })
    };
    (0..stack.frames.len())
        .filter_map(frame_at)
        .take(MAX_FRAMES)
        .collect()
}

/// Returns the objects in the slots of the JSFunction and of the BytecodeArray. `None` if the frame
/// has no context: frames of stubs have a small integer there.
fn slots(stack: &Stack<'_>, layout: &Layout, index: usize) -> Option<(Option<u64>, Option<u64>)> {
    let own = stack.frames.get(index)?;
    let fp = frame_pointer(stack, index)?;
    let slot = |offset: i64| {
        let avma = fp.checked_add_signed(offset)?;
        // Below the stack pointer nothing is live.
        (avma >= own.frame.sp).then(|| stack.memory.read_u64(avma))?
    };
    let object = |offset: i64| slot(offset).filter(|word| is_object(*word));
    object(layout.fp_context)?;
    let is_offset = slot(layout.fp_bytecode_offset)
        .and_then(smi)
        .is_some_and(|offset| offset > 0);
    let bytecode = object(layout.fp_bytecode).filter(|_| is_offset);
    Some((object(layout.fp_function), bytecode))
}

/// Returns a frame's frame pointer: the return address lies above the word it points to.
fn frame_pointer(stack: &Stack<'_>, index: usize) -> Option<u64> {
    let own = stack.frames.get(index)?;
    let caller = stack.frames.get(index + 1)?.frame;
    let fp = own.registers.frame_pointer()?;
    let return_address = stack.memory.read_u64(fp.checked_add(8)?)?;
    // A handler of the interpreter has the frame pointer of the interpreter, its caller.
    let is_own = fp.checked_add(16)? <= caller.sp;
    (is_own && return_address == caller.address).then_some(fp)
}
