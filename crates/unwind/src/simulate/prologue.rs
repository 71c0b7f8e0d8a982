//! Calls in prologues and returns, and [`FramePointerUse`], the owner of the frame pointer.

use super::window::CodeSource;
use crate::Arch;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Maximum number of instructions before the return address is removed; V8's have 12.
const MAX_INSTRUCTIONS: usize = 24;

/// Maximum number of bytes between a return thunk's call and its target: a loop that is never executed.
const MAX_THUNK: u64 = 32;

/// First use of the frame pointer in the code ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FramePointerUse {
    /// The function accesses its own frame.
    OwnFrame,
    /// Saved or replaced, so it is the caller's. `is_first`: the stack pointer has not moved
    /// before. On AArch64 the link register then has the return address.
    CallersFrame { is_first: bool },
    /// The caller has prepared the frame. The return address is popped from the top of the stack
    /// into it.
    HandedFrame,
    /// The code is inconclusive.
    Unknown,
    /// The code is unreadable.
    Unreadable,
}

/// Returns true if the function at `target` first takes its return address from the stack, to make a
/// frame for its caller below it. So the caller has none yet. V8's baseline code begins with such a call,
/// and Windows programs probe their stack by one. For x86.
pub(super) fn makes_callers_frame(arch: Arch, target: u64, text: &dyn CodeSource) -> bool {
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

/// Returns true if straight code pushes a register or takes space from the stack. For x86.
pub(crate) fn makes_frame(arch: Arch, code: &[u8]) -> bool {
    let mut decoder = Decoder::new(arch.bits(), code, DecoderOptions::NONE);
    (decoder.iter())
        .take_while(|instruction| {
            !instruction.is_invalid() && instruction.flow_control() == FlowControl::Next
        })
        .any(|instruction| {
            let writes_sp = instruction.op0_kind() == OpKind::Register
                && instruction.op0_register() == arch.sp_operand();
            instruction.mnemonic() == Mnemonic::Push
                || (writes_sp && instruction.mnemonic() == Mnemonic::Sub)
        })
}

/// Returns the address of the `ret` of a return thunk, which replaces a return in code against Spectre
/// (`-mfunction-return=thunk-inline`). `call` goes a few bytes ahead, where its return address is
/// removed from the stack.
pub(super) fn end_of_return_thunk(
    arch: Arch,
    call: &Instruction,
    text: &dyn CodeSource,
) -> Option<u64> {
    let target = call.near_branch_target();
    if target.wrapping_sub(call.next_ip()) > MAX_THUNK {
        return None;
    }
    let mut bytes = [0; 6];
    let len = text.read(target, &mut bytes);
    let len = match (arch, bytes.get(..len)?) {
        // lea rsp, [rsp + 8]; add rsp, 8
        (Arch::X86_64, [0x48, 0x8d, 0x64, 0x24, 8, 0xc3]) => 5,
        (Arch::X86_64, [0x48, 0x83, 0xc4, 8, 0xc3, ..]) => 4,
        // lea esp, [esp + 4]; add esp, 4
        (Arch::X86, [0x8d, 0x64, 0x24, 4, 0xc3, ..]) => 4,
        (Arch::X86, [0x83, 0xc4, 4, 0xc3, ..]) => 3,
        _ => return None,
    };
    Some(target.wrapping_add(len))
}

/// Returns the offset of the first thunk that replaces an indirect jump or call against Spectre:
/// `call`, a loop of `pause`, `lfence` and `jmp` that is never executed, and the jump.
pub(crate) fn inline_thunk(code: &[u8]) -> Option<usize> {
    const CALL: usize = 5;
    const LOOP: [u8; 7] = [0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9];
    let found = code.windows(LOOP.len()).position(|bytes| bytes == LOOP)?;
    found.checked_sub(CALL)
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

    #[test]
    fn an_inline_thunk_begins_with_its_call() {
        // nop; call +7; pause; lfence; jmp -7; mov [rsp], rdx; ret
        let code = [
            0x90, 0xe8, 7, 0, 0, 0, 0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9, 0x48, 0x89, 0x14,
            0x24, 0xc3,
        ];
        assert_eq!(inline_thunk(&code), Some(1));
        assert_eq!(inline_thunk(&code[6..]), None);
        assert_eq!(inline_thunk(&code[..12]), None);
    }

    #[test]
    fn a_return_thunk_ends_with_a_return() {
        // call +7; pause; lfence; jmp -7
        let call = [0xe8, 7, 0, 0, 0, 0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9];
        let call = Decoder::with_ip(64, &call, 0x1000, DecoderOptions::NONE).decode();
        let end = |arch, code| end_of_return_thunk(arch, &call, &Code(code));
        let found = end(Arch::X86_64, &[0x48, 0x8d, 0x64, 0x24, 8, 0xc3]);
        assert_eq!(found, Some(0x1000 + 12 + 5));
        let found = end(Arch::X86_64, &[0x48, 0x83, 0xc4, 8, 0xc3, 0x90]);
        assert_eq!(found, Some(0x1000 + 12 + 4));
        let found = end(Arch::X86, &[0x8d, 0x64, 0x24, 4, 0xc3]);
        assert_eq!(found, Some(0x1000 + 12 + 4));
        // mov [rsp], rax; ret: a jump through a register
        assert_eq!(end(Arch::X86_64, &[0x48, 0x89, 0x04, 0x24, 0xc3]), None);
        // lea rsp, [rsp + 16]; ret
        let other = &[0x48, 0x8d, 0x64, 0x24, 16, 0xc3];
        assert_eq!(end(Arch::X86_64, other), None);
        let far = [0xe8, 0x40, 0, 0, 0];
        let far = Decoder::with_ip(64, &far, 0x1000, DecoderOptions::NONE).decode();
        let code = Code(&[0x48, 0x83, 0xc4, 8, 0xc3]);
        assert_eq!(end_of_return_thunk(Arch::X86_64, &far, &code), None);
    }
}
