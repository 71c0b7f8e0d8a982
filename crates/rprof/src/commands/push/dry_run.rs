//! Dry run: prints the requests without sending them.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Context;
use indicatif::BinaryBytes;
use rprof_export::clean::clean;
use rprof_profile::unit::counted;

use super::source::Source;
use super::{Pusher, words};
use crate::terminal::output::check_standard_output;
use crate::wording::messages::Failure;
use crate::wording::recording_facts::utc;

pub(super) fn print(pusher: &Pusher<'_>, source: &Source) -> Result<(), Failure> {
    let mut text = String::new();
    describe(pusher, source, &mut text)?;
    check_standard_output()?;
    let written = io::stdout().lock().write_all(text.as_bytes());
    Ok(written.context("cannot write to standard output")?)
}

fn describe(pusher: &Pusher<'_>, source: &Source, out: &mut String) -> Result<(), Failure> {
    let path = source.path.display().to_string();
    let mut parts = pusher.parts(source);
    writeln!(
        out,
        "{}: {}",
        clean(&path),
        counted(parts.all_samples(), "sample")
    )?;
    if let Some((first, last)) = source.profile.wall_time {
        let took = Duration::from_nanos(last.saturating_sub(first));
        let begin = utc(first / 1_000_000_000);
        writeln!(out, "  recorded: {begin}, for {}", words::seconds(took))?;
    }
    writeln!(out, "  labels:")?;
    for label in &source.labels {
        writeln!(out, "    {label}")?;
    }
    let (mut count, mut cut) = (0, 0);
    while let Some(part) = parts.next_part()? {
        if part.is_too_large {
            let size = BinaryBytes(part.bytes);
            let lost = counted(part.samples, "sample");
            writeln!(
                out,
                "  not sent: {lost} in a stack of {size}, too large for the server"
            )?;
            continue;
        }
        count += 1;
        cut += part.cut;
        if count == 1 {
            writeln!(out, "  POST {}", clean(pusher.client.address()))?;
            for header in pusher.client.shown_headers() {
                writeln!(out, "    {}", clean(&header))?;
            }
        }
        writeln!(
            out,
            "  request {count}: {} in {}, {} compressed, {} before",
            counted(part.samples, "sample"),
            counted(part.rows.len() as u64, "stack"),
            BinaryBytes(part.profile.len() as u64),
            BinaryBytes(part.bytes),
        )?;
    }
    if cut > 0 {
        writeln!(out, "  {} without outer frames", counted(cut, "stack"))?;
    }
    writeln!(out, "  {}", counted(count, "request"))?;
    Ok(())
}
