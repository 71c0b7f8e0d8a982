//! [`makes_callers_frame`]: recognises functions that are a part of their caller's prologue.

use super::window::CodeSource;
use crate::Arch;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};

/// Maximum number of instructions before the return address is removed; V8's have 12.
const MAX_INSTRUCTIONS: usize = 24;

/// Returns true if the function at `target` first takes its return address from the stack, to make a
/// frame for its caller below it. So the caller has none yet. V8's baseline code begins with such a call,
/// and Windows programs probe their stack by one. For x86.
pub(super) fn makes_callers_frame<C: CodeSource>(arch: Arch, target: u64, text: &C) -> bool {
    let mut bytes = [0; MAX_INSTRUCTIONS * 5];
    let len = text.read(target, &mut bytes);
    let code = bytes.get(..len).unwrap_or(&[]);
    let mut decoder = Decoder::with_ip(arch.bits(), code, target, DecoderOptions::NONE);
    for instruction in decoder.iter().take(MAX_INSTRUCTIONS) {
        if instruction.mnemonic() == Mnemonic::Pop {
            let to = instruction.op0_register();
            return instruction.op0_kind() == OpKind::Register && to != arch.fp_operand();
        }
        let writes_sp = instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == Register::RSP;
        let goes_on = matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        );
        if !goes_on || writes_sp || instruction.stack_pointer_increment() != 0 {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Code(&'static [u8]);

    impl CodeSource for Code {
        fn read(&self, _: u64, into: &mut [u8]) -> usize {
            let len = self.0.len().min(into.len());
            into[..len].copy_from_slice(&self.0[..len]);
            len
        }

        fn is_described(&self, _: u64) -> bool {
            false
        }

        fn is_return_address(&self, _: u64) -> bool {
            false
        }
    }

    #[test]
    fn the_first_change_of_the_stack_decides() {
        for (code, expected) in [
            // mov r8, [rdi + 39]; test cl, 62; jne +2; pop r15; push rbp
            (
                &[
                    0x4c, 0x8b, 0x47, 0x27, 0xf6, 0xc1, 0x3e, 0x75, 2, 0x41, 0x5f, 0x55,
                ][..],
                true,
            ),
            // push rbp; pop r15
            (&[0x55, 0x41, 0x5f], false),
            // sub rsp, 8; pop rax
            (&[0x48, 0x83, 0xec, 8, 0x58], false),
            // ret; jmp; call; pop rbp; pop [rbp + 8]
            (&[0xc3, 0x58], false),
            (&[0xeb, 0, 0x58], false),
            (&[0xe8, 0, 0, 0, 0, 0x58], false),
            (&[0x5d], false),
            (&[0x8f, 0x45, 8], false),
            (&[], false),
        ] {
            let found = makes_callers_frame(Arch::X86_64, 0x1000, &Code(code));
            assert_eq!(found, expected, "{code:x?}");
        }
        // 25 times nop; pop rax
        let mut far = vec![0x90; 25];
        far.push(0x58);
        assert!(!makes_callers_frame(Arch::X86_64, 0, &Code(far.leak())));
    }
}
