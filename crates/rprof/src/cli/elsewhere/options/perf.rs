//! Options of perf.

use super::{
    ANNOTATE, Always, DIFF, FILTER, Instead, PRINT, RECORD, REPORT, Row, SAMPLE, SCRIPT, STAT,
    Same, TOP,
};

/// Letters that select by number here and have another meaning in perf: commands, letter, answer.
pub(super) static LETTERS: &[(&[&str], &str, &str)] = &[
    (
        &["report", "diff"],
        "-t",
        "selects threads by ID; `--format csv` separates columns with commas",
    ),
    (
        REPORT,
        "-p",
        "selects processes by ID; `--focus FUNCTION` selects samples by a function in the stack",
    ),
    (
        DIFF,
        "-p",
        "selects processes by ID; amounts are always shown",
    ),
];

/// Options of perf, by command.
pub(super) static OPTIONS: &[Row] = &[
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
        &["report", "diff"],
        &["--field-separator"],
        Instead("`--format csv` separates columns with commas"),
    ),
    (
        REPORT,
        &["-w", "--column-widths"],
        Instead("columns are as wide as the terminal allows; --wide does not shorten names"),
    ),
    (ANNOTATE, &["--show-nr-samples", "-P"], Always),
    (
        &["report", "annotate", "diff"],
        &["-m", "--modules"],
        Instead("symbols of modules are always read"),
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
            "-b",
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
        &["--off-cpu-thresh"],
        Instead("`--off-cpu=HZ` adds up waits of one stack that are shorter than 1/HZ seconds"),
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
            "`-e cache-references,cache-misses,branch-misses` or `-M METRIC` counts more events, --topdown counts pipeline slots, --timeout MS stops after a time",
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
];
