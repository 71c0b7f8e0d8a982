//! The code before a frame: calls in prologues and returns, and [`FramePointerUse`], the owner of the
//! frame pointer.

use super::path::{MAX_BRANCHES, PathState};
use super::window::{CodeSource, CodeWindow, MAX_INSTRUCTION};
use crate::{Arch, Memory, Registers};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use rustc_hash::FxHashSet;

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

/// Maximum size in bytes of a frame that is found by the code before it, and of that code.
const MAX_FRAME: u64 = 1024;
const MAX_BEFORE: u64 = 4096;

/// Maximum number of bytes before a frame that are searched for starts of functions, and of such starts.
const MAX_SEARCHED: usize = 1024;
const MAX_ENTRIES: usize = 8;

/// Maximum number of instructions that are followed from an entry.
const MAX_FOLLOWED: usize = 1024;

/// Returns the return address of a frame and its slot, and replaces the registers by the caller's. The code
/// from the entry to the frame puts as much on the stack as there is above the slot. `entry_of` returns
/// the target of the call before a return address.
///
/// For functions that do not return, as `pthread_exit`, or that go on with another stack: Ruby's
/// `coroutine_transfer`, `jump_fcontext` of Boost. For x86-64.
pub(crate) fn entered_by(
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
    entry_of: impl Fn(u64) -> Option<u64>,
) -> Option<(u64, u64)> {
    let (arch, sp, ip) = (registers.arch(), registers.sp(), registers.ip());
    if arch != Arch::X86_64 {
        return None;
    }
    let is_own = |register: &u8| arch.callee_saved() >> register & 1 != 0 && *register != arch.sp();
    let own = (0..16).filter(is_own);
    // Each has a value that is found again where the code saves it.
    let mark = |register: u8| u64::MAX - u64::from(register);
    let slots = (sp..=sp.saturating_add(MAX_FRAME)).step_by(arch.word_size() as usize);
    let (path, address, slot) = slots.into_iter().find_map(|slot| {
        let address = arch.read_word(memory, slot)?;
        let entry = entry_of(address)?;
        if ip.checked_sub(entry)? > MAX_BEFORE {
            return None;
        }
        let mut at_entry = Registers::new(arch, entry, slot);
        (own.clone()).for_each(|register| at_entry.set(register, mark(register)));
        let path = path_to(ip, PathState::new(&at_entry), memory, text)?;
        (path.registers().sp() == sp).then_some((path, address, slot))
    })?;
    let mut callers = Registers::new(arch, address, slot.wrapping_add(arch.word_size()));
    for register in own {
        let is_kept = path.registers().get(register) == Some(mark(register));
        let saved = || arch.read_word(memory, path.slot_of(mark(register))?);
        let value = match is_kept {
            true => registers.get(register),
            false => saved(),
        };
        value
            .into_iter()
            .for_each(|value| callers.set(register, value));
    }
    *registers = callers;
    Some((address, slot))
}

/// Returns the number of bytes that the code from `entry` to the frame puts on the stack. For x86-64.
pub(crate) fn depth_from(
    entry: u64,
    registers: &Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
) -> Option<u64> {
    let (arch, sp) = (registers.arch(), registers.sp());
    if arch != Arch::X86_64 || registers.ip().checked_sub(entry)? > MAX_BEFORE {
        return None;
    }
    // At an entry, the return address lies 8 bytes below a multiple of 16: code may align its frame.
    let start = sp & !0xf | 8;
    let at_entry = Registers::new(arch, entry, start);
    let path = path_to(registers.ip(), PathState::new(&at_entry), memory, text)?;
    start
        .checked_sub(path.registers().sp())
        .filter(|depth| *depth <= MAX_FRAME)
}

/// Returns possible starts of functions before a frame, the nearest first: code that makes a frame, behind
/// padding, a call or an instruction that does not go on. Code within a function may look so too. For x86-64.
pub(crate) fn entries_before(ip: u64, text: &dyn CodeSource) -> Vec<u64> {
    let mut bytes = [0; MAX_SEARCHED];
    let start = ip.wrapping_sub(MAX_SEARCHED as u64);
    let len = text.read(start, &mut bytes);
    let Some(code) = bytes.get(..len).filter(|code| code.len() == MAX_SEARCHED) else {
        return Vec::new();
    };
    let mut entries = Vec::new();
    let mut is_boundary = false;
    for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        let is_push = instruction.mnemonic() == Mnemonic::Push;
        let takes_space =
            instruction.mnemonic() == Mnemonic::Sub && instruction.op0_register() == Register::RSP;
        let is_mark = instruction.mnemonic() == Mnemonic::Endbr64;
        if is_mark || (is_boundary && (is_push || takes_space)) {
            entries.push(instruction.ip());
        }
        // Two bytes of 0 between sections: `add [rax], al`.
        let is_zeros = instruction.code() == Code::Add_rm8_r8
            && instruction.memory_base() == Register::RAX
            && instruction.len() == 2;
        is_boundary = match instruction.flow_control() {
            FlowControl::Next => instruction.mnemonic() == Mnemonic::Nop || is_zeros,
            FlowControl::ConditionalBranch => false,
            _ => true,
        };
    }
    entries.reverse();
    entries.truncate(MAX_ENTRIES);
    entries
}

/// Follows the code to an instruction, on the first path that leads there. Calls are assumed to return.
fn path_to(
    ip: u64,
    start: PathState,
    memory: &dyn Memory,
    text: &dyn CodeSource,
) -> Option<PathState> {
    let mut window = CodeWindow::default();
    let mut seen = FxHashSet::default();
    let mut waiting = vec![start];
    while let Some(mut path) = waiting.pop() {
        while path.ip != ip {
            if seen.len() >= MAX_FOLLOWED || !seen.insert(path.ip) {
                break;
            }
            let bytes = window.at(path.ip, MAX_INSTRUCTION, text);
            let bits = path.arch.bits();
            let mut decoder = Decoder::with_ip(bits, bytes, path.ip, DecoderOptions::NONE);
            let instruction = decoder.decode();
            let target = instruction.near_branch_target();
            let mut next = instruction.next_ip();
            let goes_on = match instruction.flow_control() {
                _ if instruction.is_invalid() => false,
                // The frame itself may be in such a call.
                FlowControl::Call | FlowControl::IndirectCall
                    if next != ip && text.begins_behind_call(next) =>
                {
                    false
                }
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                    path.execute(&instruction, memory)
                }
                FlowControl::ConditionalBranch => {
                    if waiting.len() < MAX_BRANCHES && !text.is_described(target) {
                        waiting.push(PathState {
                            ip: target,
                            ..path.clone()
                        });
                    }
                    true
                }
                FlowControl::UnconditionalBranch => {
                    next = target;
                    !text.is_described(target)
                }
                _ => false,
            };
            if !goes_on {
                break;
            }
            path.ip = next;
        }
        if path.ip == ip {
            return Some(path);
        }
    }
    None
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

/// Returns true for the jump of a return that is hardened against load value injection (`-mlvi-cfi`):
/// `pop rcx; lfence; jmp rcx`.
pub(super) fn is_hardened_return(jump: &Instruction, text: &dyn CodeSource) -> bool {
    const LFENCE: [u8; 3] = [0x0f, 0xae, 0xe8];
    // `pop r8` has two bytes.
    let mut bytes = [0; 5];
    let start = jump.ip().wrapping_sub(bytes.len() as u64);
    if text.read(start, &mut bytes) != bytes.len() {
        return false;
    }
    let is_popped = |code: &[u8]| {
        let mut decoder = Decoder::new(Arch::X86_64.bits(), code, DecoderOptions::NONE);
        let pop = decoder.decode();
        pop.mnemonic() == Mnemonic::Pop
            && pop.op0_register() == jump.op0_register()
            && code.get(pop.len()..) == Some(&LFENCE)
    };
    is_popped(&bytes) || is_popped(&bytes[1..])
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

    struct Bytes(&'static [u8]);

    impl CodeSource for Bytes {
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

    /// Code at an address.
    struct Text(u64, &'static [u8]);

    impl CodeSource for Text {
        fn read(&self, avma: u64, into: &mut [u8]) -> usize {
            let code = avma
                .checked_sub(self.0)
                .and_then(|at| self.1.get(at as usize..));
            let code = code.unwrap_or_default();
            let len = code.len().min(into.len());
            into[..len].copy_from_slice(&code[..len]);
            len
        }

        fn is_described(&self, avma: u64) -> bool {
            !(self.0..self.0 + self.1.len() as u64).contains(&avma)
        }

        fn is_return_address(&self, avma: u64) -> bool {
            avma == CALLER
        }
    }

    /// Behind a call of `JUMP`.
    const CALLER: u64 = 0x40_0000;
    const JUMP: u64 = 0x1000;

    /// `jump_fcontext`: saves registers on its stack, goes on with the one in rdi, and jumps to the return
    /// address of its last call there.
    const SWITCH: [u8; 47] = [
        // lea rsp, [rsp - 0x18]; mov [rsp + 8], rbx; mov [rsp + 16], rbp; mov rax, rsp
        0x48, 0x8d, 0x64, 0x24, 0xe8, 0x48, 0x89, 0x5c, 0x24, 8, 0x48, 0x89, 0x6c, 0x24, 16, 0x48,
        0x89, 0xe0, // mov rsp, rdi; mov r8, [rsp + 0x18]
        0x48, 0x89, 0xfc, 0x4c, 0x8b, 0x44, 0x24, 0x18,
        // mov rbx, [rsp + 8]; mov rbp, [rsp + 16]; lea rsp, [rsp + 32]; nop; nop; jmp r8
        0x48, 0x8b, 0x5c, 0x24, 8, 0x48, 0x8b, 0x6c, 0x24, 16, 0x48, 0x8d, 0x64, 0x24, 32, 0x90,
        0x90, 0x90, 0x41, 0xff, 0xe0,
    ];

    #[test]
    fn code_that_switches_stacks_has_the_caller_on_the_present_one() {
        const RDI: u8 = 5;
        const R8: u8 = 8;
        let (rbx, rbp) = (77, 88);
        let (before, behind) = (18, 26);
        let mut ip = JUMP;
        let code = Decoder::with_ip(64, &SWITCH, JUMP, DecoderOptions::NONE);
        for instruction in code {
            let done = ip - JUMP;
            // The stack as it is at the instruction, from the stack pointer on.
            let frame = [0, rbx, rbp, CALLER, 0];
            let words = match done {
                0 => &frame[3..],
                5..41 => &frame[..],
                _ => &frame[4..],
            };
            let bytes: Vec<u8> = words
                .iter()
                .flat_map(|word: &u64| word.to_le_bytes())
                .collect();
            let memory = crate::StackDump::new(0x7000, &bytes);
            let mut registers = Registers::new(Arch::X86_64, ip, 0x7000);
            // Code on the way saves the registers after the first instruction.
            registers.set(3, rbx);
            registers.set(6, rbp);
            registers.set(RDI, 0x9_0000);
            registers.set(R8, if done >= behind { CALLER } else { 1 });
            let text = Text(JUMP, &SWITCH);
            let mut callers = registers;
            let found = if done <= before {
                let entry_of = |address| (address == CALLER).then_some(JUMP);
                let found = entered_by(&mut callers, &memory, &text, entry_of);
                found.map(|(address, _)| address)
            } else {
                let cache = crate::simulate::SimulationCache::new();
                let mut replayed = registers;
                let of = |registers: &mut Registers| {
                    let cache = (&cache, Some(1));
                    match crate::simulate::simulate_to_return(registers, &memory, &text, cache) {
                        super::super::Exit::Return { address, .. } => Some(address),
                        _ => None,
                    }
                };
                let found = of(&mut callers);
                assert_eq!(of(&mut replayed), found, "{done}");
                assert_eq!(replayed, callers, "{done}");
                found
            };
            assert_eq!(found, Some(CALLER), "{done}: {instruction:?}");
            let restored = [callers.get(3), callers.get(6), Some(callers.sp())];
            let sp = 0x7000 + 8 * words.len() as u64 - 8;
            assert_eq!(restored, [Some(rbx), Some(rbp), Some(sp)], "{done}");
            ip = instruction.next_ip();
        }
    }

    /// push rbx; sub rsp, 16; test edi, edi; jne +5; call; mov ebx, eax; call rax; jmp -5
    const ENDLESS: [u8; 22] = [
        0x53, 0x48, 0x83, 0xec, 16, 0x85, 0xff, 0x75, 5, 0xe8, 16, 0, 0, 0, 0x89, 0xc3, 0xff, 0xd0,
        0xeb, 0xfa, 0x90, 0x90,
    ];

    #[test]
    fn a_function_that_never_returns_has_the_caller_that_its_frame_lies_below() {
        let behind_last_call = JUMP + 18;
        // A stale return address lies in the frame.
        let words = [CALLER, 0, 77, CALLER, 0];
        let bytes = words.map(u64::to_le_bytes).concat();
        let memory = crate::StackDump::new(0x7000, &bytes);
        let mut registers = Registers::new(Arch::X86_64, behind_last_call, 0x7000);
        registers.set(3, 1);
        let text = Text(JUMP, &ENDLESS);
        let entry_of = |address| (address == CALLER).then_some(JUMP);
        let found = entered_by(&mut registers, &memory, &text, entry_of);
        assert_eq!(found, Some((CALLER, 0x7018)));
        assert_eq!((registers.get(3), registers.sp()), (Some(77), 0x7020));
        // Inside an instruction.
        let mut registers = Registers::new(Arch::X86_64, behind_last_call - 1, 0x7000);
        assert_eq!(entered_by(&mut registers, &memory, &text, entry_of), None);
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
            let found = makes_callers_frame(Arch::X86_64, 0x1000, &Bytes(code));
            assert_eq!(found, expected, "{code:x?}");
        }
        // 25 times nop; pop rax
        let mut far = vec![0x90; 25];
        far.push(0x58);
        assert!(!makes_callers_frame(Arch::X86_64, 0, &Bytes(far.leak())));
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
        let end = |arch, code| end_of_return_thunk(arch, &call, &Bytes(code));
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
        let code = Bytes(&[0x48, 0x83, 0xc4, 8, 0xc3]);
        assert_eq!(end_of_return_thunk(Arch::X86_64, &far, &code), None);
    }
}
