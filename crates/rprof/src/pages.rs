//! `rprof completions` and `rprof man`.

use std::io;
use std::path::Path;

use crate::Outcome;
use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::messages::Failure;
use crate::output::write_to;

pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    // Into memory first: the generator panics on a closed pipe.
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
                let message = format!(
                    "there is no command {name:?}; there are {}",
                    known.join(", ")
                );
                return Err(Failure::with_status(2, io::Error::other(message)));
            };
            let title = format!("rprof-{name}");
            clap_mangen::Man::new(sub.clone()).title(title)
        }
    };
    write_to(Path::new("-"), |out| Ok(page.render(out)?))?;
    Ok(0)
}
