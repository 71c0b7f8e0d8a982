//! Unwinds stacks of a process. The input provides image, registers, memory and code.
//!
//! Input: flags, the length of the image in two bytes, two bytes for each of 34 registers (the last
//! is the program counter), the image, and the rest as the stack. The stack is also the code
//! outside of the image.

use std::cell::Cell;

use rprof_unwind::{
    Arch, CodeLookup, Completion, CutPoint, DeepStackCompleter, FrameKind, Memory, Module, Modules,
    Registers, StackDump, StackFrame, StackObservation, TruncationReason, UnwindOutcome,
    UnwindTable, Unwinder,
};

/// Addresses of the image, of code outside of it, and of the stack.
const IMAGE: u64 = 0x5555_0000_0000;
const CODE: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7ffc_0000_0000;

const REGISTERS: usize = 34;

const LIMIT: usize = 100;

/// More reads than a step needs. A step analyses up to 2,000 instructions, with a few words each,
/// and searches pages for a header.
const READS: usize = 10_000;

struct Process<'a> {
    table: Option<&'a UnwindTable>,
    bytes: &'a [u8],
    /// True if rules may be cached.
    is_kept: bool,
    reads: Cell<usize>,
}

impl Process<'_> {
    fn without_keeping(&self) -> Process<'_> {
        Process {
            is_kept: false,
            reads: Cell::new(0),
            ..*self
        }
    }

    fn count(&self) {
        self.reads.set(self.reads.get() + 1);
    }
}

impl CodeLookup for Process<'_> {
    fn function_of(&self, frame: &StackFrame) -> Option<u64> {
        Some(frame.address & !0xff)
    }

    fn image_offset(&self, address: u64) -> Option<(u64, u64)> {
        Some((address >> 32, address & 0xffff_ffff))
    }
}

impl Modules for Process<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        let is_code = (CODE..CODE + (1 << 16)).contains(&avma);
        let is_image = (IMAGE..IMAGE + (1 << 32)).contains(&avma);
        (is_code || is_image).then_some(Module {
            table: self.table.filter(|_| is_image),
            bias: IMAGE,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        self.count();
        let at = avma
            .checked_sub(CODE)
            .and_then(|at| usize::try_from(at).ok());
        let bytes = at.and_then(|at| self.bytes.get(at..)).unwrap_or(&[]);
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        len
    }

    fn generation(&self) -> Option<u64> {
        self.is_kept.then_some(1)
    }

    fn process(&self) -> Option<u64> {
        Some(1)
    }
}

/// The stack. Words with a certain highest byte are addresses.
struct Stack<'a>(&'a Process<'a>);

impl Memory for Stack<'_> {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        self.0.count();
        let word = StackDump::new(STACK, self.0.bytes).read_u64(avma)?;
        Some(address(word).unwrap_or(word))
    }
}

fn address(word: u64) -> Option<u64> {
    let base = match word >> 56 {
        0xf1 => IMAGE,
        0xf2 => CODE,
        0xf3 => STACK,
        _ => return None,
    };
    Some(base + (word & 0xffff))
}

fn registers(arch: Arch, bytes: &[u8]) -> Registers {
    let mut registers = Registers::new(arch, 0, STACK);
    for (number, pair) in (0..).zip(bytes.chunks_exact(2)) {
        let (kind, offset) = (pair[0] & 7, u64::from(pair[1]));
        let offset = offset << (pair[0] >> 3 & 7);
        let value = match kind {
            0 => IMAGE + offset,
            1 => CODE + offset,
            2 | 3 => STACK + offset,
            4 => offset,
            5 => u64::MAX - offset,
            _ => continue,
        };
        if usize::from(number) + 1 == REGISTERS {
            registers.set_ip(value);
        } else {
            registers.set(number, value);
        }
    }
    registers
}

pub(crate) fn run(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(3 + 2 * REGISTERS) else {
        return;
    };
    let flags = head[0];
    let len = usize::from(u16::from_le_bytes([head[1], head[2]]));
    let (image, bytes) = rest.split_at(len.min(rest.len()));
    let table = UnwindTable::parse(image);
    if let Err(e) = &table {
        assert!(!e.to_string().is_empty());
    }
    let table = table.ok();
    if let Some(table) = &table {
        look_at(table, image);
    }
    let arch = match flags & 1 {
        0 => Arch::X86_64,
        _ => Arch::Aarch64,
    };
    let process = Process {
        table: table.as_ref(),
        bytes,
        is_kept: true,
        reads: Cell::new(0),
    };
    let registers = registers(arch, &head[3..]);
    let limit = if flags & 2 == 0 { LIMIT } else { 3 };
    let mut completer = DeepStackCompleter::new();
    let mut unwinder = Unwinder::new(arch);
    let mut forgetful = Unwinder::new(arch);
    let mut frames = Vec::new();
    // The whole stack, then ever shorter parts of it, like dumps.
    let whole = unwinder.unwind(&registers, &Stack(&process), &process, limit, &mut frames);
    check(&process, &registers, &frames, whole, limit);
    let mut compare = |process: Process<'_>, frames: &[StackFrame], end| {
        let mut cold = Vec::new();
        let stack = Stack(&process);
        let cold_end = forgetful.unwind(&registers, &stack, &process, limit, &mut cold);
        assert_eq!((&*cold, cold_end), (frames, end), "rules that were kept");
    };
    compare(process.without_keeping(), &frames, whole);
    let complete = frames.clone();
    if let UnwindOutcome::Complete(root) = whole {
        let observation = StackObservation {
            frames: &complete,
            observed_from: usize::from(flags >> 2 & 3),
            root,
            begun: 1_000_000,
            time: 1_000_000,
        };
        completer.observe(1, observation, &process);
    }
    for cut in [2, 4, 8] {
        let process = Process {
            bytes: &bytes[..bytes.len() / cut],
            reads: Cell::new(0),
            ..process
        };
        let end = unwinder.unwind(&registers, &Stack(&process), &process, limit, &mut frames);
        check(&process, &registers, &frames, end, limit);
        compare(process.without_keeping(), &frames, end);
        complete_deep(&mut completer, &process, &frames, &complete, end);
    }
}

/// Asserts that only observed callers are returned, for any observation.
fn complete_deep(
    completer: &mut DeepStackCompleter,
    process: &Process<'_>,
    frames: &[StackFrame],
    complete: &[StackFrame],
    outcome: UnwindOutcome,
) {
    let UnwindOutcome::Truncated(TruncationReason::StackEnded { address: slot }) = outcome else {
        return;
    };
    let Some(function) = frames.last().and_then(|last| process.function_of(last)) else {
        return;
    };
    let cut = CutPoint { slot, function };
    for time in (0..6).map(|n| n * 1_000_000) {
        completer.register_cut(1, cut, frames, time, process);
        completer.recheck(1, cut, true, time + 500_000, time + 600_000);
    }
    if let Completion::Callers(callers, _) = completer.complete(1, cut, 3_000_000, u64::MAX) {
        let known = |caller: &StackFrame| {
            (complete.iter()).any(|one| (one.sp, one.address) == (caller.sp, caller.address))
        };
        assert!(!callers.is_empty() && callers.iter().all(known));
    }
}

fn check(
    process: &Process<'_>,
    registers: &Registers,
    frames: &[StackFrame],
    end: UnwindOutcome,
    limit: usize,
) {
    assert!(!frames.is_empty() && frames.len() <= limit);
    assert_eq!(
        frames[0],
        StackFrame::sampled(registers.ip(), registers.sp())
    );
    for frame in &frames[1..] {
        assert_ne!(frame.kind, FrameKind::Sampled);
        let found = process.find(frame.lookup_address());
        assert!(found.is_some() || frame.kind == FrameKind::Interrupted);
    }
    assert!(process.reads.get() <= (frames.len() + 1) * READS);
    if let UnwindOutcome::Truncated(cause) = end {
        assert!(!cause.to_string().is_empty());
    }
}

fn look_at(table: &UnwindTable, image: &[u8]) {
    let mut rows = 0;
    for row in table.rows().take(10_000) {
        assert!(row.start <= row.end);
        rows += 1;
    }
    let stats = table.stats();
    assert!(table.has_cfi() == (stats.fdes > 0));
    assert!(stats.fdes <= image.len() && stats.code_bytes <= 8 * image.len());
    assert!(rows <= 10_000);
    for offset in (0..image.len() as u64).step_by(16).chain([u64::MAX]) {
        let svma = table.svma_of_offset(offset);
        let bias = table.bias(IMAGE, offset);
        assert_eq!(bias, svma.map(|svma| IMAGE.wrapping_sub(svma)));
        let _ = table.covers(offset);
    }
}
