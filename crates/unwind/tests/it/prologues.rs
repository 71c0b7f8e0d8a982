//! Sampled JIT code, at each instruction of a prologue.

use rprof_unwind::{Arch, Module, Modules, Registers, StackDump, Unwinder};

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

struct Jit {
    is_readable: bool,
}

impl Modules for Jit {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (CODE..CODE + 0x1000).contains(&avma).then_some(Module {
            table: None,
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let at = avma.checked_sub(CODE).map(|at| at as usize);
        let known = at.and_then(|at| TEXT.get(at..)).unwrap_or(&[]);
        let len = known
            .len()
            .min(into.len())
            .min(if self.is_readable { 26 } else { 0 });
        into[..len].copy_from_slice(&known[..len]);
        len
    }
}

impl Jit {
    /// Returns the caller of a frame at `ip`. The frame pointer points to one of the stack's words.
    fn caller(&self, ip: u64, fp: usize, words: &[u64]) -> Option<u64> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut registers = Registers::new(Arch::X86_64, ip, STACK);
        registers.set(6, STACK + 8 * fp as u64);
        let mut frames = Vec::new();
        let dump = StackDump::new(STACK, &bytes);
        Unwinder::new(Arch::X86_64).unwind(&registers, &dump, self, 2, &mut frames);
        frames.get(1).map(|frame| frame.address)
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
    assert_eq!(Jit { is_readable: true }.callers(), [Some(CALLER); 5]);
}

#[test]
fn code_that_cannot_be_read_is_not_taken_to_have_made_its_frame() {
    let [entry, pushed, made @ ..] = Jit { is_readable: false }.callers();
    assert_eq!((entry, pushed), (None, None), "they stay cut");
    assert_eq!(made, [Some(CALLER); 3]);
}

#[test]
fn a_stack_with_two_return_addresses_stays_cut() {
    // The code ahead does not show whether the frame exists.
    let words = [OUTER, 3, STACK + 32, CALLER, 0, OUTER];
    assert_eq!(
        Jit { is_readable: true }.caller(ENTRY + 13, 2, &words),
        None
    );
}
