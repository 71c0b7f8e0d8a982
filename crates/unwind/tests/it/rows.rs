//! gimli's rows as the oracle: for every FDE of some libraries and programs, the table must have
//! each row of gimli at the row's first and last address.

use crate::tools;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, Register, UnwindContext,
    UnwindExpression, UnwindSection,
};
use object::{Object, ObjectSection};
use rprof_unwind::table::{CfaRule as OurCfa, RegisterRule as Ours, Row};
use rprof_unwind::{Arch, UnwindTable};
use std::path::Path;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

struct Compared {
    rows: usize,
    fdes: usize,
}

fn compare(path: &Path) -> Compared {
    let bytes = std::fs::read(path).unwrap();
    let table = UnwindTable::parse(&bytes).unwrap();
    let ours: Vec<Row<'_>> = table.rows().collect();
    let file = object::File::parse(&*bytes).unwrap();
    let section = file.section_by_name(".eh_frame").unwrap();
    let data = section.data().unwrap();
    let mut eh_frame = EhFrame::new(data, LittleEndian);
    eh_frame.set_address_size(table.arch().word_size() as u8);
    let return_address = match table.arch() {
        Arch::X86 => 8,
        _ => 16,
    };
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = eh_frame.entries(&bases);
    let mut context = UnwindContext::new();
    let mut compared = Compared { rows: 0, fdes: 0 };
    while let Some(entry) = entries.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        compared.fdes += 1;
        let mut rows = fde.rows(&eh_frame, &bases, &mut context).unwrap();
        while let Some(row) = rows.next_row().unwrap() {
            for address in [row.start_address(), row.end_address() - 1] {
                // Instructions for the end of the function add an empty row.
                if !fde.contains(address) || address < row.start_address() {
                    continue;
                }
                let at = ours.partition_point(|ours| ours.start <= address);
                let ours = &ours[at.checked_sub(1).unwrap()];
                assert!(ours.start <= address && address < ours.end, "{address:#x}");
                let rule = ours.rule.as_ref().expect("a rule");
                let bytes = |expression: &UnwindExpression<usize>| {
                    let expression: gimli::Expression<Slice<'_>> =
                        expression.get(&eh_frame).unwrap();
                    expression.0.slice().to_vec()
                };
                match (row.cfa(), rule.cfa) {
                    (CfaRule::RegisterAndOffset { register, offset }, OurCfa::Register(r, o)) => {
                        assert_eq!((register.0, *offset), (r.into(), o.into()), "{address:#x}");
                    }
                    (CfaRule::Expression(expression), OurCfa::Expression(ours)) => {
                        assert_eq!(bytes(expression), ours, "{address:#x}");
                    }
                    other => panic!("{address:#x}: {other:?}"),
                }
                for number in 0..=return_address {
                    let ours = if number == return_address {
                        rule.return_address
                    } else {
                        let found = rule.registers.iter().find(|(r, _)| u16::from(*r) == number);
                        found.map_or(Ours::Default, |(_, rule)| *rule)
                    };
                    use gimli::RegisterRule as Theirs;
                    let same = match (row.register(Register(number)), ours) {
                        (None, Ours::Default)
                        | (Some(Theirs::Undefined), Ours::Undefined)
                        | (Some(Theirs::SameValue), Ours::Same) => true,
                        (Some(Theirs::Offset(theirs)), Ours::AtCfa(ours))
                        | (Some(Theirs::ValOffset(theirs)), Ours::CfaPlus(ours)) => {
                            theirs == i64::from(ours)
                        }
                        (Some(Theirs::Register(theirs)), Ours::Register(ours)) => {
                            theirs.0 == u16::from(ours)
                        }
                        (Some(Theirs::Expression(theirs)), Ours::At(ours))
                        | (Some(Theirs::ValExpression(theirs)), Ours::Expression(ours)) => {
                            bytes(&theirs) == ours
                        }
                        _ => false,
                    };
                    assert!(same, "register {number} at {address:#x}: {ours:?}");
                }
                assert_eq!(rule.signal, fde.is_signal_trampoline());
                compared.rows += 1;
            }
        }
    }
    compared
}

#[test]
fn rows_are_those_of_gimli() {
    for path in tools::system_images() {
        let compared = compare(&path);
        eprintln!(
            "{}: {} rows of {} FDEs",
            path.display(),
            compared.rows / 2,
            compared.fdes
        );
        assert!(compared.fdes > 10, "{}", path.display());
    }
}
