//! Sampled JIT code, at each instruction of a prologue.

use crate::image::{eh_frame, image};
use rprof_unwind::{
    Arch, FoundBy, Module, Modules, Registers, StackDump, StackFrame, UnwindTable, Unwinder,
};

const CODE: u64 = 0x9_0000;
const STACK: u64 = 0x7000;
/// Return addresses after calls: the function's caller and its caller.
const CALLER: u64 = CODE + 5;
const OUTER: u64 = CODE + 10;
/// Two calls; then `push rbp; mov rbp, rsp; sub rsp, 16; mov rax, [rbp - 8]; nop; jmp rax`, which
/// defeats any simulation.
const TEXT: [u8; 26] = [
    0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 16, 0x48, 0x8b,
    0x45, 0xf8, 0x90, 0xff, 0xe0, 0x90,
];
const ENTRY: u64 = CODE + 10;

struct Jit(&'static [u8]);

impl Modules for Jit {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (CODE..CODE + 0x1000).contains(&avma).then_some(Module {
            table: None,
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let at = avma.checked_sub(CODE).map(|at| at as usize);
        let known = at.and_then(|at| self.0.get(at..)).unwrap_or(&[]);
        let len = known.len().min(into.len());
        into[..len].copy_from_slice(&known[..len]);
        len
    }
}

impl Jit {
    /// Returns the caller of a frame at `ip`. The frame pointer points to one of the stack's words.
    fn caller(&self, ip: u64, fp: usize, words: &[u64]) -> Option<u64> {
        self.caller_with(ip, fp, words, &[])
    }

    /// The same with other registers, by DWARF number.
    fn caller_with(&self, ip: u64, fp: usize, words: &[u64], others: &[(u8, u64)]) -> Option<u64> {
        let frame = self.frame_with(ip, fp, words, others);
        frame.map(|frame| frame.address)
    }

    fn frame_with(
        &self,
        ip: u64,
        fp: usize,
        words: &[u64],
        others: &[(u8, u64)],
    ) -> Option<StackFrame> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut registers = Registers::new(Arch::X86_64, ip, STACK);
        registers.set(6, STACK + 8 * fp as u64);
        for (register, value) in others {
            registers.set(*register, *value);
        }
        let mut frames = Vec::new();
        let dump = StackDump::new(STACK, &bytes);
        Unwinder::new(Arch::X86_64).unwind(&registers, &dump, self, 2, &mut frames);
        frames.get(1).copied()
    }

    /// Returns the callers at each instruction: before and after saving the frame pointer, with the
    /// frame, with its space reserved, and where the code ahead does not use it.
    fn callers(&self) -> [Option<u64>; 5] {
        let saved = STACK + 8 * 2;
        [
            self.caller(ENTRY, 1, &[CALLER, 0, OUTER]),
            self.caller(ENTRY + 1, 2, &[saved, CALLER, 0, OUTER]),
            self.caller(ENTRY + 4, 0, &[saved, CALLER, 0, OUTER]),
            self.caller(ENTRY + 8, 2, &[1, 3, STACK + 32, CALLER, 0, OUTER]),
            self.caller(ENTRY + 13, 2, &[1, 3, STACK + 32, CALLER, 0, OUTER]),
        ]
    }
}

#[test]
fn no_caller_is_skipped_in_a_prologue() {
    assert_eq!(Jit(&TEXT).callers(), [Some(CALLER); 5]);
}

#[test]
fn code_that_cannot_be_read_is_not_taken_to_have_made_its_frame() {
    let [entry, pushed, made @ ..] = Jit(&[]).callers();
    assert_eq!((entry, pushed), (None, None), "they stay cut");
    assert_eq!(made, [Some(CALLER); 3]);
}

#[test]
fn a_stack_with_two_return_addresses_stays_cut() {
    // The code ahead does not show whether the frame exists.
    let words = [OUTER, 3, STACK + 32, CALLER, 0, OUTER];
    assert_eq!(Jit(&TEXT).caller(ENTRY + 13, 2, &words), None);
}

/// Two calls; then baseline code of V8: `mov ebx, 24; call +18; push rax; mov [rbp - 48], rax; leave; ret`, and what it
/// calls: `mov r8, [rdi + 39]; pop r15; push rbp; mov rbp, rsp; push rsi; push r15; ret`.
const BASELINE: [u8; 43] = [
    0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xbb, 24, 0, 0, 0, 0xe8, 8, 0, 0, 0, 0x50, 0x48, 0x89,
    0x45, 0xd0, 0xc9, 0xc3, 0x90, 0x4c, 0x8b, 0x47, 0x27, 0x41, 0x5f, 0x55, 0x48, 0x89, 0xe5, 0x56,
    0x41, 0x57, 0xc3, 0x90,
];

#[test]
fn no_caller_is_skipped_before_a_function_that_makes_the_frame() {
    let jit = Jit(&BASELINE);
    for ip in [ENTRY, ENTRY + 5] {
        let words = [CALLER, 1, 2, STACK + 48, OUTER, 3, 4];
        assert_eq!(jit.caller(ip, 3, &words), Some(CALLER), "{ip:#x}");
    }
    // In the function itself: its caller has a frame, and waits in r15.
    let (called, made) = (ENTRY + 18, ENTRY + 10);
    assert_eq!(
        jit.caller(called, 2, &[made, CALLER, STACK + 40, OUTER]),
        Some(made)
    );
    let words = [STACK + 24, CALLER, 1, STACK + 48, OUTER];
    assert_eq!(
        jit.caller_with(ENTRY + 28, 0, &words, &[(15, made)]),
        Some(made)
    );
}

/// Two calls; then the end of V8's interpreter: `leave; pop rcx; add rsp, rbx; push rcx; ret`.
const INTERPRETER: [u8; 18] = [
    0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc9, 0x59, 0x48, 0x01, 0xdc, 0x51, 0xc3, 0x90,
];

#[test]
fn no_caller_is_skipped_while_arguments_are_removed() {
    let (jit, rbx, rcx) = (Jit(&INTERPRETER), 3, 2);
    let frame = [7, STACK + 64, CALLER, 1, 2, OUTER, 3, 4];
    for (ip, from, fp, popped) in [
        (ENTRY, 0, 1, 9),
        (ENTRY + 1, 2, 6, 9),
        (ENTRY + 2, 3, 5, CALLER),
    ] {
        let found = jit.caller_with(ip, fp, &frame[from..], &[(rbx, 16), (rcx, popped)]);
        assert_eq!(found, Some(CALLER), "{ip:#x}");
    }
    // The number comes from memory: mov ebx, [rbx + 43].
    let loaded: &[u8] = &[
        0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x8b, 0x5b, 0x2b, 0xc9, 0x59, 0x48, 0x01, 0xdc, 0x51,
        0xc3, 0x90,
    ];
    let found = Jit(loaded).frame_with(ENTRY, 1, &frame, &[(rbx, 16)]);
    let found = found.map(|frame| (frame.address, frame.found_by));
    assert_eq!(found, Some((CALLER, FoundBy::Code)));
    // Nothing holds the return address: mov ebx, [rbx + 43]; leave; add rsp, rbx; ret.
    let lost: &[u8] = &[
        0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x8b, 0x5b, 0x2b, 0xc9, 0x48, 0x01, 0xdc, 0xc3, 0x90,
    ];
    let found = Jit(lost).frame_with(ENTRY, 1, &frame, &[(rbx, 16)]);
    assert!(!found.is_some_and(|frame| frame.found_by == FoundBy::Code));
    // After a call the register has another value.
    let text: &[u8] = &[0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x48, 0x01, 0xc4, 0xc3];
    let words = [1, 2, OUTER, 3];
    assert_eq!(Jit(text).caller_with(CODE + 5, 3, &words, &[(0, 16)]), None);
    assert_eq!(
        Jit(text).caller_with(CODE + 10, 3, &words, &[(0, 16)]),
        Some(OUTER)
    );
}

/// Two calls; then `movabs r11, CODE + 44; lea r11, [r11 - 4]; jmp r11`, and at 40 `add rsp, 24; ret`.
const CONSTANT_JUMP: [u8; 46] = [
    0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x49, 0xbb, 44, 0, 9, 0, 0, 0, 0, 0, 0x4d, 0x8d, 0x5b,
    0xfc, 0x41, 0xff, 0xe3, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4, 0xf4,
    0xf4, 0x48, 0x83, 0xc4, 24, 0xc3, 0x90,
];

/// As in PyPy: the ways out of generated code are jumps through a register that the code has just loaded.
#[test]
fn jumps_to_constant_addresses_are_followed() {
    let words = [1, 2, 3, CALLER, 0, OUTER];
    let jit = Jit(&CONSTANT_JUMP);
    assert_eq!(jit.caller(ENTRY, 4, &words), Some(CALLER));
    // The sampled register may have any value before the jump of another path.
    let jump = ENTRY + 14;
    let found = jit.caller_with(jump, 7, &words, &[(11, CODE + 40)]);
    assert_eq!(found, None);
}

/// Ten loops of 230 instructions, each behind a branch that skips it; then `add rsp, 24; ret`. All
/// instructions in a row are more than a search follows.
#[test]
fn long_loops_are_skipped() {
    const LOOP: usize = 230;
    let mut text = vec![0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0];
    for _ in 0..10 {
        // test eax, eax; je past the loop
        text.extend([0x85, 0xc0, 0x0f, 0x84]);
        text.extend((LOOP as u32 + 8).to_le_bytes());
        text.extend([0x90; LOOP]);
        // dec eax; jne to the start of the loop
        text.extend([0xff, 0xc8, 0x0f, 0x85]);
        text.extend((-(LOOP as i32) - 8).to_le_bytes());
    }
    text.extend([0x48, 0x83, 0xc4, 24, 0xc3, 0x90]);
    let words = [1, 2, 3, CALLER, 0, OUTER];
    assert_eq!(Jit(text.leak()).caller(ENTRY, 4, &words), Some(CALLER));
}

/// An interpreter of assembly with one rule for all of it, from 0x1000 on: CFA is rsp + 32, with rbx at
/// CFA - 16. Then a caller in C.
struct Interpreter(UnwindTable);

/// `push rbx; sub rsp, 16; mov eax, 1; jmp [rdx + rax*8]`; `call helper; jmp [rdx + rax*8]`;
/// `add rsp, 16; pop rbx; ret`; `helper: xor eax, eax; ret`.
const SHARED: [u8; 34] = [
    0x53, 0x48, 0x83, 0xec, 16, 0xb8, 1, 0, 0, 0, 0xff, 0x24, 0xc2, // 0x00
    0xe8, 0x0a, 0, 0, 0, 0xff, 0x24, 0xc2, // 0x0d
    0x48, 0x83, 0xc4, 16, 0x5b, 0xc3, 0x90, // 0x15
    0x31, 0xc0, 0xc3, 0x90, 0x90, 0x90, // 0x1c
];

/// Return addresses: behind calls of the interpreter and of its helper by C, and of the helper by the
/// interpreter.
const OF_INTERPRETER: u64 = 0x1105;
const OF_HELPER: u64 = 0x110f;
const WITHIN: u64 = 0x1012;

impl Modules for Interpreter {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (0x1000..0x2000).contains(&avma).then_some(Module {
            table: Some(&self.0),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let call = |behind: u64, target: u64| {
            let [a, b, c, d, ..] = target.wrapping_sub(behind).to_le_bytes();
            (behind - 5, vec![0xe8, a, b, c, d])
        };
        let all = [
            (0x1000, SHARED.to_vec()),
            call(OF_INTERPRETER, 0x1000),
            call(OF_HELPER, 0x101c),
        ];
        for (at, byte) in (avma..).zip(into.iter_mut()) {
            let known = all.iter().find_map(|(start, code)| {
                let index = at.checked_sub(*start)?;
                code.get(index as usize)
            });
            *byte = *known.unwrap_or(&0x90);
        }
        into.len()
    }

    fn generation(&self) -> Option<u64> {
        Some(1)
    }
}

#[test]
fn one_rule_for_functions_with_and_without_frame_skips_no_caller() {
    const RBX: u8 = 3;
    let plain = [0x0c, 7, 8, 0x90, 1];
    let fdes: [(u64, u64, &[u8]); 2] = [(0x1000, 0x22, &[0x0e, 32, 0x83, 2]), (0x1100, 0x100, &[])];
    let section = eh_frame("", 16, &plain, &fdes);
    let table = UnwindTable::parse(&image(62, &[(".eh_frame", 0x5000, &section)])).unwrap();
    let process = Interpreter(table);
    let found = |ip: u64, words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut registers = Registers::new(Arch::X86_64, ip, STACK);
        registers.set(RBX, 77);
        let (mut frames, mut kept) = (Vec::new(), Vec::new());
        let dump = StackDump::new(STACK, &bytes);
        Unwinder::new(Arch::X86_64).unwind_with_registers(
            &registers,
            &dump,
            &process,
            2,
            &mut frames,
            &mut kept,
        );
        let caller = frames.get(1).map(|frame| frame.address);
        (caller, kept.get(1).and_then(|registers| registers.get(RBX)))
    };
    // A stale return address stands where the rule has it.
    let stale = OF_INTERPRETER;
    for (ip, words, expected) in [
        // Prologue, body, epilogue.
        (
            0x1000,
            &[OF_INTERPRETER, 1, 2, stale][..],
            (OF_INTERPRETER, 77),
        ),
        (
            0x1001,
            &[55, OF_INTERPRETER, 2, stale],
            (OF_INTERPRETER, 55),
        ),
        (0x1005, &[1, 2, 55, OF_INTERPRETER, 4], (OF_INTERPRETER, 55)),
        (0x1012, &[1, 2, 55, OF_INTERPRETER, 4], (OF_INTERPRETER, 55)),
        (0x1015, &[1, 2, 55, OF_INTERPRETER, 4], (OF_INTERPRETER, 55)),
        (
            0x1019,
            &[55, OF_INTERPRETER, 2, stale],
            (OF_INTERPRETER, 55),
        ),
        (0x101a, &[OF_INTERPRETER, 1, 2, stale], (OF_INTERPRETER, 77)),
        // The helper, called by C and by the interpreter.
        (0x101c, &[OF_HELPER, 1, 2, stale], (OF_HELPER, 77)),
        (0x101e, &[OF_HELPER, 1, 2, stale], (OF_HELPER, 77)),
        (0x101e, &[WITHIN, 1, 2, 55, OF_INTERPRETER], (WITHIN, 77)),
    ] {
        assert_eq!(
            found(ip, words),
            (Some(expected.0), Some(expected.1)),
            "{ip:#x}"
        );
    }
    // No call stands before this address.
    assert_eq!(found(0x1012, &[1, 2, 55, 0x1120, 4]).0, None);
}
