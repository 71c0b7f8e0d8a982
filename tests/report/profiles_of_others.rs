//! Profiles of other tools, compared with the figures of their own readers:
//! `fixtures/profiles/README.md`.

use std::io::Write;
use std::path::PathBuf;

use crate::support::{Here, Report, needs};

fn profile(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/profiles"
    ))
    .join(name)
}

fn read(here: &Here, name: &str) -> Report {
    Report::parse(
        &here
            .rprof("report --format json -i")
            .arg(profile(name))
            .ok(),
    )
}

/// Returns self and total in the first event.
fn sums(report: &Report, function: &str) -> (u64, u64) {
    let rows = report.events[0]
        .rows
        .iter()
        .filter(|row| row.symbol == function);
    rows.fold((0, 0), |sum, row| (sum.0 + row.own, sum.1 + row.total))
}

type Figure = (&'static str, u64, u64);

/// Figures of `go tool pprof -top -nodefraction=0`: flat and cumulative.
const FIGURES: [(&str, &str, u64, &[Figure]); 8] = [
    (
        "go_cpu.pb.gz",
        "cpu",
        50_000_000,
        &[
            ("main.spin", 20_000_000, 30_000_000),
            ("main.heavy", 10_000_000, 40_000_000),
            ("time.Now", 10_000_000, 10_000_000),
            ("runtime.main", 0, 50_000_000),
        ],
    ),
    (
        "go_heap.pb.gz",
        "inuse_space",
        3_313_188,
        &[
            ("main.keep", 2_788_692, 2_788_692),
            ("runtime.malg", 524_496, 524_496),
            ("main.main", 0, 2_788_692),
        ],
    ),
    (
        "go_mutex.pb.gz",
        "delay",
        45_296_604,
        &[
            ("sync.(*Mutex).Unlock", 45_296_604, 45_296_604),
            ("main.locked", 0, 45_296_604),
        ],
    ),
    (
        "go_goroutine.pb.gz",
        "goroutine",
        1,
        &[
            ("runtime.goroutineProfileWithLabels", 1, 1),
            ("main.main", 0, 1),
        ],
    ),
    // One sample without a location.
    ("go_threadcreate.pb.gz", "threadcreate", 4, &[]),
    (
        "node_time.pb.gz",
        "wall",
        534_872_000,
        &[
            ("spin", 473_434_000, 473_434_000),
            ("heavy", 3_614_000, 368_628_000),
            ("Garbage Collection", 50_596_000, 50_596_000),
        ],
    ),
    (
        "node_heap.pb.gz",
        "inuse_space",
        2_940_128,
        &[
            ("(external)", 1_797_720, 1_797_720),
            ("slice", 280_368, 280_368),
        ],
    ),
    (
        "pprof_rs.pb",
        "cpu",
        99_099_099,
        &[
            ("core::hint::black_box", 99_099_099, 99_099_099),
            ("pprofrs::heavy", 0, 79_079_079),
            ("pprofrs::light", 0, 20_020_020),
        ],
    ),
];

#[test]
fn pprof_of_each_writer_has_the_figures_of_go_tool_pprof() {
    let here = Here::new();
    for (file, event, weight, functions) in FIGURES {
        let report = read(&here, file);
        assert_eq!(report.events[0].name, event, "{file}");
        assert_eq!(report.events[0].weight, weight, "{file}");
        for (function, own, total) in functions {
            assert_eq!(
                sums(&report, function),
                (*own, *total),
                "{file}: {function}"
            );
        }
    }
}

#[test]
fn stacks_of_profiles_without_thread_names_begin_with_a_function() {
    let here = Here::new();
    for (file, root) in [
        ("go_cpu.pb.gz", "runtime.main;"),
        ("go_threadcreate.pb.gz", "[unknown] 4"),
        ("gperftools_cpu.prof", "[work];"),
        ("pprof_rs.pb", "pprofrs;"),
    ] {
        let stacks = here.rprof("collapse -q -i").arg(profile(file)).ok().out();
        let mut lines = stacks.lines();
        assert!(lines.all(|line| !line.starts_with([';', ' '])), "{stacks}");
        assert!(stacks.contains(root), "{file}: {stacks}");
    }
    here.rprof("flamegraph -q -o x.svg -i")
        .arg(profile("go_cpu.pb.gz"))
        .ok();
    let svg = std::fs::read_to_string(here.path("x.svg")).expect("a picture");
    assert!(!svg.contains("<title> ("), "a frame without a name");
}

#[test]
fn profiles_of_gperftools_have_their_objects() {
    let here = Here::new();
    let report = read(&here, "gperftools_cpu.prof");
    assert_eq!(
        (report.events[0].samples, report.events[0].weight),
        (62, 620_000_000)
    );
    let of = |object: &str| {
        let rows = report.events[0]
            .rows
            .iter()
            .filter(|row| row.object.ends_with(object));
        rows.map(|row| row.own).sum::<u64>()
    };
    assert_eq!((of("/work"), of("[vdso]")), (590_000_000, 30_000_000));
    here.rprof("report -i")
        .arg(profile("gperftools_cpu.prof"))
        .ok();
}

#[test]
fn stacks_of_py_spy_are_the_same_in_both_of_its_formats() {
    let here = Here::new();
    let folded = here
        .rprof("report --format json -i")
        .arg(profile("pyspy.folded"))
        .ok();
    let folded = Report::parse(&folded);
    assert_eq!(sums(&folded, "spin (work.py:4)"), (96, 96));
    assert_eq!(sums(&folded, "heavy (work.py:6)"), (0, 70));
    let speedscope = read(&here, "pyspy.speedscope.json");
    assert_eq!(speedscope.events[0].name, "cpu-clock");
    let (own, total) = sums(&speedscope, "spin");
    assert!(
        own == total && own % 10_000_000 == 0 && own > 900_000_000,
        "{own}"
    );
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Writes a file and its compressed forms.
fn forms(here: &Here, name: &str, bytes: &[u8]) -> [String; 3] {
    let names = ["", ".gz", ".zst"].map(|end| format!("{name}{end}"));
    let zstd = rprof_perfdata::features::embedded::compress(bytes).expect("memory takes it");
    for (name, bytes) in names.iter().zip([bytes.to_vec(), gzip(bytes), zstd]) {
        std::fs::write(here.path(name), bytes).expect("it can be written");
    }
    names
}

const TEXT: &str = "w 17/17 [000]   708.396595:    1001 cycles: \n\t 113c leaf+0x13 (/opt/w)\n\t 2000 main (/opt/w)\n\n";

#[test]
fn all_inputs_are_read_compressed_as_well() {
    let here = Here::new();
    let inputs = [
        ("x.folded", b"w;main;leaf 1001\n".to_vec()),
        ("x.txt", TEXT.as_bytes().to_vec()),
        (
            "x.json",
            std::fs::read(profile("pyspy.speedscope.json")).expect("it is there"),
        ),
        (
            "x.pb",
            std::fs::read(profile("go_cpu.pb.gz")).expect("it is there"),
        ),
        (
            "x.prof",
            std::fs::read(profile("gperftools_cpu.prof")).expect("it is there"),
        ),
    ];
    for (name, bytes) in inputs {
        let [plain, packed @ ..] = forms(&here, name, &bytes);
        let folded = here.rprof("collapse -q -i").arg(&plain).ok().out();
        assert!(!folded.is_empty(), "{name}");
        for packed in packed {
            assert_eq!(
                here.rprof("collapse -q -i").arg(&packed).ok().out(),
                folded,
                "{packed}"
            );
            let bytes = std::fs::read(here.path(&packed)).expect("it is there");
            let piped = here.rprof("collapse -q -i -").stdin(&bytes).ok();
            assert_eq!(piped.out(), folded, "{packed}");
        }
    }
}

#[test]
fn compressed_recordings_are_recordings() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record(
        "-F 999 -g -e cpu-clock",
        &crate::support::c("shares.c"),
        "0.1",
    );
    let bytes = std::fs::read(here.path("perf.data")).expect("it is there");
    let [plain, packed @ ..] = forms(&here, "x.data", &bytes);
    let folded = here.rprof("collapse -q -i").arg(&plain).ok().out();
    for packed in packed {
        assert_eq!(
            here.rprof("collapse -q -i").arg(&packed).ok().out(),
            folded,
            "{packed}"
        );
        here.rprof("script -i").arg(&packed).ok();
        here.rprof("header -i").arg(&packed).ok();
        here.rprof("flamegraph -o -")
            .arg(&packed)
            .ok()
            .prints("burn_seventy");
    }
}

#[test]
fn text_of_perf_is_read_in_any_choice_of_fields() {
    let here = Here::new();
    for (text, folded) in [
        (
            "perf 17637 [000]   731.563076:    raw_syscalls:sys_exit: NR 16 = 0\n\t\
             ffffffff81415e9c syscall_exit_work+0xbc ([kernel.kallsyms])\n\t           fdd6b __GI___ioctl+0x3b (/lib/libc.so.6)\n\n",
            "perf;__GI___ioctl;syscall_exit_work 1\n",
        ),
        (
            "ls 7 [000] 1.5: raw_syscalls:sys_exit: NR 16 = 0\nls 7 [000] 1.6: raw_syscalls:sys_exit: NR 0 = 65536\n",
            "ls 2\n",
        ),
        ("              ls     7   1.5: cycles: \n", "ls 1\n"),
        (
            "w 17 708.395595: PERF_RECORD_COMM exec: w:17/17\nw 17 708.395626: PERF_RECORD_MMAP2 17/17: [0x5(0x1) @ 0 fe:00 1 2]: r-xp /w\n\
             w 17 708.396595:    1001 cycles: \n\t 113c leaf+0x13 (/opt/w)\n\n",
            "w;leaf 1001\n",
        ),
        (
            "w 17 1.5: 7 cycles: \n\t 113c [unknown] (/opt/app/gone (deleted))\n\n",
            "w;[gone_(deleted)] 7\n",
        ),
        ("w 17 1.5: 7 cycles: \n\t 113c leaf\n\n", "w;leaf 7\n"),
        ("w 17 cycles: \n\t 113c leaf (/w)\n\n", "w;leaf 1\n"),
        ("w \n\t 113c leaf (/w)\n\n", "w;leaf 1\n"),
        (
            "w 17 U       708.39:    9 cycles:ppp:     \n\t 113c leaf (/w)\n\n",
            "w;leaf 9\n",
        ),
        (
            "    w 17 1.5: 1 page-faults:     7f00 [unknown] (//anon)     7fa1 _int_malloc (/lib/libc.so.6)\n",
            "w;_int_malloc 1\n",
        ),
        (
            "my pool 2 17 [001] 1.5: 7 cycles: \n\t 113c leaf (/w)\n\n",
            "my_pool_2;leaf 7\n",
        ),
    ] {
        std::fs::write(here.path("x.txt"), text).expect("it can be written");
        let run = here.rprof("collapse -i x.txt").ok();
        assert_eq!(
            run.out().replace(' ', "_"),
            folded.replace(' ', "_"),
            "{text}{run}"
        );
        here.rprof("report -i x.txt").ok();
        here.rprof("flamegraph -o - -i x.txt").ok().prints("<svg");
        here.rprof("html -o x.html -i x.txt").ok();
        here.rprof("diff x.txt x.txt").ok();
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let here = Here::new();
    let empty_speedscope = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[]},"profiles":[]}"#;
    for (text, wanted) in [
        (empty_speedscope, "it has no sample"),
        (
            r#"{"shared":{"frames":[]},"profiles":[]}"#,
            "it has no sample",
        ),
        (
            r#"{"meta":{"preprocessedProfileVersion":60},"threads":[]}"#,
            "it has no sample",
        ),
        (r#"{"nodes":[{"id":1}],"samples":[]}"#, "it has no sample"),
        (
            r#"{"nodes":[{"id":1,"children":[2]}],"samples":[1],"timeDeltas":[0]}"#,
            "node 1 has a child 2 that does not exist",
        ),
        (r#"[{"ph":"B","name":"a"}]"#, "Chrome trace"),
        (
            "w 17 708.395595: PERF_RECORD_COMM exec: w:17/17\n",
            "it has no sample",
        ),
        (
            "           w    17 \n           w    17 \n",
            "without times, events or frames",
        ),
        (
            "Copyright 2026\nAll rights reserved\nby nobody\n",
            "it is neither a perf.data file",
        ),
        ("\u{1f}\u{8b}", "it is neither a perf.data file"),
        ("", "x is empty"),
    ] {
        std::fs::write(here.path("x"), text).expect("it can be written");
        for command in [
            "report",
            "collapse",
            "flamegraph -o -",
            "html -o x.html",
            "export -o x.pb.gz",
            "diff x",
        ] {
            let run = here.rprof(command).words("x").exits(1);
            if !text.is_empty() {
                run.says(wanted);
            }
            assert!(run.bytes().is_empty(), "{run}");
        }
    }
}

#[test]
fn our_own_speedscope_files_are_the_same_profile_again() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record(
        "-F 999 -g -e cpu-clock:u",
        &crate::support::c("threads.c"),
        "0.2",
    );
    here.rprof("export -q -o x.speedscope.json").ok();
    let again = Report::parse(&here.rprof("report --format json -i x.speedscope.json").ok());
    let recorded = here.report("");
    assert_eq!(again.events[0].name, recorded.events[0].name);
    assert_eq!(again.events[0].weight, recorded.events[0].weight);
    for function in ["work_left", "work_right"] {
        assert_eq!(
            sums(&again, function),
            sums(&recorded, function),
            "{function}"
        );
    }
    here.rprof("html -o x.html -i x.speedscope.json").ok();
}
