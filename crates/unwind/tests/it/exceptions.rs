//! Functions that leave their callers' frames, as `_Unwind_RaiseException` does.

use crate::image::{eh_frame, image};
use crate::undescribed::{Undescribed, undescribed};
use rprof_unwind::{
    Arch, FrameKind, MissingWord, Module, Modules, Registers, Root, StackDump, TruncationReason,
    UnwindOutcome, UnwindTable, Unwinder,
};

const RAX: u8 = 0;
const RBX: u8 = 3;
const RCX: u8 = 2;
const RBP: u8 = 6;

/// Instructions of the function that raises: before two calls, between them, and at its end.
const RAISE: u64 = 0x1020;
const INSTALLED: u64 = 0x1038;
const LEFT: u64 = 0x1060;

/// Return addresses behind a call of the function that raises, and of another function.
const BEHIND_RAISE: u64 = 0x1210;
const BEHIND_THROWER: u64 = 0x1310;

/// Return address behind a call through a pointer.
const BEHIND_POINTER: u64 = 0x1270;

/// Return address behind a call of the function that raises, in a function that never returns, and behind a
/// call of that function.
const BEHIND_PANIC: u64 = 0x180a;
const BEHIND_CALL_OF_PANIC: u64 = 0x1350;

/// A handler of exceptions that no call stands before, but a jump.
const HANDLER: u64 = 0x1250;

/// Return address behind a call of a function whose last instruction is a call that does not return.
const BEHIND_ENDLESS: u64 = 0x1330;

/// Return address behind a call of a function that jumps to the one that raises.
const BEHIND_JUMPER: u64 = 0x1290;

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
        let call = |behind: u64, target: u64| {
            let [a, b, c, d, ..] = target.wrapping_sub(behind).to_le_bytes();
            (behind - 5, [0xe8, a, b, c, d])
        };
        let calls = [
            call(BEHIND_RAISE, 0x1000),
            call(BEHIND_THROWER, 0x1400),
            call(BEHIND_ENDLESS, 0x1500),
            call(BEHIND_JUMPER, 0x1700),
            // push rbp; nop; call
            (0x1800, [0x55, 0x90, 0x90, 0x90, 0x90]),
            call(BEHIND_PANIC, 0x1000),
            call(BEHIND_CALL_OF_PANIC, 0x1800),
            // jmp [rip + 8], to the function that raises
            (0x1700, [0xff, 0x25, 8, 0, 0]),
            (0x170e, [0, 0x10, 0, 0, 0]),
            call(0x1600, 0x1300),
            call(INSTALLED - 2, 0x1400),
            call(INSTALLED + 8, 0x1400),
            // call rax
            (BEHIND_POINTER - 5, [0x90, 0x90, 0x90, 0xff, 0xd0]),
            // jmp rax: the next function leads anywhere.
            (0x1600, [0xff, 0xe0, 0x90, 0x90, 0x90]),
        ];
        for (at, byte) in (avma..).zip(into.iter_mut()) {
            let mut inside = calls.iter().filter_map(|(start, code)| {
                let index = at.checked_sub(*start)?;
                code.get(index as usize)
            });
            let is_end = at & 0xff == 0x80 && at != 0x1580;
            let is_pointer = (0x1705..0x1716).contains(&at);
            let other = match is_end {
                true => &0xc3,
                false if is_pointer => &0,
                false => &0x90,
            };
            *byte = *inside.next().unwrap_or(other);
        }
        into.len()
    }
}

fn unwound(ip: u64, return_address: u64, has_code: bool) -> (Vec<u64>, UnwindOutcome) {
    unwound_with(ip, [return_address, 0x7040, BEHIND_THROWER], has_code)
}

/// Unwinds a stack with a return address of the first frame and the two words above it.
fn unwound_with(
    ip: u64,
    [return_address, above, next]: [u64; 3],
    has_code: bool,
) -> (Vec<u64>, UnwindOutcome) {
    let plain = [0x0c, 7, 8, 0x90, 1];
    // CFA is rbp + 16, rbp at CFA - 16, rdx at CFA - 24, rax at CFA - 32.
    // From `LEFT` on, CFA is rcx + 8, and rbp is not saved.
    let raise = [
        0x0c, 6, 16, 0x86, 2, 0x81, 3, 0x80, 4, 0x02, 0x60, 0x0c, 2, 8, 0xc6,
    ];
    let with_frame = [0x0c, 6, 16, 0x86, 2];
    let fdes: [(u64, u64, &[u8]); 8] = [
        (0x1000, 0x100, &raise),
        (0x1200, 0x100, &with_frame),
        (0x1300, 0x100, &with_frame),
        (0x1400, 0x100, &[]),
        (0x1500, 0x100, &[]),
        (0x1600, 0x100, &[]),
        (0x1700, 0x100, &[]),
        (0x1800, 0x100, &with_frame),
    ];
    let section = eh_frame("", 16, &plain, &fdes);
    let table = UnwindTable::parse(&image(62, &[(".eh_frame", 0x5000, &section)])).unwrap();
    let words = [0, 0, 0x7020, return_address, above, next, 0, 0, 0, 0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut registers = Registers::new(Arch::X86_64, ip, 0x7000);
    registers.set(RBP, 0x7010);
    registers.set(RCX, 0x7018);
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::X86_64).unwind(
        &registers,
        &StackDump::new(0x7000, &bytes),
        &Process { table, has_code },
        3,
        &mut frames,
    );
    (frames.iter().map(|frame| frame.address).collect(), end)
}

#[test]
fn an_overwritten_return_address_is_no_caller() {
    let whole = [RAISE, BEHIND_RAISE, BEHIND_THROWER];
    assert_eq!(unwound(RAISE, BEHIND_RAISE, true).0, whole);
    // The frame that handles the exception: its call leads to another function, or it has none.
    let reason = TruncationReason::BadCfi { address: RAISE };
    for return_address in [BEHIND_THROWER, BEHIND_ENDLESS, HANDLER] {
        let (found, end) = unwound(RAISE, return_address, true);
        assert_eq!(
            (&found[..], end),
            (&[RAISE][..], UnwindOutcome::Truncated(reason)),
            "{return_address:x}"
        );
    }
}

/// At the end of a process its code is unreadable, so no call refutes the handler.
#[test]
fn the_last_instructions_have_no_caller() {
    let reason = TruncationReason::BadCfi { address: LEFT };
    for (return_address, has_code) in [(BEHIND_RAISE, true), (HANDLER, false)] {
        let (found, end) = unwound(LEFT, return_address, has_code);
        assert_eq!(
            (&found[..], end),
            (&[LEFT][..], UnwindOutcome::Truncated(reason))
        );
    }
}

/// The function has overwritten its saved registers, and perhaps its return address by the one with
/// which the frame that handles the exception would have been returned to.
#[test]
fn an_overwritten_frame_has_a_caller_only_if_it_calls_the_function() {
    let unknown = TruncationReason::MissingRegister {
        address: BEHIND_RAISE,
        register: RBP,
    };
    let left = TruncationReason::BadCfi { address: INSTALLED };
    for (return_address, has_code, expected, reason) in [
        (BEHIND_RAISE, true, &[INSTALLED, BEHIND_RAISE][..], unknown),
        (BEHIND_RAISE, false, &[INSTALLED], left),
        (BEHIND_POINTER, true, &[INSTALLED], left),
    ] {
        let (found, end) = unwound(INSTALLED, return_address, has_code);
        assert_eq!(
            (&found[..], end),
            (expected, UnwindOutcome::Truncated(reason))
        );
    }
    // Before that, a call through a pointer may lead anywhere.
    let found = unwound(RAISE, BEHIND_POINTER, true).0;
    assert_eq!(found, [RAISE, BEHIND_POINTER, BEHIND_THROWER]);
}

/// A function that calls `JUMPER` may have called the function that raises: a tail call through a pointer.
/// Rust's `rust_panic` calls `__rust_start_panic` so.
#[test]
fn a_tail_call_leads_to_the_function_that_raises() {
    let found = unwound(INSTALLED, BEHIND_JUMPER, true);
    let unknown = TruncationReason::MissingRegister {
        address: BEHIND_JUMPER,
        register: RBP,
    };
    let expected = vec![INSTALLED, BEHIND_JUMPER];
    assert_eq!(found, (expected, UnwindOutcome::Truncated(unknown)));
}

/// The stack above a refused return address looks as if the refused caller had been called by another
/// one, which a second way to a caller would find.
#[test]
fn a_refused_caller_stays_refused() {
    for (ip, refused) in [(INSTALLED, BEHIND_POINTER), (RAISE, HANDLER)] {
        let (found, _) = unwound_with(ip, [refused, BEHIND_RAISE, BEHIND_THROWER], true);
        assert_eq!(found, [ip], "{refused:x}");
    }
}

/// The frame pointer is unknown behind the function that raises. The code shows the size of the frame.
#[test]
fn a_function_that_panics_has_a_caller_without_its_frame_pointer() {
    let words = [BEHIND_PANIC, 0x7040, BEHIND_CALL_OF_PANIC];
    let (found, _) = unwound_with(INSTALLED, words, true);
    assert_eq!(found, [INSTALLED, BEHIND_PANIC, BEHIND_CALL_OF_PANIC]);
    // Behind a call of another function.
    let words = [BEHIND_PANIC, 0x7040, BEHIND_THROWER];
    let (found, _) = unwound_with(INSTALLED, words, true);
    assert_eq!(found, [INSTALLED, BEHIND_PANIC]);
}

/// Returns a list of two Go functions without frames, at 0x1000 and 0x1100, as of Go 1.20.
fn go_functions() -> Vec<u8> {
    const HEADER: u64 = 72;
    // The size is 0 for 0x100 bytes.
    const LISTS: [u8; 5] = [0xff, 2, 0x80, 2, 0];
    let mut table = Vec::new();
    for at in 0..3_u32 {
        table.extend([0x100 * at, 24 + 44 * at].map(u32::to_le_bytes).concat());
    }
    let mut description = [0; 44];
    description[16] = 1;
    table.extend(description.repeat(2));
    let lists = HEADER + table.len() as u64;
    let mut section = 0xffff_fff1_u32.to_le_bytes().to_vec();
    section.extend([0, 0, 1, 8]);
    section.extend(
        [2, 1, 0x1000, 0, 0, 0, lists, HEADER]
            .map(u64::to_le_bytes)
            .concat(),
    );
    section.extend(table);
    section.extend(LISTS);
    section
}

/// The first instruction of a function reads through a nil pointer. Go's signal handler injects a call,
/// so its address is the return address.
#[test]
fn a_function_that_panics_at_once_is_the_caller() {
    const PANIC: u64 = 0x1020;
    const FUNCTION: u64 = 0x1100;
    for (to, expected) in [(FUNCTION, FUNCTION + 1), (FUNCTION + 8, FUNCTION + 8)] {
        let bytes = image(62, &[(".gopclntab", 0x9000, &go_functions())]);
        let table = UnwindTable::parse(&bytes).unwrap();
        let stack = [to, 0, 0].map(u64::to_le_bytes).concat();
        let mut frames = Vec::new();
        let end = Unwinder::new(Arch::X86_64).unwind(
            &Registers::new(Arch::X86_64, PANIC, 0x7000),
            &StackDump::new(0x7000, &stack),
            &Undescribed {
                table,
                code: vec![0xcc; 0x1000],
            },
            8,
            &mut frames,
        );
        let found: Vec<u64> = frames.iter().map(|frame| frame.address).collect();
        let root = UnwindOutcome::Complete(Root::NullReturnAddress);
        assert_eq!((&found[..], end), (&[PANIC, expected][..], root));
    }
}

/// A signal handler of Go returns to `sigreturn`, whose call frame information is of a usual function.
#[test]
fn a_signal_handler_of_go_leads_to_the_interrupted_code() {
    const HANDLER: u64 = 0x1020;
    const SIGNAL_RETURN: u64 = 0x1100;
    const INTERRUPTED: u64 = 0x1030;
    let bytes = image(62, &[(".gopclntab", 0x9000, &go_functions())]);
    let table = UnwindTable::parse(&bytes).unwrap();
    let mut code = vec![0xcc; 0x1000];
    // mov rax, 15; syscall
    code[0x100..0x109].copy_from_slice(&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05]);
    // The kernel's signal frame lies behind the return address.
    let mut words = [0; 30];
    words[0] = SIGNAL_RETURN;
    let frame = &mut words[1..];
    frame[20] = 0x70e0;
    frame[21] = INTERRUPTED;
    frame[22] = 0x202;
    frame[23] = 0x2b << 48 | 0x33;
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::X86_64).unwind(
        &Registers::new(Arch::X86_64, HANDLER, 0x7000),
        &StackDump::new(0x7000, words.map(u64::to_le_bytes).as_flattened()),
        &Undescribed { table, code },
        8,
        &mut frames,
    );
    let found: Vec<_> = frames.iter().map(|one| (one.address, one.kind)).collect();
    let expected = [
        (HANDLER, FrameKind::Sampled),
        (SIGNAL_RETURN + 1, FrameKind::Caller),
        (INTERRUPTED, FrameKind::Interrupted),
    ];
    let root = UnwindOutcome::Complete(Root::NullReturnAddress);
    assert_eq!((&found[..], end), (&expected[..], root));
}

/// The kernel is in the system call of `__restore_rt`, which is the last instruction with call frame
/// information.
#[test]
fn a_signal_return_leads_to_the_interrupted_code() {
    const BEHIND_CALL: u64 = 0x1109;
    const INTERRUPTED: u64 = 0x1030;
    // mov rax, 15; syscall
    let system_call = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
    let process = undescribed(&[], &[(0x1100, &system_call)]);
    let mut frame = [0; 30];
    frame[20] = 0x70e0;
    frame[21] = INTERRUPTED;
    frame[22] = 0x202;
    frame[23] = 0x2b << 48 | 0x33;
    let mut frames = Vec::new();
    Unwinder::new(Arch::X86_64).unwind(
        &Registers::new(Arch::X86_64, BEHIND_CALL, 0x7000),
        &StackDump::new(0x7000, frame.map(u64::to_le_bytes).as_flattened()),
        &process,
        2,
        &mut frames,
    );
    let found: Vec<_> = frames.iter().map(|one| (one.address, one.kind)).collect();
    let expected = [
        (BEHIND_CALL, FrameKind::Sampled),
        (INTERRUPTED, FrameKind::Interrupted),
    ];
    assert_eq!(found, expected);
}

/// Returns the addresses of a stack at 0x7000, and its end.
fn unwound_by(
    registers: &Registers,
    words: &[u64],
    process: &Undescribed,
) -> (Vec<u64>, UnwindOutcome) {
    let stack: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::X86_64).unwind(
        registers,
        &StackDump::new(0x7000, &stack),
        process,
        8,
        &mut frames,
    );
    (frames.iter().map(|frame| frame.address).collect(), end)
}

/// Inline assembly keeps its stack pointer in a register while it calls on another stack.
#[test]
fn a_call_on_another_stack_has_its_callers_there() {
    const BEHIND_CALL: u64 = 0x100b;
    let plain = [0x0c, 7, 8, 0x90, 1];
    let section = eh_frame("", 16, &plain, &[(0x1000, 0x20, &[]), (0x1100, 0x20, &[])]);
    let table = UnwindTable::parse(&image(62, &[(".eh_frame", 0x5000, &section)])).unwrap();
    let mut code = vec![0x90; 0x1000];
    // mov rbx, rsp; mov rsp, rax; call 0x1100; mov rsp, rbx; ret
    let calls = [
        0x48, 0x89, 0xe3, 0x48, 0x89, 0xc4, 0xe8, 0xf5, 0, 0, 0, 0x48, 0x89, 0xdc, 0xc3,
    ];
    code[..calls.len()].copy_from_slice(&calls);
    let mut registers = Registers::new(Arch::X86_64, 0x1100, 0x7000);
    registers.set(RBX, 0x9_0000_0000);
    let (found, end) = unwound_by(
        &registers,
        &[BEHIND_CALL, 0, 0],
        &Undescribed { table, code },
    );
    assert_eq!(found, [0x1100, BEHIND_CALL]);
    let reason = TruncationReason::OtherStack {
        address: BEHIND_CALL,
        missing: MissingWord::ReturnAddress(0x9_0000_0000),
    };
    assert_eq!(end, UnwindOutcome::Truncated(reason));
}

/// LLVM's outliner makes functions without description. Readers look up the byte before an outer frame.
#[test]
fn an_interrupted_function_begins_where_a_description_ends() {
    const BEHIND_CALL: u64 = 0x1109;
    // mov rax, 15; syscall
    let system_call = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
    let plain = [0x0c, 7, 8, 0x90, 1];
    let section = eh_frame("", 16, &plain, &[(0x1000, 0x30, &[])]);
    let sections: [(&str, u64, &[u8]); 1] = [(".eh_frame", 0x5000, &section)];
    for (interrupted, expected) in [(0x102f, 0x102f), (0x1030, 0x1031), (0x1031, 0x1031)] {
        let table = UnwindTable::parse(&image(62, &sections)).unwrap();
        let mut code = vec![0x90; 0x1000];
        code[0x100..][..system_call.len()].copy_from_slice(&system_call);
        let mut frame = [0; 30];
        frame[20..24].copy_from_slice(&[0x70e0, interrupted, 0x202, 0x2b << 48 | 0x33]);
        let registers = Registers::new(Arch::X86_64, BEHIND_CALL, 0x7000);
        let (found, _) = unwound_by(&registers, &frame, &Undescribed { table, code });
        assert_eq!(found[..2], [BEHIND_CALL, expected]);
    }
}

/// In `clone3` of glibc, the call frame information ends before the system call. The child begins with
/// a new stack, which may have stale words.
#[test]
fn a_thread_at_birth_has_no_caller() {
    const BEHIND_CALL: u64 = 0x1012;
    const BEHIND_CLONE: u64 = 0x1205;
    let plain = [0x0c, 7, 8, 0x90, 1];
    let fdes: [(u64, u64, &[u8]); 3] = [
        (0x1000, 0x10, &[]),
        // The return address is undefined.
        (0x101a, 0x10, &[0x07, 16]),
        (0x1200, 0x100, &[]),
    ];
    let section = eh_frame("", 16, &plain, &fdes);
    let mut code = vec![0x90; 0x1000];
    // syscall; test rax, rax; jl; je 0x101a; ret
    let system_call = [0x0f, 0x05, 0x48, 0x85, 0xc0, 0x7c, 0x11, 0x74, 0x01, 0xc3];
    code[0x10..0x1a].copy_from_slice(&system_call);
    // call 0x1000
    code[0x200..0x205].copy_from_slice(&[0xe8, 0xfb, 0xfd, 0xff, 0xff]);
    let sections: [(&str, u64, &[u8]); 1] = [(".eh_frame", 0x5000, &section)];
    for (result, expected, root) in [
        (0, &[BEHIND_CALL][..], Root::UndefinedReturnAddress),
        (
            (-38_i64).cast_unsigned(),
            &[BEHIND_CALL, BEHIND_CLONE],
            Root::NullReturnAddress,
        ),
    ] {
        let table = UnwindTable::parse(&image(62, &sections)).unwrap();
        let code = code.clone();
        let mut registers = Registers::new(Arch::X86_64, BEHIND_CALL, 0x7000);
        registers.set(RAX, result);
        let process = &Undescribed { table, code };
        let (found, end) = unwound_by(&registers, &[BEHIND_CLONE, 0, 0], process);
        assert_eq!((&found[..], end), (expected, UnwindOutcome::Complete(root)));
    }
}
