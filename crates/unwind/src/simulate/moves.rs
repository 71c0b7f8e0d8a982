//! [`undescribed_move`]: code that moves the stack pointer without description.
//!
//! Inline assembly may push words or call on another stack, and may use the frame pointer: compilers
//! describe none of it. Old compilers and hand-written assembly do not describe epilogues. There a rule
//! reads a stale word as the return address.
//!
//! An instruction that moves the stack pointer ends its row of call frame information. So from the start of
//! a row on, code may move it only there and back.

use super::path::pushes_own_address;
use crate::modules::Piece;
use crate::table::DescribedRow;
use crate::{Arch, Module, Modules};
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// Maximum distance in bytes of the target of a call that begins a thunk. The code behind it is not executed.
const MAX_THUNK: u64 = 32;

/// Maximum number of jumps ahead that are followed at a time.
const MAX_JUMPS: usize = 16;

/// Change of the register of a rule's CFA within a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UndescribedMove {
    /// Bytes pushed; negative if popped.
    Pushed(i64),
    /// The register has another value.
    Overwritten,
}

/// Returns how code between the start of a row and `svma` has changed the stack pointer, or with
/// `by_frame_pointer` the frame pointer. For x86.
pub(crate) fn undescribed_move(
    svma: u64,
    row: DescribedRow<'_>,
    by_frame_pointer: bool,
    (module, modules): (Module<'_>, &dyn Modules),
) -> Option<UndescribedMove> {
    let arch = module.table?.arch();
    let mut ip = row.checked_before(svma)?;
    let mut piece = Piece::default();
    let mut code = Straight::new(arch, by_frame_pointer);
    let mut is_described = true;
    while ip < svma {
        let avma = ip.wrapping_add(module.bias);
        let instruction = piece.decode(arch, avma, module, modules);
        let next = instruction.next_ip().wrapping_sub(module.bias);
        if instruction.is_invalid() {
            return None;
        }
        // The lookup address of a caller is within its call.
        if next > svma {
            break;
        }
        code.execute(&instruction, |target| {
            piece.decode(arch, target, module, modules)
        });
        ip = next;
        is_described &= code.is_described();
        if is_described {
            row.set_checked(ip);
        }
    }
    code.change_at(ip.wrapping_add(module.bias))
}

/// State of the registers, relative to the start of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct State {
    pushed: i64,
    is_switched: bool,
    /// Register with a copy of the stack pointer, and the bytes pushed at that time.
    copy: Option<(Register, i64)>,
    is_fp_overwritten: bool,
    /// Place of the saved frame pointer: the bytes pushed behind it.
    saved_fp: Option<i64>,
}

/// Code in the order of its addresses.
struct Straight {
    arch: Arch,
    by_frame_pointer: bool,
    state: State,
    /// True behind an instruction that does not go on with the next one.
    has_ended: bool,
    /// True in code that no known path leads to.
    is_assumed: bool,
    /// Targets of jumps ahead, with their state.
    jumps: Vec<(u64, State)>,
}

impl Straight {
    fn new(arch: Arch, by_frame_pointer: bool) -> Self {
        Self {
            arch,
            by_frame_pointer,
            state: State::default(),
            has_ended: false,
            is_assumed: false,
            jumps: Vec::new(),
        }
    }

    fn change(&self) -> Option<UndescribedMove> {
        let state = &self.state;
        match self.by_frame_pointer {
            true => (state.is_fp_overwritten).then_some(UndescribedMove::Overwritten),
            false if state.is_switched => Some(UndescribedMove::Overwritten),
            false => (state.pushed != 0).then_some(UndescribedMove::Pushed(state.pushed)),
        }
    }

    /// Returns true if the row holds, and for the targets of earlier jumps too.
    fn is_described(&self) -> bool {
        self.holds() && self.jumps.is_empty()
    }

    fn holds(&self) -> bool {
        let may_restore = self.by_frame_pointer && self.state.saved_fp.is_some();
        self.change().is_none() && !may_restore
    }

    /// Returns the change at an instruction that is not executed yet.
    fn change_at(&mut self, ip: u64) -> Option<UndescribedMove> {
        if self.has_ended || self.is_assumed {
            let found = self.jumps.iter().find(|(target, _)| *target == ip);
            match found {
                Some((_, state)) => (self.state, self.is_assumed) = (*state, false),
                // Without a jump from before, the row describes the code behind a jump.
                None if self.has_ended => (self.state, self.is_assumed) = (State::default(), true),
                None => {}
            }
            self.has_ended = false;
        }
        self.jumps.retain(|(target, _)| *target > ip);
        self.change()
    }

    /// Executes an instruction. `decode` returns the one at the target of a jump.
    fn execute(&mut self, instruction: &Instruction, decode: impl FnOnce(u64) -> Instruction) {
        self.change_at(instruction.ip());
        let (target, next) = (instruction.near_branch_target(), instruction.next_ip());
        match instruction.flow_control() {
            FlowControl::Call if instruction.mnemonic() != Mnemonic::Call => {}
            FlowControl::Call if pushes_own_address(instruction) => self.push(),
            FlowControl::Call if target.wrapping_sub(next) < MAX_THUNK => {
                self.push();
                self.jump(target);
                self.has_ended = true;
            }
            FlowControl::Call | FlowControl::IndirectCall => {}
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int => {}
            FlowControl::ConditionalBranch => self.jump(target),
            FlowControl::UnconditionalBranch => {
                self.jump(target);
                // gcc jumps over an inline thunk to the call of it (`-mindirect-branch=thunk-inline`).
                if target.wrapping_sub(next) < MAX_THUNK {
                    let call = decode(target);
                    let is_call = call.mnemonic() == Mnemonic::Call;
                    if is_call && call.near_branch_target() == next {
                        self.push();
                        self.jump(next);
                        self.pop();
                    }
                }
                self.has_ended = true;
            }
            FlowControl::Next => self.follow(instruction),
            _ => self.has_ended = true,
        }
    }

    fn jump(&mut self, target: u64) {
        if !self.holds() && self.jumps.len() < MAX_JUMPS {
            self.jumps.push((target, self.state));
        }
    }

    fn push(&mut self) {
        self.state.pushed += self.arch.word_size() as i64;
    }

    fn pop(&mut self) {
        self.state.pushed -= self.arch.word_size() as i64;
    }

    fn follow(&mut self, instruction: &Instruction) {
        let (sp, fp) = (self.arch.sp_operand(), self.arch.fp_operand());
        let operand = |operand: u32| {
            let is_register = instruction.op_count() > operand
                && instruction.op_kind(operand) == OpKind::Register;
            is_register.then(|| instruction.op_register(operand))
        };
        let (first, second) = (operand(0), operand(1));
        let by = self.arch.signed(instruction.try_immediate(1).unwrap_or(0));
        let popped = i64::from(instruction.stack_pointer_increment());
        let state = &mut self.state;
        match instruction.mnemonic() {
            Mnemonic::Push if first == Some(fp) => {
                state.pushed -= popped;
                if !state.is_fp_overwritten {
                    state.saved_fp = Some(state.pushed);
                }
            }
            Mnemonic::Pop if first == Some(fp) => {
                state.is_fp_overwritten = state.saved_fp.take() != Some(state.pushed);
                state.pushed -= popped;
            }
            Mnemonic::Leave | Mnemonic::Enter => {
                (state.is_switched, state.is_fp_overwritten) = (true, true);
            }
            Mnemonic::Add | Mnemonic::Sub if first == Some(sp) => {
                let is_fixed = second.is_none() && instruction.op1_kind() != OpKind::Memory;
                let by = match instruction.mnemonic() {
                    Mnemonic::Add => by.saturating_neg(),
                    _ => by,
                };
                state.is_switched |= !is_fixed;
                state.pushed = state.pushed.saturating_add(by);
            }
            Mnemonic::Lea if first == Some(sp) => {
                let is_fixed =
                    instruction.memory_base() == sp && instruction.memory_index() == Register::None;
                let by = self.arch.signed(instruction.memory_displacement64());
                state.is_switched |= !is_fixed;
                state.pushed = state.pushed.saturating_sub(by);
            }
            Mnemonic::Mov if first == Some(sp) => state.switch_to(second),
            Mnemonic::Xchg if [first, second].contains(&Some(sp)) => {
                let other = if first == Some(sp) { second } else { first };
                let before = state.pushed;
                state.switch_to(other);
                state.copy = other
                    .map(|other| (other, before))
                    .filter(|_| state.is_switched);
            }
            _ => {
                state.pushed -= popped;
                let copied =
                    first.filter(|_| instruction.mnemonic() == Mnemonic::Mov && second == Some(sp));
                let copy = state.copy.map(|(copy, _)| copy);
                let is_written = |register: Register| writes(instruction, register);
                // `or rsp, rcx` changes it only on paths that processors abandon
                // (`-mspeculative-load-hardening`).
                let is_hardening = instruction.mnemonic() == Mnemonic::Or;
                state.is_switched |= is_written(sp) && !is_hardening;
                state.is_fp_overwritten |= is_written(fp);
                if let Some(copied) = copied {
                    state.copy = Some((copied, state.pushed));
                } else if copy.is_some_and(is_written) {
                    state.copy = None;
                }
            }
        }
    }
}

impl State {
    /// Takes the stack pointer from a register, which may have its earlier value.
    fn switch_to(&mut self, from: Option<Register>) {
        let copy = self.copy.filter(|(copy, _)| from == Some(*copy));
        self.is_switched = copy.is_none();
        self.pushed = copy.map_or(0, |(_, pushed)| pushed);
    }
}

/// Returns true if an operand of the instruction is this register, and is written.
fn writes(instruction: &Instruction, register: Register) -> bool {
    let is_register = |operand: &u32| {
        instruction.op_kind(*operand) == OpKind::Register
            && instruction.op_register(*operand).full_register() == register.full_register()
    };
    let mut operands = (0..instruction.op_count()).filter(is_register).peekable();
    if operands.peek().is_none() {
        return false;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    operands.any(|operand| {
        use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
        [Write, ReadWrite, CondWrite, ReadCondWrite].contains(&info.op_access(operand))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    use UndescribedMove::{Overwritten, Pushed};

    /// Returns the changes of the stack pointer and of the frame pointer at the end of code.
    fn changes(arch: Arch, code: &[u8]) -> [Option<UndescribedMove>; 2] {
        changes_at(arch, code, code.len() as u64)
    }

    /// Returns the changes at an offset of code.
    fn changes_at(arch: Arch, code: &[u8], at: u64) -> [Option<UndescribedMove>; 2] {
        [false, true].map(|by_frame_pointer| {
            let mut straight = Straight::new(arch, by_frame_pointer);
            let decoder = |code, ip| Decoder::with_ip(arch.bits(), code, ip, DecoderOptions::NONE);
            let before = |instruction: &Instruction| instruction.ip() < 0x1000 + at;
            for instruction in decoder(code, 0x1000).into_iter().take_while(before) {
                straight.execute(&instruction, |target| {
                    let ahead = target.checked_sub(0x1000);
                    let ahead = ahead.and_then(|at| code.get(at as usize..));
                    decoder(ahead.unwrap_or_default(), target).decode()
                });
            }
            straight.change_at(0x1000 + at)
        })
    }

    #[test]
    fn moves_of_the_stack_pointer_are_counted() {
        for (code, expected) in [
            // sub rsp, 128; push rax; and then: pop rax; add rsp, 128
            (&[0x48, 0x83, 0xec, 0x80, 0x50][..], Some(Pushed(-120))),
            (&[0x48, 0x83, 0xc4, 0x80, 0x50], Some(Pushed(136))),
            (&[0x50, 0x58], None),
            // lea rsp, [rsp - 8]; pushf; cmp rsp, [rdi]; push 1; popf
            (&[0x48, 0x8d, 0x64, 0x24, 0xf8, 0x9c], Some(Pushed(16))),
            (&[0x48, 0x3b, 0x27], None),
            (&[0x6a, 1, 0x9d], None),
            // mov rbx, rsp; mov rsp, rax; call; and then: mov rsp, rbx
            (
                &[0x48, 0x89, 0xe3, 0x48, 0x89, 0xc4, 0xff, 0xd0],
                Some(Overwritten),
            ),
            (
                &[
                    0x48, 0x89, 0xe3, 0x48, 0x89, 0xc4, 0xff, 0xd0, 0x48, 0x89, 0xdc,
                ],
                None,
            ),
            // The same, but rbx is overwritten by `mov ebx, 0`.
            (
                &[
                    0x48, 0x89, 0xe3, 0x48, 0x89, 0xc4, 0xbb, 0, 0, 0, 0, 0x48, 0x89, 0xdc,
                ],
                Some(Overwritten),
            ),
            // xchg rsp, rax; nop; xchg rsp, rax
            (&[0x48, 0x94, 0x90], Some(Overwritten)),
            (&[0x48, 0x94, 0x90, 0x48, 0x94], None),
            // or rsp, rcx; and rsp, -16; mov rsp, [rdi]
            (&[0x48, 0x09, 0xcc], None),
            (&[0x48, 0x83, 0xe4, 0xf0], Some(Overwritten)),
            (&[0x48, 0x8b, 0x27], Some(Overwritten)),
            // push rax; jmp +1; ret; and with `je`
            (&[0x50, 0xeb, 1, 0xc3], Some(Pushed(8))),
            (&[0x50, 0xeb, 1], None),
            (&[0x50, 0x74, 1, 0xc3], Some(Pushed(8))),
            (&[0x50, 0x74, 2, 0xc3], None),
            // push rax; jmp +3; call rcx; hlt
            (&[0x50, 0xeb, 3, 0xff, 0xd1, 0xf4], Some(Pushed(8))),
            // call +4; pause; jmp -4; nop, as a thunk begins
            (&[0xe8, 4, 0, 0, 0, 0xf3, 0x90], None),
            (&[0xe8, 4, 0, 0, 0, 0xf3, 0x90, 0xeb, 0xfc], Some(Pushed(8))),
            (&[0xe8, 0, 0, 0, 0, 0x90], Some(Pushed(8))),
        ] {
            assert_eq!(changes(Arch::X86_64, code)[0], expected, "{code:x?}");
        }
    }

    #[test]
    fn an_inline_thunk_that_is_called_begins_with_the_return_address() {
        // jmp +17; call +7; pause; lfence; jmp -7; mov [rsp], rax; ret; call -22
        let mut code = [
            0xeb, 0x11, 0xe8, 7, 0, 0, 0, 0xf3, 0x90, 0x0f, 0xae, 0xe8, 0xeb, 0xf9, 0x48, 0x89,
            0x04, 0x24, 0xc3, 0xe8, 0xea, 0xff, 0xff, 0xff,
        ];
        let at = |code: &[u8], at| changes_at(Arch::X86_64, code, at)[0];
        for (offset, expected) in [
            (0, None),
            (2, Some(Pushed(8))),
            (14, Some(Pushed(16))),
            (18, Some(Pushed(16))),
            (19, None),
        ] {
            assert_eq!(at(&code, offset), expected, "{offset}");
        }
        // Nothing calls the code behind the jump.
        code[20] = 0xeb;
        assert_eq!(at(&code, 2), None);
    }

    #[test]
    fn a_frame_pointer_is_overwritten_until_it_is_popped() {
        for (arch, code, expected) in [
            // push rbp; mov ebp, 5; and then: pop rbp
            (
                Arch::X86_64,
                &[0x55, 0xbd, 5, 0, 0, 0][..],
                Some(Overwritten),
            ),
            (Arch::X86_64, &[0x55, 0xbd, 5, 0, 0, 0, 0x5d], None),
            // push ebp; mov ebp, eax; int 0x80; and then: pop ebp
            (
                Arch::X86,
                &[0x55, 0x89, 0xc5, 0xcd, 0x80],
                Some(Overwritten),
            ),
            (Arch::X86, &[0x55, 0x89, 0xc5, 0xcd, 0x80, 0x5d], None),
            // push rbx; sub rsp, 16; mov [rbp - 8], rax; cmp rbp, rsp
            (
                Arch::X86_64,
                &[
                    0x53, 0x48, 0x83, 0xec, 16, 0x48, 0x89, 0x45, 0xf8, 0x48, 0x39, 0xe5,
                ],
                None,
            ),
            // pop rbx; pop rbp; leave
            (Arch::X86_64, &[0x5b, 0x5d], Some(Overwritten)),
            (Arch::X86_64, &[0xc9], Some(Overwritten)),
        ] {
            assert_eq!(changes(arch, code)[1], expected, "{code:x?}");
        }
    }
}
