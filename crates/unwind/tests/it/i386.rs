//! Stacks of 32-bit programs, made by hand: words of four bytes, and code without call frame
//! information. Whole programs are in `stepping`.

use crate::image::{eh_frame, image};
use rprof_unwind::{
    Arch, FrameKind, Module, Modules, Registers, Root, StackDump, StackFrame, TruncationReason,
    UnwindOutcome, UnwindTable, Unwinder,
};

/// Start of a 64-bit image, and of 32-bit code without an image.
const IMAGE: u64 = 0x1000;
const CODE: u64 = 0x9_0000;

/// First function, at 8: a call of the second, whose return address is `CODE + 13`; leave; ret.
const CALL: [u8; 7] = [0xe8, 3, 0, 0, 0, 0xc9, 0xc3];
/// Second function, at 16: push ebp; mov ebp, esp; nop; leave; ret.
const CALLED: [u8; 6] = [0x55, 0x89, 0xe5, 0x90, 0xc9, 0xc3];
/// At 32: pop eax; mov eax, 119; int 0x80. At 48: mov eax, 173; int 0x80.
const SIGNAL_RETURN: [u8; 8] = [0x58, 0xb8, 119, 0, 0, 0, 0xcd, 0x80];
const SIGNAL_RETURN_WITH_INFO: [u8; 7] = [0xb8, 173, 0, 0, 0, 0xcd, 0x80];

const STACK: u64 = 0xffff_d004;

struct Process {
    table: UnwindTable,
    code: Vec<u8>,
}

impl Process {
    fn new() -> Self {
        // CFA is rsp + 8, the return address at CFA - 8.
        let section = eh_frame("", 16, &[0x0c, 7, 8, 0x90, 1], &[(IMAGE, 0x100, &[])]);
        let mut code = vec![0xcc; 64];
        let parts: [(usize, &[u8]); 4] = [
            (8, &CALL),
            (16, &CALLED),
            (32, &SIGNAL_RETURN),
            (48, &SIGNAL_RETURN_WITH_INFO),
        ];
        for (at, part) in parts {
            code[at..at + part.len()].copy_from_slice(part);
        }
        Self {
            table: UnwindTable::parse(&image(62, &[(".eh_frame", 0x5000, &section)])).unwrap(),
            code,
        }
    }

    /// Unwinds a stack of these words from the second function, whose frame is complete.
    fn unwind(&self, words: &[u32]) -> (Vec<StackFrame>, UnwindOutcome) {
        let mut registers = Registers::new(Arch::X86, CODE + 19, STACK);
        registers.set(5, STACK);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = StackDump::new(STACK, &bytes);
        let mut frames = Vec::new();
        // As the recorder of an x86-64 machine does.
        let mut unwinder = Unwinder::new(Arch::X86_64);
        let end = unwinder.unwind(&registers, &memory, self, 100, &mut frames);
        (frames, end)
    }
}

impl Modules for Process {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        let is_image = (IMAGE..IMAGE + 0x100).contains(&avma);
        let is_code = (CODE..CODE + 0x40).contains(&avma);
        (is_image || is_code).then_some(Module {
            table: is_image.then_some(&self.table),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let known = match avma.checked_sub(CODE) {
            Some(at) => self.code.get(at as usize..).unwrap_or(&[]),
            // A call before any address.
            None => &[0x90, 0x90, 0xe8, 0, 0, 0, 0, 0x90],
        };
        let len = known.len().min(into.len());
        into[..len].copy_from_slice(&known[..len]);
        len
    }

    fn generation(&self) -> Option<u64> {
        Some(1)
    }
}

fn addresses(frames: &[StackFrame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.address).collect()
}

fn at(offset: u64) -> u32 {
    (CODE + offset) as u32
}

#[test]
fn frame_pointers_have_words_of_four_bytes() {
    // Two frames of the first function: saved ebp and return address, each with a word between.
    let frame = STACK as u32;
    let words = [frame + 12, at(13), 7, frame + 24, at(13), 7, 0, 0];
    let (frames, end) = Process::new().unwind(&words);
    assert_eq!(addresses(&frames), [CODE + 19, CODE + 13, CODE + 13]);
    let slots: Vec<u64> = frames.iter().map(|frame| frame.slot).collect();
    assert_eq!(slots, [0, STACK + 4, STACK + 16]);
    assert_eq!(end, UnwindOutcome::Complete(Root::NullReturnAddress));
}

/// No stack leads from 32-bit code to 64-bit code, even if a word looks like a return address.
#[test]
fn images_of_64_bits_have_no_32_bit_callers() {
    let (frames, end) = Process::new().unwind(&[STACK as u32 + 12, IMAGE as u32 + 7, 0, 0, 0]);
    assert_eq!(addresses(&frames), [CODE + 19]);
    assert!(matches!(end, UnwindOutcome::Truncated(_)), "{end:?}");
}

/// The kernel's signal frames, as of a C library without call frame information (musl).
#[test]
fn signal_frames_are_known_by_their_contents() {
    let context = |ip: u32| {
        let mut words = [0_u32; 22];
        words[4..12].copy_from_slice(&[
            70,
            60,
            STACK as u32 + 800,
            STACK as u32 + 800,
            30,
            20,
            10,
            1,
        ]);
        (words[14], words[15], words[16]) = (ip, 0x23, 0x246);
        (words[17], words[18]) = (words[7], 0x2b);
        words
    };
    // The handler's frame, the signal, the interrupted registers.
    let mut plain = vec![STACK as u32 + 800, at(32), 10];
    plain.extend(context(at(19)));
    // Pointers to siginfo and ucontext, and both.
    let mut with_info = vec![STACK as u32 + 800, at(48), 12];
    with_info.extend([STACK as u32 + 8 + 12, STACK as u32 + 8 + 140]);
    with_info.extend([0; 32 + 5]);
    with_info.extend(context(at(19)));
    for (mut words, trampoline) in [(plain, 32), (with_info, 48)] {
        words.resize(200, 0);
        // The frame of the interrupted function.
        words.extend([STACK as u32 + 812, at(13), 7, 0, 0]);
        let (frames, end) = Process::new().unwind(&words);
        assert_eq!(
            addresses(&frames),
            [CODE + 19, CODE + trampoline, CODE + 19, CODE + 13]
        );
        assert_eq!(frames[2].kind, FrameKind::Interrupted);
        assert_eq!(frames[2].sp, STACK + 800);
        assert_eq!(end, UnwindOutcome::Complete(Root::NullReturnAddress));
    }
    // Segments of 64-bit code are no signal frame.
    let mut other = vec![STACK as u32 + 800, at(32), 10];
    let mut context = context(at(19));
    context[15] = 0x33;
    other.extend(context);
    other.resize(205, 1);
    let (frames, end) = Process::new().unwind(&other);
    assert_eq!(addresses(&frames), [CODE + 19, CODE + 32]);
    let reason = TruncationReason::NoUnwindInfo { address: CODE + 32 };
    assert_eq!(end, UnwindOutcome::Truncated(reason));
}
