//! The way out of a function without call frame information, as its own code shows it.
//!
//! From the next instruction on, the code is followed to its return, and what it does to the
//! stack pointer and to the registers that it must restore is done here, too. Where that ends
//! is the caller. It takes nothing but the code, and works in leaf functions, prologues,
//! epilogues and callers alike, with and without frame pointers: musl, `_init`, PLT entries,
//! assembly.
//!
//! Nothing is known of conditions: at a branch the next instruction is tried first, then the
//! target. A call is taken to come back; where it does not (`abort`), what follows may belong to
//! something else, so the caller of this checks what it gets.

use crate::arch::x86_64::{RBP, RSP};
use crate::{Arch, Memory, Registers, code};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashSet;

/// Most instructions that are looked at for one frame.
const MAX_INSTRUCTIONS: usize = 2000;
/// Most branches that wait to be tried.
const MAX_BRANCHES: usize = 64;
/// Most words that are written on the way and remembered.
const MAX_WRITTEN: usize = 64;
/// Longest instruction.
const MAX_LEN: usize = 15;

/// What is known of the code.
pub(crate) trait Code {
    /// Copies code from `avma` on; says how many bytes.
    fn read(&self, avma: u64, into: &mut [u8]) -> usize;
    /// Whether there is call frame information for this code, so that a jump to it leaves
    /// the function.
    fn is_described(&self, avma: u64) -> bool;
    /// Whether this can be a return address.
    fn is_return_address(&self, avma: u64) -> bool;
}

/// Where the way out ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Exit {
    /// With a return to this address, which lies in `slot`. The registers are the caller's.
    Return { address: u64, slot: u64 },
    /// In code that ends the thread or the process.
    End,
    /// Nowhere, the first time because this memory is not known.
    Unreadable(u64),
    /// Nowhere.
    Lost,
}

/// One way, up to some instruction.
#[derive(Clone)]
struct Way {
    ip: u64,
    registers: Registers,
    /// Words of the stack that were written on the way.
    written: Vec<(u64, Option<u64>)>,
}

/// Follows the code from where `registers` are to the return, and makes them the caller's.
pub(crate) fn out<M: Memory + ?Sized, C: Code>(
    registers: &mut Registers,
    memory: &M,
    text: &C,
) -> Exit {
    if registers.arch() != Arch::X86_64 {
        return Exit::Lost;
    }
    let mut seen = FxHashSet::default();
    let mut waiting = vec![Way {
        ip: registers.ip(),
        registers: *registers,
        written: Vec::new(),
    }];
    let mut unreadable = None;
    let mut left = MAX_INSTRUCTIONS;
    let mut window = Window::default();
    while let Some(mut way) = waiting.pop() {
        while left > 0 && seen.insert(way.ip) {
            left -= 1;
            let bytes = window.at(way.ip, MAX_LEN, text);
            let mut decoder = Decoder::with_ip(64, bytes, way.ip, DecoderOptions::NONE);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            let target = instruction.near_branch_target();
            let leaves = match instruction.flow_control() {
                FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                    if !way.execute(&instruction, memory) {
                        break;
                    }
                    way.ip = instruction.next_ip();
                    if instruction.mnemonic() == Mnemonic::Call
                        && code::exits(window.at(way.ip, code::LEN, text))
                    {
                        return Exit::End;
                    }
                    continue;
                }
                FlowControl::ConditionalBranch => {
                    if waiting.len() < MAX_BRANCHES && !text.is_described(target) {
                        waiting.push(Way {
                            ip: target,
                            ..way.clone()
                        });
                    }
                    way.ip = instruction.next_ip();
                    continue;
                }
                FlowControl::UnconditionalBranch if !text.is_described(target) => {
                    way.ip = target;
                    continue;
                }
                FlowControl::UnconditionalBranch | FlowControl::Return => true,
                // A PLT entry jumps by way of memory; a table of cases by way of a register.
                FlowControl::IndirectBranch => instruction.is_ip_rel_memory_operand(),
                _ => false,
            };
            if !leaves {
                break;
            }
            let slot = way.registers.sp();
            let Some(address) = way.read(slot, memory) else {
                unreadable = unreadable.or(Some(slot));
                break;
            };
            if !text.is_return_address(address) {
                break;
            }
            way.registers.keep(Arch::X86_64.callee_saved());
            let popped = match instruction.op0_kind() {
                OpKind::Immediate16 => u64::from(instruction.immediate16()),
                _ => 0,
            };
            way.registers
                .set(RSP, slot.wrapping_add(8).wrapping_add(popped));
            *registers = way.registers;
            return Exit::Return { address, slot };
        }
    }
    unreadable.map_or(Exit::Lost, Exit::Unreadable)
}

/// Code that was read: asking for it may be a system call.
#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    const LEN: usize = 256;

    /// The bytes from `avma` on, `least` or more of them if there are as many.
    fn at<C: Code>(&mut self, avma: u64, least: usize, code: &C) -> &[u8] {
        let within = usize::try_from(avma.wrapping_sub(self.start)).unwrap_or(usize::MAX);
        let behind = self.bytes.len().saturating_sub(within);
        if behind < least {
            self.start = avma;
            self.bytes.resize(Self::LEN, 0);
            let len = code.read(avma, &mut self.bytes);
            self.bytes.truncate(len);
            return &self.bytes;
        }
        self.bytes.get(within..).unwrap_or(&[])
    }
}

impl Way {
    fn read<M: Memory + ?Sized>(&self, avma: u64, memory: &M) -> Option<u64> {
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

    /// Does what the instruction does to stack pointer and saved registers. False if what
    /// becomes of the stack pointer cannot be said.
    fn execute<M: Memory + ?Sized>(&mut self, instruction: &Instruction, memory: &M) -> bool {
        let sp = self.registers.sp();
        let first = number(instruction.op0_register());
        match instruction.mnemonic() {
            Mnemonic::Call => return true,
            Mnemonic::Push => {
                let value = first.and_then(|register| self.registers.get(register));
                let sp = sp.wrapping_sub(8);
                self.write(sp, value);
                self.registers.set(RSP, sp);
                return true;
            }
            Mnemonic::Pop => {
                self.registers.set(RSP, sp.wrapping_add(8));
                if let Some(register) = first {
                    let value = self.read(sp, memory);
                    self.assign(register, value);
                }
                return first != Some(RSP);
            }
            Mnemonic::Leave => {
                let Some(fp) = self.registers.get(RBP) else {
                    return false;
                };
                let saved = self.read(fp, memory);
                self.registers.set(RSP, fp.wrapping_add(8));
                self.assign(RBP, saved);
                return true;
            }
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
                if let Some(avma) = self.stack_address(instruction) {
                    let value = number(instruction.op1_register())
                        .and_then(|register| self.registers.get(register));
                    self.write(avma, value);
                }
                return true;
            }
            // They only look at their first operand.
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => return true,
            _ => {}
        }
        if instruction.op0_kind() != OpKind::Register {
            return instruction.stack_pointer_increment() == 0;
        }
        let full = instruction.op0_register().is_gpr64();
        let second = number(instruction.op1_register());
        let value = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => second.and_then(|r| self.registers.get(r)),
            (Mnemonic::Mov, OpKind::Memory) => self
                .stack_address(instruction)
                .and_then(|avma| self.read(avma, memory)),
            (Mnemonic::Lea, _) => self.stack_address(instruction),
            (Mnemonic::Add | Mnemonic::Sub, _) => {
                let value = first.and_then(|register| self.registers.get(register));
                let by = immediate(instruction);
                value
                    .zip(by)
                    .map(|(value, by)| match instruction.mnemonic() {
                        Mnemonic::Add => value.wrapping_add(by),
                        _ => value.wrapping_sub(by),
                    })
            }
            (Mnemonic::Xchg | Mnemonic::Xadd, _) => {
                if let Some(second) = second {
                    self.assign(second, None);
                }
                None
            }
            _ => None,
        };
        if let Some(register) = first {
            self.assign(register, value.filter(|_| full));
            if register == RSP && self.registers.get(RSP).is_none() {
                return false;
            }
        }
        instruction.stack_pointer_increment() == 0 || first == Some(RSP)
    }

    fn assign(&mut self, register: u8, value: Option<u64>) {
        match value {
            Some(value) => self.registers.set(register, value),
            None => self.registers.forget(register),
        }
    }

    /// The address of a memory operand, if the registers in it are known.
    fn stack_address(&self, instruction: &Instruction) -> Option<u64> {
        let base = number(instruction.memory_base())?;
        let base = self.registers.get(base)?;
        let index = match instruction.memory_index() {
            Register::None => 0,
            index => self.registers.get(number(index)?)?,
        };
        let scaled = index.wrapping_mul(instruction.memory_index_scale().into());
        Some(
            base.wrapping_add(scaled)
                .wrapping_add(instruction.memory_displacement64()),
        )
    }
}

fn immediate(instruction: &Instruction) -> Option<u64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => Some(instruction.immediate(1)),
        _ => None,
    }
}

/// The DWARF number of a general register, whatever part of it is meant.
fn number(register: Register) -> Option<u8> {
    Some(match register.full_register() {
        Register::RAX => 0,
        Register::RDX => 1,
        Register::RCX => 2,
        Register::RBX => 3,
        Register::RSI => 4,
        Register::RDI => 5,
        Register::RBP => 6,
        Register::RSP => 7,
        Register::R8 => 8,
        Register::R9 => 9,
        Register::R10 => 10,
        Register::R11 => 11,
        Register::R12 => 12,
        Register::R13 => 13,
        Register::R14 => 14,
        Register::R15 => 15,
        _ => return None,
    })
}
