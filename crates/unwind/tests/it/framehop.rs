//! framehop as the oracle: one step from addresses in many system libraries, on a synthetic stack.
//! framehop tracks only the instruction, stack and frame pointers. So rules with other registers
//! are skipped, as are expressions except for PLTs.

use crate::tools;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Unwinder as _};
use object::{Object, ObjectSection};
use rprof_unwind::table::{CfaRule, RegisterRule, Row};
use rprof_unwind::{
    Arch, Memory, Module, Modules, Registers, Root, StackFrame, UnwindOutcome, UnwindTable,
    Unwinder,
};
use std::collections::BTreeMap;
use std::path::Path;

const STACK: u64 = 0x7fff_0000_0000;

/// Every stack word is an address in the image.
struct MadeUp {
    text: u64,
    len: u64,
}

impl Memory for MadeUp {
    fn read_u64(&self, avma: u64) -> Option<u64> {
        let near = avma.abs_diff(STACK) < 1 << 28;
        near.then(|| self.text + avma.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.len)
    }
}

struct One<'a>(&'a UnwindTable);

impl Modules for One<'_> {
    fn find(&self, _: u64) -> Option<Module<'_>> {
        Some(Module {
            table: Some(self.0),
            bias: 0,
        })
    }
}

fn compare(path: &Path, tally: &mut BTreeMap<&'static str, usize>) {
    let bytes = std::fs::read(path).unwrap();
    let table = UnwindTable::parse(&bytes).unwrap();
    // framehop has no i386.
    if table.arch() != Arch::X86_64 {
        return;
    }
    let file = object::File::parse(&*bytes).unwrap();
    let section = |name: &str| {
        let section = file.section_by_name(name)?;
        let data = section.data().ok()?.to_vec();
        Some((section.address()..section.address() + section.size(), data))
    };
    let (eh_frame_svma, eh_frame) = section(".eh_frame").unwrap();
    let (text_svma, text) = section(".text").unwrap();
    let memory = MadeUp {
        text: text_svma.start + 16,
        len: text.len() as u64 - 32,
    };
    let (hdr_svma, hdr) = section(".eh_frame_hdr").unzip();
    let mut theirs: UnwinderX86_64<Vec<u8>> = UnwinderX86_64::new();
    theirs.add_module(framehop::Module::new(
        "image".into(),
        0..1 << 40,
        0,
        ExplicitModuleSectionInfo {
            base_svma: 0,
            eh_frame_svma: Some(eh_frame_svma),
            eh_frame: Some(eh_frame),
            eh_frame_hdr_svma: hdr_svma,
            eh_frame_hdr: hdr,
            ..Default::default()
        },
    ));
    let mut cache = CacheX86_64::<_>::new();
    let mut ours = Unwinder::new(Arch::X86_64);
    let mut frames: Vec<StackFrame> = Vec::new();
    let rows: Vec<Row<'_>> = table.rows().collect();
    // Every row of small images, and an equal number of rows of large ones.
    for row in rows.iter().step_by(rows.len() / 20_000 + 1) {
        let Some(rule) = &row.rule else { continue };
        let plt =
            matches!(rule.cfa, CfaRule::Expression(code) if code.starts_with(&[0x77, 8, 0x80, 0]));
        let known = matches!(rule.cfa, CfaRule::Register(6 | 7, _)) || plt;
        let simple = rule.registers.iter().all(|(register, rule)| {
            *register != 6 || matches!(rule, RegisterRule::AtCfa(_) | RegisterRule::Default)
        });
        // vfork keeps its return address in a register.
        let stored = rule.return_address == RegisterRule::AtCfa(-8);
        let undefined = rule.return_address == RegisterRule::Undefined;
        if !known || !simple || !(stored || undefined) {
            *tally.entry("not known to framehop").or_default() += 1;
            continue;
        }
        let (ip, sp, bp) = (row.start, STACK, STACK + 0x400);
        let mut registers = Registers::new(Arch::X86_64, ip, sp);
        registers.set(6, bp);
        let end = ours.unwind(&registers, &memory, &One(&table), 2, &mut frames);
        let mine = match (frames.get(1), end) {
            (Some(frame), _) => Ok(Some((frame.address, frame.sp))),
            (None, UnwindOutcome::Complete(Root::UndefinedReturnAddress)) => Ok(None),
            (None, end) => Err(end),
        };
        let mut registers = UnwindRegsX86_64::new(ip, sp, bp);
        let found = theirs.unwind_frame(
            FrameAddress::from_instruction_pointer(ip),
            &mut registers,
            &mut cache,
            &mut |avma| memory.read_u64(avma).ok_or(()),
        );
        let class = match (&found, &mine) {
            (Ok(Some(address)), Ok(Some(mine))) if (*address, registers.sp()) == *mine => "equal",
            (Ok(None), Ok(None)) => "equal root",
            _ => "different",
        };
        *tally.entry(class).or_default() += 1;
        if class == "different" {
            eprintln!(
                "{} {row}: {mine:x?}, framehop {found:x?} {registers:?}",
                path.display()
            );
        }
    }
}

#[test]
fn steps_are_those_of_framehop() {
    let mut tally = BTreeMap::new();
    for path in tools::system_images() {
        compare(&path, &mut tally);
    }
    eprintln!("{tally:?}");
    if !tally.is_empty() {
        assert!(tally["equal"] > 1000);
        assert_eq!(tally.get("different"), None);
    }
}
