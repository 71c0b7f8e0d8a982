//! Options of perf, samply, flamegraph.pl, inferno, cargo-flamegraph, py-spy, async-profiler and
//! pprof with another name in rprof. Accepted if the meaning is the same, otherwise answered with
//! the rprof equivalent.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, ArgAction};
use rprof_export::clean::brief;

use super::file_in;

/// Answer to an option of another tool.
#[derive(Clone, Copy)]
enum Answer {
    /// Accepted as an alias of the option with this long name.
    Same(&'static str),
    /// Accepted without effect: rprof always does this.
    Always,
    /// Rejected with this answer; `FILE` stands for the recording, `THEIRS` for the option.
    Instead(&'static str),
}

use Answer::{Always, Instead, Same};

/// Options with one answer: commands, names of the options, answer.
type Row = (&'static [&'static str], &'static [&'static str], Answer);

const RECORD: &[&str] = &["record"];
const REPORT: &[&str] = &["report"];
const ANNOTATE: &[&str] = &["annotate"];
const SCRIPT: &[&str] = &["script"];
const FLAMEGRAPH: &[&str] = &["flamegraph"];
const STAT: &[&str] = &["stat"];
const TOP: &[&str] = &["top"];
const DIFF: &[&str] = &["diff"];
/// Commands that draw a recording or record first.
const DRAW: &[&str] = &["flamegraph", "html"];
/// Commands that sample.
const SAMPLE: &[&str] = &["record", "flamegraph", "html", "top"];
/// Commands that read.
const READ: &[&str] = &[
    "report",
    "annotate",
    "script",
    "collapse",
    "export",
    "push",
    "diff",
    "flamegraph",
    "html",
];
/// Commands with filters.
const FILTER: &[&str] = &[
    "report",
    "annotate",
    "script",
    "collapse",
    "export",
    "push",
    "diff",
    "flamegraph",
    "html",
    "gate",
];
/// Commands that print, without -o.
const PRINT: &[&str] = &["report", "annotate", "script"];

/// All options, by tool and command.
static OPTIONS: &[Row] = &[
    // perf report, perf script, perf annotate, perf diff.
    (FILTER, &["-S", "--symbols"], Same("symbol")),
    (FILTER, &["--comms"], Same("comm")),
    (FILTER, &["--dsos"], Same("dso")),
    (&["report", "annotate", "script"], &["-c"], Same("comm")),
    (&["report", "annotate", "diff"], &["-d"], Same("dso")),
    (&["annotate"], &["-s"], Same("symbol")),
    (&["report"], &["-F", "--fields"], Same("sort")),
    (
        &["report", "annotate", "script", "diff"],
        &["-f", "--force"],
        Always,
    ),
    (
        &["report", "annotate", "script", "diff"],
        &["-v", "--verbose"],
        Always,
    ),
    (
        &["report"],
        &[
            "--show-nr-samples",
            "--skip-empty",
            "--no-skip-empty",
            "--stdio2",
        ],
        Always,
    ),
    (
        ANNOTATE,
        &[
            "--stdio",
            "--stdio2",
            "-l",
            "--print-line",
            "--skip-missing",
            "--full-paths",
        ],
        Always,
    ),
    (
        &["export"],
        &["--service", "--service-version"],
        Instead("`rprof-agent export --service NAME FILE -o FOLDER` writes Parquet tables"),
    ),
    (
        &["report", "script"],
        &["--header", "--header-only", "-I", "--show-info"],
        Instead("`rprof header -i FILE` shows the header"),
    ),
    (
        REPORT,
        &["-T", "--threads"],
        Instead("`--sort comm,tid` makes a row for each thread"),
    ),
    (
        REPORT,
        &["-G", "--inverted"],
        Instead("`-g caller` shows callees of functions, `-g callee` their callers"),
    ),
    (
        REPORT,
        &["--field-separator"],
        Instead("`--format csv` separates columns with commas"),
    ),
    (
        REPORT,
        &["--show-total-period", "--show-cpu-utilization"],
        Instead("`--format csv` and `--format json` include weights"),
    ),
    (
        REPORT,
        &["-D", "--dump-raw-trace"],
        Instead(
            "`rprof script -i FILE --show-task-events --show-mmap-events` prints samples and records",
        ),
    ),
    (
        REPORT,
        &["--tasks", "--mmaps"],
        Instead(
            "`rprof script -i FILE --show-task-events --show-mmap-events` prints these records",
        ),
    ),
    (
        REPORT,
        &["--stats", "--stat"],
        Instead("`rprof header -i FILE` shows the number of samples per event"),
    ),
    (
        REPORT,
        &["--gtk"],
        Instead("`--tui` opens the profile in the terminal, `rprof html -i FILE` in a browser"),
    ),
    (
        ANNOTATE,
        &["--gtk", "--tui"],
        Instead("in `rprof report --tui -i FILE`, `a` annotates a function"),
    ),
    (
        REPORT,
        &["--hierarchy"],
        Instead("`--sort comm,dso,symbol` combines all three; `--tui` shows trees"),
    ),
    (
        REPORT,
        &["--max-stack"],
        Instead("`-g callee,PERCENT` hides small branches of trees"),
    ),
    (
        &["report", "annotate", "script"],
        &["--no-demangle"],
        Instead("`--demangle none` shows mangled names"),
    ),
    (
        REPORT,
        &[
            "--source",
            "--asm-raw",
            "-M",
            "--disassembler-style",
            "--objdump",
        ],
        Instead("`rprof annotate -i FILE` shows source lines and instructions"),
    ),
    (
        ANNOTATE,
        &["--objdump"],
        Instead("rprof disassembles without objdump: omit the option"),
    ),
    (
        ANNOTATE,
        &["--prefix", "--prefix-strip"],
        Instead("`--source-path FROM=TO` finds moved sources"),
    ),
    (
        REPORT,
        &["--symbol-filter"],
        Instead("`--symbol '*NAME*'` selects functions by part of the name"),
    ),
    (
        REPORT,
        &[
            "-U",
            "--hide-unresolved",
            "-x",
            "--exclude-other",
            "--parent",
            "--percentage",
            "--ignore-callees",
        ],
        Instead("the filters --symbol, --dso, --comm and --focus accept patterns with `*`"),
    ),
    (
        &["report", "script"],
        &[
            "--itrace",
            "--branch-history",
            "--branch-stack",
            "--mem-mode",
            "--total-cycles",
            "--kallsyms",
            "--xed",
            "--insn-trace",
            "--call-trace",
        ],
        Instead("use `perf COMMAND THEIRS -i FILE`, which reads rprof's recordings"),
    ),
    (
        SCRIPT,
        &["-s", "--script", "-g", "--gen-script", "-l", "--list"],
        Instead(
            "`perf script THEIRS` runs scripts on rprof's recordings; `rprof script` prints samples",
        ),
    ),
    (
        SCRIPT,
        &["--reltime", "--deltatime"],
        Instead(
            "`rprof script -F +time` prints absolute times; `--time +1s,+2s` selects times relative to the start",
        ),
    ),
    (
        DIFF,
        &[
            "-c",
            "--compute",
            "--formula",
            "--period",
            "-b",
            "--baseline-only",
        ],
        Instead(
            "amounts, changes and intervals are always shown; `-s delta|self|total|name` sorts, `--per second|total|N` normalizes",
        ),
    ),
    (
        PRINT,
        &["-o", "--output"],
        Instead("`> OUT` saves the text; `rprof export -i FILE -o OUT` writes other formats"),
    ),
    // perf record, perf top, perf stat.
    (
        RECORD,
        &[
            "-R",
            "--raw-samples",
            "-N",
            "--no-buildid-cache",
            "--buildid-all",
            "--buildid-mmap",
            "--timestamp-boundary",
            "--no-buffering",
        ],
        Always,
    ),
    (
        RECORD,
        &["-r"],
        Instead(
            "`-F N` sets the samples per second, `--realtime PRIO` a real-time priority, `--runs N` the number of runs",
        ),
    ),
    (TOP, &["-r"], Same("realtime")),
    (
        RECORD,
        &["-B", "--no-buildid"],
        Instead("`--keep none` embeds no files in the recording; build-ids cost nothing"),
    ),
    (
        RECORD,
        &["--timestamp-filename"],
        Instead("--switch-output adds the time to file names"),
    ),
    (
        SAMPLE,
        &["--per-thread"],
        Instead(
            "-p PID records all threads of a process, -t TID single threads; `rprof report --sort comm,tid` shows rows per thread",
        ),
    ),
    (
        SAMPLE,
        &["--user-callchains"],
        Instead("`--all-user` samples user mode only"),
    ),
    (
        SAMPLE,
        &["--kernel-callchains"],
        Instead("`--all-kernel` samples kernel mode only"),
    ),
    (
        SAMPLE,
        &["--dry-run"],
        Instead("`rprof doctor` checks your permissions, -v prints the opened events"),
    ),
    (
        RECORD,
        &[
            "-n",
            "--no-samples",
            "-S",
            "--snapshot",
            "--aio",
            "--affinity",
            "--control",
            "--kcore",
            "--mmap-flush",
            "--nr-cblocks",
            "--num-thread-synthesize",
            "--proc-map-timeout",
            "--synth",
            "--threads",
            "--tail-synthesize",
            "--debuginfod",
        ],
        Instead("use `perf record THEIRS`; rprof reads its recordings"),
    ),
    (TOP, &["--stdio"], Same("batch")),
    (TOP, &["--tui"], Always),
    (TOP, &["-U", "--hide_user_symbols"], Same("all-kernel")),
    (TOP, &["-K", "--hide_kernel_symbols"], Same("all-user")),
    (
        TOP,
        &[
            "-s",
            "--sort",
            "-z",
            "--zero",
            "--hierarchy",
            "--sym-annotate",
            "--count-filter",
            "--percent-limit",
        ],
        Instead(
            "use keys on the screen (`?` lists them); with --batch, --children and -E select rows",
        ),
    ),
    (STAT, &["--runs"], Same("repeat")),
    (
        STAT,
        &["-d", "--detailed", "-dd", "-ddd"],
        Instead(
            "`-e cache-references,cache-misses,branch-misses` or `-M METRIC` counts more events, --topdown counts pipeline slots",
        ),
    ),
    (
        STAT,
        &["-j", "--json-output"],
        Instead("use `--format json`"),
    ),
    (STAT, &["-B", "--big-num"], Always),
    (
        STAT,
        &["-n", "--null"],
        Instead("wall time is always shown; `-e task-clock` limits counting to one event"),
    ),
    (STAT, &["--pre"], Same("prepare")),
    (
        STAT,
        &[
            "--post",
            "--table",
            "--summary",
            "--no-summary",
            "--control",
            "--transaction",
            "-T",
            "--smi-cost",
            "--per-die",
            "--per-cache",
            "--metric-only",
            "--no-merge",
            "--bpf-counters",
            "--bpf-prog",
            "--for-each-cgroup",
            "--log-fd",
        ],
        Instead("use `perf stat THEIRS`"),
    ),
    // Runs of gate, stat and record.
    (&["gate"], &["-r", "--repeat"], Same("runs")),
    (RECORD, &["--repeat", "--iteration-count"], Same("runs")),
    // samply.
    (SAMPLE, &["--rate", "--frequency"], Same("freq")),
    (RECORD, &["--save-only", "--no-open"], Always),
    (DRAW, &["-r"], Same("freq")),
    (
        SAMPLE,
        &["--main-thread-only"],
        Instead("`-t TID` records one thread; `rprof report --tid TID` shows one"),
    ),
    (
        &["record", "html"],
        &["--port", "--address", "--no-server"],
        Instead("`rprof html` writes one file that any browser opens, without a server"),
    ),
    (
        SAMPLE,
        &["--profile-name"],
        Instead("`rprof flamegraph --title TEXT` and `rprof html --title TEXT` set a title"),
    ),
    (
        SAMPLE,
        &["--symbol-dir", "--unstable-presymbolicate"],
        Instead(
            "reports find symbols themselves; `--symfs DIR` adds a folder, --debuginfod adds servers",
        ),
    ),
    (
        SAMPLE,
        &[
            "--reuse-threads",
            "--fold-recursive-prefix",
            "--per-cpu-threads",
        ],
        Instead("`rprof html` shows time by thread, process and CPU"),
    ),
    (
        RECORD,
        &["--cswitch-markers"],
        Instead("`--off-cpu` records waits of threads, --switch-events each context switch"),
    ),
    // flamegraph.pl, inferno and cargo-flamegraph.
    (FLAMEGRAPH, &["--palette", "--color"], Same("colors")),
    (FLAMEGRAPH, &["--image-width"], Same("width")),
    (FLAMEGRAPH, &["--minwidth"], Same("min-width")),
    (FLAMEGRAPH, &["--icicle"], Same("inverted")),
    (DRAW, &["--perfdata"], Same("input")),
    (
        FLAMEGRAPH,
        &["--hash", "--deterministic", "--ignore-status"],
        Always,
    ),
    (
        FLAMEGRAPH,
        &["--flamechart", "--flame-chart"],
        Instead(
            "`rprof html` has a timeline; `rprof export -i FILE -o profile.speedscope.json` keeps samples in time order",
        ),
    ),
    (
        FLAMEGRAPH,
        &["--notes"],
        Instead("`--subtitle TEXT` adds a line under the title"),
    ),
    (
        SAMPLE,
        &["--root"],
        Instead(
            "`sudo rprof …` records as root, and you own the output; `rprof doctor` lists the permissions to record without root",
        ),
    ),
    (
        FLAMEGRAPH,
        &["--cmd"],
        Instead("-F, -e and --call-graph control recording"),
    ),
    (
        FLAMEGRAPH,
        &["--post-process"],
        Instead("use `rprof collapse -i FILE | COMMAND | rprof flamegraph -i -`"),
    ),
    (
        FLAMEGRAPH,
        &["--skip-after"],
        Instead(
            "`--focus FUNCTION` draws stacks with the function, `--callers FUNCTION` draws its callers",
        ),
    ),
    (
        FLAMEGRAPH,
        &["--differential", "--negate"],
        Instead("`rprof diff OLD NEW -o diff.svg` draws a comparison"),
    ),
    (
        FLAMEGRAPH,
        &["--countname", "--factor", "--total"],
        Instead(
            "`--weight samples` counts samples; use `rprof collapse -i FILE | inferno-flamegraph THEIRS …`",
        ),
    ),
    (
        FLAMEGRAPH,
        &[
            "--fonttype",
            "--fontsize",
            "--fontwidth",
            "--height",
            "--bgcolors",
            "--nametype",
            "--nameattr",
            "--cp",
            "--search-color",
            "--uicolor",
            "--stroke-color",
            "--color-diffusion",
            "--colordiffusion",
            "--truncate-text-right",
            "--no-javascript",
            "--pretty-xml",
            "--no-sort",
            "--encoding",
            "--random",
        ],
        Instead("use `rprof collapse -i FILE | inferno-flamegraph THEIRS …`"),
    ),
    (
        SAMPLE,
        &[
            "--bin",
            "--example",
            "--test",
            "--bench",
            "--unit-test",
            "--package",
            "--features",
            "--no-default-features",
            "--release",
            "--dev",
            "--profile",
            "--manifest-path",
        ],
        Instead("use `cargo rprof`: `cargo rprof flamegraph --bin NAME` builds and records"),
    ),
    (&["collapse"], &["--event-filter"], Same("event")),
    (
        &["collapse"],
        &[
            "--all",
            "--kernel",
            "--jit",
            "--addrs",
            "--context",
            "--nthreads",
        ],
        Instead(
            "use `rprof script -i FILE | inferno-collapse-perf THEIRS`; `rprof collapse` prints only names",
        ),
    ),
    // py-spy.
    (SAMPLE, &["--subprocesses"], Same("with-children")),
    (SAMPLE, &["--native", "--nonblocking"], Always),
    (
        SAMPLE,
        &["--gil", "--idle"],
        Instead("`--off-cpu` records waits of threads and their reasons"),
    ),
    (
        &["record"],
        &["--format"],
        Instead(
            "`rprof flamegraph`, `rprof html` and `rprof export -o profile.speedscope.json` convert the recording",
        ),
    ),
    (
        SAMPLE,
        &["--function", "--nolineno", "--full-filenames"],
        Instead("`rprof report --sort symbol` has a row per function, `--sort srcline` per line"),
    ),
    // async-profiler.
    (RECORD, &["--offcpu"], Same("off-cpu")),
    (
        &["report", "collapse", "export", "diff", "flamegraph", "html"],
        &["--offcpu"],
        Same("off-cpu"),
    ),
    (SAMPLE, &["--timeout", "--seconds"], Same("duration")),
    (
        SAMPLE,
        &["--interval"],
        Instead("`-F N` takes N samples a second, `-c N` one every N events"),
    ),
    (
        SAMPLE,
        &["--cstack", "--jstackdepth"],
        Instead("`--call-graph HOW` selects how to record stacks"),
    ),
    (
        SAMPLE,
        &["--live", "--nativemem"],
        Instead(
            "`rprof record --alloc -- COMMAND` samples allocations; `--memory` records resident memory",
        ),
    ),
    (
        DRAW,
        &["--alloc"],
        Instead(
            "`rprof record --alloc -- COMMAND` samples allocations; `--memory` records resident memory",
        ),
    ),
    (
        TOP,
        &["--alloc"],
        Instead(
            "`rprof record --alloc -- COMMAND` samples allocations; `--memory` records resident memory",
        ),
    ),
    (
        RECORD,
        &["--lock"],
        Instead("`--off-cpu` records waits for locks; `rprof report --reason futex` shows them"),
    ),
    (
        RECORD,
        &["--loop"],
        Instead("`--switch-output=TIME` starts a new file every TIME"),
    ),
    (
        RECORD,
        &["--jfr", "--jfrsync", "--collapsed"],
        Instead("`rprof collapse` and `rprof export` convert recordings to other formats"),
    ),
    (
        SAMPLE,
        &["--include", "--exclude"],
        Instead("filter when reading: `rprof report --focus FUNCTION`, `--symbol` and `--dso`"),
    ),
    // pprof.
    (
        READ,
        &["-top", "-text", "-flat", "-nodecount"],
        Instead("`rprof report -i FILE -n N` lists the functions with most self"),
    ),
    (
        READ,
        &["-cum"],
        Instead("`rprof report -i FILE --children` sorts by total"),
    ),
    (
        READ,
        &["-tree", "-peek"],
        Instead(
            "`rprof report -i FILE -g` shows callers below each function, `-g caller` shows callees",
        ),
    ),
    (
        READ,
        &["-list", "-weblist", "-disasm"],
        Instead("`rprof annotate -i FILE FUNCTION` shows source lines and instructions"),
    ),
    (
        READ,
        &["-http", "-web"],
        Instead("`rprof html -i FILE --open` opens the profile in a browser"),
    ),
    (
        READ,
        &["-svg", "-png", "-pdf", "-gif", "-dot", "-callgrind"],
        Instead(
            "`rprof flamegraph -i FILE` draws an SVG; `rprof export -i FILE -o profile.pb.gz` writes a file for pprof",
        ),
    ),
    (
        READ,
        &["-proto", "-raw", "-traces"],
        Instead(
            "`rprof export -i FILE -o profile.pb.gz` writes pprof's format, `rprof collapse -i FILE` writes text",
        ),
    ),
    (
        READ,
        &["-focus", "-show"],
        Instead("--focus FUNCTION shows stacks with the function"),
    ),
    (
        READ,
        &["-ignore", "-hide"],
        Instead(
            "--focus, --symbol and --dso select samples; `rprof collapse -i FILE | grep -v NAME | rprof report -` drops stacks",
        ),
    ),
    (
        READ,
        &["-base", "-diff_base"],
        Instead("`rprof diff OLD NEW` compares profiles"),
    ),
    (
        READ,
        &["-sample_index"],
        Instead("--event EVENT selects the event"),
    ),
    (
        READ,
        &["-lines", "-files", "-functions", "-addresses", "-unit"],
        Instead(
            "`rprof report -i FILE --sort srcline` has a row per line, `--sort symbol` per function, `--sort dso` per object",
        ),
    ),
];

/// Returns the rows of a command.
fn rows_of(command: &str) -> impl Iterator<Item = &'static Row> {
    OPTIONS.iter().filter(move |row| row.0.contains(&command))
}

/// Parses an option into its letter or long name.
fn spelled(theirs: &str) -> Option<Spelled<'_>> {
    if let Some(long) = theirs.strip_prefix("--") {
        return Some(Spelled::Long(long));
    }
    let mut letters = theirs.strip_prefix('-')?.chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Some(Spelled::Short(letter)),
        // A long word with one dash: not an option of rprof.
        _ => None,
    }
}

enum Spelled<'t> {
    Long(&'t str),
    Short(char),
}

/// Adds hidden aliases for options of other tools with the same meaning.
pub(in crate::cli) fn with_options(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|mut command| {
        let name = command.get_name().to_owned();
        for (_, theirs, answer) in rows_of(&name) {
            command = match answer {
                Same(ours) => with_aliases(command, theirs, ours),
                Always => with_flags(command, theirs),
                Instead(_) => command,
            };
        }
        command
    })
}

fn with_aliases(command: clap::Command, theirs: &[&'static str], ours: &str) -> clap::Command {
    let ours = (command.get_arguments())
        .find(|arg| arg.get_long() == Some(ours))
        .map(|arg| arg.get_id().clone());
    let Some(id) = ours else {
        return command;
    };
    command.mut_arg(id, |arg| {
        theirs
            .iter()
            .fold(arg, |arg, theirs| match spelled(theirs) {
                Some(Spelled::Long(long)) => arg.alias(long),
                Some(Spelled::Short(letter)) => arg.short_alias(letter),
                None => arg,
            })
    })
}

fn with_flags(command: clap::Command, theirs: &[&'static str]) -> clap::Command {
    theirs.iter().fold(command, |command, theirs| {
        let flag = Arg::new(*theirs).hide(true).action(ArgAction::SetTrue);
        match spelled(theirs) {
            Some(Spelled::Long(long)) => command.arg(flag.long(long)),
            Some(Spelled::Short(letter)) => command.arg(flag.short(letter)),
            None => command,
        }
    })
}

/// Returns the answer for a word with one dash, as in Go tools. clap would parse its letters as
/// flags, possibly without an error. Skips commands that record, because the word may belong to
/// their COMMAND.
pub(in crate::cli) fn answer_to_word(arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1)?.to_str()?;
    let theirs = word_with_one_dash(command, &arguments[2..])?;
    let only_reads = READ.contains(&command) && !DRAW.contains(&command);
    only_reads.then(|| instead_of(&theirs, command, arguments))?
}

/// Returns the answer for the option of a parse error; `None` if the table lacks it, or for other
/// errors.
pub(in crate::cli) fn answer(error: &Error, arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1)?.to_str()?;
    if let Some(theirs) = word_with_one_dash(command, &arguments[2..]) {
        return instead_of(&theirs, command, arguments);
    }
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(theirs))) => {
            let theirs = theirs.split('=').next().unwrap_or_default();
            instead_of(theirs, command, arguments)
        }
        _ => None,
    }
}

fn instead_of(theirs: &str, command: &str, arguments: &[OsString]) -> Option<String> {
    let file = brief(&file_in(&arguments[2..]).to_string_lossy());
    rows_of(command).find_map(|(_, names, answer)| match answer {
        Instead(instead) if names.contains(&theirs) => {
            let instead = instead
                .replace("FILE", &file)
                .replace("THEIRS", theirs)
                .replace("perf COMMAND", &format!("perf {command}"));
            Some(format!("rprof {command} has no {theirs}: {instead}"))
        }
        _ => None,
    })
}

/// Returns the first word with one dash and several letters in the table.
fn word_with_one_dash(command: &str, arguments: &[OsString]) -> Option<String> {
    let ours = arguments.iter().take_while(|word| *word != "--");
    let mut listed = ours.filter_map(|word| {
        let word = word.to_str()?.split('=').next()?;
        let is_listed = rows_of(command).any(|(_, names, _)| names.contains(&word));
        (is_listed && spelled(word).is_none()).then(|| word.to_owned())
    });
    listed.next()
}

/// Removes clap's advice to pass an unknown option as a value, which is rarely useful.
pub(in crate::cli) fn without_advice_on_values(mut error: Error) -> Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested)
    {
        let tips: Vec<_> = (tips.into_iter())
            .filter(|tip| !tip.to_string().contains("as a value"))
            .collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_of_another_tool_hides_one_of_ours() {
        let command = crate::cli::command();
        for (commands, theirs, answer) in OPTIONS {
            for name in *commands {
                let Some(command) = command.find_subcommand(name) else {
                    panic!("there is no command {name}");
                };
                for theirs in *theirs {
                    let is_ours = command.get_arguments().any(|arg| match spelled(theirs) {
                        Some(Spelled::Long(long)) => {
                            arg.get_long_and_visible_aliases()
                                .is_some_and(|names| names.contains(&long))
                                || arg.get_all_aliases().is_some_and(|all| all.contains(&long))
                        }
                        Some(Spelled::Short(letter)) => arg
                            .get_short_and_visible_aliases()
                            .is_some_and(|names| names.contains(&letter)),
                        None => false,
                    });
                    assert!(!is_ours, "rprof {name} has {theirs}");
                }
                if let Same(ours) = answer {
                    let mut arguments = command.get_arguments();
                    let has_it = arguments.any(|arg| arg.get_long() == Some(*ours));
                    assert!(has_it, "rprof {name} has no --{ours}");
                }
            }
        }
    }

    #[test]
    fn an_option_has_one_answer_in_each_command() {
        for name in crate::cli::command().get_subcommands() {
            let mut seen = std::collections::BTreeSet::new();
            for (_, theirs, _) in rows_of(name.get_name()) {
                for theirs in *theirs {
                    assert!(seen.insert(theirs), "{} {theirs}", name.get_name());
                }
            }
        }
    }

    /// Returns the error of a command line.
    fn error(line: &str) -> (Error, Vec<OsString>) {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let command = with_options(crate::cli::command());
        (command.try_get_matches_from(&words).unwrap_err(), words)
    }

    #[test]
    fn options_of_other_tools_are_answered_with_ours() {
        for (line, ours) in [
            (
                "rprof script --header -i x.data",
                "`rprof header -i x.data`",
            ),
            ("rprof report --header-only", "`rprof header -i perf.data`"),
            ("rprof flamegraph --notes=x", "--subtitle"),
            ("rprof flamegraph --flamechart", "rprof html"),
            ("rprof report -top x.pb.gz", "most self"),
            ("rprof report -http=:8080", "rprof html"),
            ("rprof record --bin x", "cargo rprof"),
            ("rprof report --itrace=i1us", "`perf report --itrace"),
        ] {
            let (error, words) = error(line);
            let told = answer(&error, &words).unwrap_or_default();
            assert!(told.contains(ours), "{line}: {told}");
        }
        for line in ["rprof report --nonsense", "rprof report --sort x"] {
            let (error, words) = error(line);
            assert_eq!(answer(&error, &words), None, "{line}");
        }
    }

    #[test]
    fn what_means_the_same_is_taken() {
        for line in [
            "rprof report -S main -c x -d libc --stdio2 -f -F overhead,sym",
            "rprof report --sort overhead,sym",
            "rprof annotate --stdio -s main -l",
            "rprof gate -r 8 --base x -- y",
            "rprof flamegraph --palette hot --image-width 900 --minwidth 1 --hash --deterministic -i x",
            "rprof record --wall --rate 100 --native --iteration-count 2 -- x",
            "rprof top --stdio",
            "rprof stat --runs 3 -- x",
        ] {
            let words = line.split(' ');
            let command = with_options(crate::cli::command());
            let parsed = command.try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}
