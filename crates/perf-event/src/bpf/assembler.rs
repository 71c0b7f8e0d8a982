//! [`Assembler`]: instructions of BPF programs, with labels. Reference: `include/uapi/linux/bpf.h`.

/// Instruction of a BPF program (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// Assembler with forward labels.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<Option<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Register number; 10 is the frame pointer.
pub(super) type Register = u8;
pub(super) const FRAME: Register = 10;

pub(super) const ADD: u8 = 0x07;
pub(super) const LOAD_64: u8 = 0x79;
pub(super) const LOAD_16: u8 = 0x69;
pub(super) const LOAD_8: u8 = 0x71;
pub(super) const SHIFT_RIGHT: u8 = 0x77;
pub(super) const STORE_32: u8 = 0x63;
pub(super) const STORE_64: u8 = 0x7b;
pub(super) const JUMP_IF_EQUAL: u8 = 0x15;
pub(super) const JUMP_IF_NOT_EQUAL: u8 = 0x55;
pub(super) const JUMP_IF_GREATER: u8 = 0x25;
pub(super) const JUMP_IF_LESS: u8 = 0xa5;
/// Compares two registers, with the code of a jump.
pub(super) const REGISTERS: u8 = 8;

impl Assembler {
    pub(super) fn emit(
        &mut self,
        code: u8,
        (to, from): (Register, Register),
        offset: i16,
        immediate: i32,
    ) {
        let registers = from << 4 | to;
        self.code.push(Instruction {
            code,
            registers,
            offset,
            immediate,
        });
    }

    pub(super) fn set(&mut self, to: Register, value: i32) {
        self.emit(0xb7, (to, 0), 0, value);
    }

    pub(super) fn set_64(&mut self, to: Register, value: u64) {
        self.emit(0x18, (to, 0), 0, value as i32);
        self.emit(0, (0, 0), 0, (value >> 32) as i32);
    }

    pub(super) fn set_map(&mut self, to: Register, map: i32) {
        const PSEUDO_MAP_FD: Register = 1;
        self.emit(0x18, (to, PSEUDO_MAP_FD), 0, map);
        self.emit(0, (0, 0), 0, 0);
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.emit(0xbf, (to, from), 0, 0);
    }

    pub(super) fn add(&mut self, to: Register, value: i32) {
        self.emit(ADD, (to, 0), 0, value);
    }

    pub(super) fn add_register(&mut self, to: Register, from: Register) {
        self.emit(ADD | 8, (to, from), 0, 0);
    }

    pub(super) fn load(&mut self, code: u8, to: Register, (from, offset): (Register, i16)) {
        self.emit(code, (to, from), offset, 0);
    }

    pub(super) fn store(&mut self, (to, offset): (Register, i16), from: Register) {
        self.emit(STORE_64, (to, from), offset, 0);
    }

    pub(super) fn call(&mut self, function: i32) {
        self.emit(0x85, (0, 0), 0, function);
    }

    pub(super) fn exit(&mut self) {
        self.emit(0x95, (0, 0), 0, 0);
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    pub(super) fn jump_if(&mut self, code: u8, register: Register, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(code, (register, 0), 0, value);
    }

    pub(super) fn jump_if_other(
        &mut self,
        code: u8,
        (register, other): (Register, Register),
        label: Label,
    ) {
        self.jumps.push((self.code.len(), label));
        self.emit(code | REGISTERS, (register, other), 0, 0);
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.emit(0x05, (0, 0), 0, 0);
    }

    /// Reads 8 bytes at the address in a register into the stack slot at -16. Jumps to `failed` if
    /// they are unreadable.
    pub(super) fn read_word(&mut self, helper: i32, address: Register, failed: Label) {
        self.copy(3, address);
        self.copy(1, FRAME);
        self.add(1, -16);
        self.set(2, 8);
        self.call(helper);
        self.jump_if(JUMP_IF_NOT_EQUAL, 0, 0, failed);
    }

    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in &self.jumps {
            // Both programs have fewer than 128 instructions.
            if let Some(target) = self.labels[label.0] {
                self.code[*at].offset = (target as i64 - *at as i64 - 1) as i16;
            }
        }
        self.code
    }
}
