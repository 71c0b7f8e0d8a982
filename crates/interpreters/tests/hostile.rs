//! Processes with memory that lies about every word, and the fuzz target over its committed inputs
//! (see `fuzz/README.md`).

#[path = "../../../fuzz/targets/interpreters.rs"]
mod interpreters;

use std::collections::HashSet;

use proptest::prelude::*;
use rprof_interpreters::{
    CodeKind, Found, ImageSymbol, ImageSymbols, MemoryRead, Names, NativeFrame, ProcessMemory,
    Stack, runtimes_of,
};
use rprof_testing::replay_fuzz_corpus;
use rprof_unwind::{Arch, FoundBy, FrameKind, Memory, Registers, StackFrame};

const BIAS: u64 = 0x5000_0000_0000;
const EVAL: u64 = 0x1000;
const TYPE: u64 = 0x9000;
const HEAP: u64 = 0x7000_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;
const FRAME: u64 = 0x160;

/// Memory of pseudorandom words: plausible pointers, type objects, huge and small numbers. The same
/// address has the same word, or another one at each read.
struct Lies {
    seed: u64,
    is_fickle: bool,
    calls: u64,
    bytes: u64,
}

impl Lies {
    fn word(&self, address: u64) -> u64 {
        let fickle = if self.is_fickle { self.calls } else { 0 };
        let mixed = (address ^ self.seed ^ fickle << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = mixed ^ mixed >> 29;
        match mixed >> 60 {
            // Few objects, so that lists have cycles.
            0..6 => HEAP + (mixed >> 8) % 64 * 8,
            6..9 => BIAS + TYPE,
            9 => address,
            10 => STACK + (mixed >> 8) % 0x800 * 8,
            11 => u64::MAX - (mixed >> 8) % 64,
            12 => (mixed >> 8) % 300,
            13 => 0,
            _ => mixed,
        }
    }
}

impl ProcessMemory for Lies {
    fn read(&mut self, reads: &mut [MemoryRead]) {
        self.calls += 1;
        for read in reads {
            self.bytes += read.bytes.len() as u64;
            read.is_read = read.address.checked_add(read.bytes.len() as u64).is_some();
            for (at, byte) in (0..).zip(&mut read.bytes) {
                let address = read.address.wrapping_add(at);
                *byte = self.word(address & !7).to_le_bytes()[(address % 8) as usize];
            }
        }
    }
}

struct StackOfLies(Lies);

impl Memory for StackOfLies {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        (STACK..STACK + 0x10_0000)
            .contains(&avma)
            .then(|| self.0.word(avma))
    }
}

#[derive(Default)]
struct Addresses(Vec<String>);

impl Names for Addresses {
    fn address_of(&mut self, name: &str) -> Option<u64> {
        assert!(name.len() < 1 << 14, "a name of {} bytes", name.len());
        self.0.push(name.to_owned());
        Some(self.0.len() as u64)
    }
}

fn stack_frames(count: u64, lies: &Lies) -> Vec<NativeFrame> {
    let frame = |number: u64| {
        let sp = STACK + number * FRAME;
        let kind = if number == 0 {
            FrameKind::Sampled
        } else {
            FrameKind::Caller
        };
        let mut registers = Registers::new(Arch::X86_64, BIAS + EVAL + 8, sp);
        for register in [0, 3, 6, 8, 10, 12, 13, 14, 15] {
            registers.set(register, lies.word(sp ^ u64::from(register)));
        }
        NativeFrame {
            frame: StackFrame {
                address: BIAS + EVAL + 8,
                sp,
                slot: 0,
                kind,
                found_by: FoundBy::Cfi,
            },
            registers,
            code: CodeKind::Image(EVAL + 7 + number % 3),
        }
    };
    (0..count).map(frame).collect()
}

proptest! {
    /// No memory makes a reader panic, loop, or read without bound.
    #[test]
    fn memory_that_lies_costs_little(seed: u64, is_fickle: bool, frames in 1u64..40) {
        let symbols: ImageSymbols = [
            ("_PyEval_EvalFrameDefault", EVAL, 0x100),
            ("PyCode_Type", TYPE, 8),
            ("PyFrame_Type", TYPE, 8),
        ]
        .map(|(name, svma, size)| (name, ImageSymbol { svma, size }))
        .into_iter()
        .collect();
        for minor in 8..=14 {
            let name = format!("python3.{minor}");
            let mut images = runtimes_of(name.as_bytes());
            let image = images.find_map(|runtime| runtime.image(name.as_bytes(), &symbols));
            let mut process = image.expect("the version is supported").process(BIAS);
            let mut found = Found::default();
            let mut names = Addresses::default();
            let mut watcher = None;
            for time in 0..40 {
                let lies = || Lies { seed: seed ^ time, is_fickle, calls: 0, bytes: 0 };
                let mut memory = lies();
                let frames = stack_frames(frames, &memory);
                let stack = StackOfLies(lies());
                let stack = Stack { thread: time % 2, time, frames: &frames, memory: &stack, is_complete: true, is_asleep: time % 3 == 2 };
                found.clear();
                process.read(&stack, &mut memory, &mut names, &mut found);
                watcher = process.take_watcher().or(watcher);
                if let Some(watcher) = &mut watcher {
                    watcher.look(&mut memory);
                }
                prop_assert!(memory.calls < 200, "3.{minor}: {} calls", memory.calls);
                prop_assert!(memory.bytes < 8 << 20, "3.{minor}: {} bytes", memory.bytes);
                let natives: Vec<usize> = found.frames.iter().map(|frame| frame.native).collect();
                prop_assert!(natives.is_sorted() && natives.iter().all(|at| *at < frames.len()));
                prop_assert!(found.frames.len() < 100_000);
            }
            let distinct: HashSet<&String> = names.0.iter().collect();
            prop_assert!(distinct.len() < 100_000);
        }
    }
}

#[test]
fn interpreters_over_its_corpus() {
    replay_fuzz_corpus("interpreters", interpreters::run);
}
