//! Code without call frame information, and code that its call frame information does not describe.

use crate::image::{eh_frame, image};
use rprof_unwind::{
    Arch, FoundBy, FrameKind, Module, Modules, Registers, StackDump, StackFrame, TruncationReason,
    UnwindOutcome, UnwindTable, Unwinder,
};

const RBX: u8 = 3;
const RBP: u8 = 6;

/// Code without call frame information, from 0x1000 on.
pub(crate) struct Undescribed {
    pub(crate) table: UnwindTable,
    pub(crate) code: Vec<u8>,
}

impl Modules for Undescribed {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (0x1000..0x2000).contains(&avma).then_some(Module {
            table: Some(&self.table),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let rest = avma.checked_sub(0x1000);
        let rest = rest.and_then(|from| self.code.get(from as usize..));
        let rest = rest.unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        len
    }
}

/// A function ends with a call that does not return, or with two, as of `longjmp` and
/// `__stack_chk_fail`. The next one, which is long, begins behind it.
#[test]
fn a_call_that_does_not_return_does_not_lead_to_the_next_function() {
    for calls in [1, 2] {
        let (found, end) = at_the_end_of_a_function(calls);
        assert_eq!(found, [ENDLESS, BEHIND_LAST], "{calls}: {end:?}");
        assert!(
            matches!(end, UnwindOutcome::Truncated(_)),
            "{calls}: {end:?}"
        );
    }
}

const ENDLESS: u64 = 0x1800;
const BEHIND_LAST: u64 = 0x1145;

/// Returns the frames in a function that the first of `calls` calls at the end of another one called.
fn at_the_end_of_a_function(calls: u64) -> (Vec<u64>, UnwindOutcome) {
    const NEXT: u64 = 0x1150;
    const BEHIND_NEXT: u64 = 0x1a00;
    let mut code = vec![0x90; 0x10000];
    let mut put = |at: u64, bytes: &[u8]| {
        let at = at as usize - 0x1000;
        code[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let last = (0..calls).map(|number| (BEHIND_LAST + 5 * number, ENDLESS));
    for (behind, target) in last.chain([(BEHIND_NEXT, NEXT)]) {
        let [a, b, c, d, ..] = target.wrapping_sub(behind).to_le_bytes();
        put(behind - 5, &[0xe8, a, b, c, d]);
    }
    put(ENDLESS, &[0xc3]);
    // sub rsp, 8; and behind 1,000 instructions: add rsp, 8; ret
    put(NEXT, &[0x48, 0x83, 0xec, 8]);
    put(NEXT + 1000, &[0x48, 0x83, 0xc4, 8, 0xc3]);
    let mut bytes = image(62, &[]);
    bytes.resize(0x1000, 0);
    bytes.extend(&code);
    let table = UnwindTable::parse(&bytes).unwrap();
    // The stack of the function has a stale address of a caller of the next one.
    let words = [BEHIND_LAST, BEHIND_NEXT, 0, 0, 0];
    let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::X86_64).unwind(
        &Registers::new(Arch::X86_64, ENDLESS, 0x7000),
        &StackDump::new(0x7000, &stack),
        &Undescribed { table, code },
        8,
        &mut frames,
    );
    (frames.iter().map(|frame| frame.address).collect(), end)
}

/// The return address of a large frame is unreadable. Functions end with calls that do not return, as of
/// `__stack_chk_fail`, and the next ones begin behind them: there a path leads to a stale return address, whose call
/// leads to the function before.
#[test]
fn no_path_goes_through_a_call_that_does_not_return_into_the_next_function() {
    const FAIL: u64 = 0x1400;
    const BEHIND_FIRST: u64 = 0x1205;
    // lea rdi, [rip + x]
    let names = [&[0xe8][..], &[0x48, 0x8d, 0x3d]];
    let relative = |opcode: &[u8], at: u64, target: u64| {
        let behind = at + opcode.len() as u64 + 4;
        let distance = target.wrapping_sub(behind) as u32;
        [opcode, &distance.to_le_bytes()].concat()
    };
    // sub rsp, 8; jne +5; add rsp, 8; ret; and with a jump table: sub rsp, 8; jmp rax; nops
    let returns = [0x48, 0x83, 0xec, 8, 0x75, 5, 0x48, 0x83, 0xc4, 8, 0xc3];
    let table = [
        0x48, 0x83, 0xec, 8, 0xff, 0xe0, 0x66, 0x90, 0x66, 0x90, 0x90,
    ];
    // sub rsp, 0x5000; jne +8; add rsp, 0x5000; ret
    let large = [
        0x48, 0x81, 0xec, 0, 0x50, 0, 0, 0x75, 8, 0x48, 0x81, 0xc4, 0, 0x50, 0, 0, 0xc3,
    ];
    for (first, name, padding) in [
        (returns, Some(names[0]), 0),
        (returns, Some(names[1]), 0),
        (returns, None, 10),
        (table, Some(names[0]), 0),
        (table, Some(names[0]), 10),
    ] {
        let function = 0x1110 + padding;
        let next = function + 22 + padding;
        let [call_first, fail_first, fail_large] = [
            (BEHIND_FIRST - 5, 0x1100),
            (0x110b, FAIL),
            (function + 17, FAIL),
        ]
        .map(|(at, target)| (at, relative(&[0xe8], at, target)));
        let mut code = vec![
            (0x1100, &first[..]),
            (call_first.0, &call_first.1),
            (fail_first.0, &fail_first.1),
            (function, &large),
            (fail_large.0, &fail_large.1),
            (next, &[0x48, 0x83, 0xec, 8, 0x48, 0x83, 0xc4, 8, 0xc3]),
            // jmp
            (FAIL, &[0xeb, 0xfe]),
        ];
        let named: Vec<_> = (name.into_iter())
            .flat_map(|opcode| [(0x1300, function), (0x1310, next)].map(|of| (opcode, of)))
            .map(|(opcode, (at, target))| (at, relative(opcode, at, target)))
            .collect();
        code.extend(named.iter().map(|(at, bytes)| (*at, &bytes[..])));
        let program = undescribed(&[], &code);
        let stack = [BEHIND_FIRST, 0, 0].map(u64::to_le_bytes).concat();
        let mut frames = Vec::new();
        let end = Unwinder::new(Arch::X86_64).unwind(
            &Registers::new(Arch::X86_64, function + 7, 0x7000),
            &StackDump::new(0x7000, &stack),
            &program,
            8,
            &mut frames,
        );
        let found: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
        assert_eq!(found, [function + 7], "{name:x?} {padding}");
        let cut = TruncationReason::StackEnded { address: 0xc000 };
        assert_eq!(end, UnwindOutcome::Truncated(cut), "{name:x?} {padding}");
    }
}

/// A program and a library at `LIBRARY`, with 0x1000 bytes of code each.
pub(crate) struct Linked {
    program: Undescribed,
    library: Undescribed,
}

const LIBRARY: u64 = 0x10_0000;

impl Modules for Linked {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        match avma.checked_sub(LIBRARY) {
            None => self.program.find(avma),
            Some(svma) => self.library.find(svma).map(|module| Module {
                bias: LIBRARY,
                ..module
            }),
        }
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        match avma.checked_sub(LIBRARY) {
            None => self.program.code(avma, into),
            Some(svma) => self.library.code(svma, into),
        }
    }
}

pub(crate) fn undescribed(sections: &[(&str, u64, &[u8])], code: &[(u64, &[u8])]) -> Undescribed {
    let mut text = vec![0x90; 0x1000];
    for (at, bytes) in code {
        let at = *at as usize - 0x1000;
        text[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let mut bytes = image(62, sections);
    bytes.resize(0x1000, 0);
    bytes.extend(&text);
    Undescribed {
        table: UnwindTable::parse(&bytes).unwrap(),
        code: text,
    }
}

/// Assembly jumps through a table, with the frame pointer of its caller. The call before that caller's
/// return address leads through the procedure linkage table to another function.
#[test]
fn a_linkage_table_leads_to_one_function() {
    const LEAF: u64 = 0x1400;
    const MIDDLE: u64 = 0x1300;
    const BEHIND_PLT: u64 = 0x1205;
    const PLT: u64 = 0x1700;
    let call = |at: u64, target: u64| {
        let [a, b, c, d, ..] = target.wrapping_sub(at + 5).to_le_bytes();
        [0xe8, a, b, c, d]
    };
    for (linked, expected) in [
        (LEAF, &[LIBRARY + LEAF, BEHIND_PLT][..]),
        (MIDDLE, &[LIBRARY + LEAF]),
    ] {
        let program = undescribed(
            &[(".plt", PLT, &[0; 16])],
            &[
                (BEHIND_PLT - 5, &call(BEHIND_PLT - 5, PLT)),
                // jmp [rip + 0x7a]
                (PLT, &[0xff, 0x25, 0x7a, 0, 0, 0]),
                (PLT + 0x80, &(LIBRARY + linked).to_le_bytes()),
            ],
        );
        let library = undescribed(
            &[],
            &[
                // push rbp; mov rbp, rsp; call; leave; ret
                (MIDDLE, &[0x55, 0x48, 0x89, 0xe5]),
                (MIDDLE + 4, &call(MIDDLE + 4, LEAF)),
                (MIDDLE + 9, &[0xc9, 0xc3]),
                // jmp rax
                (LEAF, &[0xff, 0xe0]),
            ],
        );
        let words = [0, 0, 0x7030, BEHIND_PLT, 0, 0, 0, 0, 0, 0];
        let stack = words.map(u64::to_le_bytes).concat();
        let mut registers = Registers::new(Arch::X86_64, LIBRARY + LEAF, 0x7000);
        registers.set(RBP, 0x7010);
        let mut frames = Vec::new();
        Unwinder::new(Arch::X86_64).unwind(
            &registers,
            &StackDump::new(0x7000, &stack),
            &Linked { program, library },
            2,
            &mut frames,
        );
        let found: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
        assert_eq!(found, expected);
    }
}

/// A function without call frame information ends with a call that does not return, so the simulation runs
/// into the next one, whose return leads to a stale address behind a call of a library. The code
/// before the frame shows the slot of its caller.
#[test]
fn a_function_of_the_program_is_not_called_through_its_linkage_table() {
    const ENDLESS: u64 = 0x1300;
    const BEHIND_PLT: u64 = 0x1205;
    const BEHIND_ENDLESS: u64 = 0x1285;
    const PLT: u64 = 0x1700;
    let call = |at: u64, target: u64| {
        let [a, b, c, d, ..] = target.wrapping_sub(at + 5).to_le_bytes();
        [0xe8, a, b, c, d]
    };
    // Bound, and not yet: the entry's own push.
    for linked in [LIBRARY + 0x1300, PLT + 6] {
        let program = undescribed(
            &[(".plt", PLT, &[0; 16])],
            &[
                (BEHIND_PLT - 5, &call(BEHIND_PLT - 5, PLT)),
                (BEHIND_ENDLESS - 5, &call(BEHIND_ENDLESS - 5, ENDLESS)),
                // sub rsp, 16; call; and the next function: add rsp, 8; ret
                (ENDLESS, &[0x48, 0x83, 0xec, 16]),
                (ENDLESS + 4, &call(ENDLESS + 4, PLT)),
                (ENDLESS + 16, &[0x48, 0x83, 0xc4, 8, 0xc3]),
                // jmp [rip + 0x7a]
                (PLT, &[0xff, 0x25, 0x7a, 0, 0, 0]),
                (PLT + 0x80, &linked.to_le_bytes()),
            ],
        );
        let library = undescribed(&[], &[(0x1300, &[0xc3])]);
        let words = [0, BEHIND_PLT, BEHIND_ENDLESS, 0, 0, 0];
        let stack = words.map(u64::to_le_bytes).concat();
        let mut frames = Vec::new();
        Unwinder::new(Arch::X86_64).unwind(
            &Registers::new(Arch::X86_64, ENDLESS + 4, 0x7000),
            &StackDump::new(0x7000, &stack),
            &Linked { program, library },
            2,
            &mut frames,
        );
        let found: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
        assert_eq!(found, [ENDLESS + 4, BEHIND_ENDLESS], "{linked:x}");
    }
}

/// `main` and the first function of a thread may never return, and they are called through a pointer. The code
/// from the function's start to the frame shows the slot of the caller.
#[test]
fn a_function_that_never_returns_may_be_called_through_a_pointer() {
    const ENDLESS: u64 = 0x1801;
    const BEHIND_POINTER: u64 = 0x1285;
    const STALE: u64 = 0x1295;
    let program = undescribed(
        &[],
        &[
            // call rax
            (BEHIND_POINTER - 2, &[0xff, 0xd0]),
            (STALE - 2, &[0xff, 0xd0]),
            // ret; push rbx; sub rsp, 16; xor ebx, ebx; nop; jmp back
            (
                ENDLESS - 1,
                &[
                    0xc3, 0x53, 0x48, 0x83, 0xec, 16, 0x31, 0xdb, 0x90, 0xeb, 0xfd,
                ],
            ),
        ],
    );
    let words = [STALE, 0, 77, BEHIND_POINTER, STALE, 0];
    let stack = words.map(u64::to_le_bytes).concat();
    let library = undescribed(&[], &[]);
    let (mut frames, mut kept) = (Vec::new(), Vec::new());
    let mut registers = Registers::new(Arch::X86_64, ENDLESS + 7, 0x7000);
    registers.set(RBX, 78);
    Unwinder::new(Arch::X86_64).unwind_with_registers(
        &registers,
        &StackDump::new(0x7000, &stack),
        &Linked { program, library },
        2,
        &mut frames,
        &mut kept,
    );
    let found: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
    assert_eq!(found, [ENDLESS + 7, BEHIND_POINTER]);
    assert_eq!(kept[1].get(RBX), Some(77));
}

/// A trampoline on the stack: the process has overwritten it when its code is read.
#[test]
fn code_on_the_stack_is_read_from_the_copy() {
    struct WithStack(Undescribed);

    impl Modules for WithStack {
        fn find(&self, avma: u64) -> Option<Module<'_>> {
            let stack = Module {
                table: None,
                bias: 0,
            };
            (self.0.find(avma)).or((0x7000..0x8000).contains(&avma).then_some(stack))
        }

        fn code(&self, avma: u64, into: &mut [u8]) -> usize {
            match avma < 0x7000 {
                true => self.0.code(avma, into),
                false => {
                    into.fill(0);
                    into.len()
                }
            }
        }
    }

    const BEHIND_MIDDLE: u64 = 0x1205;
    const BEHIND_OUTER: u64 = 0x1305;
    // call rax; and the function: ret
    let call = [0xff, 0xd0];
    let code = [
        (BEHIND_MIDDLE - 2, &call[..]),
        (BEHIND_OUTER - 2, &call),
        (0x1400, &[0xc3]),
    ];
    // mov r11, 0x1400; jmp r11
    let trampoline = [0x1400_bb49, 0x9090_90e3_ff41_0000, 0x9090_9090_9090_9090];
    let words = [[BEHIND_MIDDLE, 0], [0x7040, BEHIND_OUTER]].concat();
    let stack: Vec<u8> = [&words[..], &trampoline, &[0; 8]]
        .concat()
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let mut registers = Registers::new(Arch::X86_64, 0x7020, 0x7000);
    registers.set(RBP, 0x7010);
    let mut frames = Vec::new();
    Unwinder::new(Arch::X86_64).unwind(
        &registers,
        &StackDump::new(0x7000, &stack),
        &WithStack(undescribed(&[], &code)),
        2,
        &mut frames,
    );
    let found: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
    assert_eq!(found, [0x7020, BEHIND_MIDDLE]);
}

/// Large arrays have the words of earlier signal frames. Only code that makes the system call returns from
/// a handler.
#[test]
fn an_old_signal_frame_on_the_stack_is_none() {
    const LEAF: u64 = 0x1300;
    const BEHIND: u64 = 0x1205;
    const BEHIND_OUTER: u64 = 0x1405;
    const INTERRUPTED: u64 = 0x1500;
    let call = |behind: u64, target: u64| {
        let [a, b, c, d, ..] = target.wrapping_sub(behind).to_le_bytes();
        [0xe8, a, b, c, d]
    };
    // add rsp, 0x200; ret; and: mov rax, 15; syscall
    let returns = [0x48, 0x81, 0xc4, 0, 2, 0, 0, 0xc3, 0x90];
    let restorer = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5];
    for (code, ip, caller, kind) in [
        (returns, INTERRUPTED, BEHIND_OUTER, FrameKind::Caller),
        (restorer, INTERRUPTED, INTERRUPTED, FrameKind::Interrupted),
        // Readers look up the byte before.
        (restorer, LEAF, LEAF + 1, FrameKind::Interrupted),
    ] {
        let program = undescribed(
            &[],
            &[
                (BEHIND - 5, &call(BEHIND, LEAF)),
                (BEHIND, &code),
                (BEHIND_OUTER - 5, &call(BEHIND_OUTER, BEHIND - 5)),
                (LEAF, &[0xc3]),
            ],
        );
        let mut words = [0; 80];
        words[0] = BEHIND;
        // rsp, rip, flags, cs and ss.
        words[1 + 20..][..4].copy_from_slice(&[0x7240, ip, 0x202, 0x2b << 48 | 0x33]);
        words[1 + 64] = BEHIND_OUTER;
        let stack = words.map(u64::to_le_bytes).concat();
        let mut frames = Vec::new();
        Unwinder::new(Arch::X86_64).unwind(
            &Registers::new(Arch::X86_64, LEAF, 0x7000),
            &StackDump::new(0x7000, &stack),
            &program,
            3,
            &mut frames,
        );
        let found: Vec<_> = frames.iter().map(|one| (one.address, one.kind)).collect();
        let expected = [
            (LEAF, FrameKind::Sampled),
            (BEHIND, FrameKind::Caller),
            (caller, kind),
        ];
        assert_eq!(found, expected);
    }
}

/// Inline assembly pushes a register without description, so the rule leads to no code.
#[test]
fn a_push_that_is_not_described_skips_no_caller() {
    const FUNCTION: u64 = 0x1300;
    const BEHIND: u64 = 0x1205;
    let plain = [0x0c, 7, 8, 0x90, 1];
    // CFA is rsp + 16 behind the first push.
    let section = eh_frame("", 16, &plain, &[(FUNCTION, 0x100, &[0x41, 0x0e, 16])]);
    let [a, b, c, d, ..] = (FUNCTION.wrapping_sub(BEHIND)).to_le_bytes();
    let program = undescribed(
        &[(".eh_frame", 0x5000, &section)],
        &[
            (BEHIND - 5, &[0xe8, a, b, c, d]),
            // push rbx; push rax; nop; pop rax; pop rbx; ret
            (FUNCTION, &[0x53, 0x50, 0x90, 0x58, 0x5b, 0xc3]),
        ],
    );
    let stack = [5, 6, BEHIND, 0, 0].map(u64::to_le_bytes).concat();
    let mut frames = Vec::new();
    Unwinder::new(Arch::X86_64).unwind(
        &Registers::new(Arch::X86_64, FUNCTION + 2, 0x7000),
        &StackDump::new(0x7000, &stack),
        &program,
        2,
        &mut frames,
    );
    let found: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
    assert_eq!(found, [FUNCTION + 2, BEHIND]);
}

/// A function far into which a tail call stands may have led to the target of that jump.
#[test]
fn a_caller_from_another_moment_may_have_called_a_function_that_jumps() {
    const TARGET: u64 = 0x1300;
    const OTHER: u64 = 0x1400;
    const BEHIND: u64 = 0x1205;
    let fde: &[u8] = &[];
    let functions = [
        (0x1200, 0x40, fde),
        (0x1240, 0x40, fde),
        (TARGET, 0x40, fde),
        (OTHER, 0x40, fde),
    ];
    let section = eh_frame("", 16, &[0x0c, 7, 8, 0x90, 1], &functions);
    let program = undescribed(
        &[(".eh_frame", 0x5000, &section)],
        &[
            (BEHIND - 5, &[0xe8, 0x3b, 0, 0, 0]),
            // je; jmp TARGET
            (0x1250, &[0x74, 0x10, 0xe9, 0xa9, 0, 0, 0]),
            (0x1262, &[0xc3]),
            (TARGET, &[0xc3]),
        ],
    );
    let unwinder = Unwinder::new(Arch::X86_64);
    let frame = |address| StackFrame {
        address,
        sp: 0,
        slot: 0,
        kind: FrameKind::Caller,
        found_by: FoundBy::OtherSample,
    };
    for (function, expected) in [(TARGET, true), (OTHER, false)] {
        let may = unwinder.may_call(&frame(BEHIND), &frame(function + 9), &program);
        assert_eq!(may, expected, "{function:x}");
    }
}
