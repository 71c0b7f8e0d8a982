//! Commands and options of other tools, with their equivalents in rprof or perf, which reads and
//! writes the same files.

mod options;

use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;

use rprof_export::clean::brief;

pub(super) use options::{
    answer as answer_to_error, answer_to_word, with_options, without_advice_on_values,
};

/// Commands of perf and other profilers, with the answer; `FILE` is the recording.
static COMMANDS: &[(&str, &str)] = &[
    (
        "agent",
        "`rprof-agent` is a program of its own: `cargo install --path crates/agent`",
    ),
    (
        "archive",
        "`rprof record --keep all` embeds all programs in the recording; `rprof report --symfs DIR` reads copies of them",
    ),
    ("bench", "`perf bench` measures the kernel"),
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
        "`perf c2c record -- COMMAND`, then `perf c2c report`; it needs a processor that samples addresses",
    ),
    (
        "config",
        "rprof has no configuration file, only options and environment variables (`rprof man`)",
    ),
    (
        "data",
        "`perf data convert -i FILE --to-json OUT` converts it; `rprof script -i FILE` prints every sample",
    ),
    ("evlist", "`rprof header -i FILE` lists the events"),
    ("ftrace", "`perf ftrace -- COMMAND` traces kernel functions"),
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
        "`perf lock record -- COMMAND`, then `perf lock report`; `rprof record --off-cpu -- COMMAND` records waits for locks",
    ),
    (
        "mem",
        "`perf mem record -- COMMAND`, then `perf mem report`; it needs a processor that samples addresses",
    ),
    (
        "probe",
        "`rprof record -e uprobe:/path/to/program:function -- COMMAND` creates the probe itself; `perf probe` creates other probes",
    ),
    (
        "sched",
        "`perf sched record -- COMMAND`, then `perf sched latency`; `rprof record --off-cpu -- COMMAND` records waits with their stacks",
    ),
    (
        "test",
        "`rprof doctor` checks whether you may profile on this machine",
    ),
    (
        "timechart",
        "`perf timechart record -- COMMAND`, then `perf timechart`",
    ),
    (
        "trace",
        "`perf trace -- COMMAND` or `strace -f COMMAND` shows system calls; `rprof record -e 'syscalls:sys_enter_*' -- COMMAND` records their callers",
    ),
    ("version", "`rprof --version`"),
    ("-v", "`rprof --version`"),
    (
        "buildid",
        "`rprof header -i FILE` lists images with their build-ids",
    ),
    (
        "load",
        "`rprof html -i FILE --open` shows a recording in a browser; `rprof export -i FILE -o profile.firefox.json.gz` converts it for profiler.firefox.com",
    ),
    (
        "import",
        "`rprof html -i FILE` and other commands read profiles of other tools directly",
    ),
    (
        "setup",
        "`rprof doctor` lists missing permissions, and how to grant them",
    ),
    (
        "dump",
        "`rprof record -p PID -d 1 --off-cpu`, then `rprof report --wall -g` shows where each thread runs or waits",
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
        "`rprof export -i FILE -o profile.pb.gz` writes pprof's format; `rprof report -i profile.pb.gz` reads it",
    ),
    (
        "merge",
        "`rprof report`, `rprof flamegraph` and other commands read several files as one: `rprof report A B`",
    ),
    ("fold", "`rprof collapse -i FILE` writes folded stacks"),
];

/// Returns the answer for a command of another tool; `None` if the first argument is not one.
/// Commands of rprof itself are not in the table.
pub(super) fn answer(arguments: &[OsString]) -> Option<String> {
    let name = arguments.get(1)?.to_str()?;
    let (_, instead) = COMMANDS.iter().find(|(command, _)| *command == name)?;
    let file = brief(&file_in(&arguments[2..]).to_string_lossy());
    let instead = instead.replace("FILE", &file);
    Some(format!("rprof has no `{name}`: {instead}"))
}

/// Returns the answer for a program or a recording in place of a command; `None` if there is no
/// such file.
pub(super) fn answer_to_file(arguments: &[OsString]) -> Option<String> {
    let name = arguments.get(1)?.to_str()?;
    let metadata = std::fs::metadata(name).ok().filter(Metadata::is_file)?;
    let shown = brief(name);
    let folder = if name.contains('/') { "" } else { "./" };
    let instead = match metadata.permissions().mode() & 0o111 {
        0 => format!("`rprof report {shown}` shows a recording"),
        _ => format!("`rprof record -- {folder}{shown}` records a program"),
    };
    Some(format!("`{shown}` is not a command: {instead}"))
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
    fn files_in_place_of_a_command_are_answered_with_the_command_that_takes_them() {
        let of = |name: &str| answer_to_file(&["rprof".into(), name.into()]);
        let text = of("/proc/self/exe").unwrap_or_default();
        assert!(text.contains("`rprof record -- /proc/self/exe`"), "{text}");
        let text = of("Cargo.toml").unwrap_or_default();
        assert!(text.contains("`rprof report Cargo.toml`"), "{text}");
        assert_eq!(of("src"), None);
        assert_eq!(of("nothing-here"), None);
    }

    #[test]
    fn no_command_that_is_here_is_answered_as_missing() {
        let command = crate::cli::command();
        for (name, _) in COMMANDS {
            assert!(command.find_subcommand(name).is_none(), "rprof has {name}");
        }
    }
}
