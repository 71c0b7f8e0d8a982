//! Commands and options of other tools that are not here, and what to type in their place: perf reads and writes the
//! same files.

mod options;

use std::ffi::OsString;

use rprof_export::clean::brief;

pub(super) use options::{
    answer as answer_to_error, answer_to_word, with_options, without_advice_on_values,
};

/// Command of perf or another profiler, and what to type; `FILE` is the recording.
static COMMANDS: [(&str, &str); 31] = [
    (
        "archive",
        "`rprof record --keep all` keeps all programs in the recording itself, and `rprof report --symfs DIR` finds copies of them",
    ),
    ("bench", "`perf bench` is of the kernel alone"),
    (
        "buildid-cache",
        "`perf buildid-cache` fills ~/.debug, which rprof reads",
    ),
    (
        "buildid-list",
        "`rprof header -i FILE` lists images with their build-ids",
    ),
    (
        "c2c",
        "`perf c2c record -- COMMAND`, then `perf c2c report`; it wants a processor that samples addresses",
    ),
    (
        "config",
        "rprof has no settings but its options and the environment (`rprof man`)",
    ),
    (
        "data",
        "`perf data convert -i FILE --to-json OUT` converts it; `rprof script -i FILE` prints every sample",
    ),
    ("evlist", "`rprof header -i FILE` lists the events"),
    (
        "ftrace",
        "`perf ftrace -- COMMAND` traces functions of the kernel",
    ),
    (
        "inject",
        "`perf inject -i FILE -o OUT`; rprof reads jitdumps without it",
    ),
    (
        "kmem",
        "`perf kmem record -- COMMAND`, then `perf kmem stat`",
    ),
    ("kvm", "`perf kvm record`, then `perf kvm report`"),
    ("kwork", "`perf kwork record`, then `perf kwork report`"),
    (
        "lock",
        "`perf lock record -- COMMAND`, then `perf lock report`; `rprof record -e context-switches -- COMMAND` shows who waits",
    ),
    (
        "mem",
        "`perf mem record -- COMMAND`, then `perf mem report`; it wants a processor that samples addresses",
    ),
    (
        "probe",
        "`rprof record -e uprobe:/path/to/program:function -- COMMAND` needs no probe beforehand; `perf probe` makes others",
    ),
    (
        "sched",
        "`perf sched record -- COMMAND`, then `perf sched latency`; `rprof record -e sched:sched_switch -- COMMAND` shows by which calls it waits",
    ),
    (
        "test",
        "`rprof doctor` says whether this user may profile here",
    ),
    (
        "timechart",
        "`perf timechart record -- COMMAND`, then `perf timechart`",
    ),
    (
        "trace",
        "`perf trace -- COMMAND` or `strace -f COMMAND` shows system calls; `rprof record -e 'syscalls:sys_enter_*' -- COMMAND` who makes them",
    ),
    ("version", "`rprof --version`"),
    (
        "buildid",
        "`rprof header -i FILE` lists images with their build-ids",
    ),
    (
        "load",
        "`rprof html -i FILE --open` shows a recording in a browser; `rprof export -i FILE -o profile.firefox.json.gz` is for profiler.firefox.com",
    ),
    (
        "import",
        "every command reads profiles of other tools: `rprof html -i FILE`",
    ),
    (
        "setup",
        "`rprof doctor` says which rights are missing, and how to give them",
    ),
    (
        "dump",
        "`rprof record -p PID -d 1 --off-cpu`, then `rprof report --wall -g` shows what each thread does or waits for",
    ),
    (
        "collect",
        "`rprof record -p PID -d SECONDS`, then `rprof flamegraph` or `rprof html`",
    ),
    (
        "start",
        "`rprof record -p PID` records until Ctrl-C; `--switch-output=signal` writes a file at each SIGUSR2",
    ),
    (
        "stop",
        "Ctrl-C or SIGTERM ends `rprof record`, and the file is complete",
    ),
    (
        "pprof",
        "`rprof export -i FILE -o profile.pb.gz` writes pprof's format, and every command reads it: `rprof report -i profile.pb.gz`",
    ),
    ("fold", "`rprof collapse -i FILE` writes folded stacks"),
];

/// Returns what to type in place of a command that perf has and rprof has not; `None` if the first argument is none.
/// Commands that clap knows as its own are not answered here.
pub(super) fn answer(arguments: &[OsString]) -> Option<String> {
    let name = arguments.get(1)?.to_str()?;
    let (_, instead) = COMMANDS.iter().find(|(command, _)| *command == name)?;
    let file = brief(&file_in(&arguments[2..]).to_string_lossy());
    let instead = instead.replace("FILE", &file);
    Some(format!("rprof has no `{name}`: {instead}"))
}

/// Returns the file behind -i, or perf's default.
fn file_in(arguments: &[OsString]) -> OsString {
    let mut arguments = arguments.iter();
    let default = || "perf.data".into();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.to_str() else {
            continue;
        };
        if text == "-i" || text == "--input" {
            return arguments.next().cloned().unwrap_or_else(default);
        }
        if let Some(file) = text.strip_prefix("--input=") {
            return file.into();
        }
    }
    default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        answer(&words)
    }

    #[test]
    fn commands_of_perf_are_answered_for_the_file_that_was_named() {
        let text = of("rprof data convert -i x.data").unwrap_or_default();
        assert!(text.contains("`perf data convert -i x.data"), "{text}");
        let text = of("rprof evlist").unwrap_or_default();
        assert!(text.contains("`rprof header -i perf.data`"), "{text}");
        let text = of("rprof data --input=a.data").unwrap_or_default();
        assert!(text.contains("-i a.data"), "{text}");
        assert_eq!(of("rprof annotate"), None);
        assert_eq!(of("rprof"), None);
    }

    #[test]
    fn no_command_that_is_here_is_answered_as_missing() {
        let command = crate::cli::command();
        for (name, _) in COMMANDS {
            assert!(command.find_subcommand(name).is_none(), "rprof has {name}");
        }
    }
}
