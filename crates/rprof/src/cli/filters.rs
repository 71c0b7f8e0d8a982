//! `--filter`, which depends on its position among the events.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// Values of `--filter`, each with the number of `-e` before it. As in perf, a filter applies to
/// the events of the last `-e`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters(pub(crate) Vec<(usize, String)>);

impl Args for Filters {
    fn augment_args(command: Command) -> Command {
        let help = "Filter on fields of tracepoints, for the tracepoints of the -e before it, such as `prev_pid == 0`";
        command.arg(
            Arg::new("filter")
                .long("filter")
                .value_name("EXPR")
                .action(ArgAction::Append)
                .help(help),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Filters::augment_args(command)
    }
}

impl FromArgMatches for Filters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Filters, Error> {
        let is_typed = matches.value_source("filter") == Some(ValueSource::CommandLine);
        if !is_typed {
            return Ok(Filters::default());
        }
        let events: Vec<usize> = matches.indices_of("event").into_iter().flatten().collect();
        let texts = matches.get_many::<String>("filter").into_iter().flatten();
        let places = matches.indices_of("filter").into_iter().flatten();
        let filters = places.zip(texts).map(|(place, text)| {
            let before = events.iter().filter(|event| **event < place).count();
            (before, text.clone())
        });
        Ok(Filters(filters.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Filters::from_arg_matches(matches)?;
        Ok(())
    }
}
