//! Functions with frames prepared by their callers, as in SBCL, at each instruction of recursive
//! calls.

use rprof_unwind::{Arch, Module, Modules, Registers, StackDump, Unwinder};

const CODE: u64 = 0x9_0000;
const STACK: u64 = 0x7000;
const WORDS: usize = 256;

/// A function that calls itself three times: by a local, a full, and a local call. After each one
/// it has its own frame pointer again. A call of the function precedes it.
const TEXT: [u8; 86] = [
    0xe8, 0x0b, 0, 0, 0, // 0x00: call 0x10
    0xf4, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, // hlt
    0x8f, 0x45, 0x08, // 0x10: pop [rbp + 8]
    0x48, 0x8d, 0x74, 0x24, 0xf0, // 0x13: lea rsi, [rsp - 16]
    0x48, 0x83, 0xec, 0x20, // 0x18: sub rsp, 32
    0x48, 0x89, 0x2e, // 0x1c: mov [rsi], rbp
    0x48, 0x8b, 0xee, // 0x1f: mov rbp, rsi
    0xe8, 0xe9, 0xff, 0xff, 0xff, // 0x22: call 0x10
    0x48, 0x83, 0xec, 0x10, // 0x27: sub rsp, 16
    0x48, 0x89, 0x2c, 0x24, // 0x2b: mov [rsp], rbp
    0x48, 0x8b, 0xec, // 0x2f: mov rbp, rsp
    0xe8, 0xd9, 0xff, 0xff, 0xff, // 0x32: call 0x10
    0x48, 0x0f, 0x42, 0xe3, // 0x37: cmovb rsp, rbx
    0x48, 0x8d, 0x74, 0x24, 0xf0, // 0x3b: lea rsi, [rsp - 16]
    0x48, 0x83, 0xec, 0x20, // 0x40: sub rsp, 32
    0x48, 0x89, 0x2e, // 0x44: mov [rsi], rbp
    0x48, 0x8b, 0xee, // 0x47: mov rbp, rsi
    0xe8, 0xc1, 0xff, 0xff, 0xff, // 0x4a: call 0x10
    0x48, 0x8b, 0xe5, // 0x4f: mov rsp, rbp
    0xf8, // 0x52: clc
    0x5d, // 0x53: pop rbp
    0xc3, // 0x54: ret
    0x90,
];
const ENTRY: u64 = CODE + 0x10;

struct Lisp;

impl Modules for Lisp {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (CODE..CODE + 0x1000).contains(&avma).then_some(Module {
            table: None,
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        // Surrounded by zeros.
        into.fill(0);
        let before = CODE.saturating_sub(avma) as usize;
        let text = TEXT.get(avma.saturating_sub(CODE) as usize..);
        if let (Some(text), Some(into)) = (text, into.get_mut(before..)) {
            let len = text.len().min(into.len());
            into[..len].copy_from_slice(&text[..len]);
        }
        into.len()
    }
}

/// Executes the code and tracks the calls.
struct Machine {
    ip: u64,
    rsp: u64,
    rbp: u64,
    rsi: u64,
    words: [u64; WORDS],
    /// Return addresses, outermost first.
    calls: Vec<u64>,
}

impl Machine {
    /// Starts in the function after one call. `stale` is the initial value of all stack words.
    fn new(stale: u64) -> Machine {
        let top = STACK + 8 * (WORDS as u64 - 8);
        let mut machine = Machine {
            ip: ENTRY,
            rsp: top - 8,
            rbp: top,
            rsi: 0,
            words: [stale; WORDS],
            calls: vec![CODE + 5],
        };
        *machine.word(top) = STACK + 8 * (WORDS as u64 - 2);
        *machine.word(top - 8) = CODE + 5;
        machine
    }

    fn word(&mut self, avma: u64) -> &mut u64 {
        &mut self.words[((avma - STACK) / 8) as usize]
    }

    /// Executes an instruction. Calls beyond this depth return at once.
    fn step(&mut self, depth: usize) {
        let at = (self.ip - CODE) as usize;
        let len = match &TEXT[at..] {
            [0x8f, 0x45, 0x08, ..] => {
                *self.word(self.rbp + 8) = *self.word(self.rsp);
                self.rsp += 8;
                3
            }
            [0x48, 0x8d, 0x74, 0x24, 0xf0, ..] => {
                self.rsi = self.rsp - 16;
                5
            }
            [0x48, 0x83, 0xec, by, ..] => {
                self.rsp -= u64::from(*by);
                4
            }
            [0x48, 0x89, 0x2e, ..] => {
                *self.word(self.rsi) = self.rbp;
                3
            }
            [0x48, 0x89, 0x2c, 0x24, ..] => {
                *self.word(self.rsp) = self.rbp;
                4
            }
            [0x48, 0x8b, 0xee, ..] => {
                self.rbp = self.rsi;
                3
            }
            [0x48, 0x8b, 0xec, ..] => {
                self.rbp = self.rsp;
                3
            }
            [0xe8, ..] if self.calls.len() <= depth => {
                self.rsp -= 8;
                *self.word(self.rsp) = self.ip + 5;
                self.calls.push(self.ip + 5);
                self.ip = ENTRY;
                return;
            }
            [0xe8, ..] => {
                self.rsp = self.rbp + 16;
                self.rbp = *self.word(self.rbp);
                5
            }
            [0x48, 0x0f, 0x42, 0xe3, ..] => 4,
            [0x48, 0x8b, 0xe5, ..] => {
                self.rsp = self.rbp;
                3
            }
            [0xf8, ..] => 1,
            [0x5d, ..] => {
                self.rbp = *self.word(self.rsp);
                self.rsp += 8;
                1
            }
            [0xc3, ..] => {
                self.ip = *self.word(self.rsp);
                self.rsp += 8;
                self.calls.pop();
                return;
            }
            other => panic!("{other:x?}"),
        };
        self.ip += len;
    }

    /// Returns the unwound return addresses, outermost first.
    fn unwound(&mut self, unwinder: &mut Unwinder) -> Vec<u64> {
        let from = ((self.rsp - STACK) / 8) as usize;
        let words = self.words[from..].iter();
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        let mut registers = Registers::new(Arch::X86_64, self.ip, self.rsp);
        registers.set(6, self.rbp);
        registers.set(4, self.rsi);
        let mut frames = Vec::new();
        let dump = StackDump::new(self.rsp, &bytes);
        unwinder.unwind(&registers, &dump, &Lisp, self.calls.len() + 1, &mut frames);
        frames.iter().skip(1).rev().map(|f| f.address).collect()
    }
}

#[test]
fn no_caller_is_wrong_at_any_instruction() {
    // The remains of earlier calls: nothing, or another return address of the function.
    for stale in [0, CODE + 0x37, CODE + 0x4f] {
        let mut machine = Machine::new(stale);
        let mut unwinder = Unwinder::new(Arch::X86_64);
        let (mut whole, mut cut) = (0, 0);
        while !machine.calls.is_empty() {
            let found = machine.unwound(&mut unwinder);
            let at = machine.ip - CODE;
            let calls = &machine.calls;
            assert!(
                calls.ends_with(&found),
                "at {at:#x}: {found:x?} for {calls:x?}"
            );
            match found.len() == calls.len() {
                true => whole += 1,
                false => cut += 1,
            }
            machine.step(5);
        }
        // Stacks are cut if the top of the stack may be a return address, and in a third of the
        // cases with only the frame pointer.
        assert!(whole > 3_000 && cut * 4 < whole, "{cut} of {}", whole + cut);
    }
}
