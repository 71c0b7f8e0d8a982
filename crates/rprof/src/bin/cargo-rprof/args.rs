//! Arguments of `cargo rprof`: parses options of Cargo, and passes the options of rprof on
//! unparsed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::builder::ValueRange;
use clap::{Arg, Args, CommandFactory, Parser, ValueHint};
use clap_complete::Shell;

/// Commands of rprof that run a program.
const RUNNING: &[&str] = &["flamegraph", "record", "stat", "html", "top", "gate"];

/// Builds a program of this package with debug information, and profiles it.
///
/// COMMAND is any command of rprof. `flamegraph` (the default), `record`, `stat`, `html`, `top` and
/// `gate` run the built program; other commands are passed on. Options that are not listed here are
/// options of COMMAND, as in `cargo rprof record -F 4999 --bin server -- --port 80`: see `rprof
/// help COMMAND`.
#[derive(Debug, Parser)]
#[command(
    name = "cargo-rprof",
    bin_name = "cargo rprof",
    version,
    max_term_width = 100,
    override_usage = "cargo rprof [COMMAND] [OPTIONS] [OPTIONS OF rprof COMMAND] [-- ARGUMENTS]",
    after_help = "`cargo rprof completions SHELL` and `cargo rprof man` print completions and a manual page."
)]
pub(crate) struct CargoArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,

    /// Package with the program [default: by the working directory]
    #[arg(short, long, value_name = "SPEC", help_heading = "Package")]
    pub(crate) package: Option<String>,

    /// Path of Cargo.toml
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Package")]
    pub(crate) manifest_path: Option<PathBuf>,

    /// Features to activate, separated by commas
    #[arg(short = 'f', long, value_name = "FEATURES", help_heading = "Package")]
    pub(crate) features: Vec<String>,

    /// Activate all features
    #[arg(long, help_heading = "Package")]
    pub(crate) all_features: bool,

    /// Do not activate the feature `default`
    #[arg(long, help_heading = "Package")]
    pub(crate) no_default_features: bool,

    #[command(flatten)]
    pub(crate) build: BuildArgs,

    /// File to write, relative to the working directory, also for tests and benches
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Program to build.
#[derive(Debug, Default, Args)]
#[group(id = "program", multiple = false)]
#[command(next_help_heading = "Program")]
pub(crate) struct TargetArgs {
    /// Binary to run [default: the only one, or default-run]
    #[arg(long, value_name = "NAME")]
    pub(crate) bin: Option<String>,

    /// Example to run
    #[arg(long, value_name = "NAME")]
    pub(crate) example: Option<String>,

    /// Integration test to run; ARGUMENTS are its filters
    #[arg(long, value_name = "NAME")]
    pub(crate) test: Option<String>,

    /// Benchmark to run, with --bench as in Cargo
    #[arg(long, value_name = "NAME")]
    pub(crate) bench: Option<String>,

    /// Unit tests to run, of the library or of the binary NAME
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pub(crate) unit_test: Option<Option<String>>,

    /// Benchmarks to run, of the library or of the binary NAME
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pub(crate) unit_bench: Option<Option<String>>,
}

/// Build options, as in Cargo.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Build")]
pub(crate) struct BuildArgs {
    /// Build with optimization (the default)
    #[arg(long, conflicts_with_all = ["dev", "profile"])]
    pub(crate) release: bool,

    /// Build with the profile `dev`
    #[arg(long, conflicts_with = "profile")]
    pub(crate) dev: bool,

    /// Build with this Cargo profile
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Build for this target triple
    #[arg(long = "target", value_name = "TRIPLE")]
    pub(crate) triple: Option<String>,

    /// Folder for build output
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) target_dir: Option<PathBuf>,

    /// Number of parallel jobs of Cargo
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<String>,

    /// Configuration of Cargo
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    /// Require an unchanged Cargo.lock
    #[arg(long)]
    pub(crate) locked: bool,

    /// Build without the network
    #[arg(long)]
    pub(crate) offline: bool,

    /// Build with --locked and --offline
    #[arg(long)]
    pub(crate) frozen: bool,
}

/// Mode of `cargo rprof`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Builds a program and runs it with a command of rprof.
    Run(Line),
    /// Passes all arguments to rprof.
    PassOn(Vec<OsString>),
    Completions(Shell),
    Manual,
}

/// Arguments, split by recipient.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Command of rprof.
    pub(crate) command: String,
    /// Options for Cargo, after a program name.
    pub(crate) cargo: Vec<OsString>,
    /// Options for rprof.
    pub(crate) rprof: Vec<OsString>,
    /// Arguments for the program.
    pub(crate) program: Vec<OsString>,
}

pub(crate) fn command() -> clap::Command {
    let mut command = CargoArgs::command();
    // Sets the number of values of options.
    command.build();
    command
}

pub(crate) fn parts(words: Vec<OsString>) -> Mode {
    let first = words.first().and_then(|word| word.to_str()).unwrap_or("-");
    let rest = || words.iter().skip(1);
    match first {
        "completions" => {
            let shell = rest().next().and_then(|word| word.to_str()?.parse().ok());
            return shell.map_or(Mode::PassOn(words), Mode::Completions);
        }
        "man" if words.len() == 1 => return Mode::Manual,
        _ => {}
    }
    let is_option = first.starts_with('-');
    if !is_option && !RUNNING.contains(&first) {
        return Mode::PassOn(words);
    }
    let command = if is_option { RUNNING[0] } else { first };
    let skipped = usize::from(!is_option);
    Mode::Run(sort(command, words[skipped..].iter().cloned()))
}

fn sort(command: &str, mut words: impl Iterator<Item = OsString>) -> Line {
    let known = self::command();
    let mut line = Line {
        command: command.to_owned(),
        cargo: vec!["cargo rprof".into()],
        ..Line::default()
    };
    let mut held: Option<OsString> = None;
    while let Some(word) = held.take().or_else(|| words.next()) {
        if word == "--" {
            line.program = words.collect();
            break;
        }
        let Some((arg, has_value)) = known_option(&known, &word) else {
            line.rprof.push(word);
            continue;
        };
        line.cargo.push(word);
        if has_value {
            continue;
        }
        let takes = arg.get_num_args().unwrap_or(ValueRange::EMPTY);
        if !takes.takes_values() {
            continue;
        }
        match words.next() {
            // The value of --unit-test is optional.
            Some(next) if takes.min_values() == 0 && is_flag(&next) => held = Some(next),
            Some(next) => line.cargo.push(next),
            None => {}
        }
    }
    line
}

fn is_flag(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"-")
}

/// Returns the option of Cargo in an argument, and whether the argument includes its value.
fn known_option<'a>(known: &'a clap::Command, word: &OsStr) -> Option<(&'a Arg, bool)> {
    let word = word.to_str()?;
    let find = |is: &dyn Fn(&Arg) -> bool| known.get_arguments().find(|arg| is(arg));
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, _)) => (name, true),
            None => (long, false),
        };
        return find(&|arg| arg.get_long() == Some(name)).map(|arg| (arg, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let has_value = letters.next().is_some();
    find(&|arg| arg.get_short() == Some(letter))
        .filter(|arg| !has_value || arg.get_action().takes_values())
        .map(|arg| (arg, has_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> Line {
        match parts(words.split_whitespace().map(Into::into).collect()) {
            Mode::Run(line) => line,
            other => panic!("{words}: {other:?}"),
        }
    }

    fn joined(words: &[OsString]) -> String {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn options_go_to_whom_they_are_for() {
        let line = line(
            "record -F 4999 --bin server --features=tls --no-inherit -p net -o x.data --dev -- -p 80 --bin x",
        );
        assert_eq!(line.command, "record");
        assert_eq!(
            joined(&line.cargo[1..]),
            "--bin server --features=tls -p net -o x.data --dev"
        );
        assert_eq!(joined(&line.rprof), "-F 4999 --no-inherit");
        assert_eq!(joined(&line.program), "-p 80 --bin x");
    }

    #[test]
    fn a_flame_graph_is_the_default() {
        assert_eq!(line("").command, "flamegraph");
        let line = line("--unit-test -F 99 --unit-bench=x");
        assert_eq!(line.command, "flamegraph");
        assert_eq!(joined(&line.cargo[1..]), "--unit-test --unit-bench=x");
        assert_eq!(joined(&line.rprof), "-F 99");
    }

    #[test]
    fn letters_of_rprof_stay_its_own() {
        // -v, -q, -g, -a and -e are flags of recording; -ofile has its value.
        let line = line("flamegraph -g -a -ecpu-clock -ofile -pnet");
        assert_eq!(joined(&line.rprof), "-g -a -ecpu-clock");
        assert_eq!(joined(&line.cargo[1..]), "-ofile -pnet");
    }

    #[test]
    fn other_commands_are_passed_on() {
        let words: Vec<OsString> = ["report", "--bin", "x"].map(Into::into).into();
        assert_eq!(parts(words.clone()), Mode::PassOn(words));
        let shell = |words: &[&str]| parts(words.iter().map(Into::into).collect());
        assert_eq!(
            shell(&["completions", "fish"]),
            Mode::Completions(Shell::Fish)
        );
        assert_eq!(shell(&["man"]), Mode::Manual);
        assert!(matches!(shell(&["man", "record"]), Mode::PassOn(_)));
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}
