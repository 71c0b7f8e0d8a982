//! AArch64 with synthetic call frame information: link register, signed return addresses, frame
//! records, signal frames.

use crate::image::{eh_frame, image};
use rprof_unwind::{
    Arch, FoundBy, FrameKind, Module, Modules, Registers, Root, StackDump, StackFrame,
    TruncationReason, UnwindOutcome, UnwindTable, Unwinder,
};

const BIAS: u64 = 0x5500_0000_0000;
const STACK: u64 = 0x7ff0_0000_0000;

struct Process {
    table: UnwindTable,
}

impl Modules for Process {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        let svma = avma.wrapping_sub(BIAS);
        // Above the image is run-time code.
        (0x1000..0x30000).contains(&svma).then_some(Module {
            table: (svma < 0x11000).then_some(&self.table),
            bias: BIAS,
        })
    }
}

/// 0x2000: an empty leaf function. 0x3000: saves x29 and signed x30 in 32 bytes, and uses x29 from
/// 0x3010 on. 0x4000: has no caller.
fn process() -> Process {
    let sections = eh_frame(
        "",
        30,
        &[0x0c, 31, 0],
        &[
            (0x2000, 0x100, &[]),
            (
                0x3000,
                0x100,
                &[
                    0x2d, 0x44, // negate_ra_state, advance 4
                    0x0e, 32, 0x9d, 4, 0x9e, 3, // CFA sp+32, x29 at -32, x30 at -24
                    0x4c, 0x0d, 29, // advance 12, CFA by x29
                ],
            ),
            (0x4000, 0x100, &[0x07, 30]),
        ],
    );
    let image = image(183, &[(".eh_frame", 0x8000, &sections)]);
    let table = UnwindTable::parse(&image).unwrap();
    assert_eq!(table.arch(), Arch::Aarch64);
    Process { table }
}

fn unwind(registers: &Registers, words: &[u64]) -> (Vec<StackFrame>, UnwindOutcome) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory = StackDump::new(STACK, &bytes);
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::Aarch64).unwind(registers, &memory, &process(), 50, &mut frames);
    (frames, end)
}

fn registers(svma: u64, lr: u64, fp: u64) -> Registers {
    let mut registers = Registers::new(Arch::Aarch64, BIAS + svma, STACK);
    registers.set(30, lr);
    registers.set(29, fp);
    registers
}

/// Signs an address like pointer authentication.
fn signed(svma: u64) -> u64 {
    (BIAS + svma) | 0x5a7f << 48
}

#[test]
fn from_a_leaf_to_the_root() {
    let words = [STACK + 32, signed(0x4010), 0, 0, 0, 0];
    let (frames, end) = unwind(&registers(0x2010, signed(0x3020), STACK), &words);
    let found: Vec<(u64, u64)> = frames
        .iter()
        .map(|frame| (frame.address - BIAS, frame.sp))
        .collect();
    assert_eq!(
        found,
        [(0x2010, STACK), (0x3020, STACK), (0x4010, STACK + 32)]
    );
    assert_eq!(end, UnwindOutcome::Complete(Root::UndefinedReturnAddress));
    assert_eq!(frames[1].slot, 0, "the link register");
    assert_eq!(frames[2].slot, STACK + 8);
}

#[test]
fn every_place_of_a_prologue() {
    // Nothing has been stored.
    let (frames, end) = unwind(&registers(0x3000, signed(0x4010), 1), &[]);
    assert_eq!(
        (frames.len(), end),
        (2, UnwindOutcome::Complete(Root::UndefinedReturnAddress))
    );
    // Both have been stored, and x29 is still the caller's.
    let (frames, _) = unwind(&registers(0x3004, 7, 1), &[0, signed(0x4010), 0, 0]);
    assert_eq!(frames[1].address, BIAS + 0x4010);
}

/// A call overwrites the caller's link register.
#[test]
fn link_register_serves_once() {
    let (frames, end) = unwind(&registers(0x2010, BIAS + 0x2020, 0), &[]);
    assert_eq!(frames.len(), 2);
    let address = BIAS + 0x2020;
    assert_eq!(
        end,
        UnwindOutcome::Truncated(TruncationReason::MissingRegister {
            address,
            register: 30
        })
    );
}

#[test]
fn frame_records_without_description() {
    let words = [0, 0, STACK + 48, signed(0x20100), 0, 0, 0, 0];
    let (frames, end) = unwind(&registers(0x20000, 9, STACK + 16), &words);
    assert_eq!(frames[1].found_by, FoundBy::FramePointer);
    assert_eq!(frames[1].address, BIAS + 0x20100);
    assert_eq!(
        end,
        UnwindOutcome::Complete(Root::NullReturnAddress),
        "a record of zeros"
    );
}

/// Unwinds through the kernel's signal frame above a handler: siginfo if the handler requested it,
/// ucontext, registers, and the floating point record.
fn through_a_signal(signal: u64, record: u64) -> (Vec<StackFrame>, UnwindOutcome) {
    let mut words = vec![0; 80];
    words[0] = STACK + 32;
    words[1] = BIAS + 0x21000;
    let context = &mut words[4..];
    context[0] = signal;
    let registers_at = (128 + 176 + 8) / 8;
    context[registers_at + 30] = BIAS + 0x4010;
    context[registers_at + 31] = STACK + 0x800;
    context[registers_at + 32] = BIAS + 0x2040;
    context[registers_at + 33] = 0x6000_0000;
    context[registers_at + 35] = record;
    unwind(&registers(0x3020, 0, STACK), &words)
}

#[test]
fn handlers_with_and_without_siginfo() {
    for (signal, record) in [(11, 0), (0xdead_beef, 0x210_4650_8001)] {
        let (frames, end) = through_a_signal(signal, record);
        let found: Vec<(u64, FrameKind)> = frames
            .iter()
            .map(|frame| (frame.address - BIAS, frame.kind))
            .collect();
        assert_eq!(
            found,
            [
                (0x3020, FrameKind::Sampled),
                (0x21000, FrameKind::Caller),
                (0x2040, FrameKind::Interrupted),
                (0x4010, FrameKind::Caller),
            ]
        );
        assert_eq!(frames[2].sp, STACK + 0x800);
        assert_eq!(end, UnwindOutcome::Complete(Root::UndefinedReturnAddress));
    }
    let (frames, end) = through_a_signal(0xdead_beef, 0);
    assert!(
        frames.len() < 3 && !end.is_complete(),
        "{frames:x?} {end:?}"
    );
}

/// glibc's `_dl_runtime_resolve`: the PLT pushes two words before the jump, and the CFA lies below
/// them.
#[test]
fn a_return_address_above_the_frame_address() {
    let sections = eh_frame(
        "",
        30,
        &[0x0c, 31, 0],
        &[
            // 16 bytes, the return address 8 above the CFA: offset_extended_sf.
            (0x2000, 0x100, &[0x0e, 16, 0x11, 30, 0x7f]),
            // The caller's return address lies 8 below its CFA.
            (0x3000, 0x100, &[0x0e, 16, 0x9e, 1]),
            (0x4000, 0x100, &[0x07, 30]),
        ],
    );
    let image = image(183, &[(".eh_frame", 0x8000, &sections)]);
    let table = UnwindTable::parse(&image).unwrap();
    let words = [1, 2, 3, BIAS + 0x3010, 4, BIAS + 0x4010];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory = StackDump::new(STACK, &bytes);
    let mut frames = Vec::new();
    let end = Unwinder::new(Arch::Aarch64).unwind(
        &registers(0x2010, 7, 0),
        &memory,
        &Process { table },
        50,
        &mut frames,
    );
    let found: Vec<(u64, u64)> = frames
        .iter()
        .map(|frame| (frame.address - BIAS, frame.sp - STACK))
        .collect();
    assert_eq!(found, [(0x2010, 0), (0x3010, 32), (0x4010, 48)]);
    assert_eq!(end, UnwindOutcome::Complete(Root::UndefinedReturnAddress));
}

/// The first PLT entry pushes x16 and x30, and has no call frame information.
#[test]
fn in_the_first_entry_of_a_plt() {
    let sections = eh_frame(
        "",
        30,
        &[0x0c, 31, 0],
        &[
            (0x3000, 0x100, &[0x0e, 16, 0x9e, 1]),
            (0x4000, 0x100, &[0x07, 30]),
        ],
    );
    let plt = [0_u8; 64];
    let image = image(
        183,
        &[(".eh_frame", 0x8000, &sections), (".plt", 0x9000, &plt)],
    );
    let table = UnwindTable::parse(&image).unwrap();
    let process = Coded {
        process: Process { table },
        code: vec![
            // stp x16, x30, [sp, #-16]!; adrp x16; ldr x17, [x16]; br x17
            (
                0x9000,
                vec![0xa9bf_7bf0, 0x9000_0010, 0xf940_0211, 0xd61f_0220],
            ),
            // adrp x16; ldr x17, [x16]; br x17
            (0x9020, vec![0x9000_0010, 0xf940_0211, 0xd61f_0220]),
            // blr x0
            (0x300c, vec![0xd63f_0000]),
            (0x400c, vec![0xd63f_0000]),
        ],
    };
    // Before the push, after it, and in a later entry, which pushes nothing.
    let above = [7, BIAS + 0x4010];
    let pushed = [16, BIAS + 0x3010, 7, BIAS + 0x4010];
    for (at, words) in [(0x9000, &above[..]), (0x9008, &pushed), (0x9028, &above)] {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = StackDump::new(STACK, &bytes);
        let mut frames = Vec::new();
        let end = Unwinder::new(Arch::Aarch64).unwind(
            &registers(at, BIAS + 0x3010, 0),
            &memory,
            &process,
            50,
            &mut frames,
        );
        let found: Vec<u64> = frames.iter().map(|frame| frame.address - BIAS).collect();
        assert_eq!(found, [at, 0x3010, 0x4010], "{end:?}");
        assert_eq!(end, UnwindOutcome::Complete(Root::UndefinedReturnAddress));
    }
}

/// A handler without call frame information, whose frame record leads to the trampoline. The record
/// does not show where the kernel's frame begins; the kernel's own record behind it does.
#[test]
fn a_frame_pointer_leads_through_a_signal() {
    const FRAME: usize = 30;
    const RECORD: usize = FRAME + 4688 / 8;
    // CFA is x29, with x29 and x30 above: as in the kernel's vdso.
    let rules = [0x0c, 29, 0, 0x11, 29, 0, 0x11, 30, 0x7f];
    let trampoline = eh_frame("zS", 30, &rules, &[(0x3000, 0x100, &[])]);
    let table = UnwindTable::parse(&image(183, &[(".eh_frame", 0x8000, &trampoline)])).unwrap();
    let process = Process { table };
    let mut words = vec![0; RECORD + 10];
    let at = |word: usize| STACK + 8 * word as u64;
    // The handler's record, 20 words below the kernel's frame.
    words[10] = at(RECORD);
    words[11] = BIAS + 0x3004;
    let registers_at = FRAME + (128 + 176 + 8) / 8;
    words[FRAME] = 11;
    words[registers_at + 30] = BIAS + 0x20010;
    words[registers_at + 31] = at(RECORD + 8);
    words[registers_at + 32] = BIAS + 0x20040;
    words[registers_at + 33] = 0x6000_0000;
    // What the vdso's own rule would follow.
    words[RECORD + 1] = BIAS + 0x20010;
    let found = |words: &[u64]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = StackDump::new(STACK, &bytes);
        let mut frames = Vec::new();
        let sampled = registers(0x21000, 9, at(10));
        let mut unwinder = Unwinder::new(Arch::Aarch64);
        unwinder.unwind(&sampled, &memory, &process, 3, &mut frames);
        let address = |frame: &StackFrame| (frame.address - BIAS, frame.kind);
        frames.iter().map(address).collect::<Vec<_>>()
    };
    let handler = [
        (0x21000, FrameKind::Sampled),
        (0x3004, FrameKind::Caller),
        (0x20040, FrameKind::Interrupted),
    ];
    assert_eq!(found(&words), handler);
    // Not the kernel's frame: the caller stays unknown.
    words[registers_at + 33] = 7;
    assert_eq!(found(&words), handler[..2]);
}

/// An image with readable code: words by SVMA. All else is `nop`.
struct Coded {
    process: Process,
    code: Vec<(u64, Vec<u32>)>,
}

impl Modules for Coded {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        self.process.find(avma)
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        for (at, byte) in (avma - BIAS..).zip(into.iter_mut()) {
            let word = self.code.iter().find_map(|(start, words)| {
                let index = (at & !3).checked_sub(*start)? / 4;
                words.get(index as usize)
            });
            let word = word.copied().unwrap_or(0xd503_201f);
            *byte = word.to_le_bytes()[(at & 3) as usize];
        }
        into.len()
    }

    fn generation(&self) -> Option<u64> {
        Some(1)
    }
}

impl Coded {
    fn callers(&self, sampled: &Registers, words: &[u64]) -> Vec<u64> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = StackDump::new(sampled.sp(), &bytes);
        let mut frames = Vec::new();
        Unwinder::new(Arch::Aarch64).unwind(sampled, &memory, self, 50, &mut frames);
        let callers = frames.iter().skip(1);
        callers.map(|frame| frame.address - BIAS).collect()
    }
}

/// Clang describes no epilogues without asynchronous tables: the frame pointer is the caller's
/// again.
#[test]
fn an_epilogue_that_is_not_described_skips_no_caller() {
    let framed = [0x0c, 29, 32, 0x9d, 4, 0x9e, 3];
    let fdes: [(u64, u64, &[u8]); 3] = [
        (0x2000, 0x100, &framed),
        (0x3000, 0x100, &framed),
        (0x4000, 0x100, &[0x07, 30]),
    ];
    let sections = eh_frame("", 30, &[0x0c, 31, 0], &fdes);
    let table = UnwindTable::parse(&image(183, &[(".eh_frame", 0x8000, &sections)])).unwrap();
    let call = |from: u64, to: u64| {
        let words = to.wrapping_sub(from) as u32 >> 2;
        (from, vec![0x9400_0000 | words & 0x3ff_ffff])
    };
    let coded = Coded {
        process: Process { table },
        code: vec![
            // ldp x29, x30, [sp, #16]; add sp, sp, #32; ret
            (0x2010, vec![0xa941_7bfd, 0x9100_83ff, 0xd65f_03c0]),
            call(0x300c, 0x2000),
            call(0x400c, 0x3000),
        ],
    };
    // Frames of 32 bytes, each with its record at the offset 0.
    let at = |word: u64| STACK + 8 * word;
    let words = [at(4), BIAS + 0x3010, 0, 0, at(8), BIAS + 0x4010, 0, 0, 0, 0];
    // Before and behind the load of both registers, and behind the removal of the frame.
    for (ip, lr, fp, sp) in [
        (0x2010, 7, at(0), 0),
        (0x2014, BIAS + 0x3010, at(4), 0),
        (0x2018, BIAS + 0x3010, at(4), 4),
    ] {
        let mut sampled = registers(ip, lr, fp);
        sampled.set(31, at(sp));
        let found = coded.callers(&sampled, &words[sp as usize..]);
        assert_eq!(found, [0x3010, 0x4010], "{ip:#x}");
    }
}

/// The record that a frame pointer leads to may lie anywhere in the caller's frame: rules by the
/// stack pointer hold only with the record.
#[test]
fn behind_a_frame_pointer_the_stack_pointer_is_unknown() {
    let fdes: [(u64, u64, &[u8]); 3] = [
        // 64 bytes with a record at their start, and 16 without.
        (0x2000, 0x100, &[0x0e, 64, 0x9d, 8, 0x9e, 7]),
        (0x3000, 0x100, &[0x0e, 16, 0x9e, 2]),
        (0x4000, 0x100, &[0x07, 30]),
    ];
    let sections = eh_frame("", 30, &[0x0c, 31, 0], &fdes);
    let table = UnwindTable::parse(&image(183, &[(".eh_frame", 0x8000, &sections)])).unwrap();
    let coded = Coded {
        process: Process { table },
        // ldr x0, [x29, #16]; br x8
        code: vec![
            (0x20000, vec![0xf940_0ba0, 0xd61f_0100]),
            (0x200c, vec![0xd63f_0000]),
        ],
    };
    let at = |word: u64| STACK + 8 * word;
    // The sampled function's record, then 3 words of its frame.
    let mut words = vec![at(5), BIAS + 0x2010, 0, BIAS + 0x3010, BIAS + 0x3010];
    words.extend([0, BIAS + 0x4010, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        coded.callers(&registers(0x20000, 9, STACK), &words),
        [0x2010, 0x4010]
    );
    words[1] = BIAS + 0x3010;
    let coded = Coded {
        code: vec![
            (0x20000, vec![0xf940_0ba0, 0xd61f_0100]),
            (0x300c, vec![0xd63f_0000]),
        ],
        ..coded
    };
    assert_eq!(
        coded.callers(&registers(0x20000, 9, STACK), &words),
        [0x3010]
    );
}
