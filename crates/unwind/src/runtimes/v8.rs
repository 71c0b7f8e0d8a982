//! V8: handlers of bytecodes.
//!
//! A handler without calls has no frame. It runs in the interpreter's frame, and ends with a jump
//! through a register, to the next handler. So its own code does not show whether the frame pointer
//! belongs to it or to the interpreter that called it.

use crate::arch::x86_64::R12;
use crate::{Arch, Memory, Modules, Registers};

/// Offsets from the frame pointer to the context and to the BytecodeArray of a function.
const CONTEXT: i64 = -8;
const BYTECODE: i64 = -0x20;

/// Returns true for code that goes on with the bytecode of its frame: `mov r12, [rbp - 0x20]`, then
/// the offset in it, from the frame (`mov r9d, [rbp - 0x24]`) or of the first bytecode. Only the
/// interpreter of V8 has such code after a call, from version 10.2 to 14.6 at least.
#[must_use]
pub const fn goes_on_with_bytecode(code: &[u8]) -> bool {
    matches!(
        code,
        [0x4c, 0x8b, 0x65, 0xe0, 0x44, 0x8b, 0x4d, 0xdc, ..]
            | [0x4c, 0x8b, 0x65, 0xe0, 0x41, 0xb9, _, 0, 0, 0, ..]
    )
}

/// Returns true if the interpreter called the sampled handler: the return address is in the
/// interpreter, and its frame and the handler's register hold the same bytecode.
pub(crate) fn is_handler(
    registers: &Registers,
    return_address: u64,
    memory: &dyn Memory,
    modules: &dyn Modules,
) -> bool {
    if registers.arch() != Arch::X86_64 {
        return false;
    }
    let slot = |offset| {
        let word = memory.read_u64(registers.frame_pointer()?.checked_add_signed(offset)?)?;
        // A pointer to an object. Other frames of V8 have a number in place of the context.
        (word & 3 == 1).then_some(word)
    };
    let has_bytecode = slot(CONTEXT).is_some()
        && slot(BYTECODE).is_some_and(|array| registers.get(R12) == Some(array));
    let mut code = [0; 10];
    has_bytecode
        && modules.code(return_address, &mut code) == code.len()
        && goes_on_with_bytecode(&code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Module, StackDump};

    const STACK: u64 = 0x7000;
    const RETURN: u64 = 0x9_0000;
    const ARRAY: u64 = 0x1_0001;

    /// The interpreter of V8 13.6 behind its call.
    struct Interpreter([u8; 12]);

    impl Modules for Interpreter {
        fn find(&self, _: u64) -> Option<Module<'_>> {
            None
        }

        fn code(&self, avma: u64, into: &mut [u8]) -> usize {
            let known = match avma == RETURN {
                true => &self.0[..into.len()],
                false => &[],
            };
            into[..known.len()].copy_from_slice(known);
            known.len()
        }
    }

    #[test]
    fn handler_and_interpreter_have_the_same_bytecode() {
        let code = [
            0x4c, 0x8b, 0x65, 0xe0, 0x44, 0x8b, 0x4d, 0xdc, 0x43, 0x0f, 0xb6, 0x1c,
        ];
        let is = |code, array: u64, words: [u64; 5]| {
            let bytes = words.map(u64::to_le_bytes).concat();
            let mut registers = Registers::new(Arch::X86_64, 0x8_0000, STACK);
            registers.set(6, STACK + 40);
            registers.set(R12, array);
            let dump = StackDump::new(STACK, &bytes);
            is_handler(&registers, RETURN, &dump, &Interpreter(code))
        };
        // From the return address up: bytecode, number of arguments, function, context.
        let frame = [RETURN, ARRAY, 1, 0x3_0001, 0x4_0001];
        assert!(is(code, ARRAY, frame));
        assert!(!is(code, ARRAY + 8, frame), "another function's");
        assert!(!is(code, 0x8000, frame), "a number");
        let stub = [RETURN, ARRAY, 1, 0x3_0001, 0x24];
        assert!(!is(code, ARRAY, stub), "a frame of its own");
        // A builtin function reloads a register that it has kept.
        let mut builtin = code;
        builtin[4] = 0x48;
        assert!(!is(builtin, ARRAY, frame));
    }
}
