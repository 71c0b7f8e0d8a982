//! The frames of a sample.

use std::io::{self, Write};

use rprof_analysis::{SampleFrame, SampleView};

use crate::fields::{FieldSet, OutputField};
use crate::options::ScriptOptions;
use crate::plan::EventPlan;
use rprof_export::clean::clean;

/// Writes the callchain, one frame per line, or the leaf with its memory address on the sample's
/// line.
pub(crate) fn write(
    view: &SampleView<'_>,
    plan: &EventPlan,
    options: &ScriptOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let fields = plan.fields;
    // Without the address, names belong to ADDR or branches, if the output has these.
    let elsewhere = [
        OutputField::Addr,
        OutputField::BrStack,
        OutputField::BrStackSym,
        OutputField::BrStackOff,
    ];
    let by_name = fields.has_any(&[OutputField::Sym, OutputField::Dso]) && plan.names_leaf;
    if !fields.has(OutputField::Ip) && (!by_name || fields.has_any(&elsewhere)) {
        return Ok(());
    }
    if !plan.callchain {
        // The leaf, if the callchain is hidden.
        let frame = view.leaf();
        if fields.has(OutputField::Ip) {
            write!(out, " {:16x}", view.ip)?;
        }
        return write_names(frame.as_ref(), fields, out);
    }
    writeln!(out)?;
    let most = match options.max_stack {
        0 => usize::MAX,
        n => n,
    };
    // With an empty callchain (left to an unwinder), the leaf is the only frame.
    for frame in view.frames_of_innermost(most) {
        match fields.has(OutputField::Ip) {
            true => write!(out, "\t{:16x}", frame.address)?,
            false => write!(out, "\t")?,
        }
        write_names(Some(&frame), fields, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Writes ` function+offset (object)` as requested, with ` (inlined)` as the object of inlined
/// calls.
pub(crate) fn write_names(
    frame: Option<&SampleFrame<'_>>,
    fields: FieldSet,
    out: &mut dyn Write,
) -> io::Result<()> {
    if fields.has(OutputField::Sym) {
        write!(out, " ")?;
        write_symbol(frame, fields.has(OutputField::SymOff), out)?;
    }
    let inlined = frame.is_some_and(|frame| frame.inlined);
    if fields.has(OutputField::Dso) && !inlined {
        write!(out, " ")?;
        write_object(frame, out)?;
    }
    if fields.has(OutputField::SrcLine)
        && let Some(line) = frame.and_then(|frame| frame.line)
    {
        let name = line.file.rsplit('/').next().unwrap_or_default();
        write!(out, "\n  {}:{}", clean(name), line.line)?;
    }
    if inlined {
        write!(out, " (inlined)")?;
    }
    Ok(())
}

/// Writes `function+offset`, or `[unknown]`.
pub(crate) fn write_symbol(
    frame: Option<&SampleFrame<'_>>,
    offset: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    match frame.map(|f| (&f.function.name, f.offset)) {
        Some((Ok(name), distance)) if offset => write!(out, "{}+{distance:#x}", clean(name)),
        Some((Ok(name), _)) => write!(out, "{}", clean(name)),
        _ => write!(out, "[unknown]"),
    }
}

pub(crate) fn write_object(frame: Option<&SampleFrame<'_>>, out: &mut dyn Write) -> io::Result<()> {
    let name = frame.map_or("[unknown]", |f| &f.object.name);
    write!(out, "({})", clean(name))
}
