//! Options of samply, flamegraph.pl, inferno, cargo-flamegraph, py-spy, async-profiler and pprof.

use super::{Always, DRAW, FLAMEGRAPH, Instead, READ, RECORD, Row, SAMPLE, Same, TOP};

/// Options by tool and command.
pub(super) static OPTIONS: &[Row] = &[
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
        TOP,
        &["--alloc", "--memory"],
        Instead(
            "`rprof record --alloc -- COMMAND` samples allocations; `--memory` records resident memory",
        ),
    ),
    (
        DRAW,
        &["--requests"],
        Instead("--by, --trace and --slower-than record the requests of a COMMAND"),
    ),
    (
        TOP,
        &["--requests", "--by", "--trace", "--slower-than"],
        Instead(
            "`rprof record --requests` records requests, and `rprof report --by http.route` shows them",
        ),
    ),
    (
        RECORD,
        &["--by", "--trace", "--slower-than"],
        Instead("--requests records requests, and `rprof report --by http.route` shows them"),
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
