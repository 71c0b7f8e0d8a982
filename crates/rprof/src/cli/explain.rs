//! Arguments of `rprof explain`.

use std::ffi::{OsStr, OsString};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::reading::InputArgs;
use super::values::number;

/// Explains a recording in sentences, each with a figure and the command that shows it.
///
/// The text reports the amount and quality of the samples, the places with most time, and kinds of
/// work with the functions that they are done for: allocation, copying, page faults, system calls
/// and others. It names phases of a single thread, and reasons of waits. The same recording gives
/// the same text. With two files, the text reports the changes from the first to the second.
#[derive(Debug, Args)]
#[command(mut_arg("latency", |argument| argument.hide(true)))]
pub(crate) struct ExplainArgs {
    // Before the options themselves, which clap takes out of the matches.
    #[command(flatten)]
    pub(crate) typed: TypedFilters,

    /// Maximum number of words; rprof omits the least important sentences
    #[arg(
        long,
        help_heading = "Output",
        value_name = "WORDS",
        default_value_t = 400,
        value_parser = number::<usize>(0..)
    )]
    pub(crate) budget: usize,

    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// Options that select samples and names, as words that the commands of the sentences repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypedFilters(pub(crate) Vec<OsString>);

impl Args for TypedFilters {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for TypedFilters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TypedFilters, Error> {
        const OTHERS: [&str; 3] = ["files", "input", "quiet"];
        let options = InputArgs::augment_args(Command::new("explain"));
        let typed = options.get_arguments().filter(|option| {
            let id = option.get_id().as_str();
            !OTHERS.contains(&id) && matches.value_source(id) == Some(ValueSource::CommandLine)
        });
        let mut words = Vec::new();
        for option in typed {
            let name = OsString::from(format!("--{}", option.get_long().unwrap_or_default()));
            let occurrences = matches.get_raw_occurrences(option.get_id().as_str());
            for values in occurrences.into_iter().flatten() {
                let values = values.collect::<Vec<&OsStr>>().join(",".as_ref());
                let has_value = option.get_action().takes_values() && !values.is_empty();
                words.push(match has_value {
                    true => [&*name, &*values].join("=".as_ref()),
                    false => name.clone(),
                });
            }
        }
        Ok(TypedFilters(words))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = TypedFilters::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> String {
        let command = ExplainArgs::augment_args(Command::new("explain"));
        let matches = command.get_matches_from(line.split(' '));
        let args = ExplainArgs::from_arg_matches(&matches).expect("valid options");
        args.typed
            .0
            .join(" ".as_ref())
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn commands_have_the_filters_of_the_explanation() {
        let line =
            "explain --budget 9 -p 7,8 x.data --time=1,2 -q --input=y.data --symbol f --symbol g";
        assert_eq!(
            typed(line),
            "--pid=7,8 --symbol=f --symbol=g --time=1,2".to_owned()
        );
        assert_eq!(typed("explain -i x.data --budget=9"), "");
        assert_eq!(typed("explain -qp7 -ix.data"), "--pid=7");
        assert_eq!(typed("explain --comm=-p7 -- -p7"), "--comm=-p7");
    }
}
