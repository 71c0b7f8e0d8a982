//! [`PathState`]: registers and stack along one path through the code.

use super::window::{CodeSource, CodeWindow, MAX_INSTRUCTION};
use crate::{Arch, Memory, Registers};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Maximum number of stack words written along a path. After that, a path reads only words that it
/// has written.
const MAX_WRITTEN: usize = 256;

pub(super) const MAX_BRANCHES: usize = 64;

/// Maximum number of entries of a jump table that are followed, and their distance in bytes. The
/// length of a table is unknown.
const MAX_ENTRIES: u64 = 8;
const MAX_DISTANCE: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Exit {
    /// A return to `address`, read from `slot`. The registers are the caller's.
    Return { address: u64, slot: u64 },
    /// The thread or process ends.
    End,
    /// Slot of the first unreadable return address.
    Unreadable(u64),
    /// No path reached a return.
    Lost,
}

/// End of a straight path.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stop {
    /// The requested state.
    Done,
    /// A return to `address`, read from `slot`. The registers are the caller's.
    Return { address: u64, slot: u64 },
    /// A jump to an address in a register.
    Jump(u64),
    /// A call, another jump, or an unsupported instruction.
    Nothing,
}

#[derive(Clone)]
pub(crate) struct PathState {
    pub(super) arch: Arch,
    pub(super) ip: u64,
    pub(super) registers: Registers,
    /// Written stack words; `None`: unknown.
    pub(super) written: Vec<(u64, Option<u64>)>,
    /// Stack pointer at the start. The function's return address lies there or above.
    pub(super) start_sp: u64,
    pub(super) sets_frame_pointer: bool,
    /// Registers, by DWARF number, whose values come from the code alone.
    pub(super) constants: u64,
    /// True after a call, which may change the other registers.
    pub(super) has_called: bool,
    /// True while the frame pointer belongs to a callee: see [`PathState::makes_callees_frame`].
    pub(super) has_callees_frame: bool,
    /// Entry of a jump table in a register.
    pub(super) entry: Option<TableEntry>,
}

/// Any entry of a jump table.
#[derive(Clone, Copy)]
pub(super) struct TableEntry {
    register: Option<u8>,
    table: u64,
    /// Size of an entry in bytes.
    width: u64,
    /// Address to which entries are relative, if the code has added it.
    base: Option<u64>,
}

impl PathState {
    pub(crate) fn new(registers: &Registers) -> Self {
        Self {
            arch: registers.arch(),
            ip: registers.ip(),
            registers: *registers,
            written: Vec::new(),
            start_sp: registers.sp(),
            sets_frame_pointer: false,
            constants: 0,
            has_called: false,
            has_callees_frame: false,
            entry: None,
        }
    }

    pub(crate) const fn ip(&self) -> u64 {
        self.ip
    }

    pub(crate) const fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Simulates up to `limit` instructions until `done`. If the path fails, continues at the last
    /// skipped forward branch.
    pub(crate) fn follow_straight(
        &mut self,
        memory: &dyn Memory,
        text: &dyn CodeSource,
        limit: usize,
        done: impl Fn(&Self) -> bool,
    ) -> Stop {
        let mut window = CodeWindow::default();
        let mut branches = Vec::new();
        for _ in 0..limit {
            let bytes = window.at(self.ip, MAX_INSTRUCTION, text);
            let options = DecoderOptions::NONE;
            let instruction = Decoder::with_ip(self.arch.bits(), bytes, self.ip, options).decode();
            let goes_on = match instruction.flow_control() {
                _ if instruction.is_invalid() => false,
                FlowControl::Next => self.execute(&instruction, memory),
                FlowControl::ConditionalBranch => {
                    let target = instruction.near_branch_target();
                    if target > self.ip && branches.len() < MAX_BRANCHES {
                        branches.push(Self {
                            ip: target,
                            ..self.clone()
                        });
                    }
                    true
                }
                FlowControl::Return => {
                    let slot = self.registers.sp();
                    let Some(address) = self.read(slot, memory) else {
                        return Stop::Nothing;
                    };
                    self.set_sp(slot.wrapping_add(self.arch.word_size()));
                    return Stop::Return { address, slot };
                }
                FlowControl::IndirectBranch if instruction.op0_kind() == OpKind::Register => {
                    let to = self.number(instruction.op0_register());
                    match to.and_then(|to| self.registers.get(to)) {
                        Some(to) => return Stop::Jump(to),
                        None => false,
                    }
                }
                _ => false,
            };
            self.ip = instruction.next_ip();
            if !goes_on {
                match branches.pop() {
                    Some(branch) => *self = branch,
                    None => return Stop::Nothing,
                }
            }
            if done(self) {
                return Stop::Done;
            }
        }
        Stop::Nothing
    }

    /// Returns the caller's registers after a return that removes `popped` more bytes from the
    /// stack.
    pub(super) fn returned(mut self, slot: u64, popped: u64) -> Registers {
        self.registers.keep(self.arch.callee_saved());
        let sp = slot.wrapping_add(self.arch.word_size());
        self.set_sp(sp.wrapping_add(popped));
        self.registers
    }

    /// Returns the caller's registers after a jump to a return address that the code has popped.
    pub(super) fn jumped_back(mut self) -> Registers {
        self.registers.keep(self.arch.callee_saved());
        self.registers
    }

    /// Returns the register of a jump and its value: a return address, if the code has popped it.
    pub(super) fn return_in_register(&self, jump: &Instruction) -> Option<(u8, u64)> {
        if jump.op0_kind() != OpKind::Register {
            return None;
        }
        let register = self.number(jump.op0_register())?;
        Some((register, self.registers.get(register)?))
    }

    /// Returns true if a jump leads to another function: to code with call frame information, or far away. A
    /// computed `goto` may lead behind a call of its own function.
    pub(super) fn leaves_function(&self, target: u64, text: &dyn CodeSource) -> bool {
        text.is_described(target) || target.abs_diff(self.ip) > MAX_DISTANCE
    }

    /// Returns the slot to which the path has written this value.
    pub(crate) fn slot_of(&self, value: u64) -> Option<u64> {
        let mut written = self.written.iter();
        let found = written.find(|(_, written)| *written == Some(value));
        found.map(|(slot, _)| *slot)
    }

    /// Reads a stack word, including writes along the path.
    pub(crate) fn read(&self, avma: u64, memory: &dyn Memory) -> Option<u64> {
        match self.written.iter().rev().find(|(at, _)| *at == avma) {
            Some((_, value)) => *value,
            None if self.written.len() >= MAX_WRITTEN => None,
            None => self.arch.read_word(memory, avma),
        }
    }

    /// Returns the target of a jump through a register, if the code on the path names it:
    /// `movabs r11, x; jmp r11`.
    pub(super) fn constant_target(&self, jump: &Instruction) -> Option<u64> {
        let register = self.number(jump.op0_register())?;
        let is_known = jump.op0_kind() == OpKind::Register && self.constants >> register & 1 != 0;
        self.registers.get(register).filter(|_| is_known)
    }

    /// Returns targets of a jump through a table whose address comes from the code alone, in the order
    /// of the table: `jmp [rcx+rax*8]`, or `movsxd rax, [rcx+rax*4]; add rax, rcx; jmp rax`.
    pub(super) fn table_targets(
        &self,
        jump: &Instruction,
        text: &dyn CodeSource,
    ) -> Option<Vec<u64>> {
        let entry = match jump.op0_kind() {
            OpKind::Memory => self.loaded_entry(jump, self.arch.word_size(), Some(0)),
            _ => self.entry.filter(|entry| {
                entry.register.is_some() && entry.register == self.number(jump.op0_register())
            }),
        };
        let target = |number: u64| {
            let TableEntry {
                table, width, base, ..
            } = entry?;
            let mut bytes = [0; 8];
            let bytes_of = bytes.get_mut(..usize::try_from(width).ok()?)?;
            let at = table.wrapping_add(number * width);
            let is_read = text.read(at, bytes_of) == bytes_of.len();
            let word = u64::from_le_bytes(bytes);
            let is_short = width < self.arch.word_size();
            let word = if is_short {
                i64::from(word as u32 as i32).cast_unsigned()
            } else {
                word
            };
            let target = self.arch.wrap(base?.wrapping_add(word));
            let is_near = target.abs_diff(self.ip) < MAX_DISTANCE;
            (is_read && is_near && !text.is_described(target)).then_some(target)
        };
        let targets: Vec<u64> = (0..MAX_ENTRIES).map_while(target).collect();
        (!targets.is_empty()).then_some(targets)
    }

    /// Returns the entry that an instruction reads at an unknown index of a table.
    fn loaded_entry(
        &self,
        instruction: &Instruction,
        width: u64,
        base: Option<u64>,
    ) -> Option<TableEntry> {
        let is_indexed = instruction.memory_index() != Register::None
            && u64::from(instruction.memory_index_scale()) == width;
        let known = |register| {
            let register = self.number(register)?;
            (self.registers.get(register)).filter(|_| self.constants >> register & 1 != 0)
        };
        let start = match instruction.memory_base() {
            Register::None => Some(0),
            register => known(register),
        };
        let table = start?.wrapping_add(instruction.memory_displacement64());
        is_indexed.then_some(TableEntry {
            register: None,
            table: self.arch.wrap(table),
            width,
            base,
        })
    }

    /// Returns the entry of a jump table that the first operand has after an instruction.
    fn table_entry(&self, instruction: &Instruction, first: Option<u8>) -> Option<TableEntry> {
        let entry = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Memory) => {
                self.loaded_entry(instruction, self.arch.word_size(), Some(0))
            }
            (Mnemonic::Movsxd, OpKind::Memory) => self.loaded_entry(instruction, 4, None),
            (Mnemonic::Add, OpKind::Register) => {
                let second = self.number(instruction.op1_register());
                let known = |register: Option<u8>| {
                    let register = register?;
                    (self.registers.get(register)).filter(|_| self.constants >> register & 1 != 0)
                };
                let relative = self.entry.filter(|entry| entry.base.is_none())?;
                let base = match relative.register {
                    register if register == first => known(second),
                    register if register == second => known(first),
                    _ => None,
                };
                base.map(|base| TableEntry {
                    base: Some(base),
                    ..relative
                })
            }
            _ => None,
        };
        entry.map(|entry| TableEntry {
            register: first,
            ..entry
        })
    }

    /// Returns true if the result of an instruction comes from the code alone.
    fn is_constant(&self, instruction: &Instruction) -> bool {
        let is_known =
            |register| (self.number(register)).is_some_and(|r| self.constants >> r & 1 != 0);
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => is_known(instruction.op1_register()),
            (Mnemonic::Mov, kind) => kind != OpKind::Memory,
            (Mnemonic::Lea, _) if instruction.is_ip_rel_memory_operand() => true,
            (Mnemonic::Lea, _) => {
                is_known(instruction.memory_base()) && instruction.memory_index() == Register::None
            }
            (Mnemonic::Add | Mnemonic::Sub, kind) => {
                is_known(instruction.op0_register())
                    && kind != OpKind::Memory
                    && kind != OpKind::Register
            }
            _ => false,
        }
    }

    /// Returns true if the path has removed the function's frame: the frame pointer has the value that
    /// was saved below the return address, and the stack pointer is above it. A jump is a tail call then:
    /// V8's bytecode handlers go from one to the next.
    pub(super) fn has_removed_frame(&self, memory: &dyn Memory) -> bool {
        let saved = self.registers.sp().wrapping_sub(self.arch.word_size());
        let fp = self.registers.frame_pointer();
        self.has_changed_frame() && fp.is_some_and(|fp| self.read(saved, memory) == Some(fp))
    }

    /// Returns true if the path has set the frame pointer or gone up the stack.
    pub(super) fn has_changed_frame(&self) -> bool {
        self.sets_frame_pointer || self.registers.sp() > self.start_sp
    }

    fn push(&mut self, value: Option<u64>) {
        let sp = self.registers.sp().wrapping_sub(self.arch.word_size());
        self.set_sp(sp);
        self.write(self.registers.sp(), value);
    }

    fn set_sp(&mut self, sp: u64) {
        self.registers.set(self.arch.sp(), sp);
    }

    /// Returns true if a call may change the frame pointer, since it may be the callee's.
    pub(super) const fn follows_calls(&self) -> bool {
        self.sets_frame_pointer
    }

    /// Returns true for `mov rbp, REG` if REG points to a copy of the frame pointer: SBCL's frame
    /// for a callee (`lea rsi, [rsp - 16]; sub rsp, 32; mov [rsi], rbp; mov rbp, rsi; call`). Own
    /// frames start from rsp.
    fn makes_callees_frame(&self, instruction: &Instruction, memory: &dyn Memory) -> bool {
        let (to, from) = (instruction.op0_register(), instruction.op1_register());
        let is_move = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op1_kind() == OpKind::Register
            && to == self.arch.fp_operand()
            && from != self.arch.sp_operand();
        let frame = || self.registers.get(self.number(from)?);
        let saved = || self.read(frame()?, memory);
        is_move && saved().is_some_and(|saved| self.registers.frame_pointer() == Some(saved))
    }

    /// Marks a frame pointer that belongs to a callee as unknown.
    ///
    /// A function's own return address existed at the start, or was copied along the path. Below
    /// the initial stack pointer, the word is an earlier callee's.
    fn forget_callees_frame(&mut self) {
        let fp = self.registers.frame_pointer();
        let Some(fp) = fp.filter(|_| self.sets_frame_pointer) else {
            return;
        };
        let slot = fp.wrapping_add(self.arch.word_size());
        let is_new = slot < self.start_sp && !self.written.iter().any(|(at, _)| *at == slot);
        if is_new || self.has_callees_frame {
            self.registers.forget(self.arch.fp());
        }
    }

    fn write(&mut self, avma: u64, value: Option<u64>) {
        let has_room = self.written.len() < MAX_WRITTEN;
        match self.written.iter_mut().rev().find(|(at, _)| *at == avma) {
            Some((_, known)) => *known = value,
            None if has_room => self.written.push((avma, value)),
            None => {}
        }
    }

    /// Applies an instruction. Returns false if the stack pointer is unknown afterwards.
    pub(super) fn execute(&mut self, instruction: &Instruction, memory: &dyn Memory) -> bool {
        let (sp, size) = (self.registers.sp(), self.arch.word_size());
        let (sp_number, fp_number) = (self.arch.sp(), self.arch.fp());
        let first = self.number(instruction.op0_register());
        match instruction.mnemonic() {
            Mnemonic::Call if pushes_own_address(instruction) => {
                self.push(Some(instruction.next_ip()));
                return true;
            }
            Mnemonic::Call => {
                self.forget_callees_frame();
                self.has_called = true;
                self.entry = None;
                self.constants &= self.arch.callee_saved();
                return true;
            }
            Mnemonic::Push => {
                let value = first.and_then(|register| self.registers.get(register));
                self.push(value);
                return true;
            }
            Mnemonic::Pop => {
                self.set_sp(sp.wrapping_add(size));
                let value = self.read(sp, memory);
                match first {
                    Some(register) => self.assign(register, value),
                    None => {
                        if let Some(avma) = self.stack_address(instruction) {
                            self.write(avma, value);
                        }
                    }
                }
                return first != Some(sp_number);
            }
            Mnemonic::Leave => {
                let Some(fp) = self.registers.frame_pointer() else {
                    return false;
                };
                let saved = self.read(fp, memory);
                self.set_sp(fp.wrapping_add(size));
                self.assign(fp_number, saved);
                return true;
            }
            Mnemonic::Mov if instruction.op0_kind() == OpKind::Memory => {
                if let Some(avma) = self.stack_address(instruction) {
                    let value = (self.number(instruction.op1_register()))
                        .and_then(|register| self.registers.get(register));
                    self.write(avma, value);
                }
                return true;
            }
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt => return true,
            _ => {}
        }
        if instruction.op0_kind() != OpKind::Register {
            return instruction.stack_pointer_increment() == 0;
        }
        let full = instruction.op0_register().size() as u64 == size;
        let second = self.number(instruction.op1_register());
        let loaded = |path: &Self| path.read(path.stack_address(instruction)?, memory);
        let value = match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register) => second.and_then(|r| self.registers.get(r)),
            (
                Mnemonic::Mov,
                OpKind::Immediate64 | OpKind::Immediate32to64 | OpKind::Immediate32,
            ) => Some(instruction.immediate(1)),
            (Mnemonic::Mov, OpKind::Memory) => loaded(self),
            (Mnemonic::Lea, _) if instruction.is_ip_rel_memory_operand() => {
                Some(instruction.ip_rel_memory_address())
            }
            (Mnemonic::Lea, _) => self.stack_address(instruction),
            (Mnemonic::Add | Mnemonic::Sub, _) => {
                let value = first.and_then(|register| self.registers.get(register));
                let by = match instruction.op1_kind() {
                    OpKind::Memory => loaded(self),
                    OpKind::Register => second
                        .filter(|by| !self.has_called || self.arch.callee_saved() >> by & 1 != 0)
                        .and_then(|by| self.registers.get(by)),
                    _ => immediate(instruction),
                };
                let by = match by {
                    None if first == Some(sp_number) && self.holds_popped(memory) => Some(0),
                    by => by,
                };
                let adds = instruction.mnemonic() == Mnemonic::Add;
                value.zip(by).map(|(value, by)| match adds {
                    true => value.wrapping_add(by),
                    false => value.wrapping_sub(by),
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
        let has_callees_frame = self.makes_callees_frame(instruction, memory);
        let is_constant = full && self.is_constant(instruction);
        let entry = self.table_entry(instruction, first).filter(|_| full);
        if let Some(register) = first {
            if entry.is_some() || self.entry.is_some_and(|old| old.register == first) {
                self.entry = entry;
            }
            self.assign(register, value.filter(|_| full));
            self.constants |= u64::from(is_constant) << register;
            self.has_callees_frame |= has_callees_frame;
            if register == sp_number && self.registers.get(sp_number).is_none() {
                return false;
            }
        }
        instruction.stack_pointer_increment() == 0 || first == Some(sp_number)
    }

    /// Returns true if a register has the word popped last: the return address of V8's interpreter, while
    /// it removes its arguments, whose number is in memory.
    fn holds_popped(&self, memory: &dyn Memory) -> bool {
        let sp = self.registers.sp();
        let popped = self.read(sp.wrapping_sub(self.arch.word_size()), memory);
        let mut others = (0..16).filter(|register| *register != self.arch.fp());
        sp > self.start_sp && popped.is_some() && others.any(|r| self.registers.get(r) == popped)
    }

    fn assign(&mut self, register: u8, value: Option<u64>) {
        self.constants &= !(1 << register);
        if register == self.arch.fp() {
            self.sets_frame_pointer = true;
            self.has_callees_frame = false;
        }
        match value {
            Some(value) => self.registers.set(register, value),
            None => self.registers.forget(register),
        }
    }

    fn stack_address(&self, instruction: &Instruction) -> Option<u64> {
        let base = self.number(instruction.memory_base())?;
        let base = self.registers.get(base)?;
        let index = match instruction.memory_index() {
            Register::None => 0,
            index => self.registers.get(self.number(index)?)?,
        };
        let scaled = index.wrapping_mul(instruction.memory_index_scale().into());
        let within = scaled.wrapping_add(instruction.memory_displacement64());
        Some(self.arch.wrap(base.wrapping_add(within)))
    }

    fn number(&self, register: Register) -> Option<u8> {
        match self.arch {
            Arch::X86 => number_x86(register),
            _ => number_x86_64(register),
        }
    }
}

/// Returns true for a call of the next instruction, which pops its address. Position-independent code
/// of i386 begins with it.
pub(crate) fn pushes_own_address(call: &Instruction) -> bool {
    call.near_branch_target() == call.next_ip()
}

fn immediate(instruction: &Instruction) -> Option<u64> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64
        | OpKind::Immediate32to64
        | OpKind::Immediate8to32
        | OpKind::Immediate32 => Some(instruction.immediate(1)),
        _ => None,
    }
}

fn number_x86(register: Register) -> Option<u8> {
    Some(match register.full_register32() {
        Register::EAX => 0,
        Register::ECX => 1,
        Register::EDX => 2,
        Register::EBX => 3,
        Register::ESP => 4,
        Register::EBP => 5,
        Register::ESI => 6,
        Register::EDI => 7,
        _ => return None,
    })
}

fn number_x86_64(register: Register) -> Option<u8> {
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
