//! Each cache lookup is a hit or a miss with its reason.

use std::cell::{Cell, RefCell};

use crate::image::{eh_frame, image};
use rprof_unwind::{
    Arch, CacheStats, Module, Modules, Registers, StackDump, StackFrame, UnwindTable, Unwinder,
};

/// Start of an image with call frame information, and of code without.
const IMAGE: u64 = 0x1000;
const OTHER: u64 = 0x9_0000;

/// A process with both. Its code and the state of its mappings can change.
struct Process {
    table: UnwindTable,
    code: RefCell<Vec<u8>>,
    generation: Cell<u64>,
}

impl Modules for Process {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        let is_image = (IMAGE..IMAGE + 0x100).contains(&avma);
        let is_other = (OTHER..OTHER + 0x100).contains(&avma);
        (is_image || is_other).then_some(Module {
            table: is_image.then_some(&self.table),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let code = self.code.borrow();
        let at = avma.checked_sub(OTHER).map_or(code.len(), |at| at as usize);
        let known = code.get(at..).unwrap_or(&[]);
        let len = known.len().min(into.len());
        into[..len].copy_from_slice(&known[..len]);
        len
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation.get())
    }
}

impl Process {
    /// The image's only function has its return address on top of the stack.
    fn new() -> Process {
        // CFA is rsp + 8, the return address at CFA - 8.
        let section = eh_frame("", 16, &[0x0c, 7, 8, 0x90, 1], &[(IMAGE, 0x100, &[])]);
        let table = UnwindTable::parse(&image(62, &[(".eh_frame", 0x5000, &section)])).unwrap();
        // A call, whose return address is OTHER + 5; pop rbp; ret.
        let code = vec![0xe8, 0, 0, 0, 0, 0x5d, 0xc3];
        Process {
            table,
            code: RefCell::new(code),
            generation: Cell::new(1),
        }
    }

    /// Unwinds a stack of these words from `ip`.
    fn unwind(&self, unwinder: &mut Unwinder, ip: u64, words: &[u64]) -> usize {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let registers = Registers::new(Arch::X86_64, ip, 0x7000);
        let mut frames: Vec<StackFrame> = Vec::new();
        unwinder.unwind(
            &registers,
            &StackDump::new(0x7000, &bytes),
            self,
            100,
            &mut frames,
        );
        frames.len()
    }
}

#[test]
fn rules_are_found_again_until_the_mappings_change() {
    let process = Process::new();
    let mut unwinder = Unwinder::new(Arch::X86_64);
    assert_eq!(unwinder.cache_stats(), CacheStats::default());
    // Two frames of the image. The second one's return address is beyond the stack.
    let stack = [IMAGE + 0x20];
    assert_eq!(process.unwind(&mut unwinder, IMAGE + 0x10, &stack), 2);
    let first = unwinder.cache_stats().rules;
    assert_eq!(
        (first.hits, first.misses_empty, first.uncacheable),
        (0, 2, 0)
    );
    assert_eq!(process.unwind(&mut unwinder, IMAGE + 0x10, &stack), 2);
    assert_eq!(unwinder.cache_stats().rules.hits, 2);
    // Another state of the mappings has no cached entries.
    process.generation.set(2);
    assert_eq!(process.unwind(&mut unwinder, IMAGE + 0x10, &stack), 2);
    let rules = unwinder.cache_stats().rules;
    let misses = rules.misses_empty + rules.misses_other_address + rules.misses_other_generation;
    assert_eq!((rules.hits, misses, rules.uncacheable), (2, 4, 0));
    // Code without call frame information has no rule to cache.
    process.unwind(&mut unwinder, OTHER + 5, &[0, IMAGE + 0x20]);
    assert_eq!(unwinder.cache_stats().rules.uncacheable, 1);
}

#[test]
fn simulations_are_replayed_while_the_code_is_the_same() {
    let process = Process::new();
    let mut unwinder = Unwinder::new(Arch::X86_64);
    // pop rbp, ret to the address after the call, and the same again.
    let stack = [0, OTHER + 5, 0, OTHER + 5, 0];
    let frames = process.unwind(&mut unwinder, OTHER + 5, &stack);
    assert!(frames >= 3, "{frames} frames");
    let first = unwinder.cache_stats().simulations;
    assert_eq!(first.misses_unknown, 1, "{first:?}");
    assert!(first.hits > 0, "{first:?}");
    assert_eq!(process.unwind(&mut unwinder, OTHER + 5, &stack), frames);
    let again = unwinder.cache_stats().simulations;
    assert!(
        again.hits > first.hits && again.misses_unknown == 1,
        "{again:?}"
    );
    // pop rbx: the JIT compiler has replaced the code.
    process.code.borrow_mut()[5] = 0x5b;
    assert_eq!(process.unwind(&mut unwinder, OTHER + 5, &stack), frames);
    let changed = unwinder.cache_stats().simulations;
    assert_eq!(changed.misses_code_changed, 1, "{changed:?}");
    assert_eq!(changed.misses_unknown, 1, "{changed:?}");
}
