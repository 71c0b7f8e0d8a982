//! Parsing of the process's arguments, with the forms that perf takes and clap does not.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches};

use super::Cli;

impl Cli {
    /// Reads the process's own arguments. Wrong ones end it with exit status 2.
    pub(crate) fn from_arguments() -> Cli {
        let mut command = with_negations(command());
        let mut arguments: Vec<OsString> = std::env::args_os().collect();
        let matches = loop {
            match command.try_get_matches_from_mut(&arguments) {
                Err(e) if e.kind() == ErrorKind::UnknownArgument && part_level(&mut arguments) => {}
                other => break other,
            }
        };
        matches
            .and_then(|matches| Cli::from_arg_matches(&matches))
            .map_err(|e| e.format(&mut command))
            .unwrap_or_else(|e| e.exit())
    }
}

/// Makes `-z=9` of a first `-z9`, which perf takes and clap does not: it would take `-z 9` then
/// as well, and a COMMAND for a level. Says whether there was one.
///
/// Only where the arguments are wrong as they are: a COMMAND may have a `-z9` of its own.
fn part_level(arguments: &mut [OsString]) -> bool {
    let level = |arg: &OsString| {
        let digits = arg.to_str()?.strip_prefix("-z")?;
        let is_level = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        is_level.then(|| format!("-z={digits}").into())
    };
    let ours = arguments.iter_mut().take_while(|arg| *arg != "--");
    let found = ours.filter_map(|arg| level(arg).map(|level| *arg = level));
    found.take(1).count() > 0
}

/// The command line as it is described to users.
pub(crate) fn command() -> clap::Command {
    // There -i is the input, and these long names are filters.
    Cli::command().mut_subcommand("flamegraph", |flamegraph| {
        ["processes", "threads", "cpus"]
            .into_iter()
            .fold(flamegraph, |c, id| c.mut_arg(id, |arg| arg.long(None)))
            .mut_arg("no_inherit", |arg| arg.short(None))
    })
}

/// The same with `--no-X` for each `--X` without a value; the one that comes last counts.
fn with_negations(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|command| {
        let negations: Vec<Arg> = (command.get_arguments())
            .filter(|arg| matches!(arg.get_action(), ArgAction::SetTrue))
            .filter_map(|arg| Some((arg.get_id().clone(), arg.get_long()?)))
            .filter(|(_, long)| {
                let twin = format!("no-{long}");
                let has_twin = command.get_arguments().any(|a| a.get_long() == Some(&twin));
                !long.starts_with("no-") && !has_twin
            })
            .map(|(id, long)| {
                let name = format!("no-{long}");
                (Arg::new(name.clone()).long(name).hide(true))
                    .action(ArgAction::SetTrue)
                    .overrides_with(id)
            })
            .collect();
        command.args(negations)
    })
}
