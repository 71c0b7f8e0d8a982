//! AArch64 code without call frame information, checked against its own. Registers and stack are
//! synthetic at the start of every row. From the code alone, the unwinder must find the same caller
//! as by the row, or none.

use crate::image::{eh_frame, image};
use object::{Object, ObjectSection};
use rprof_testing::Need;
use rprof_unwind::table::CfaRule;
use rprof_unwind::{
    Arch, FoundBy, Memory, Module, Modules, Registers, StackDump, StackFrame, UnwindTable, Unwinder,
};
use std::path::Path;

/// First address of the stack, and of the callers: each stack word is a different return address.
const STACK: u64 = 0x7ff0_0000_0000;
const CALLERS: u64 = 0x6600_0000_0000;

/// Return address in the link register.
const LINKED: u64 = CALLERS + (1 << 40);

struct Process<'a> {
    table: Option<&'a UnwindTable>,
    text: (u64, &'a [u8]),
}

impl Modules for Process<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        let is_text = (self.text.0..self.text.0 + self.text.1.len() as u64).contains(&avma);
        let is_caller = (CALLERS..CALLERS + (1 << 41)).contains(&avma);
        (is_text || is_caller).then_some(Module {
            table: self.table.filter(|_| is_text),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let from = avma.checked_sub(self.text.0).map(|at| at as usize);
        let bytes = from.and_then(|at| self.text.1.get(at..)).unwrap_or(&[]);
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        len
    }
}

/// Each word is a different return address.
struct Stack;

impl Memory for Stack {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let at = avma.checked_sub(STACK - (1 << 20))?;
        (at < 1 << 24 && at.is_multiple_of(8)).then_some(CALLERS + 4 + at)
    }
}

fn caller(registers: &Registers, process: &Process<'_>) -> Option<StackFrame> {
    let mut frames = Vec::new();
    let mut unwinder = Unwinder::new(Arch::Aarch64);
    unwinder.unwind(registers, &Stack, process, 2, &mut frames);
    frames.get(1).copied()
}

#[derive(Debug, Default)]
struct Counts {
    same: usize,
    nothing: usize,
    others: Vec<u64>,
}

/// Compares the callers at all rows with this distance from the stack pointer to the CFA. For CFAs
/// by frame pointer the distance is unknown.
fn compare(path: &Path) -> Counts {
    let bytes = std::fs::read(path).unwrap();
    let table = UnwindTable::parse(&bytes).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let text = (text.address(), text.data().unwrap());
    let described = Process {
        table: Some(&table),
        text,
    };
    let alone = Process { table: None, text };
    let mut counts = Counts::default();
    for row in table.rows() {
        let Some(rule) = row.rule.filter(|rule| !rule.signal) else {
            continue;
        };
        if !matches!(rule.cfa, CfaRule::Register(31, _)) {
            continue;
        }
        let mut registers = Registers::new(Arch::Aarch64, row.start, STACK);
        registers.set(30, LINKED);
        // Its value when the frame exists.
        registers.set(29, STACK);
        let Some(wanted) = caller(&registers, &described) else {
            continue;
        };
        let found = caller(&registers, &alone).filter(|frame| frame.found_by == FoundBy::Code);
        match found {
            None => counts.nothing += 1,
            Some(found) if (found.address, found.sp) == (wanted.address, wanted.sp) => {
                counts.same += 1;
            }
            Some(_) => counts.others.push(row.start),
        }
    }
    counts
}

fn assert_agree(path: &Path) {
    let counts = compare(path);
    let all = counts.same + counts.nothing + counts.others.len();
    eprintln!(
        "{}: {} of {all} rows the same, {} nothing, {} others: {:x?}",
        path.display(),
        counts.same,
        counts.nothing,
        counts.others.len(),
        &counts.others[..counts.others.len().min(20)]
    );
    assert!(all > 100, "{all}");
    assert!(counts.same * 10 >= all * 9, "{counts:x?}");
    // Other callers occur before calls that do not return, and in epilogues, where rows still
    // contain the slots of restored registers.
    assert!(counts.others.len() * 200 <= all, "{:x?}", counts.others);
}

#[test]
fn code_of_a_program_leads_where_its_rows_do() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/aarch64");
    assert_agree(&Path::new(folder).join("tree"));
}

#[test]
fn code_of_the_c_library_leads_where_its_rows_do() {
    const LIBC: &str = "/usr/aarch64-linux-gnu/lib/libc.so.6";
    if rprof_testing::has(Need::File(LIBC)) {
        assert_agree(Path::new(LIBC));
    }
}

/// A function without call frame information that keeps no frame pointer of its own, called through
/// a pointer at 0x130c. The caller of its caller calls that directly at 0x120c.
struct Skipped(UnwindTable);

const BEHIND_DIRECT: u64 = 0x1210;
const BEHIND_POINTER: u64 = 0x1310;

impl Modules for Skipped {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (0x1000..0x2000).contains(&avma).then_some(Module {
            table: Some(&self.0),
            bias: 0,
        })
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        for (at, byte) in (avma..).zip(into.iter_mut()) {
            let word: u32 = match at & !3 {
                // bl 0x1300
                0x120c => 0x9400_003d,
                // blr x0
                0x130c => 0xd63f_0000,
                // bl 0x1200, which does not return. The next function begins with br x3.
                0x13fc => 0x97ff_ff81,
                0x1400 => 0xd61f_0060,
                // b . : the code tells nothing about the return.
                0x1504 => 0x1400_0000,
                // nop
                _ => 0xd503_201f,
            };
            *byte = word.to_le_bytes()[(at & 3) as usize];
        }
        into.len()
    }
}

#[test]
fn a_frame_pointer_of_the_caller_does_not_skip_it() {
    let plain = [0x0c, 31, 0];
    let with_frame = [0x0c, 29, 16, 0x9d, 2, 0x9e, 1];
    let fdes: [(u64, u64, &[u8]); 3] = [
        (0x1200, 0x100, &with_frame),
        (0x1300, 0x100, &with_frame),
        (0x1400, 0x100, &with_frame),
    ];
    let section = eh_frame("", 30, &plain, &fdes);
    let table = UnwindTable::parse(&image(183, &[(".eh_frame", 0x5000, &section)])).unwrap();
    let process = Skipped(table);
    let second = |return_address: u64| {
        let words = [0, 0, 0x7040, return_address, 0, 0, 0, 0, 0, 0];
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect();
        let mut registers = Registers::new(Arch::Aarch64, 0x1504, 0x7000);
        registers.set(29, 0x7010);
        let mut frames = Vec::new();
        let mut unwinder = Unwinder::new(Arch::Aarch64);
        unwinder.unwind(
            &registers,
            &StackDump::new(0x7000, &bytes),
            &process,
            2,
            &mut frames,
        );
        frames.get(1).map(|frame| frame.address)
    };
    assert_eq!(second(BEHIND_POINTER), Some(BEHIND_POINTER));
    assert_eq!(second(BEHIND_DIRECT), None);
}
