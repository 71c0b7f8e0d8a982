//! Programs that no longer exist at the time of the report, or were visible only to the process.

use crate::support::{Here, c, c_with, check, check_share, measured, needs};

/// Functions of `shares.c` have their shares of user-mode samples.
fn check_is_named(here: &Here, what: &str) -> Result<(), String> {
    let report = here.report("");
    let only = report.only();
    let names = ["burn_seventy", "burn_twenty", "burn_ten"];
    let all: f64 = names.iter().map(|name| only.self_share(name)).sum();
    check(all > 0.7, || format!("{all} in {what}"))?;
    let seventy = only.self_share("burn_seventy");
    check_share(what, seventy, 0.7, only.samples, 1.0 - all)
}

/// The last started process has nearly reached `main`: its program and its C library are mapped.
const IS_MAPPED: &str = "until grep -q libc /proc/$!/maps; do sleep 0.01; done";

const INSIDE: &str = "
    mount -t tmpfs none /mnt || exit 99
    mkdir /mnt/bin && cp \"$1\" /mnt/bin/hidden && cp \"$2\" /mnt/bin/jitted || exit 98
    mount -t tmpfs none /tmp || exit 97
    shift 2
    \"$@\"
";

#[test]
fn a_process_in_namespaces_of_its_own_is_named() {
    needs!(PerfEvents, Root);
    for options in ["-e cpu-clock:u", "-e cpu-clock:u -g"] {
        measured(|| {
            let here = Here::new();
            let record = here.rprof("record -F 999").words(options);
            let record = record.words("-- unshare --mount --pid --fork --mount-proc sh -c");
            let record = record
                .arg(INSIDE)
                .arg("sh")
                .arg(c("shares.c"))
                .arg(c("jit.c"));
            let run = record.words("/mnt/bin/hidden 0.5").ok();
            run.says("/mnt/bin/hidden")
                .says("is embedded in the recording");
            check_is_named(&here, options)
        });
    }
}

/// The process has another pid and /tmp in its namespaces.
#[test]
fn a_perf_map_in_a_pid_namespace_is_found_by_the_pid_inside() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let record = here.rprof("record -q -F 999 -e cpu-clock:u -- unshare");
    let record = record.words("--mount --pid --fork --mount-proc sh -c");
    let record = record
        .arg(INSIDE)
        .arg("sh")
        .arg(c("shares.c"))
        .arg(c("jit.c"));
    record.words("/mnt/bin/jitted map 0.4").ok();
    let report = here.report("--comm jitted");
    let share = report.only().self_share("made one");
    assert!(share > 0.5, "{share}");
}

#[test]
fn a_deleted_program_keeps_its_names() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        here.copy(&c("shares.c"), "gone");
        let record = here.rprof("record -F 999 -g -e cpu-clock:u -- sh -c");
        let script = format!("./gone 0.6 & {IS_MAPPED}; rm gone; wait");
        let run = record.arg(script).ok();
        run.says("gone is embedded in the recording");
        check_is_named(&here, "a deleted program")
    });
}

#[test]
fn a_replaced_program_keeps_the_names_it_ran_with() {
    needs!(PerfEvents);
    measured(|| {
        let here = Here::new();
        here.copy(&c("shares.c"), "gone");
        here.copy(&c("threads.c"), "new");
        let record = here.rprof("record -q -F 999 -g -e cpu-clock:u -- sh -c");
        let script = format!("./gone 0.6 & {IS_MAPPED}; mv \"$1\" gone; wait");
        record.arg(script).words("sh new").ok();
        check_is_named(&here, "a replaced program")
    });
}

const MEMFD: &str = "
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    struct stat s;
    int from = open(argv[1], O_RDONLY), to = memfd_create(\"prog\", MFD_CLOEXEC);
    if (fstat(from, &s) || sendfile(to, from, 0, (size_t)s.st_size) != s.st_size) return 9;
    fexecve(to, argv + 1, environ);
    return 8;
}
";

#[test]
fn a_program_in_a_memfd_is_named() {
    needs!(PerfEvents);
    let run = crate::support::generated("run", MEMFD, crate::support::Language::C, &[]);
    measured(|| {
        let here = Here::new();
        let record = here.rprof("record -q -F 999 -g -e cpu-clock:u --");
        record.arg(&run).arg(c("shares.c")).arg("0.5").ok();
        check_is_named(&here, "a program in memory")
    });
}

/// Recordings stay small.
#[test]
fn programs_that_can_be_found_are_not_embedded() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("shares.c"), "0.2");
    let header = here.rprof("header").ok();
    assert!(!header.out().contains("\nkept "), "{header}");
}

#[test]
fn perf_reads_a_recording_with_embedded_files() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    here.record("-F 999 -e cpu-clock", &c("jit.c"), "map 0.2");
    here.rprof("header").ok().prints("\nkept ");
    let samples = here.report("").samples();
    let perf = here.perf("script -F time").ok();
    assert_eq!(perf.out().lines().count() as u64, samples, "{perf}");
}

#[test]
fn deleted_programs_without_samples_are_not_embedded() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let sleep = here.copy("/bin/sleep".as_ref(), "asleep");
    let work = here.copy(&c("endless.c"), "working");
    let asleep = here.command(&sleep).arg("60").start();
    let mut working = here.command(&work).start();
    working.line();
    std::fs::remove_file(&sleep).unwrap();
    std::fs::remove_file(&work).unwrap();
    for options in ["", "--call-graph fp", "--call-graph none"] {
        here.rprof("record -q -F 999 -e cpu-clock -a -d 0.4")
            .words(options)
            .ok();
        let header = here.rprof("header").ok();
        let out = header.out();
        let has = |name: &str| {
            let mut kept = out.lines().filter(|line| line.starts_with("kept"));
            kept.any(|line| line.contains(name))
        };
        assert!(has("/working"), "{options}: {header}");
        assert!(!has("/asleep"), "{options}: {header}");
    }
    for running in [asleep, working] {
        running.signal(rustix::process::Signal::KILL);
        running.end();
    }
}

#[test]
fn few_samples_do_not_embed_the_code_of_a_large_program() {
    needs!(PerfEvents);
    let fixture = |name: &str| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/");
        std::fs::read_to_string(format!("{folder}{name}")).unwrap()
    };
    // Poorly compressible data, from an existing program.
    let ballast = format!(
        "__asm__(\".section .rodata\\n.incbin \\\"{}\\\", 1048576, 4194304\\n.text\");",
        env!("CARGO_BIN_EXE_rprof")
    );
    let source = fixture("shares.c").replace("#include \"burn.h\"", &fixture("burn.h"));
    let large = format!("{source}\n{ballast}\n");
    let program = crate::support::generated("large", &large, crate::support::Language::C, &[]);
    measured(|| {
        let here = Here::new();
        let program = here.copy(&program, "large");
        let record = here.rprof("record -F 99 -e cpu-clock:u -- sh -c");
        let script = format!("\"$0\" 0.6 & {IS_MAPPED}; rm \"$0\"; wait");
        let run = record.arg(script).arg(&program).ok();
        run.says("without code");
        let len = std::fs::metadata(here.path("perf.data")).unwrap().len();
        check(len < 200_000, || format!("{len} bytes"))?;
        let report = here.report("--comm large");
        let share = report.only().total_share("burn_seventy");
        check(share > 0.4, || format!("{share}"))
    });
}

/// Go's and Zig's linkers write no GNU build-id. A file written in place, or with its removed
/// predecessor's inode number, has the recorded path and inode.
#[test]
fn a_program_without_a_build_id_that_was_built_again_names_nothing() {
    needs!(PerfEvents);
    let shares = c_with("shares.c", &["-Wl,--build-id=none"]);
    let threads = c_with("threads.c", &["-Wl,--build-id=none"]);
    let here = Here::new();
    here.copy(&shares, "built");
    here.rprof("record -q -F 999 -g -e cpu-clock:u -- ./built 0.3")
        .ok();
    let named = || {
        let report = here.report("");
        let rows = report.only().rows.iter();
        let named = rows.filter(|row| row.object.ends_with("/built") && row.symbol != "[unknown]");
        named.map(|row| row.symbol.clone()).collect::<Vec<_>>()
    };
    check_is_named(&here, "the recorded program").unwrap();
    // Touching the recording afterwards leaves the times of its samples.
    for change in [
        format!("cat {} >built", threads.display()),
        format!("rm built && cp {} built", threads.display()),
        "touch perf.data".to_owned(),
    ] {
        here.sh(&format!("sleep 1.1; {change}")).ok();
        assert_eq!(named(), [""; 0], "{change}");
    }
    let report = here.rprof("report").ok();
    report.prints("file replaced since");
}
