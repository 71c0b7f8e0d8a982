//! `rprof completions` and `rprof man`.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::Outcome;
use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::commands::manual;
use crate::terminal::output::write_to;
use crate::terminal::pager::into;
use crate::wording::messages::{Failure, say};

pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    // The generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "rprof", &mut script);
    write_to(Path::new("-"), |out| Ok(out.write_all(&script)?))?;
    Ok(0)
}

pub(crate) fn man(args: &ManArgs) -> Outcome {
    let mut command = cli::command();
    command.build();
    let (mut shown, title) = match &args.command {
        None => (command, None),
        Some(name) => {
            let found = command.find_subcommand(name).filter(|c| !c.is_hide_set());
            let Some(sub) = found else {
                let known: Vec<_> = (command.get_subcommands())
                    .filter(|c| !c.is_hide_set())
                    .map(clap::Command::get_name)
                    .collect();
                let message = format!("no command {name:?}: the commands are {}", known.join(", "));
                return Err(Failure::with_status(2, io::Error::other(message)));
            };
            (sub.clone(), Some(format!("rprof-{name}")))
        }
    };
    let page = clap_mangen::Man::new(shown.clone());
    let page = match title {
        None => page,
        Some(title) => page.title(title),
    };
    let mut text = Vec::new();
    page.render(&mut text).context("cannot make the page")?;
    text.extend(manual::sections(args.command.as_deref().unwrap_or("rprof")).bytes());
    let write = |out: &mut dyn io::Write| Ok(out.write_all(&text)?);
    let viewer = || {
        let mut man = Command::new("man");
        // man(1) chooses the pager and the width.
        man.args(["-l", "-"]).stdin(Stdio::piped()).spawn().ok()
    };
    let is_terminal = io::stdout().is_terminal();
    match is_terminal.then(viewer).flatten() {
        Some(viewer) => into(viewer, write)?,
        None if is_terminal => {
            let help = shown.render_long_help();
            write_to(Path::new("-"), |out| Ok(write!(out, "{help}")?))?;
            say(
                "man(1) is not installed: this is the text of --help; `rprof man >FILE` writes the \
                 page",
            );
        }
        None => write_to(Path::new("-"), write)?,
    }
    Ok(0)
}
