//! Output through `$PAGER` on a terminal.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::SIGINT;

use crate::terminal::output::write_to;
use crate::wording::messages::Failure;

/// Writes to standard output, or through `$PAGER` if standard output is a terminal.
pub(crate) fn show(
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    match std::env::var_os("PAGER") {
        Some(pager) if io::stdout().is_terminal() && !pager.is_empty() && pager != *"cat" => {
            let mut command = Command::new("sh");
            command.arg("-c").arg(&pager);
            if std::env::var_os("LESS").is_none() {
                // As in git: no paging for one screen, colours, and the text stays on the screen.
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
    let child = (pager.stdin(Stdio::piped()).spawn()).context("cannot run sh for PAGER")?;
    into(child, write)
}

/// Writes to the standard input of a viewer, and waits for it.
pub(crate) fn into(
    mut child: Child,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    // Ctrl-C ends a search in the pager, not rprof.
    signal_hook::flag::register(SIGINT, Arc::new(AtomicBool::new(false)))
        .context("cannot listen for signals")?;
    let mut out = BufWriter::new(child.stdin.take().context("no pipe to the pager")?);
    let written = write(&mut out).and_then(|()| Ok(out.flush()?));
    // Unwritten data means that the pager has exited.
    drop(out.into_parts());
    child.wait().context("cannot wait for the pager")?;
    written
}
