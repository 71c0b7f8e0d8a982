//! Branch stacks.

use std::io::{self, Write};

use rprof_analysis::SampleView;
use rprof_records::{BranchEntry, Sample};

use crate::fields::{FieldSet, OutputField};
use crate::frames::{write_object, write_symbol};

/// Writes the branch stack in the first requested form, its hardware index, and one counter word
/// per branch.
pub(crate) fn write(
    view: &SampleView<'_>,
    sample: &Sample<'_>,
    fields: FieldSet,
    out: &mut dyn Write,
) -> io::Result<()> {
    let forms = [
        OutputField::BrStack,
        OutputField::BrStackSym,
        OutputField::BrStackOff,
    ];
    let form = forms.into_iter().find(|form| fields.has(*form));
    let further = fields.has_any(&[OutputField::HwIndex, OutputField::BrCounters]);
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
    if fields.has(OutputField::HwIndex)
        && let Some(index) = branches.hw_index
    {
        // All bits set means that the hardware has no index.
        write!(out, " hw_index={}", index.cast_signed())?;
    }
    if fields.has(OutputField::BrCounters) {
        let counters: Vec<String> = branches.counters().map(|n| format!("{n:#x}")).collect();
        write!(out, " brcntr={}", counters.join(","))?;
    }
    Ok(())
}

fn write_entry(
    form: OutputField,
    entry: &BranchEntry,
    view: &SampleView<'_>,
    sample: &Sample<'_>,
    fields: FieldSet,
    out: &mut dyn Write,
) -> io::Result<()> {
    let dso = fields.has(OutputField::Dso);
    for (address, separator) in [(entry.from, ""), (entry.to, "/")] {
        let frame = match form {
            OutputField::BrStack if !dso => None,
            _ => view.locate(sample, address),
        };
        match form {
            OutputField::BrStackSym => {
                write!(out, "{separator}")?;
                write_symbol(frame.as_ref(), true, out)?;
            }
            _ => {
                let separator = if separator.is_empty() { " " } else { separator };
                let shown = match (form, &frame) {
                    (OutputField::BrStackOff, Some(frame)) => frame.address,
                    _ => address,
                };
                write!(out, "{separator}{shown:#x}")?;
            }
        }
        if dso {
            write_object(frame.as_ref(), out)?;
        }
    }
    write!(out, "{} ", entry.flags)
}
