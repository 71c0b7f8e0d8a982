//! A block of text for each sample, in the form of perf script, so that
//! `stackcollapse-perf.pl` and `inferno-collapse-perf` read it.

use std::io::{self, Write};

use rprof_profile::{SampleFrame, SampleView, Samples};

use crate::clean::clean;

/// Writes all samples.
///
/// # Errors
/// Those of the writer.
pub fn write(samples: &Samples<'_>, out: &mut dyn Write) -> io::Result<()> {
    for sample in samples.iter() {
        write_sample(&sample, out)?;
    }
    Ok(())
}

fn write_sample(sample: &SampleView<'_>, out: &mut dyn Write) -> io::Result<()> {
    let comm = clean(sample.comm);
    let (seconds, micros) = (
        sample.time / 1_000_000_000,
        sample.time % 1_000_000_000 / 1000,
    );
    write!(out, "{comm} {:5} ", sample.tid)?;
    if let Some(cpu) = sample.cpu {
        write!(out, "[{cpu:03}] ")?;
    }
    write!(
        out,
        "{seconds:5}.{micros:06}: {:10} {}: ",
        sample.period,
        clean(sample.event)
    )?;
    if !sample.has_chain {
        // Without a callchain the one frame stands on the same line, and its
        // address is that in memory.
        for frame in sample.frames() {
            write!(out, "{:16x}", sample.ip)?;
            write_symbol(&frame, out)?;
        }
        return writeln!(out);
    }
    writeln!(out)?;
    for frame in sample.frames() {
        write!(out, "\t{:16x}", frame.address)?;
        write_symbol(&frame, out)?;
        writeln!(out)?;
    }
    writeln!(out)
}

fn write_symbol(frame: &SampleFrame<'_>, out: &mut dyn Write) -> io::Result<()> {
    match &frame.function.name {
        Ok(name) => write!(out, " {}+{:#x}", clean(name), frame.offset)?,
        Err(_) => write!(out, " [unknown]")?,
    }
    write!(out, " ({})", clean(&frame.object.name))
}
