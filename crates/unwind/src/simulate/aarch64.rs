//! [`simulate_to_return`] for AArch64. Models the few instructions that move the stack pointer, or
//! save and restore callee-saved registers.
//!
//! As on x86-64, conditions are not evaluated. Unsupported instructions make their destination
//! register unknown. The return address is in the link register, untouched or reloaded. A path that
//! saves an unknown link register has run into the next function after a call that does not return.
//! Source of the encodings: Arm Architecture Reference Manual for A-profile, section C4.1.

use super::path::{Exit, MAX_BRANCHES};
use super::prologue::FramePointerUse;
use super::window::{CodeSource, CodeWindow};
use crate::arch::aarch64::{FP, LR, SP};
use crate::branch::{Branch, LinkUse, StackTransfer};
use crate::{Arch, Memory, Registers};
use rustc_hash::FxHashSet;

const MAX_INSTRUCTIONS: usize = 2000;

const MAX_WRITTEN: usize = 64;

/// Maximum number of instructions that are searched for a use of the frame pointer.
const MAX_AHEAD: usize = 256;

/// Number of the stack pointer or the zero register, depending on the instruction.
const SP_OR_ZERO: u8 = 31;

const EXITS: [u64; 2] = [93, 94];

const CLOBBERED: [std::ops::RangeInclusive<u8>; 2] = [0..=18, LR..=LR];

/// Simulates the code up to the return. Replaces the registers by the caller's.
pub(super) fn simulate_to_return(
    registers: &mut Registers,
    memory: &dyn Memory,
    text: &dyn CodeSource,
) -> Exit {
    let mut seen = FxHashSet::default();
    let mut waiting = vec![Path::new(registers)];
    let mut window = CodeWindow::default();
    let mut unreadable = None;
    let mut left = MAX_INSTRUCTIONS;
    while let Some(mut path) = waiting.pop() {
        while left > 0 && seen.insert(path.ip) {
            left -= 1;
            let bytes = window.at(path.ip, 4, text).first_chunk();
            let Some(word) = bytes.map(|bytes| u32::from_le_bytes(*bytes)) else {
                break;
            };
            let returns_to = match path.execute(word, memory) {
                Flow::Next => {
                    let is_call = matches!(Branch::decode(word, path.ip), Some(Branch::Call(_)));
                    path.ip = path.ip.wrapping_add(4);
                    if is_call && text.begins_behind_call(path.ip) {
                        break;
                    }
                    continue;
                }
                Flow::Branch(target) => {
                    if waiting.len() < MAX_BRANCHES && !text.is_described(target) {
                        waiting.push(Path {
                            ip: target,
                            ..path.clone()
                        });
                    }
                    path.ip = path.ip.wrapping_add(4);
                    continue;
                }
                Flow::Jump(target) if !text.is_described(target) => {
                    path.ip = target;
                    continue;
                }
                Flow::Exit => return Exit::End,
                Flow::Lost => break,
                // A tail call returns to this function's caller.
                Flow::Jump(_) | Flow::Leave => LR,
                Flow::Return(register) => register,
            };
            let slot = path.loaded.iter().rev().find(|(of, _)| *of == returns_to);
            let slot = slot.map_or(0, |(_, slot)| *slot);
            let Some(address) = path.registers.get(returns_to) else {
                // Unreadable, or lost on the path.
                unreadable = unreadable.or((slot != 0).then_some(slot));
                break;
            };
            let address = address & Arch::Aarch64.address_mask();
            if path.registers.get(SP).is_none() || !text.is_return_address(address) {
                break;
            }
            path.registers.keep(Arch::Aarch64.callee_saved());
            *registers = path.registers;
            return Exit::Return { address, slot };
        }
    }
    unreadable.map_or(Exit::Lost, Exit::Unreadable)
}

/// Place in the code ahead, on one path.
#[derive(Clone, Copy)]
struct Ahead {
    ip: u64,
    /// True if the stack pointer has moved on the path.
    has_moved: bool,
    /// True if the link register has the return address of a call that this function made.
    has_called: bool,
}

/// Returns the first use of the frame pointer or the link register from `ip` on: both are saved in
/// a prologue. `has_called`: the code is behind a call. A function that returns without them has no
/// frame, or has removed it.
pub(super) fn frame_pointer_use(
    ip: u64,
    has_called: bool,
    text: &dyn CodeSource,
) -> FramePointerUse {
    let mut window = CodeWindow::default();
    if window.at(ip, 4, text).is_empty() {
        return FramePointerUse::Unreadable;
    }
    let mut seen = FxHashSet::default();
    let mut waiting = vec![Ahead {
        ip,
        has_moved: false,
        has_called,
    }];
    while let Some(mut path) = waiting.pop() {
        while seen.len() < MAX_AHEAD && seen.insert(path.ip) {
            let bytes = window.at(path.ip, 4, text).first_chunk();
            let Some(word) = bytes.map(|bytes| u32::from_le_bytes(*bytes)) else {
                break;
            };
            match use_of(word, path) {
                Some(FramePointerUse::Unknown) => break,
                Some(found) => return found,
                None => {}
            }
            path.has_moved |= moves_stack_pointer(word);
            let next = path.ip.wrapping_add(4);
            let (target, leaves) = match Branch::decode(word, path.ip) {
                None => (next, false),
                // A function may end with a call that does not return.
                Some(Branch::Call(_)) if text.begins_behind_call(next) => break,
                Some(Branch::Call(_)) => {
                    path.has_called = true;
                    (next, false)
                }
                Some(Branch::Conditional(target)) => {
                    if waiting.len() < MAX_BRANCHES && !text.is_described(target) {
                        waiting.push(Ahead { ip: target, ..path });
                    }
                    (next, false)
                }
                Some(Branch::Jump(target)) => (target, text.is_described(target)),
                Some(Branch::Return(_) | Branch::Indirect(16 | 17)) => (next, true),
                Some(Branch::Indirect(_)) => break,
            };
            match leaves {
                true if path.has_called => break,
                true => return FramePointerUse::CallersFrame { is_first: false },
                false => path.ip = target,
            }
        }
    }
    FramePointerUse::Unknown
}

/// Returns how an instruction uses the frame pointer or the link register.
fn use_of(word: u32, path: Ahead) -> Option<FramePointerUse> {
    let (to, of, other) = (register(word, 0), register(word, 5), register(word, 16));
    let own = Some(FramePointerUse::OwnFrame);
    let unknown = Some(FramePointerUse::Unknown);
    let not_own = Some(FramePointerUse::CallersFrame { is_first: false });
    let transfer = StackTransfer::decode(word);
    match LinkUse::decode(word) {
        // A link register of another call is never saved: this is the next function already.
        Some(LinkUse::Saved) if path.has_called => return unknown,
        Some(LinkUse::Saved) => {
            let is_pushed = transfer.is_none_or(|transfer| transfer.is_pushed);
            let is_first = is_pushed || path.has_moved;
            return Some(FramePointerUse::CallersFrame { is_first });
        }
        Some(LinkUse::Restored) if transfer.is_some_and(|transfer| transfer.has(FP)) => return own,
        Some(LinkUse::Restored) => return not_own,
        None => {}
    }
    if let Some(transfer) = transfer.filter(|transfer| transfer.has(FP)) {
        return match transfer.is_load {
            true => own,
            false if path.has_called => unknown,
            false => not_own,
        };
    }
    let is_pair = word & 0x3a00_0000 == 0x2800_0000;
    if is_pair || word & 0x3a00_0000 == 0x3800_0000 {
        let is_vector = bits(word, 26, 1) == 1;
        let second = if is_pair { register(word, 10) } else { to };
        let moves = [to, second].iter().any(|one| [FP, LR].contains(one));
        return match of == FP {
            true => own,
            false => (moves && !is_vector).then_some(FramePointerUse::Unknown),
        };
    }
    match (bits(word, 25, 4), bits(word, 23, 3)) {
        // add, sub with immediate
        (0b1000 | 0b1001, 0b010) => match (to, of) {
            (_, FP) => own,
            (FP, SP_OR_ZERO) => not_own,
            (FP, _) => unknown,
            _ => None,
        },
        // adr, adrp, movz and so on
        (0b1000 | 0b1001, 0b000 | 0b001 | 0b101) => (to == FP).then_some(FramePointerUse::Unknown),
        (0b1000 | 0b1001, _) => [to, of].contains(&FP).then_some(FramePointerUse::Unknown),
        (0b0101 | 0b1101, _) => [to, of, other]
            .contains(&FP)
            .then_some(FramePointerUse::Unknown),
        _ => None,
    }
}

/// Returns true if code moves the stack pointer.
pub(crate) fn moves_stack(code: &[u8]) -> bool {
    let (words, _) = code.as_chunks();
    (words.iter()).any(|word| moves_stack_pointer(u32::from_le_bytes(*word)))
}

fn moves_stack_pointer(word: u32) -> bool {
    let is_sum = word & 0x3f80_0000 == 0x1100_0000 || word & 0x3fe0_0000 == 0x0b20_0000;
    let is_base = word & 0x3a80_0000 == 0x2880_0000 || word & 0x3b20_0400 == 0x3800_0400;
    (is_sum && register(word, 0) == SP_OR_ZERO) || (is_base && register(word, 5) == SP_OR_ZERO)
}

enum Flow {
    Next,
    Branch(u64),
    Jump(u64),
    /// To the address in this register.
    Return(u8),
    /// A tail call.
    Leave,
    /// To the end of the thread or process.
    Exit,
    /// Unknown or invalid.
    Lost,
}

#[derive(Clone)]
struct Path {
    ip: u64,
    registers: Registers,
    /// Written stack words; `None`: unknown.
    written: Vec<(u64, Option<u64>)>,
    /// Registers that still hold a loaded value, with its slot.
    loaded: Vec<(u8, u64)>,
    /// True once the path has saved an unknown link register.
    is_elsewhere: bool,
}

const fn bits(word: u32, from: u32, count: u32) -> u32 {
    (word >> from) & ((1 << count) - 1)
}

const fn register(word: u32, from: u32) -> u8 {
    bits(word, from, 5) as u8
}

/// Returns a signed bit field, times `scale`.
const fn signed(word: u32, from: u32, count: u32, scale: i64) -> u64 {
    let shift = 64 - count;
    let value = ((bits(word, from, count) as i64) << shift) >> shift;
    (value * scale).cast_unsigned()
}

impl Path {
    fn new(registers: &Registers) -> Path {
        Path {
            ip: registers.ip(),
            registers: *registers,
            written: Vec::new(),
            loaded: Vec::new(),
            is_elsewhere: false,
        }
    }

    fn execute(&mut self, word: u32, memory: &dyn Memory) -> Flow {
        match bits(word, 25, 4) {
            0b1010 | 0b1011 => self.branch(word),
            0b1000 | 0b1001 => self.with_immediate(word),
            0b0101 | 0b1101 => self.with_registers(word),
            0b0100 | 0b0110 | 0b1100 | 0b1110 => {
                self.memory(word, memory);
                match self.is_elsewhere {
                    true => Flow::Lost,
                    false => Flow::Next,
                }
            }
            0b0111 | 0b1111 => {
                // Vector instructions. They may set a general register.
                let to_general =
                    word & 0x5f20_fc00 == 0x1e20_0000 || word & 0xbfe0_fc00 == 0x0e00_3c00;
                if to_general {
                    self.assign(register(word, 0), None);
                }
                Flow::Next
            }
            // Scalable vectors. Prologues move the stack pointer by an unknown amount.
            0b0010 => {
                if word & 0xffff_f800 == 0x043f_5000 || word & 0xffa0_f800 == 0x0420_5000 {
                    self.assign_sp(register(word, 0), None);
                }
                Flow::Next
            }
            _ => Flow::Lost,
        }
    }

    fn branch(&mut self, word: u32) -> Flow {
        match Branch::decode(word, self.ip) {
            Some(Branch::Return(register)) => return Flow::Return(register),
            // br by x16 or x17 is a veneer, PLT entry or tail call; by other registers a jump table.
            Some(Branch::Indirect(16 | 17)) => return Flow::Leave,
            Some(Branch::Indirect(_)) => return Flow::Lost,
            Some(Branch::Jump(target)) => return Flow::Jump(target),
            Some(Branch::Conditional(target)) => return Flow::Branch(target),
            Some(Branch::Call(_)) => {
                self.call();
                return Flow::Next;
            }
            None => {}
        }
        // svc
        if word & 0xffe0_001f == 0xd400_0001 {
            let number = self.registers.get(8);
            if number.is_some_and(|number| EXITS.contains(&number)) {
                return Flow::Exit;
            }
            self.assign(0, None);
            return Flow::Next;
        }
        // Hints, barriers, system registers. Signatures are masked, so signing needs no action.
        if word & 0xffc0_0000 == 0xd500_0000 {
            if bits(word, 19, 3) & 0b110 == 0b110 && bits(word, 21, 1) == 1 {
                self.assign(register(word, 0), None);
            }
            return Flow::Next;
        }
        Flow::Lost
    }

    fn call(&mut self) {
        for number in CLOBBERED.into_iter().flatten() {
            self.assign(number, None);
        }
    }

    fn with_immediate(&mut self, word: u32) -> Flow {
        let (to, of, is_64) = (register(word, 0), register(word, 5), word >> 31 == 1);
        match bits(word, 23, 3) {
            // adr, adrp
            0b000 | 0b001 => {
                let low = bits(word, 29, 2);
                let value = (signed(word, 5, 19, 4)).wrapping_add(low.into());
                let value = match is_64 {
                    true => (self.ip & !0xfff).wrapping_add(value << 12),
                    false => self.ip.wrapping_add(value),
                };
                self.assign(to, Some(value));
            }
            // add, sub
            0b010 => {
                let by = u64::from(bits(word, 10, 12)) << (12 * bits(word, 22, 1));
                let value = self.registers.get(of);
                let value = value.map(|value| match bits(word, 30, 1) {
                    0 => value.wrapping_add(by),
                    _ => value.wrapping_sub(by),
                });
                self.assign_or_flags(word, value.filter(|_| is_64));
            }
            // and, orr, eor: align the stack pointer, later restored from the frame pointer.
            0b100 => match bits(word, 29, 2) {
                0b11 => self.assign(to, None),
                _ => self.assign_sp(to, None),
            },
            // movn, movz, movk
            0b101 => {
                let shift = 16 * bits(word, 21, 2);
                let part = u64::from(bits(word, 5, 16)) << shift;
                let value = match bits(word, 29, 2) {
                    0b00 => Some(!part),
                    0b10 => Some(part),
                    _ => (self.get(to)).map(|value| value & !(0xffff << shift) | part),
                };
                let mask = if is_64 { u64::MAX } else { u32::MAX.into() };
                self.assign(to, value.map(|value| value & mask));
            }
            _ => self.assign(to, None),
        }
        Flow::Next
    }

    fn with_registers(&mut self, word: u32) -> Flow {
        let (to, of, other) = (register(word, 0), register(word, 5), register(word, 16));
        let is_64 = word >> 31 == 1;
        let added = |one: Option<u64>, other: Option<u64>| {
            let (one, other) = (one?, other?);
            Some(match bits(word, 30, 1) {
                0 => one.wrapping_add(other),
                _ => one.wrapping_sub(other),
            })
        };
        let amount = bits(word, 10, 6);
        if word & 0x7fe0_ffe0 == 0x2a00_03e0 {
            // mov
            let value = self.get(other);
            self.assign(to, value.filter(|_| is_64));
        } else if word & 0x1f20_0000 == 0x0b00_0000 {
            // add, sub (shifted register)
            let shifted = (self.get(other)).filter(|_| bits(word, 22, 2) == 0);
            let value = added(self.get(of), shifted.map(|value| value << amount));
            self.assign(to, value.filter(|_| is_64));
        } else if word & 0x1f20_0000 == 0x0b20_0000 {
            // add, sub (extended register), used with the stack pointer
            let is_whole = bits(word, 13, 3) & 0b011 == 0b011;
            let shifted = (self.get(other)).filter(|_| is_whole);
            let shifted = shifted.map(|value| value << bits(word, 10, 3));
            let value = added(self.registers.get(of), shifted);
            self.assign_or_flags(word, value.filter(|_| is_64));
        } else if word & 0xffff_c000 == 0xdac1_0000 || word & 0xffff_c000 == 0xdac1_4000 {
            // pacia, autia and so on: the signature is masked.
        } else if word & 0x1fe0_0000 != 0x1a40_0000 {
            // All but conditional comparisons.
            self.assign(to, None);
        }
        Flow::Next
    }

    fn memory(&mut self, word: u32, memory: &dyn Memory) {
        let (to, base) = (register(word, 0), register(word, 5));
        let is_vector = bits(word, 26, 1) == 1;
        let is_pair = word & 0x3a00_0000 == 0x2800_0000;
        let is_single = word & 0x3b00_0000 == 0x3900_0000;
        let is_unscaled = word & 0x3b20_0000 == 0x3800_0000;
        if is_pair {
            let opc = bits(word, 30, 2);
            let size = match is_vector {
                true => 4 << opc,
                false => 4 << (opc >> 1),
            };
            let (is_load, by) = (bits(word, 22, 1) == 1, signed(word, 15, 7, size));
            let at = self.address(base, bits(word, 23, 2), by);
            let is_word = !is_vector && opc == 0b10;
            for (number, register) in [to, register(word, 10)].into_iter().enumerate() {
                let at = at.map(|at| at.wrapping_add(number as u64 * size.cast_unsigned()));
                self.transfer(register, at, (is_load, is_word, is_vector), size, memory);
            }
            return;
        }
        if is_single || is_unscaled {
            let (size, opc) = (bits(word, 30, 2), bits(word, 22, 2));
            // For vectors, the upper bit of `opc` belongs to the size.
            let log = if is_vector {
                size + 4 * (opc >> 1)
            } else {
                size
            };
            let bytes = 1_i64 << log.min(4);
            let by = match is_single {
                true => u64::from(bits(word, 10, 12)) << log.min(4),
                false => signed(word, 12, 9, 1),
            };
            let mode = match (is_single, bits(word, 10, 2)) {
                (true, _) => 0b10,
                (false, 0b01) => 0b01,
                (false, 0b11) => 0b11,
                (false, _) => 0b10,
            };
            let at = self.address(base, mode, by);
            let is_prefetch = !is_vector && size == 3 && opc == 0b10;
            if !is_prefetch {
                let is_load = if is_vector { opc & 1 == 1 } else { opc != 0 };
                let is_word = !is_vector && size == 3;
                self.transfer(to, at, (is_load, is_word, is_vector), bytes, memory);
            }
            return;
        }
        if is_vector {
            // Multiple-structure vector access with post-index.
            if word & 0xbe80_0000 == 0x0c80_0000 {
                self.assign_sp(base, None);
            }
            return;
        }
        // Register offset, exclusive, atomic, literal: the results become unknown.
        for from in [0, 10, 16] {
            let register = register(word, from);
            if from == 0 || bits(word, 24, 6) == 0b00_1000 {
                self.assign(register, None);
            }
        }
    }

    /// Returns the address of a load or store and updates the base. Mode 1: post-index, 3:
    /// pre-index.
    fn address(&mut self, base: u8, mode: u32, by: u64) -> Option<u64> {
        let before = self.registers.get(base);
        let moved = before.map(|before| before.wrapping_add(by));
        if matches!(mode, 0b01 | 0b11) {
            self.assign_sp(base, moved);
        }
        if mode == 0b01 { before } else { moved }
    }

    fn transfer(
        &mut self,
        register: u8,
        at: Option<u64>,
        (is_load, is_word, is_vector): (bool, bool, bool),
        size: i64,
        memory: &dyn Memory,
    ) {
        match (is_load, at) {
            (true, _) if is_vector => {}
            (true, at) => {
                let at = at.filter(|_| is_word);
                let value = at.and_then(|at| self.read(at, memory));
                self.assign(register, value);
                if let Some(at) = at {
                    self.loaded.push((register, at));
                }
            }
            (false, _) if is_word && register == LR && self.get(LR).is_none() => {
                self.is_elsewhere = true;
            }
            (false, Some(at)) => {
                let value = self.get(register).filter(|_| is_word);
                for word in (0..size.max(8).cast_unsigned()).step_by(8) {
                    self.write((at & !7).wrapping_add(word), value);
                }
            }
            (false, None) => {}
        }
    }

    /// Returns a register. Number 31 is zero.
    fn get(&self, register: u8) -> Option<u64> {
        match register {
            SP_OR_ZERO => Some(0),
            register => self.registers.get(register),
        }
    }

    /// Sets a register. Ignores number 31.
    fn assign(&mut self, register: u8, value: Option<u64>) {
        if register != SP_OR_ZERO {
            self.assign_sp(register, value);
        }
    }

    /// Sets an addition's destination. Register 31 is ignored if flags are set, else the stack
    /// pointer.
    fn assign_or_flags(&mut self, word: u32, value: Option<u64>) {
        match bits(word, 29, 1) {
            1 => self.assign(register(word, 0), value),
            _ => self.assign_sp(register(word, 0), value),
        }
    }

    /// Sets a register. Number 31 is the stack pointer.
    fn assign_sp(&mut self, register: u8, value: Option<u64>) {
        self.loaded.retain(|(of, _)| *of != register);
        match value {
            Some(value) => self.registers.set(register, value),
            None => self.registers.forget(register),
        }
    }

    fn read(&self, avma: u64, memory: &dyn Memory) -> Option<u64> {
        match self.written.iter().rev().find(|(at, _)| *at == avma) {
            Some((_, value)) => *value,
            None => memory.read_u64(avma),
        }
    }

    fn write(&mut self, avma: u64, value: Option<u64>) {
        if self.written.len() < MAX_WRITTEN {
            self.written.push((avma, value));
        }
    }
}
