//! AArch64, decoded by yaxpeax-arm.

use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Opcode, Operand};

use super::{Flow, Instruction, Target};

const WORD: u64 = 4;

/// Register number of the stack pointer.
const SP: u16 = 31;

/// Registers that veneers may change.
const VENEER: std::ops::RangeInclusive<usize> = 16..=17;

/// Maximum number of instructions between loading an entry of a jump table and the jump.
const MAX_TO_JUMP: u32 = 8;

/// Context from earlier instructions.
#[derive(Default)]
pub(crate) struct Before {
    /// Addresses that `adrp`, `adr` and `add` have put into registers.
    addresses: [Option<u64>; 32],
    /// Places of pointers that registers were loaded from.
    slots: [Option<u64>; 32],
    /// Number of further instructions with indirect jumps through a table.
    table: u32,
}

pub(super) fn decode(bytes: &[u8], address: u64, before: &mut Before) -> Instruction {
    let Some(word) = bytes.first_chunk::<4>() else {
        return Instruction::new(bytes.len() as u64, Flow::Invalid);
    };
    let Ok(decoded) = InstDecoder::default().decode(&mut U8Reader::new(word)) else {
        // The decoder lacks some vector instructions. None of them changes the flow.
        return match u32::from_le_bytes(*word) {
            0 => Instruction::new(WORD, Flow::Stop),
            _ => Instruction::new(WORD, Flow::Next),
        };
    };
    let operands = &decoded.operands;
    before.table = before.table.saturating_sub(1);
    let to = |operand: usize| match operands[operand] {
        Operand::PCOffset(distance) => Target::Address(address.wrapping_add_signed(distance)),
        _ => Target::Pointer,
    };
    let branch = |operand: usize| match to(operand) {
        Target::Address(target) => Flow::Branch(target),
        _ => Flow::Next,
    };
    let number = |operand: usize| match operands[operand] {
        Operand::Register(_, n) | Operand::RegisterOrSP(_, n) => Some(usize::from(n & 31)),
        _ => None,
    };
    let flow = match decoded.opcode {
        Opcode::BL => Flow::Call(to(0)),
        Opcode::BLR | Opcode::BLRAA | Opcode::BLRAAZ | Opcode::BLRAB | Opcode::BLRABZ => {
            let slot = number(0).and_then(|n| before.slots[n]);
            Flow::Call(slot.map_or(Target::Pointer, Target::Slot))
        }
        Opcode::B => Flow::Jump(to(0)),
        Opcode::Bcc(_) => branch(0),
        Opcode::CBZ | Opcode::CBNZ => branch(1),
        Opcode::TBZ | Opcode::TBNZ => branch(2),
        Opcode::BR | Opcode::BRAA | Opcode::BRAAZ | Opcode::BRAB | Opcode::BRABZ => {
            let slot = number(0).and_then(|n| before.slots[n]);
            // A veneer of the linker: `adrp x16, PAGE; add x16, x16, #OFFSET; br x16`.
            let veneer = number(0).filter(|n| VENEER.contains(n));
            let address = veneer.and_then(|n| before.addresses[n]);
            Flow::Jump(match (slot, address) {
                (Some(slot), _) => Target::Slot(slot),
                (None, Some(address)) => Target::Address(address),
                (None, None) if before.table > 0 => Target::Table,
                (None, None) => Target::Pointer,
            })
        }
        Opcode::RET | Opcode::RETAA | Opcode::RETAB => Flow::Return,
        Opcode::UDF | Opcode::BRK | Opcode::HLT => Flow::Stop,
        _ => Flow::Next,
    };
    let named = addresses(decoded.opcode, operands, address, before);
    Instruction {
        named,
        switches_stack: switches_stack(decoded.opcode, operands),
        is_padding: matches!(decoded.opcode, Opcode::HINT),
        ..Instruction::new(WORD, flow)
    }
}

/// Updates the known register values. Returns the address that the instruction computes.
fn addresses(
    opcode: Opcode,
    operands: &[Operand; 4],
    address: u64,
    before: &mut Before,
) -> Option<u64> {
    let (Operand::Register(_, n) | Operand::RegisterOrSP(_, n)) = operands[0] else {
        return None;
    };
    let n = usize::from(n & 31);
    let base = |register: u16| before.addresses[usize::from(register & 31)];
    let (mut value, mut slot) = (None, None);
    match (opcode, operands[1], operands[2]) {
        (Opcode::ADRP, Operand::PCOffset(distance), _) => {
            value = Some((address & !0xfff).wrapping_add_signed(distance));
        }
        (Opcode::ADR, Operand::PCOffset(distance), _) => {
            value = Some(address.wrapping_add_signed(distance));
        }
        (Opcode::ADD, Operand::RegisterOrSP(_, from), Operand::Immediate(more)) => {
            value = base(from).map(|base| base.wrapping_add(u64::from(more)));
        }
        (Opcode::LDR, Operand::RegPreIndex(from, offset, false), _) => {
            slot = base(from).map(|base| base.wrapping_add_signed(i64::from(offset)));
        }
        (Opcode::LDRSW | Opcode::LDRB | Opcode::LDRH, Operand::RegRegOffset(..), _) => {
            before.table = MAX_TO_JUMP;
        }
        _ => {}
    }
    before.addresses[n] = value;
    before.slots[n] = slot;
    value
}

/// Returns true for `mov sp, x9`, but not for `mov sp, x29`.
fn switches_stack(opcode: Opcode, operands: &[Operand; 4]) -> bool {
    const FRAME_POINTER: u16 = 29;
    let Operand::RegisterOrSP(_, SP) = operands[0] else {
        return false;
    };
    let is_frame = |n| n == SP || n == FRAME_POINTER;
    match operands[1] {
        Operand::Register(_, n) | Operand::RegisterOrSP(_, n) => {
            opcode == Opcode::ADD && !is_frame(n)
        }
        _ => false,
    }
}

/// Returns the text of an instruction. The decoder's own text may panic, so it is only a word.
pub(crate) fn text(bytes: &[u8]) -> String {
    match bytes.first_chunk::<4>() {
        Some(word) => format!(".inst 0x{:08x}", u32::from_le_bytes(*word)),
        None => String::new(),
    }
}
