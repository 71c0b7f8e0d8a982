//! x86-64, decoded by iced-x86.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Mnemonic, OpKind, Register,
};

use super::{Flow, Instruction, Target};

/// Maximum number of instructions between loading an entry of a jump table and the jump.
const MAX_TO_JUMP: u32 = 16;

/// Context from earlier instructions.
#[derive(Default)]
pub(crate) struct Before {
    /// Register with the distance of a jump table's entry.
    distance: Register,
    /// Register with the address of a jump table's entry.
    entry: Register,
    /// Number of further instructions with valid registers.
    left: u32,
    /// True if the last instruction wrote the word at the stack pointer, so that a return jumps to it.
    plants_return: bool,
    /// Register that the last instruction popped, before or behind `lfence`.
    popped: Register,
}

/// Decodes one instruction; an invalid one has the length of one byte.
pub(super) fn decode(decoder: &mut Decoder<'_>, before: &mut Before) -> Instruction {
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        *before = Before::default();
        return Instruction::new(1, Flow::Invalid);
    }
    let planted = std::mem::take(&mut before.plants_return);
    before.left = before.left.saturating_sub(1);
    let has_table = before.left > 0
        && instruction.op0_kind() == OpKind::Register
        && before.entry != Register::None
        && instruction.op0_register() == before.entry;
    let flow = match instruction.flow_control() {
        FlowControl::Call => Flow::Call(near(&instruction)),
        FlowControl::IndirectCall => Flow::Call(slot(&instruction).unwrap_or(Target::Pointer)),
        FlowControl::UnconditionalBranch => Flow::Jump(near(&instruction)),
        // `pop rcx; lfence; jmp rcx` (`-mlvi-cfi`).
        FlowControl::IndirectBranch
            if instruction.op0_kind() == OpKind::Register
                && instruction.op0_register() == before.popped =>
        {
            Flow::Return
        }
        FlowControl::IndirectBranch => Flow::Jump(match slot(&instruction) {
            Some(slot) => slot,
            None if has_table || instruction.segment_prefix() == Register::DS => Target::Table,
            None => pointers(&instruction).map_or(Target::Pointer, Target::Pointers),
        }),
        FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
        FlowControl::Return if planted => Flow::Jump(Target::Pointer),
        FlowControl::Return => Flow::Return,
        FlowControl::Exception => Flow::Stop,
        _ if matches!(instruction.mnemonic(), Mnemonic::Hlt | Mnemonic::Int3) => Flow::Stop,
        _ => Flow::Next,
    };
    follow_table(&instruction, before);
    if matches!(flow, Flow::Jump(_) | Flow::Return | Flow::Stop) {
        // What follows is another path.
        *before = Before::default();
    }
    before.plants_return = plants_return(&instruction);
    before.popped = match instruction.mnemonic() {
        Mnemonic::Pop if instruction.op0_kind() == OpKind::Register => instruction.op0_register(),
        Mnemonic::Lfence => before.popped,
        _ => Register::None,
    };
    Instruction {
        named: named(&instruction),
        distance: (instruction.op_count() > 1 && instruction.op1_kind() == OpKind::Immediate64)
            .then(|| instruction.immediate64()),
        switches_stack: switches_stack(&instruction),
        is_padding: matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3),
        ..Instruction::new(instruction.len() as u64, flow)
    }
}

fn near(instruction: &iced_x86::Instruction) -> Target {
    match instruction.op0_kind() {
        OpKind::NearBranch64 => Target::Address(instruction.near_branch_target()),
        _ => Target::Pointer,
    }
}

/// Returns the place of the pointer if the operand names it.
fn slot(instruction: &iced_x86::Instruction) -> Option<Target> {
    if instruction.op0_kind() != OpKind::Memory {
        return None;
    }
    let is_plain = instruction.memory_base() == Register::None
        && instruction.memory_index() == Register::None
        && !is_thread_local(instruction);
    let is_relative = instruction.is_ip_rel_memory_operand();
    (is_plain || is_relative).then(|| Target::Slot(instruction.memory_displacement64()))
}

fn is_thread_local(instruction: &iced_x86::Instruction) -> bool {
    matches!(instruction.segment_prefix(), Register::FS | Register::GS)
}

/// Returns the table of `jmp *table(,%rax,8)`.
fn pointers(instruction: &iced_x86::Instruction) -> Option<u64> {
    let is_indexed = instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::None
        && instruction.memory_index() != Register::None;
    is_indexed.then(|| instruction.memory_displacement64())
}

/// Follows `movslq (%rax,%rcx,4), %rcx` and `add %rax, %rcx`.
fn follow_table(instruction: &iced_x86::Instruction, before: &mut Before) {
    if instruction.op_count() < 2 || instruction.op0_kind() != OpKind::Register {
        return;
    }
    let to = instruction.op0_register().full_register();
    let loads = instruction.mnemonic() == Mnemonic::Movsxd
        && instruction.op1_kind() == OpKind::Memory
        && instruction.memory_index() != Register::None
        && instruction.memory_index_scale() == 4;
    if loads {
        (before.distance, before.entry) = (to, Register::None);
        before.left = MAX_TO_JUMP;
        return;
    }
    let from = match instruction.op1_kind() {
        OpKind::Register => instruction.op1_register(),
        _ => Register::None,
    };
    let adds = instruction.mnemonic() == Mnemonic::Add
        && before.distance != Register::None
        && (to == before.distance || from == before.distance);
    if adds {
        (before.distance, before.entry) = (Register::None, to);
    } else if !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
        // Overwritten.
        for register in [&mut before.distance, &mut before.entry] {
            if *register == to {
                *register = Register::None;
            }
        }
    }
}

/// Returns true for `push %rax` and `mov %rax, (%rsp)`. A return behind it is a jump.
fn plants_return(instruction: &iced_x86::Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Push => true,
        Mnemonic::Mov => {
            instruction.op0_kind() == OpKind::Memory
                && instruction.memory_base() == Register::RSP
                && instruction.memory_index() == Register::None
                && instruction.memory_displacement64() == 0
        }
        _ => false,
    }
}

fn named(instruction: &iced_x86::Instruction) -> Option<u64> {
    if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address());
    }
    let kinds = (0..instruction.op_count()).map(|operand| (operand, instruction.op_kind(operand)));
    let is_immediate = |kind| {
        matches!(
            kind,
            OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64
        )
    };
    let mut immediates = kinds.filter(|(_, kind)| is_immediate(*kind));
    immediates
        .next()
        .map(|(operand, _)| instruction.immediate(operand))
}

fn switches_stack(instruction: &iced_x86::Instruction) -> bool {
    let is_stack_pointer = |operand| {
        instruction.op_count() > operand
            && instruction.op_kind(operand) == OpKind::Register
            && instruction.op_register(operand) == Register::RSP
    };
    let is_frame = |register| matches!(register, Register::RBP | Register::RSP);
    match instruction.mnemonic() {
        Mnemonic::Mov if is_stack_pointer(0) => match instruction.op1_kind() {
            OpKind::Register => !is_frame(instruction.op1_register()),
            _ => true,
        },
        Mnemonic::Lea if is_stack_pointer(0) => !is_frame(instruction.memory_base()),
        Mnemonic::Pop => is_stack_pointer(0),
        Mnemonic::Xchg => is_stack_pointer(0) || is_stack_pointer(1),
        _ => false,
    }
}

pub(crate) fn text(bytes: &[u8], address: u64) -> String {
    let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
    let mut text = String::new();
    GasFormatter::new().format(&instruction, &mut text);
    text
}
