//! Damaged and synthetic input: no panic, and at most the requested number of frames.

#[path = "../../../../fuzz/targets/unwind.rs"]
mod fuzzed;

use crate::image::image;
use proptest::prelude::*;
use rprof_testing::replay_fuzz_corpus;
use rprof_unwind::{
    Arch, FrameKind, FunctionRanges, Memory, Module, Modules, Registers, StackDump, StackFrame,
    TruncationReason, UnwindOutcome, UnwindTable, Unwinder,
};

struct Everywhere<'a>(&'a UnwindTable);

impl Modules for Everywhere<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (avma & 0xff00_0000 == 0).then_some(Module {
            table: Some(self.0),
            bias: 0,
        })
    }
}

/// Memory with cycles.
struct Circular(u64);

impl Memory for Circular {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        Some(avma.wrapping_mul(self.0) & 0xffff)
    }
}

fn unwind_all(table: &UnwindTable, words: &[u64], seed: u64) {
    let arch = table.arch();
    let mut registers = Registers::new(arch, 0x1000, 0x2000);
    for (number, word) in (0..32).zip(words.iter().cycle()) {
        registers.set(number, *word);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut unwinder = Unwinder::new(arch);
    let mut frames = Vec::new();
    for ip in (0x1000..0x1400).step_by(7) {
        registers.set_ip(ip);
        let dump = StackDump::new(registers.sp(), &bytes);
        unwinder.unwind(&registers, &dump, &Everywhere(table), 100, &mut frames);
        assert!((1..=100).contains(&frames.len()));
        let circular = Circular(seed);
        unwinder.unwind(&registers, &circular, &Everywhere(table), 100, &mut frames);
        assert!((1..=100).contains(&frames.len()));
    }
}

/// Run-time code above the image, from the bytes that identify runtimes.
struct Generated<'a> {
    table: &'a UnwindTable,
    seed: u64,
}

impl Modules for Generated<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (avma & 0xff00_0000 == 0).then_some(Module {
            table: Some(self.table).filter(|_| avma & 0x80_0000 == 0),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        const BYTES: [u8; 16] = [
            0xe8, 0xff, 0x15, 0xd0, 0x48, 0x83, 0xec, 0x18, 0x89, 0x1c, 0x24, 0x4c, 0x0b, 0, 0xe9,
            0x50,
        ];
        for (at, byte) in (avma..).zip(into.iter_mut()) {
            let chance = at.wrapping_mul(self.seed | 1) >> 40;
            *byte = BYTES[chance as usize % BYTES.len()];
        }
        into.len()
    }
}

fn through_generated_code(table: &UnwindTable, stack: &[u64], seed: u64) {
    let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (mut unwinder, mut frames) = (Unwinder::new(Arch::X86_64), Vec::new());
    let code = Generated { table, seed };
    for ip in (0x80_0000..0x80_0400_u64).step_by(61) {
        let mut registers = Registers::new(Arch::X86_64, ip, 0x2000);
        for number in [3, 6, 12, 13] {
            registers.set(number, 0x2000 + (seed >> number & 0x1f8));
        }
        let dump = StackDump::new(0x2000, &bytes);
        unwinder.unwind(&registers, &dump, &code, 100, &mut frames);
        assert!((1..=100).contains(&frames.len()));
    }
}

fn interesting() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0x1000..0x1400_u64,
        0x2000..0x2400_u64,
        Just(0),
        Just(u64::MAX),
        Just(1 << 63),
    ]
}

/// A CIE, and FDEs with random instructions for the tested code.
fn eh_frame() -> impl Strategy<Value = Vec<u8>> {
    let instructions = prop::collection::vec(
        prop_oneof![
            any::<u8>(),
            Just(0x0f),
            Just(0x10),
            Just(0x16),
            Just(0x0c),
            Just(0x0a),
            Just(0x0b),
            0x40..0x48_u8,
            0x80..0x92_u8,
        ],
        0..60,
    );
    (
        instructions.clone(),
        prop::collection::vec(instructions, 1..40),
    )
        .prop_map(|(cie, fdes)| {
            let mut bytes = Vec::new();
            let entry = |bytes: &mut Vec<u8>, id: u32, contents: &[u8]| {
                bytes.extend((contents.len() as u32 + 4).to_le_bytes());
                bytes.extend(id.to_le_bytes());
                bytes.extend(contents);
            };
            let mut contents = vec![1, 0, 1, 0x78, 16];
            contents.extend([0x0c, 7, 8, 0x90, 1]);
            contents.extend(cie);
            entry(&mut bytes, 0, &contents);
            for (number, fde) in (0_u64..).zip(fdes) {
                let mut contents = Vec::new();
                contents.extend((0x1000 + number * 24).to_le_bytes());
                contents.extend(30_u64.to_le_bytes());
                contents.extend(fde);
                let id = bytes.len() as u32 + 4;
                entry(&mut bytes, id, &contents);
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_as_an_image(mut bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let _ = UnwindTable::parse(&bytes);
        let head = image(62, &[]);
        let len = bytes.len().min(16);
        bytes[..len].copy_from_slice(&head[..len]);
        let _ = UnwindTable::parse(&bytes);
    }

    #[test]
    fn any_bytes_as_sections(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        words in prop::collection::vec(interesting(), 1..60),
        seed: u64,
    ) {
        for name in [".eh_frame", ".debug_frame", ".zdebug_frame"] {
            if let Ok(table) = UnwindTable::parse(&image(62, &[(name, 0x5000, &bytes)])) {
                unwind_all(&table, &words, seed);
            }
        }
    }

    #[test]
    fn any_instructions(
        bytes in eh_frame(),
        words in prop::collection::vec(interesting(), 1..60),
        seed: u64,
    ) {
        for machine in [62, 183] {
            let table = UnwindTable::parse(&image(machine, &[(".eh_frame", 0x5000, &bytes)])).unwrap();
            prop_assert!(table.has_cfi());
            let _ = table.rows().count();
            unwind_all(&table, &words, seed);
        }
    }
}

/// This machine's dynamic linkers with changed bytes.
#[test]
fn a_damaged_library_is_unwound_without_harm() {
    let linkers = [
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-linux-aarch64.so.1",
        "/lib/ld-musl-x86_64.so.1",
        "/lib/ld-musl-aarch64.so.1",
    ];
    let Some(good) = linkers.iter().find_map(|path| std::fs::read(path).ok()) else {
        rprof_testing::skip("needs a dynamic linker where Debian or Alpine has it");
        return;
    };
    let whole = UnwindTable::parse(&good).expect("a linker is an ELF file");
    assert!(whole.has_cfi() && whole.rows().count() > 100);
    let mut state = 1_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..60 {
        let mut bytes = good.clone();
        for _ in 0..200 {
            // Half of the changes are in the headers at both ends.
            let at = match random() % 4 {
                0 => random() as usize % 1024,
                1 => bytes.len() - 1 - random() as usize % 4096,
                _ => random() as usize % bytes.len(),
            };
            bytes[at] = random() as u8;
        }
        if random() % 4 == 0 {
            bytes.truncate(random() as usize % good.len());
        }
        if let Ok(table) = UnwindTable::parse(&bytes) {
            let _ = table.rows().count();
            unwind_all(&table, &[random(), random(), 0x2010, 0x1234], random());
            let stack: Vec<u64> = (0..200).map(|_| 0x80_0000 | random() >> 45).collect();
            through_generated_code(&table, &stack, random());
        }
        if let Ok(functions) = FunctionRanges::parse(&bytes) {
            let bounds = functions.bounds(&bytes);
            for svma in bounds.iter().take(1000) {
                let found = functions.at(&bytes, *svma);
                assert!(found.is_none_or(|range| range.contains(svma)));
            }
        }
    }
}

#[test]
fn no_room_for_frames() {
    let table = UnwindTable::parse(&image(62, &[])).unwrap();
    let mut frames = vec![StackFrame::sampled(1, 2)];
    let registers = Registers::new(Arch::X86_64, 0x1000, 0x2000);
    let mut unwind = |registers: &Registers, limit| {
        let dump = StackDump::new(0, &[]);
        let mut unwinder = Unwinder::new(Arch::X86_64);
        let end = unwinder.unwind(registers, &dump, &Everywhere(&table), limit, &mut frames);
        (end, frames.len())
    };
    assert_eq!(
        unwind(&registers, 0),
        (UnwindOutcome::Truncated(TruncationReason::TooDeep), 0)
    );
    assert_eq!(unwind(&registers, 1).1, 1);
    let other = Registers::new(Arch::Aarch64, 0x1000, 0x2000);
    assert!(matches!(
        unwind(&other, 9),
        (UnwindOutcome::Truncated(TruncationReason::BadCfi { .. }), 1)
    ));
    assert_eq!(frames[0].kind, FrameKind::Sampled);
}

/// Runs the fuzz target over its committed inputs, without a fuzzer (see `fuzz/README.md`).
#[test]
fn unwind_over_its_fuzz_corpus() {
    replay_fuzz_corpus("unwind", fuzzed::run);
}
