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
use crate::wording::messages::Failure;

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
    let page = match &args.command {
        None => clap_mangen::Man::new(command),
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
            let title = format!("rprof-{name}");
            clap_mangen::Man::new(sub.clone()).title(title)
        }
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
    match io::stdout().is_terminal().then(viewer).flatten() {
        Some(viewer) => into(viewer, write)?,
        None => write_to(Path::new("-"), write)?,
    }
    Ok(0)
}
