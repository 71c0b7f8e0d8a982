//! Which native frames may run a JavaScript function?

use super::heap::{is_object, smi};
use super::identity::JsFrame;
use super::layout::Layout;
use crate::{CodeKind, Stack};
use rprof_unwind::FrameKind;

/// Maximum number of frames looked at on one stack.
const MAX_FRAMES: usize = 1024;

/// Returns the frames of the interpreter, and all in generated code, innermost first.
pub(super) fn candidates(stack: &Stack<'_>, layout: &Layout) -> Vec<JsFrame> {
    let frame_at = |index: usize| {
        let frame = stack.frames.get(index)?;
        let slots = Slots::read(stack, layout, index).unwrap_or_default();
        let code = match frame.code {
            CodeKind::Generated => Some(frame.frame.lookup_address()),
            CodeKind::Image(_) if slots.is_interpreter() => None,
            CodeKind::Image(_) | CodeKind::Switch | CodeKind::Other => return None,
        };
        Some(JsFrame {
            native: index,
            code,
            called_from: (frame.frame.kind == FrameKind::Caller).then_some(frame.frame.address),
            function: slots.function,
            bytecode: slots.bytecode,
        })
    };
    (0..stack.frames.len())
        .filter_map(frame_at)
        .take(MAX_FRAMES)
        .collect()
}

/// Words of a frame with a context. Other frames of V8 have a small integer in its place.
#[derive(Clone, Copy, Debug, Default)]
struct Slots {
    /// Object in the slot of the JSFunction.
    function: Option<u64>,
    /// Object in the slot of the BytecodeArray.
    bytecode: Option<u64>,
    /// True if the slot of the bytecode offset has one.
    has_offset: bool,
}

impl Slots {
    fn read(stack: &Stack<'_>, layout: &Layout, index: usize) -> Option<Self> {
        let own = stack.frames.get(index)?;
        let fp = frame_pointer(stack, index)?;
        let slot = |offset: i64| {
            let avma = fp.checked_add_signed(offset)?;
            // Below the stack pointer nothing is live.
            (avma >= own.frame.sp).then(|| stack.memory.read_u64(avma))?
        };
        let object = |offset: i64| slot(offset).filter(|word| is_object(*word));
        object(layout.fp_context)?;
        let offset = slot(layout.fp_bytecode_offset).and_then(smi);
        Some(Self {
            function: object(layout.fp_function),
            bytecode: object(layout.fp_bytecode),
            has_offset: offset.is_some_and(|offset| offset > 0),
        })
    }

    const fn is_interpreter(&self) -> bool {
        self.function.is_some() && self.bytecode.is_some() && self.has_offset
    }
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
