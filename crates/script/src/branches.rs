//! Branch stacks.

use std::io::{self, Write};

use rprof_analysis::SampleView;
use rprof_records::{BranchEntry, Sample};

use crate::fields::{Field, FieldSet};
use crate::frames::{write_object, write_symbol};
use rprof_export::clean::clean;

/// Names of branch types (`PERF_BR_*`), by number; 0 is unknown, and not shown.
const TYPES: [&str; 15] = [
    "",
    "COND",
    "UNCOND",
    "IND",
    "CALL",
    "IND_CALL",
    "RET",
    "SYSCALL",
    "SYSRET",
    "COND_CALL",
    "COND_RET",
    "ERET",
    "IRQ",
    "SERROR",
    "NO_TX",
];

/// Names of branch types with `PERF_BR_EXTEND_ABI`.
const MORE_TYPES: [&str; 8] = [
    "FAULT_ALGN",
    "FAULT_DATA",
    "FAULT_INST",
    "ARCH_1",
    "ARCH_2",
    "ARCH_3",
    "ARCH_4",
    "ARCH_5",
];

/// Formats `/P/X/A/cycles/type `: predicted or mispredicted, in a transaction, aborted it.
fn flags(entry: &BranchEntry) -> String {
    let bit = |n: u32| entry.flags >> n & 1 != 0;
    let predicted = match (bit(0), bit(1)) {
        (_, true) => 'P',
        (true, false) => 'M',
        (false, false) => '-',
    };
    let field = |from: u32, len: u32| (entry.flags >> from & ((1 << len) - 1)) as usize;
    let (cycles, kind, more) = (field(4, 16), field(20, 4), field(26, 4));
    let kind = match kind {
        15 => MORE_TYPES.get(more),
        kind => TYPES.get(kind),
    };
    format!(
        "/{predicted}/{}/{}/{cycles}/{} ",
        if bit(2) { 'X' } else { '-' },
        if bit(3) { 'A' } else { '-' },
        kind.unwrap_or(&"")
    )
}

/// Writes the branch stack in the first form that is asked for, then its hardware index and
/// the words of event counters, one for each branch.
pub(crate) fn write(
    view: &SampleView<'_>,
    sample: &Sample<'_>,
    fields: FieldSet,
    out: &mut dyn Write,
) -> io::Result<()> {
    let forms = [Field::BrStack, Field::BrStackSym, Field::BrStackOff];
    let form = forms.into_iter().find(|form| fields.has(*form));
    let further = fields.has_any(&[Field::HwIndex, Field::BrCounters]);
    if form.is_none() && !further {
        return Ok(());
    }
    let Some(branches) = sample.branch_stack() else {
        return Ok(());
    };
    if let Some(form) = form {
        for entry in branches.iter() {
            write_entry(form, &entry, view, sample, fields, out)?;
        }
    }
    if fields.has(Field::HwIndex)
        && let Some(index) = branches.hw_index
    {
        // All bits set: the hardware has none.
        write!(out, " hw_index={}", index.cast_signed())?;
    }
    if fields.has(Field::BrCounters) {
        let counters: Vec<String> = branches.counters().map(|n| format!("{n:#x}")).collect();
        write!(out, " brcntr={}", counters.join(","))?;
    }
    Ok(())
}

/// Writes both ends of a branch, and its flags.
fn write_entry(
    form: Field,
    entry: &BranchEntry,
    view: &SampleView<'_>,
    sample: &Sample<'_>,
    fields: FieldSet,
    out: &mut dyn Write,
) -> io::Result<()> {
    let dso = fields.has(Field::Dso);
    for (address, separator) in [(entry.from, ""), (entry.to, "/")] {
        let frame = match form {
            Field::BrStack if !dso => None,
            _ => view.locate(sample, address),
        };
        match form {
            Field::BrStackSym => {
                write!(out, "{separator}")?;
                write_symbol(frame.as_ref(), true, out)?;
            }
            _ => {
                let separator = if separator.is_empty() { " " } else { separator };
                let shown = match (form, &frame) {
                    (Field::BrStackOff, Some(frame)) => frame.address,
                    _ => address,
                };
                write!(out, "{separator}{shown:#x}")?;
            }
        }
        if dso {
            write_object(frame.as_ref(), out)?;
        }
    }
    write!(out, "{}", clean(&flags(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_by_bits() {
        let of = |bits| {
            flags(&BranchEntry {
                from: 0,
                to: 0,
                flags: bits,
            })
        };
        assert_eq!(of(0), "/-/-/-/0/ ");
        assert_eq!(of(0b1101), "/M/X/A/0/ ");
        assert_eq!(of(2 | 25 << 4 | 4 << 20), "/P/-/-/25/CALL ");
        assert_eq!(of(15 << 20 | 1 << 26), "/-/-/-/0/FAULT_DATA ");
        assert_eq!(of(u64::MAX), "/P/X/A/65535/ ");
    }
}
