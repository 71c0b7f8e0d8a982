//! Parses the process's arguments, with forms that perf accepts and clap does not.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, CommandFactory, FromArgMatches};
use rprof_export::clean::brief;

use super::{
    Cli, CollapseArgs, Command, FlamegraphArgs, HeaderArgs, HtmlArgs, RecordArgs, ReportArgs,
    STYLES, ScriptArgs, StatArgs, elsewhere, groups, short_help, values,
};
use crate::input::named_input::is_input_or_no_command;
use crate::terminal::output::check_standard_output;

impl Cli {
    /// Parses the arguments of this process. Exits with status 2 if they are invalid.
    pub(crate) fn from_arguments() -> Cli {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        parse(files_last(arguments.clone())).unwrap_or_else(|error| {
            // clap prints arguments unchanged, and a shell's `*` may insert file names from other
            // users.
            let inert = |arg: &OsString| brief(&arg.to_string_lossy()).into();
            let error = parse(arguments.iter().map(inert).collect())
                .err()
                .unwrap_or(error);
            // clap does not detect a closed standard output.
            if !error.use_stderr()
                && let Err(failure) = check_standard_output()
            {
                std::process::exit(failure.report().map_or(0, i32::from));
            }
            error.exit()
        })
    }
}

/// Commands that draw recordings or record a COMMAND.
const DRAWING: [&str; 2] = ["flamegraph", "html"];

/// Moves the files of `flamegraph FILE --inverted` behind the options. clap would parse the options
/// as arguments of a COMMAND.
fn files_last(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if !(arguments.get(1)).is_some_and(|word| DRAWING.iter().any(|name| word == name))
        || arguments.iter().any(|argument| argument == "--")
    {
        return arguments;
    }
    for _ in 0..arguments.len() {
        let Ok(cli) = parse(arguments.clone()) else {
            break;
        };
        // clap treats the rest of the line as a COMMAND with arguments.
        let words = match cli.command {
            Command::Flamegraph(args) => args.command,
            Command::Html(args) => args.command,
            _ => break,
        };
        let files = words
            .iter()
            .take_while(|word| is_input_or_no_command(word))
            .count();
        let is_option = |word: &OsString| word.as_bytes().starts_with(b"-") && word.len() > 1;
        if files == 0 || !words.get(files).is_some_and(is_option) {
            break;
        }
        let begin = arguments.len() - words.len();
        arguments[begin..].rotate_left(files);
    }
    arguments
}

fn parse(mut arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let command = short_help::with_short_help(command_for(&arguments), &arguments);
    let mut command = elsewhere::with_options(with_negations(command));
    if let Some(instead) = elsewhere::answer(&arguments) {
        return Err(command.error(ErrorKind::InvalidSubcommand, instead));
    }
    if let Some(instead) = elsewhere::answer_to_word(&arguments) {
        return Err(unknown(&mut command, &arguments, &instead));
    }
    let matches = loop {
        match command.try_get_matches_from_mut(&arguments) {
            Err(e) if e.kind() == ErrorKind::UnknownArgument && part_level(&mut arguments) => {}
            // clap would parse `-Icx` as `-I -c x`.
            Err(e) if is_about_a_letter(e.kind()) && part_registers(&mut arguments) => {}
            Err(e) if is_about_a_letter(e.kind()) && drop_counts(&mut arguments) => {}
            other => break other,
        }
    };
    matches
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|e| {
            if e.kind() == ErrorKind::InvalidSubcommand
                && let Some(instead) = elsewhere::answer_to_file(&arguments)
            {
                return command.error(ErrorKind::InvalidSubcommand, instead);
            }
            match elsewhere::answer_to_error(&e, &arguments) {
                Some(instead) => unknown(&mut command, &arguments, &instead),
                None => elsewhere::without_advice_on_values(e).format(&mut command),
            }
        })
}

/// Returns the error for an unknown option, with the usage of the command.
fn unknown(command: &mut clap::Command, arguments: &[OsString], instead: &str) -> clap::Error {
    command.build();
    let name = arguments.get(1).and_then(|name| name.to_str());
    match name.and_then(|name| command.find_subcommand_mut(name)) {
        Some(sub) => sub.error(ErrorKind::UnknownArgument, instead),
        None => command.error(ErrorKind::UnknownArgument, instead),
    }
}

/// Builds the parser for these arguments, with a single command if possible. Describing all
/// commands takes longer than everything else that `record` does before it starts the program.
fn command_for(arguments: &[OsString]) -> clap::Command {
    let name = arguments.get(1).and_then(|name| name.to_str());
    let bare = || {
        (clap::Command::new("rprof").version(env!("CARGO_PKG_VERSION")))
            .styles(STYLES)
            .max_term_width(100)
    };
    match (name, name.and_then(described)) {
        (Some("--version" | "-V"), _) => bare(),
        (_, Some(alone)) => bare().subcommand_required(true).subcommand(alone),
        (_, None) => command(),
    }
}

fn described(name: &str) -> Option<clap::Command> {
    let describe: fn(clap::Command) -> clap::Command = match name {
        "record" => RecordArgs::augment_args,
        "report" => ReportArgs::augment_args,
        "collapse" => CollapseArgs::augment_args,
        "script" => |command| script_words(ScriptArgs::augment_args(command)),
        "header" => HeaderArgs::augment_args,
        "flamegraph" => |command| drawing_words(FlamegraphArgs::augment_args(command)),
        "html" => |command| drawing_words(HtmlArgs::augment_args(command)),
        "stat" => |command| stat_words(StatArgs::augment_args(command)),
        _ => return None,
    };
    Some(describe(clap::Command::new(name.to_owned())))
}

/// Rewrites the first `-z9` as `-z=9`. Returns false without one.
///
/// perf accepts `-z9`. clap would accept it only together with `-z 9`, and would then parse a
/// COMMAND as a level. Called only after a parse error, because a COMMAND may have its own `-z9`.
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

/// Removes the first `-n` of `report` or `annotate` without a number. Returns false without one.
///
/// `-n` of perf shows the number of samples, which rprof always shows.
fn drop_counts(arguments: &mut Vec<OsString>) -> bool {
    let is_of = |name: &OsString| name == "report" || name == "annotate";
    if !arguments.get(1).is_some_and(is_of) {
        return false;
    }
    let is_number = |word: &OsString| {
        word.to_str()
            .is_some_and(|word| word.parse::<i64>().is_ok())
    };
    let bare = (2..arguments.len())
        .take_while(|at| arguments[*at] != "--")
        .find(|at| arguments[*at] == "-n" && !arguments.get(at + 1).is_some_and(is_number));
    bare.map(|at| arguments.remove(at)).is_some()
}

/// Returns true for errors that a value behind a letter may cause, if clap parses it as flags.
fn is_about_a_letter(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnknownArgument
            | ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::ArgumentConflict
    )
}

/// Rewrites the first `-Iax,bx` as `-I=ax,bx`. Returns false without one.
fn part_registers(arguments: &mut [OsString]) -> bool {
    let list = |arg: &OsString| {
        let list = arg.to_str()?.strip_prefix("-I")?;
        let is_list = !list.is_empty() && !list.starts_with('=');
        is_list.then(|| format!("-I={list}").into())
    };
    let ours = arguments.iter_mut().take_while(|arg| *arg != "--");
    let found = ours.filter_map(|arg| list(arg).map(|list| *arg = list));
    found.take(1).count() > 0
}

pub(crate) fn command() -> clap::Command {
    let command = Cli::command()
        .mut_subcommand("flamegraph", drawing_words)
        .mut_subcommand("html", drawing_words)
        .mut_subcommand("stat", stat_words)
        .mut_subcommand("script", script_words)
        .mut_subcommand("push", push_words)
        .mut_subcommand("annotate", annotate_words);
    groups::with_groups(command)
}

/// Returns the names of commands that read other tools' profiles, including folded stacks: their
/// help mentions folded stacks.
pub(crate) fn readers_of_profiles() -> Vec<String> {
    let command = command();
    let reads = |command: &&clap::Command| {
        let mut helps = command.get_arguments().filter_map(Arg::get_help);
        helps.any(|help| help.to_string().contains(FOREIGN))
    };
    let shown = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    shown
        .filter(reads)
        .map(|command| command.get_name().to_owned())
        .collect()
}

/// Part of an argument's help that marks support for other tools' profiles.
const FOREIGN: &str = "olded stacks";

/// Sets the help of the files, which must be recordings.
fn annotate_words(annotate: clap::Command) -> clap::Command {
    annotate
        .mut_arg("files", |arg| {
            arg.help("Recordings to read; several are merged; `-` is standard input [default: perf.data]")
        })
        .mut_arg("input", |arg| arg.help("Recording to read (same as FILE)"))
}

/// Sets the help of the files, which are not merged.
fn push_words(push: clap::Command) -> clap::Command {
    push.mut_arg("files", |arg| {
        arg.help("Recordings or folded stacks to send, one after another; `-` is standard input [default: perf.data]")
    })
}

/// Makes -i the input, and -p, -t and -C filters if a recording is read. Filters allow processes
/// and threads together; [`TargetArgs::target`](super::TargetArgs::target) refuses both as a
/// target.
fn drawing_words(drawing: clap::Command) -> clap::Command {
    let tasks = |arg: Arg| {
        arg.value_parser(values::running_or_recorded)
            .conflicts_with(Resettable::Reset)
            .conflicts_with_all(["cgroups", "user"])
    };
    drawing
        .mut_arg("no_inherit", |arg| arg.short(None))
        .mut_arg("processes", |arg| tasks(or_filter(arg)))
        .mut_arg("threads", |arg| tasks(or_filter(arg)))
        .mut_arg("cpus", or_filter)
}

/// Extends the help of a target that is a filter if a recording is read.
fn or_filter(arg: Arg) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    arg.help(format!("{help}; with FILE, a filter on samples"))
}

fn stat_words(stat: clap::Command) -> clap::Command {
    let ids = [
        "all_cpus",
        "processes",
        "with_children",
        "threads",
        "cpus",
        "cgroups",
        "user",
    ];
    ids.into_iter()
        .fold(stat, |c, id| c.mut_arg(id, counting_words))
}

/// Hides `--weight`, which `script` refuses because it sums nothing. Its input help omits folded
/// stacks, which have no single samples.
fn script_words(script: clap::Command) -> clap::Command {
    script
        .mut_arg("weight", |arg| arg.hide(true).default_value(None::<&str>))
        .mut_arg("callers", |arg| arg.hide(true))
        .mut_arg("latency", |arg| arg.hide(true))
        .mut_arg("files", |arg| {
            arg.help("Recording to print; `-` is standard input [default: perf.data]")
        })
        .mut_arg("input", |arg| arg.help("Recording to print (same as FILE)"))
}

fn counting_words(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else {
        return arg;
    };
    arg.help(help.replace("Record", "Count").replace("record", "count"))
}

/// Adds a hidden `--no-X` for each `--X` without a value. The last one wins. A repeated `--X` has no
/// further effect, as in perf (`-vv`).
fn with_negations(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|command| {
        let command = command.mut_args(|arg| match arg.get_action() {
            ArgAction::SetTrue => {
                let id = arg.get_id().clone();
                arg.overrides_with(id)
            }
            _ => arg,
        });
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

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let matches = with_negations(command()).try_get_matches_from(words)?;
        Cli::from_arg_matches(&matches)
    }

    #[test]
    fn only_the_first_level_before_the_command_is_rewritten() {
        let mut words: Vec<OsString> = ["rprof", "-z9", "-z3", "--", "gzip", "-z1"]
            .map(Into::into)
            .into();
        assert!(part_level(&mut words));
        assert_eq!(words[1..3], ["-z=9", "-z3"]);
        let mut words: Vec<OsString> = ["rprof", "-z", "-zx", "--", "gzip", "-z1"]
            .map(Into::into)
            .into();
        assert!(!part_level(&mut words));
        assert_eq!(words[5], "-z1");
    }

    #[test]
    fn a_command_alone_is_as_it_is_among_all() {
        for line in [
            "rprof record --help",
            "rprof record -h",
            "rprof record --nonsense -- true",
            "rprof record --frequenzy 1 -- true",
            "rprof record -F x -- true",
            "rprof record -F 1 -c 1 -- true",
            "rprof record -p 0",
            "rprof record -F 99 --no-quiet -e cpu-clock -- true -x",
            "rprof report --help",
            "rprof report -h",
            "rprof report --nonsense",
            "rprof report --sort symbol --no-quiet x.data",
            "rprof collapse --help",
            "rprof collapse -i x.data",
            "rprof script --help",
            "rprof script -F ip x.data",
            "rprof header --help",
            "rprof flamegraph --help",
            "rprof flamegraph -i x.data -p 7",
            "rprof html --help",
            "rprof html -i x.data --diff y.data -p 7 --max-size 5M",
            "rprof stat --help",
            "rprof stat -e cycles -- true",
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let parsed = |command: clap::Command| {
                let mut command = with_negations(command);
                let matches = command.try_get_matches_from_mut(&words);
                let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
                match cli.map_err(|e| e.format(&mut command)) {
                    Ok(cli) => format!("{:?}", cli.command),
                    Err(error) => error.to_string(),
                }
            };
            assert_eq!(parsed(command_for(&words)), parsed(command()), "{line}");
        }
    }

    #[test]
    fn registers_may_follow_their_letter() {
        let mut words: Vec<OsString> = ["rprof", "-Iax,bx", "-I?", "--", "gcc", "-Iinclude"]
            .map(Into::into)
            .into();
        assert!(part_registers(&mut words) && part_registers(&mut words));
        assert_eq!(words[1..3], ["-I=ax,bx", "-I=?"]);
        assert!(!part_registers(&mut words), "{words:?}");
    }

    #[test]
    fn perf_counts_of_samples_are_no_number_of_rows() {
        let dropped = |line: &str| {
            let mut words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            drop_counts(&mut words).then(|| words.join(OsStr::new(" ")))
        };
        for line in [
            "rprof report -n",
            "rprof report -n -i x.data",
            "rprof report -n x.data",
            "rprof annotate -n main",
        ] {
            let left = line.replacen(" -n", "", 1);
            assert_eq!(dropped(line), Some(left.clone().into()), "{line}");
            assert!(parse(&left).is_ok(), "{left}");
        }
        for line in [
            "rprof report -n 5",
            "rprof report -n -5",
            "rprof report -- -n",
            "rprof top -n",
        ] {
            assert_eq!(dropped(line), None, "{line}");
        }
    }

    #[test]
    fn a_filter_is_for_the_events_before_it() {
        let filters = |words: &[&str]| {
            let matches = with_negations(command()).try_get_matches_from(words);
            match Cli::from_arg_matches(&matches.unwrap()).unwrap().command {
                Command::Record(args) => args.sampling.filters.0,
                other => panic!("{other:?}"),
            }
        };
        let line = "rprof record -e a:b --filter x==1 -e c:d -e e:f --filter y>2 -- true";
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(
            filters(&words),
            [(1, "x==1".to_owned()), (3, "y>2".to_owned())]
        );
        assert!(filters(&["rprof", "record", "--", "grep", "--filter", "x"]).is_empty());
    }

    #[test]
    fn the_last_of_a_flag_and_its_negation_counts() {
        let quiet = |line| match parse(line).map(|cli| cli.command) {
            Ok(Command::Record(args)) => args.sampling.quiet,
            other => panic!("{line}: {other:?}"),
        };
        assert!(quiet("rprof record --quiet -- true"));
        assert!(!quiet("rprof record --quiet --no-quiet -- true"));
        assert!(quiet("rprof record --no-quiet --quiet -- true"));
        assert!(quiet("rprof record -qq --quiet -- true"));
    }

    #[test]
    fn letters_and_long_names_are_one_option() {
        for flag in ["-p", "--pid"] {
            for line in [
                "flamegraph -i x.data",
                "html -i x.data",
                "flamegraph",
                "record",
            ] {
                let target = match parse(&format!("rprof {line} {flag} 7")).map(|cli| cli.command) {
                    Ok(Command::Flamegraph(args)) => args.picture.target,
                    Ok(Command::Html(args)) => args.picture.target,
                    Ok(Command::Record(args)) => args.target,
                    other => panic!("{line}: {other:?}"),
                };
                assert_eq!(target.processes, [7], "{line} {flag}");
            }
            let line = format!("rprof report {flag} 7 -t 8 -C 1 --time -5s, x.data");
            match parse(&line).map(|cli| cli.command) {
                Ok(Command::Report(args)) => {
                    let tasks = &args.input.filter.tasks;
                    assert_eq!((&*tasks.pid, &*tasks.tid), (&[7][..], &[8][..]));
                    assert!(args.input.filter.time.is_some() && tasks.cpu.len() == 1);
                    assert_eq!(args.input.files, [std::path::Path::new("x.data")]);
                }
                other => panic!("{other:?}"),
            }
        }
        // -i is the input of commands that draw.
        match parse("rprof flamegraph -i x.data -p 0 -t 7").map(|cli| cli.command) {
            Ok(Command::Flamegraph(args)) => {
                assert_eq!(args.input, [std::path::Path::new("x.data")]);
                let tasks = args.picture.target.as_filter();
                assert_eq!((&*tasks.pid, &*tasks.tid), (&[0][..], &[7][..]));
                assert!(!args.picture.sampling.no_inherit);
            }
            other => panic!("{other:?}"),
        }
    }
}
