//! Branch stacks.

use std::io::{self, Write};

use rprof_analysis::SampleView;
use rprof_records::{BranchEntry, Sample};

use crate::fields::{Field, FieldSet};
use crate::frames::{write_object, write_symbol};

/// Writes the branch stack in the first requested form, its hardware index, and one counter word
/// per branch.
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
        // All bits set means that the hardware has no index.
        write!(out, " hw_index={}", index.cast_signed())?;
    }
    if fields.has(Field::BrCounters) {
        let counters: Vec<String> = branches.counters().map(|n| format!("{n:#x}")).collect();
        write!(out, " brcntr={}", counters.join(","))?;
    }
    Ok(())
}

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
    write!(out, "{} ", entry.flags)
}
