//! Outputs in folders of other users: links, devices, FIFOs, and the visibility of temporary files.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::support::{Here, c, needs, well_formed};

fn folded(here: &Here) {
    std::fs::write(here.path("x.folded"), "main;work 12\n").unwrap();
}

#[test]
fn a_link_to_a_block_device_is_refused_and_the_device_not_opened() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    folded(&here);
    // No device has major number 240, which is for experiments.
    let device = here.path("disk");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &device, FileType::BlockDevice, mode, makedev(240, 0)).unwrap();
    symlink(&device, here.path("flamegraph.svg")).unwrap();
    let default = here.rprof("flamegraph -i x.folded").exits(1);
    default.says("flamegraph.svg is a link").says("-o");
    let typed = here.rprof("flamegraph -i x.folded -o").arg(&device);
    typed.exits(1).says("is a block device").says("-o");
    symlink(&device, here.path("perf.data")).unwrap();
    let record = here.rprof("record -- touch begun").exits(1);
    record.says("perf.data is a link");
    assert!(!here.path("begun").exists(), "it began in\n{record}");
    assert!(
        here.path("perf.data")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn a_link_to_a_file_is_replaced_and_the_file_left_alone() {
    let here = Here::new();
    folded(&here);
    std::fs::write(here.path("precious"), "precious").unwrap();
    symlink("precious", here.path("flamegraph.svg")).unwrap();
    here.rprof("flamegraph -i x.folded").ok();
    assert_eq!(std::fs::read(here.path("precious")).unwrap(), b"precious");
    well_formed(&std::fs::read_to_string(here.path("flamegraph.svg")).unwrap());
    let kind = here.path("flamegraph.svg").symlink_metadata().unwrap();
    assert!(kind.is_file());
}

#[test]
fn fifos_without_a_reader_end_the_command_at_once() {
    needs!(PerfEvents);
    let here = Here::new();
    folded(&here);
    here.sh("mkfifo flamegraph.svg perf.data pipe").ok();
    // A FIFO without a reader must not hang the command.
    let default = here.rprof("flamegraph -i x.folded").exits(1);
    default.says("is a named pipe");
    let typed = here.rprof("flamegraph -i x.folded -o pipe").exits(1);
    typed
        .says("a named pipe without a reader")
        .says("reader first");
    let collapse = here.rprof("collapse -i x.folded -o pipe").exits(1);
    collapse.says("a named pipe without a reader");
    for output in ["perf.data", "pipe"] {
        let record = here.rprof("record -o").arg(output).words("-- touch begun");
        record.exits(1).says("is a named pipe");
    }
    assert!(!here.path("begun").exists());
}

#[test]
fn fifos_and_process_substitutions_with_a_reader_are_written_to() {
    needs!(PerfEvents);
    let here = Here::new();
    folded(&here);
    // The shell holds it open, so that the reader cannot come too late.
    let script = "mkfifo pipe; exec 9<>pipe; cat pipe 9<&- >a.svg &
        \"$0\" flamegraph -i x.folded -o pipe; exec 9<&-; wait
        \"$0\" flamegraph -i x.folded -o >(cat >b.svg; touch b.done)
        \"$0\" record -q -F 999 -g -e cpu-clock -o >(\"$0\" report -i - >c.txt; touch c.done) -- \"$1\" 0.2
        until [ -e b.done ] && [ -e c.done ]; do :; done";
    let run = here.command("bash").arg("-c").arg(script);
    let run = run.arg(env!("CARGO_BIN_EXE_rprof")).arg(c("shares.c")).ok();
    for name in ["a.svg", "b.svg"] {
        well_formed(&std::fs::read_to_string(here.path(name)).unwrap());
    }
    let report = std::fs::read_to_string(here.path("c.txt")).unwrap();
    assert!(report.contains("burn_seventy"), "{report}\n{run}");
}

#[test]
fn record_to_dev_stdout_is_a_stream() {
    needs!(PerfEvents);
    let here = Here::new();
    let before = std::fs::read_link("/dev/stdout").unwrap();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let record = here.rprof("record -q -F 999 -g -e cpu-clock -o").arg(name);
        let record = record.arg("--").arg(c("shares.c")).arg("0.1");
        let report = record.pipe(here.rprof("report -i -"));
        report.exits(0).prints("burn_seventy");
    }
    assert_eq!(std::fs::read_link("/dev/stdout").unwrap(), before);
    // A link of the same kind works too, and stays.
    symlink("/proc/self/fd/1", here.path("out")).unwrap();
    let record = here.rprof("record -q -F 999 -g -e cpu-clock -o out --");
    let record = record.arg(c("shares.c")).arg("0.1");
    let report = record.pipe(here.rprof("report -i -"));
    report.exits(0).prints("burn_seventy");
    let kept = std::fs::read_link(here.path("out")).unwrap();
    assert_eq!(kept.to_str(), Some("/proc/self/fd/1"));
    // The folder may belong to anybody.
    symlink("/proc/self/fd/1", here.path("perf.data")).unwrap();
    let run = here.rprof("record -- true").exits(1);
    run.says("perf.data is a link into /proc");
    let run = here.rprof("record -o /dev/stdin -- true").exits(1);
    run.says("is a link into /dev");
}

#[test]
fn a_temporary_recording_has_no_name() {
    needs!(PerfEvents);
    let here = Here::new();
    let shared = here.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o1777)).unwrap();
    // As any user could.
    let script = "ls -A shared >seen";
    let run = here.rprof("flamegraph -o x.svg -- sh -c").arg(script);
    run.env("TMPDIR", shared.to_str().unwrap()).ok();
    let seen = std::fs::read_to_string(here.path("seen")).unwrap();
    assert_eq!(seen, "");
    assert_eq!(
        std::fs::read_dir(&shared).unwrap().count(),
        0,
        "left behind"
    );
}

#[test]
fn flamegraph_refuses_what_it_cannot_write_before_the_command_runs() {
    needs!(PerfEvents);
    let here = Here::new();
    for output in ["no/such/x.svg", "/proc/x.svg", "."] {
        let shell = here.rprof("flamegraph -o").arg(output);
        let run = shell.words("-- touch begun").exits(1);
        assert!(!here.path("begun").exists(), "it began in\n{run}");
    }
}

#[test]
fn flamegraph_keeps_the_recording_that_it_cannot_draw() {
    needs!(PerfEvents);
    let here = Here::new();
    let tmp = here.path("tmp");
    std::fs::create_dir(&tmp).unwrap();
    std::fs::create_dir(here.path("out")).unwrap();
    let shell = here.rprof("flamegraph -F 999 -o out/x.svg -- sh -c");
    let shell = shell.arg("\"$0\" 0.1; rmdir out").arg(c("shares.c"));
    let run = shell.env("TMPDIR", tmp.to_str().unwrap()).exits(1);
    run.says("out/x.svg").says("the recording is saved in");
    let kept = std::fs::read_dir(&tmp).unwrap().next().expect("a folder");
    let kept = kept.unwrap().path().join("perf.data");
    run.says(kept.to_str().unwrap());
    assert_eq!(kept.metadata().unwrap().mode() & 0o777, 0o600);
    let report = here.rprof("report -i").arg(&kept).ok();
    report.prints("burn_seventy");
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_recording_and_not_the_command() {
    needs!(PerfEvents);
    let here = Here::new();
    let script = "ulimit -f 1024
        \"$0\" record -F 20000 -g -e cpu-clock -- sh -c '\"$0\" 0.7; echo ended; exit 5' \"$1\"
        echo status $?
        \"$0\" report >limited.txt; echo status $?
        # What the command did not ask for is not ignored by it.
        \"$0\" record -q -o x.data -- sh -c 'grep SigIgn /proc/self/status'";
    let run = here.command("bash").arg("-c").arg(script);
    let run = run.arg(env!("CARGO_BIN_EXE_rprof")).arg(c("shares.c")).ok();
    run.prints("ended\nstatus 1\n").prints("status 0\n");
    run.says("perf.data")
        .says("File too large")
        .says("can be read");
    let ignored = run.out();
    let ignored = ignored
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.expect("a line").trim(), 16).unwrap();
    const SIGXFSZ: u32 = 25;
    assert_eq!(
        ignored >> (SIGXFSZ - 1) & 1,
        0,
        "SIGXFSZ is ignored in\n{run}"
    );
    let report = std::fs::read_to_string(here.path("limited.txt")).unwrap();
    assert!(report.contains("burn_seventy"), "{report}");
}

#[test]
fn names_in_csv_are_no_formulas() {
    let here = Here::new();
    let text = "=HYPERLINK(\"http://x\");+1;-1;@SUM(A1) 3\nmain;\u{ff1d}1;work 1\n";
    std::fs::write(here.path("x.folded"), text).unwrap();
    let csv = here.rprof("report -i x.folded --format csv").ok();
    let mut reader = csv::Reader::from_reader(csv.bytes());
    let headings = reader.headers().unwrap().clone();
    let symbol = headings.iter().position(|name| name == "symbol").unwrap();
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 7, "{csv}");
    let mut names: Vec<&str> = rows.iter().map(|row| &row[symbol]).collect();
    names.sort_unstable();
    let expected = [
        "'+1",
        "'-1",
        "'=HYPERLINK(\"http://x\")",
        "'@SUM(A1)",
        "'\u{ff1d}1",
        "main",
        "work",
    ];
    assert_eq!(names, expected);
}

#[test]
fn long_paths_are_cut_in_messages() {
    let here = Here::new();
    let long = format!("{}end", "long/".repeat(800));
    let run = here.rprof("report -i").arg(&long).exits(1);
    run.says("long/long/").says("/end").says("…");
    assert!(run.err().len() < 600, "{run}");
}

#[test]
fn wrong_arguments_are_shown_without_their_escape_sequences() {
    let here = Here::new();
    for name in ["\x1b[2Jx", "\x1b]8;;http://x\x1b\\y", "\u{202e}x"] {
        for line in ["report --format", "", "report --sort"] {
            let shell = here.rprof(line).arg(name).env("CLICOLOR_FORCE", "1");
            let run = shell.exits(2);
            let said = run.err();
            for part in ["\x1b[2J", "\x1b]8", "\u{202e}"] {
                assert!(!said.contains(part), "{run}");
            }
        }
    }
}

/// Kernel addresses reveal the kernel's location in memory.
#[test]
fn outputs_with_kernel_addresses_are_readable_for_their_owner_alone() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let mode = |name: &str| {
        let meta = std::fs::metadata(here.path(name)).expect("it was written");
        meta.mode() & 0o7777
    };
    let command = "dd if=/dev/zero of=/dev/null bs=64k count=60000 2>/dev/null";
    here.rprof("record -q -F 1999 -g -e cpu-clock -- sh -c")
        .arg(command)
        .ok();
    let script = here.rprof("script -F ip").ok();
    let has_kernel = script
        .out()
        .lines()
        .any(|line| line.trim().starts_with("ffff"));
    assert!(has_kernel, "no kernel stack in\n{script}");
    std::fs::write(here.path("x.pb.gz"), "old").expect("it can be written");
    for name in ["x.pb.gz", "x.otlp.pb.gz"] {
        here.rprof("export -o").arg(name).ok();
        assert_eq!(mode(name), 0o600, "{name}");
    }
    let umask = "umask 022; exec \"$0\" \"$@\"";
    let rprof = |args: &str| {
        let shell = here.sh(umask).arg(env!("CARGO_BIN_EXE_rprof"));
        shell.words(args).ok()
    };
    for (name, command) in [
        ("x.firefox.json.gz", "export"),
        ("x.speedscope.json", "export"),
        ("x.folded", "export"),
        ("y.folded", "collapse"),
        ("x.svg", "flamegraph"),
        ("x.html", "html"),
    ] {
        rprof(&format!("{command} -o {name}"));
        assert_eq!(mode(name), 0o644, "{name}");
        let bytes = std::fs::read(here.path(name)).expect("it was written");
        let mut text = Vec::new();
        match bytes.starts_with(&[0x1f, 0x8b]) {
            true => drop(
                flate2::read::MultiGzDecoder::new(&bytes[..])
                    .read_to_end(&mut text)
                    .expect("it is gzip"),
            ),
            false => text = bytes,
        }
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("ffffffff8"), "{name}");
        assert!(!text.contains("184467440"), "{name}");
    }
    let page = rprof("html --annotate 5 -o code.html");
    let text = std::fs::read(here.path("code.html")).expect("it was written");
    assert!(!text.is_empty());
    if here
        .rprof("annotate --format json")
        .run()
        .out()
        .contains("\"start\":184467440")
    {
        assert_eq!(mode("code.html"), 0o600, "{page}");
    }
}

#[test]
fn outputs_without_kernel_addresses_keep_the_umask() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("shares.c"), "0.2");
    let script = "umask 027; exec \"$0\" export -o x.pb.gz";
    here.sh(script).arg(env!("CARGO_BIN_EXE_rprof")).ok();
    let meta = std::fs::metadata(here.path("x.pb.gz")).expect("it was written");
    assert_eq!(meta.mode() & 0o7777, 0o640);
}
