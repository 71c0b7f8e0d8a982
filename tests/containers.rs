//! Programs that are not there any more when the report is made, or that only the process
//! itself could see.

use crate::support::{Here, c};

/// What the functions of `shares.c` have, if they are named.
fn assert_is_named(here: &Here, what: &str) {
    let report = here.report("");
    let only = report.only();
    let all: f64 = ["burn_seventy", "burn_twenty", "burn_ten"]
        .iter()
        .map(|name| only.self_share(name))
        .sum();
    assert!(all > 0.7, "{all} in {what}");
    let seventy = only.self_share("burn_seventy") / all;
    assert!((seventy - 0.7).abs() < 0.08, "{seventy} in {what}");
}

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
    for options in ["-e cpu-clock", "-e cpu-clock -g"] {
        let here = Here::new();
        let record = here.rprof("record -F 999").words(options);
        let record = record.words("-- unshare --mount --pid --fork --mount-proc sh -c");
        let record = record
            .arg(INSIDE)
            .arg("sh")
            .arg(c("shares.c"))
            .arg(c("jit.c"));
        let run = record.words("/mnt/bin/hidden 0.5").ok();
        run.says("/mnt/bin/hidden").says("is kept in the recording");
        assert_is_named(&here, options);
    }
}

/// Its number inside is another, and so is its /tmp.
#[test]
fn its_perf_map_is_found_by_the_number_inside() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let record = here.rprof("record -q -F 999 -e cpu-clock -- unshare");
    let record = record.words("--mount --pid --fork --mount-proc sh -c");
    let record = record
        .arg(INSIDE)
        .arg("sh")
        .arg(c("shares.c"))
        .arg(c("jit.c"));
    record.words("/mnt/bin/jitted map 0.4").ok();
    let report = here.report("");
    let share = report.only().self_share("made one");
    assert!(share > 0.6, "{share}");
}

#[test]
fn a_deleted_program_keeps_its_names() {
    needs!(PerfEvents);
    let here = Here::new();
    std::fs::copy(c("shares.c"), here.path("gone")).unwrap();
    let record = here.rprof("record -F 999 -g -e cpu-clock -- sh -c");
    let run = record.arg("./gone 0.6 & sleep 0.2; rm gone; wait").ok();
    run.says("gone cannot be found by path");
    assert_is_named(&here, "a deleted program");
}

/// Another program is there by then, with other functions at the same addresses.
#[test]
fn a_replaced_program_keeps_the_names_it_ran_with() {
    needs!(PerfEvents);
    let here = Here::new();
    std::fs::copy(c("shares.c"), here.path("gone")).unwrap();
    let record = here.rprof("record -q -F 999 -g -e cpu-clock -- sh -c");
    let script = "./gone 0.6 & sleep 0.2; mv \"$1\" gone; wait";
    std::fs::copy(c("threads.c"), here.path("new")).unwrap();
    record.arg(script).words("sh new").ok();
    assert_is_named(&here, "a replaced program");
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
fn a_program_in_memory_is_named() {
    needs!(PerfEvents);
    let here = Here::new();
    let run = crate::support::generated("run", MEMFD, crate::support::Language::C, &[]);
    let record = here.rprof("record -q -F 999 -g -e cpu-clock --").arg(run);
    record.arg(c("shares.c")).arg("0.5").ok();
    assert_is_named(&here, "a program in memory");
}

/// What is where it was is not kept: recordings stay small.
#[test]
fn what_can_be_found_is_not_kept() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock", &c("shares.c"), "0.2");
    let header = here.rprof("header").ok();
    assert!(!header.out().contains("RPROF_FILES"), "{header}");
}

/// perf skips what is kept, and sees the same samples.
#[test]
fn perf_reads_a_recording_with_files_in_it() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    here.record("-F 999 -e cpu-clock", &c("jit.c"), "map 0.2");
    here.rprof("header").ok().prints("RPROF_FILES");
    let samples = here.report("").samples();
    let perf = here.perf("script -F time").ok();
    assert_eq!(perf.out().lines().count() as u64, samples, "{perf}");
}
