//! C code that calls Lisp, as in SBCL.

use crate::image::{eh_frame, image};
use rprof_unwind::{
    Arch, Module, Modules, Registers, Root, StackDump, TruncationReason, UnwindOutcome,
    UnwindTable, Unwinder,
};

const RBP: u8 = 6;

/// Return addresses in `call_into_lisp` and in its caller, and an instruction of C code that Lisp calls.
const INTO_LISP: u64 = 0x1050;
const CALLER: u64 = 0x1210;
const LEAF: u64 = 0x1310;

/// `call [rax - 3]`, a test for several values, five registers that are popped, `mov rax, rdx`,
/// `leave`, `ret`.
const TEXT: [u8; 22] = [
    0xff, 0x50, 0xfd, 0x73, 0x03, 0x48, 0x89, 0xdc, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c,
    0x5b, 0x48, 0x89, 0xd0, 0xc9, 0xc3,
];

struct Process {
    table: UnwindTable,
    has_code: bool,
}

impl Modules for Process {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (0x1000..0x2000).contains(&avma).then_some(Module {
            table: Some(&self.table),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        if !self.has_code {
            return 0;
        }
        let place = |at: u64| at.checked_sub(INTO_LISP - 3).map(|at| at as usize);
        for (at, byte) in (avma..).zip(into.iter_mut()) {
            *byte = *place(at).and_then(|at| TEXT.get(at)).unwrap_or(&0x90);
        }
        into.len()
    }
}

/// Returns the frames' addresses of a stack whose first word is at 0x7000. The frame pointer points to `fp`.
fn unwound(words: &[u64], fp: u64) -> (Vec<u64>, UnwindOutcome) {
    unwound_at(LEAF, words, fp, true)
}

fn unwound_at(ip: u64, words: &[u64], fp: u64, has_code: bool) -> (Vec<u64>, UnwindOutcome) {
    // CFA is rsp + 8, the return address at CFA - 8; then CFA is rbp + 16, and rbp at CFA - 16.
    let plain = [0x0c, 7, 8, 0x90, 1];
    let with_frame = [0x0c, 6, 16, 0x86, 2];
    // CFA is [rbp] + 16: DW_OP_breg6 0, DW_OP_deref, DW_OP_lit16, DW_OP_plus.
    let into_lisp = [0x0c, 6, 16, 0x86, 2, 0x0f, 5, 0x76, 0, 0x06, 0x40, 0x22];
    let fdes: [(u64, u64, &[u8]); 3] = [
        (0x1000, 0x100, &into_lisp),
        (0x1200, 0x100, &with_frame),
        (0x1300, 0x100, &[]),
    ];
    let section = eh_frame("", 16, &plain, &fdes);
    let table = UnwindTable::parse(&image(62, &[(".eh_frame", 0x5000, &section)])).unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut registers = Registers::new(Arch::X86_64, ip, 0x7000);
    registers.set(RBP, fp);
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::X86_64).unwind(
        &registers,
        &StackDump::new(0x7000, &bytes),
        &Process { table, has_code },
        10,
        &mut frames,
    );
    (frames.iter().map(|frame| frame.address).collect(), end)
}

/// Lisp code that returns restores the frame pointer, while the call frame information expects its frame.
#[test]
fn no_caller_of_lisp_is_skipped() {
    let words = [
        INTO_LISP, 1, 0x7030, CALLER, 2, 3, 0x7050, 0x1220, 4, 5, 0, 0,
    ];
    let (found, end) = unwound(&words, 0x7010);
    assert_eq!(found, [LEAF, INTO_LISP, CALLER, 0x1220]);
    assert_eq!(end, UnwindOutcome::Complete(Root::NullReturnAddress));
}

/// At the end of a process its code is unreadable.
#[test]
fn no_caller_of_lisp_is_skipped_without_code() {
    let words = [
        INTO_LISP, 1, 0x7030, CALLER, 2, 3, 0x7050, 0x1220, 4, 5, 0, 0,
    ];
    let (found, end) = unwound_at(LEAF, &words, 0x7010, false);
    assert_eq!(found, [LEAF, INTO_LISP, CALLER, 0x1220]);
    assert_eq!(end, UnwindOutcome::Complete(Root::NullReturnAddress));
    // The instruction may be before the call or behind it.
    let (found, end) = unwound_at(INTO_LISP, &words, 0x7030, false);
    let reason = TruncationReason::BadCfi { address: INTO_LISP };
    assert_eq!(found, [INTO_LISP]);
    assert_eq!(end, UnwindOutcome::Truncated(reason));
}

#[test]
fn c_code_on_another_stack_is_the_root() {
    let (found, end) = unwound(&[INTO_LISP, 1], 0x9000);
    assert_eq!(found, [LEAF, INTO_LISP]);
    assert_eq!(end, UnwindOutcome::Complete(Root::SwitchedStack));
}

/// SBCL 2.2.9: the first instruction behind the call, each `pop`, `mov`, `leave` and `ret`.
#[test]
fn no_caller_is_skipped_where_lisp_has_returned() {
    let words = [
        1, 2, 3, 4, 5, 6, 0x7050, CALLER, 7, 8, 0x7070, 0x1220, 9, 10, 0, 0,
    ];
    for (at, popped) in [
        (0, 0),
        (5, 0),
        (7, 1),
        (9, 2),
        (11, 3),
        (13, 4),
        (14, 5),
        (17, 5),
    ] {
        let ip = INTO_LISP + at;
        let mut stack = words;
        stack[..popped].fill(u64::MAX);
        let (found, end) = unwound_at(ip, &stack, 0x7030, true);
        assert_eq!(found, [ip, CALLER, 0x1220], "{at}");
        assert_eq!(end, UnwindOutcome::Complete(Root::NullReturnAddress));
    }
    let ip = INTO_LISP + 18;
    let stack = [CALLER, 7, 0x7030, 0x1220, 9, 10, 0, 0];
    let (found, end) = unwound_at(ip, &stack, 0x7010, true);
    assert_eq!(found, [ip, CALLER, 0x1220]);
    assert_eq!(end, UnwindOutcome::Complete(Root::NullReturnAddress));
}
