//! Long output a page at a time, where somebody reads it.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::SIGINT;

use crate::messages::Failure;
use crate::output::write_to;

/// Writes to standard output; where that is a terminal, and PAGER is set, through the pager.
pub(crate) fn show(
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match std::env::var_os("PAGER") {
        Some(pager) if io::stdout().is_terminal() && !pager.is_empty() && pager != *"cat" => {
            let mut command = Command::new("sh");
            command.arg("-c").arg(&pager);
            if std::env::var_os("LESS").is_none() {
                // As git has it: no page where one is enough, colours, what was shown stays.
                command.env("LESS", "FRX");
            }
            through(command, write)
        }
        _ => write_to(Path::new("-"), write),
    }
}

fn through(
    mut pager: Command,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Ctrl-C is the pager's: it ends a search, and not what it searches.
    signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))
        .context("cannot listen for signals")?;
    let mut child = (pager.stdin(Stdio::piped()).spawn()).context("cannot run sh for PAGER")?;
    let mut out = BufWriter::new(child.stdin.take().context("no pipe to the pager")?);
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    // What is not written by now is not wanted.
    drop(out.into_parts());
    child.wait().context("cannot wait for the pager")?;
    written
}
