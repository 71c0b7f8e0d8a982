//! [`frame_pointer_use`]: finds the owner of the frame pointer from the code ahead.
//!
//! In a prologue the frame pointer is still the caller's; using it would skip the caller. Code that
//! accesses memory by it, or removes a frame with it, has its own frame.

use super::aarch64;
use super::path::{MAX_BRANCHES, pushes_own_address};
use super::prologue::{FramePointerUse, makes_callers_frame};
use super::window::{CodeSource, CodeWindow, MAX_INSTRUCTION};
use crate::Arch;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashSet;

const MAX_INSTRUCTIONS: usize = 256;

/// Returns the first use of the frame pointer from `ip` on, in straight-line code or after the last
/// inconclusive branch. `is_exact`: not behind a call.
pub(crate) fn frame_pointer_use(
    arch: Arch,
    (ip, is_exact): (u64, bool),
    text: &dyn CodeSource,
) -> FramePointerUse {
    if arch == Arch::Aarch64 {
        return aarch64::frame_pointer_use(ip, !is_exact, text);
    }
    let mut window = CodeWindow::default();
    if window.at(ip, 1, text).is_empty() {
        return FramePointerUse::Unreadable;
    }
    let mut seen = FxHashSet::default();
    let mut waiting = vec![(ip, true)];
    let mut has_called = false;
    while let Some((mut ip, mut is_first)) = waiting.pop() {
        while seen.len() < MAX_INSTRUCTIONS && seen.insert(ip) {
            let bytes = window.at(ip, MAX_INSTRUCTION, text);
            let options = DecoderOptions::NONE;
            let instruction = Decoder::with_ip(arch.bits(), bytes, ip, options).decode();
            if instruction.is_invalid() {
                break;
            }
            match use_of(arch, &instruction, is_first) {
                Some(FramePointerUse::Unknown) => break,
                Some(found) => return found,
                None => {}
            }
            is_first &= !moves_stack_pointer(&instruction);
            let target = instruction.near_branch_target();
            let is_call = instruction.flow_control() == FlowControl::Call
                && !pushes_own_address(&instruction);
            if is_call && is_first && !has_called {
                has_called = true;
                if makes_callers_frame(arch, target, text) {
                    return FramePointerUse::CallersFrame { is_first };
                }
            }
            ip = match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall
                    if text.begins_behind_call(instruction.next_ip()) =>
                {
                    break;
                }
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                    instruction.next_ip()
                }
                FlowControl::ConditionalBranch => {
                    if waiting.len() < MAX_BRANCHES && !text.is_described(target) {
                        waiting.push((target, is_first));
                    }
                    instruction.next_ip()
                }
                FlowControl::UnconditionalBranch if !text.is_described(target) => target,
                _ => break,
            };
        }
    }
    FramePointerUse::Unknown
}

fn use_of(arch: Arch, instruction: &Instruction, is_first: bool) -> Option<FramePointerUse> {
    let (sp, fp) = (arch.sp_operand(), arch.fp_operand());
    let is_register = |operand: u32, register: Register| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand) == register
    };
    let callers = FramePointerUse::CallersFrame { is_first };
    let operands = instruction.op_count();
    match instruction.mnemonic() {
        Mnemonic::Leave => return Some(FramePointerUse::OwnFrame),
        Mnemonic::Push if is_register(0, fp) => return Some(callers),
        Mnemonic::Mov if is_register(0, fp) && is_register(1, sp) => {
            return Some(callers);
        }
        Mnemonic::Mov if is_register(0, sp) && is_register(1, fp) => {
            return Some(FramePointerUse::OwnFrame);
        }
        _ => {}
    }
    if instruction.memory_base() == fp {
        let is_return_address = instruction.mnemonic() == Mnemonic::Pop
            && instruction.memory_displacement64() == arch.word_size();
        if is_return_address {
            return is_first
                .then_some(FramePointerUse::HandedFrame)
                .or(Some(FramePointerUse::Unknown));
        }
        return Some(FramePointerUse::OwnFrame);
    }
    let touches = (0..operands).any(|operand| {
        instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand).full_register() == Register::RBP
    });
    (touches || instruction.memory_index() == fp).then_some(FramePointerUse::Unknown)
}

fn moves_stack_pointer(instruction: &Instruction) -> bool {
    let is_call = matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    let writes = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == Register::RSP;
    writes || (!is_call && instruction.stack_pointer_increment() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Code(&'static [u8]);

    impl CodeSource for Code {
        fn read(&self, avma: u64, into: &mut [u8]) -> usize {
            let known = self.0.get(avma as usize..).unwrap_or(&[]);
            let len = known.len().min(into.len());
            into[..len].copy_from_slice(&known[..len]);
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
    fn the_first_use_tells() {
        let first = FramePointerUse::CallersFrame { is_first: true };
        let later = FramePointerUse::CallersFrame { is_first: false };
        for (code, expected) in [
            // jmp +2; ud2; push rbp
            (&[0xeb, 2, 0x0f, 0x0b, 0x55][..], first),
            // mov rbp, rsp
            (&[0x48, 0x89, 0xe5], first),
            // sub rsp, 8; push rbp
            (&[0x48, 0x83, 0xec, 8, 0x55], later),
            // mov rax, [rbp - 8]; push rbp
            (&[0x48, 0x8b, 0x45, 0xf8, 0x55], FramePointerUse::OwnFrame),
            // pop [rbp + 8]; the same after push rax
            (&[0x8f, 0x45, 8], FramePointerUse::HandedFrame),
            (&[0x50, 0x8f, 0x45, 8], FramePointerUse::Unknown),
            // call +0; leave
            (&[0xe8, 0, 0, 0, 0, 0xc9], FramePointerUse::OwnFrame),
            // je +2; jmp rax; mov rsp, rbp
            (
                &[0x74, 2, 0xff, 0xe0, 0x48, 0x89, 0xec],
                FramePointerUse::OwnFrame,
            ),
            // mov rax, rbp; push rbp
            (&[0x48, 0x89, 0xe8, 0x55], FramePointerUse::Unknown),
            // jmp rax
            (&[0xff, 0xe0], FramePointerUse::Unknown),
            (&[], FramePointerUse::Unreadable),
        ] {
            let found = frame_pointer_use(Arch::X86_64, (0, true), &Code(code));
            assert_eq!(found, expected, "{code:x?}");
        }
        for (code, expected) in [
            // push ebp; mov ebp, esp; sub esp, 8 and push ebp
            (&[0x55][..], first),
            (&[0x89, 0xe5], first),
            (&[0x83, 0xec, 8, 0x55], later),
            // dec eax, which is a prefix on x86-64; mov eax, [ebp - 8]
            (&[0x48, 0x8b, 0x45, 0xf8, 0x55], FramePointerUse::OwnFrame),
            // pop [ebp + 4]; leave; mov eax, ebp
            (&[0x8f, 0x45, 4], FramePointerUse::HandedFrame),
            (&[0xc9], FramePointerUse::OwnFrame),
            (&[0x89, 0xe8, 0x55], FramePointerUse::Unknown),
        ] {
            let found = frame_pointer_use(Arch::X86, (0, true), &Code(code));
            assert_eq!(found, expected, "{code:x?}");
        }
    }

    #[test]
    fn the_first_use_tells_on_aarch64() {
        let first = FramePointerUse::CallersFrame { is_first: true };
        let later = FramePointerUse::CallersFrame { is_first: false };
        let (own, unknown) = (FramePointerUse::OwnFrame, FramePointerUse::Unknown);
        for (words, is_exact, expected) in [
            // paciasp; stp x29, x30, [sp, #-32]!
            (&[0xd503_233f_u32][..], true, first),
            (&[0xa9be_7bfd], true, first),
            // sub sp, sp, #48; stp x29, x30, [sp, #32]
            (&[0xd100_c3ff, 0xa902_7bfd], true, first),
            // stp x29, x30, [sp, #16]; mov x29, sp
            (&[0xa901_7bfd], true, later),
            (&[0x9100_03fd], true, later),
            // ldr x0, [x29, #24]; ldp x29, x30, [sp], #32; mov sp, x29
            (&[0xf940_0fa0], true, own),
            (&[0xa8c2_7bfd], false, own),
            (&[0x9100_03bf], false, own),
            // ldr x30, [sp], #16
            (&[0xf841_07fe], false, later),
            // ret: at once, and behind a call
            (&[0xd65f_03c0], true, later),
            (&[0xd65f_03c0], false, unknown),
            // bl, which does not return; str x30, [sp, #-16]!
            (&[0x9400_0008, 0xf81f_0ffe], true, unknown),
            (&[0xf81f_0ffe], false, unknown),
            // br x8; mov x0, x29; stp x29, x30, [x0]
            (&[0xd61f_0100], true, unknown),
            (&[0xaa1d_03e0], true, unknown),
            (&[0xa900_7c1d], true, unknown),
            // cbz x0, +8; br x8; ldp x29, x30, [sp], #32
            (&[0xb400_0040, 0xd61f_0100, 0xa8c2_7bfd], true, own),
            (&[], true, FramePointerUse::Unreadable),
        ] {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let code = Code(code.leak());
            let found = frame_pointer_use(Arch::Aarch64, (0, is_exact), &code);
            assert_eq!(found, expected, "{words:x?}");
        }
    }
}
