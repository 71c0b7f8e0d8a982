//! Access to source files.

use crate::support::{Here, c_with, needs};

/// Files are shown only if they look like source, or lie in a given source folder.
#[test]
fn a_program_that_names_a_secret_as_its_source_does_not_get_it_shown() {
    needs!(PerfEvents, Tool("as"), X86_64);
    let here = Here::new();
    std::fs::write(here.path("secret"), "the secret\n".repeat(200)).expect("a file");
    let secret = here.path("secret");
    let source = format!(
        "#include <stdlib.h>\n#include <time.h>\nvolatile long sum;\nint main(int argc, char **argv) {{\n\
         struct timespec now;\ndo {{\n# 7 \"{}\"\nfor (long i = 0; i < 100000; i++) sum += i;\n# 8 \"main.c\"\n\
         clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);\n}} while (now.tv_sec * 1e9 + now.tv_nsec < atof(argv[argc - 1]) * 1e9);\n\
         return 0;\n}}\n",
        secret.display()
    );
    let elsewhere = tempfile::tempdir().expect("a folder");
    let path = elsewhere.path().join("main.c");
    std::fs::write(&path, source).expect("a file");
    let program = here.path("program");
    here.sh(&format!(
        "cc -g -O1 -w {} -o {}",
        path.display(),
        program.display()
    ))
    .ok();
    let folder = tempfile::tempdir().expect("a folder");
    let run = |options: &str| {
        let words = format!(
            "cd {} && {} annotate -i {} main {options}",
            folder.path().display(),
            env!("CARGO_BIN_EXE_rprof"),
            here.path("perf.data").display()
        );
        here.sh(&words).ok()
    };
    here.record("-F 999 -e cpu-clock:u", &program, "0.3");
    let refused = run("");
    assert!(!refused.out().contains("the secret"), "{refused}");
    refused.prints("its name does not look like source code");
    let named = run(&format!("--source-path {}", here.path(".").display()));
    named.prints("the secret");
}

#[test]
fn sources_are_found_elsewhere_by_a_mapping() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("shares.c", &["-g", "-ffile-prefix-map=/=/nowhere/"]);
    here.record("-F 999 -e cpu-clock:u", &program, "0.2");
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");
    let without = here.rprof("annotate burn_seventy").ok();
    without.prints("--source-path");
    let script = format!("readlink -f {fixtures}");
    let folder = here.sh(&script).ok().out();
    let mapping = format!("/nowhere{}={}", folder.trim(), folder.trim());
    let with = here
        .rprof("annotate burn_seventy --source-path")
        .arg(mapping)
        .ok();
    with.prints("burn_until(until, 70)");
}
