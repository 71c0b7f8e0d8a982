//! Registers of each frame, for readers of interpreters.

use crate::image::{eh_frame, image};
use rprof_unwind::{
    Arch, Module, Modules, Registers, StackDump, StackFrame, UnwindTable, Unwinder,
};

const IMAGE: u64 = 0x1000;

const RBP: u8 = 6;

struct Process(UnwindTable);

impl Modules for Process {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (IMAGE..IMAGE + 0x100).contains(&avma).then_some(Module {
            table: Some(&self.0),
            bias: 0,
        })
    }
}

#[test]
fn registers_of_each_frame_are_those_that_its_callee_saved() {
    // CFA is rsp + 16, the return address at CFA - 8, rbp at CFA - 16.
    let rules = [0x0c, 7, 16, 0x90, 1, 0x86, 2];
    let section = eh_frame("", 16, &rules, &[(IMAGE, 0x100, &[])]);
    let table = UnwindTable::parse(&image(62, &[(".eh_frame", 0x5000, &section)])).unwrap();
    let words = [11, IMAGE + 0x20, 22, IMAGE + 0x30, 33, 0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let dump = StackDump::new(0x7000, &bytes);
    let mut sampled = Registers::new(Arch::X86_64, IMAGE + 0x10, 0x7000);
    sampled.set(RBP, 10);
    let (mut frames, mut plain, mut kept) = (Vec::<StackFrame>::new(), Vec::new(), Vec::new());
    let mut unwinder = Unwinder::new(Arch::X86_64);
    let process = Process(table);
    let end =
        unwinder.unwind_with_registers(&sampled, &dump, &process, 100, &mut frames, &mut kept);
    assert_eq!(
        end,
        unwinder.unwind(&sampled, &dump, &process, 100, &mut plain)
    );
    assert_eq!(frames, plain);
    let found: Vec<_> = (kept.iter())
        .map(|kept| (kept.ip(), kept.sp(), kept.get(RBP)))
        .collect();
    let expected = [
        (IMAGE + 0x10, 0x7000, Some(10)),
        (IMAGE + 0x20, 0x7010, Some(11)),
        (IMAGE + 0x30, 0x7020, Some(22)),
    ];
    assert_eq!(found, expected);
    assert!((frames.iter().zip(&kept)).all(|(frame, kept)| frame.sp == kept.sp()));
}
