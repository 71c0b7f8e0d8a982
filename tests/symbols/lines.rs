//! Source lines.

use crate::support::{Here, Language, c_with, generated, needs};

/// Works equally long on two lines.
const TWO_LINES: &str = "
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline)) void bottom(void) {
    for (unsigned long i = 0; i < 50000; i++) sum += i;
    for (unsigned long i = 0; i < 50000; i++) sum ^= i;
}
int main(int argc, char **argv) {
    struct timespec now;
    do {
        for (int i = 0; i < 10; i++) bottom();
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 < atof(argv[argc - 1]));
    return 0;
}
";

#[test]
fn source_lines_are_those_of_perf() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    // Without inlined calls, each address has one line, and perf and rprof agree. `bottom` does the
    // work on two lines. It must be the first function of its file: line programs start at file 1
    // (DWARF 5, 6.2.2), but binutils 2.40's addr2line takes file 0.
    let program = generated(
        "two_lines",
        TWO_LINES,
        Language::C,
        &["-g", "-O1", "-fno-inline"],
    );
    here.record("-F 999 -e cpu-clock:u", &program, "0.5");
    let object = program.to_str().expect("UTF-8");
    let ours = here
        .rprof("report -q --no-inline --weight samples --sort srcline --symbol bottom --dso")
        .arg(object)
        .ok();
    // perf shows no folder.
    let mut lines: Vec<(String, u64)> = (ours.out().lines())
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let line = words[3].rsplit('/').next().unwrap_or_default();
            (line.to_owned(), words[2].parse().expect("a number"))
        })
        .collect();
    let perf = here.perf("report --stdio -q -n -F sample,srcline -s srcline --no-inline");
    let perf = perf.words("--symbols bottom --dsos").arg(object).ok();
    let mut theirs: Vec<(String, u64)> = (perf.out().lines())
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            (words[1].to_owned(), words[0].parse().expect("a number"))
        })
        .collect();
    lines.sort();
    theirs.sort();
    assert!(lines.len() > 1, "{ours}");
    assert_eq!(lines, theirs, "{ours}{perf}");
}

#[test]
fn source_lines_stand_beside_functions_and_in_json() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c_with("shares.c", &["-g"]);
    here.record("-F 999 -g -e cpu-clock:u", &program, "0.2");
    // A line of burn.h does the work, inlined into three functions.
    let by_both = here
        .rprof("report --sort symbol,srcline --no-children")
        .ok();
    by_both.prints("source:line").prints("burn.h:");
    let json = here.rprof("report --sort srcline --format json").ok();
    let json: serde_json::Value = serde_json::from_slice(json.bytes()).expect("JSON");
    let rows = json["events"][0]["rows"].as_array().expect("rows");
    let hottest = rows
        .iter()
        .max_by_key(|row| row["self"].as_u64())
        .expect("a row");
    let line = hottest["srcline"].as_str().expect("a line");
    assert!(line.contains("fixtures/burn.h:"), "with its path: {line}");
    let sum: u64 = rows.iter().filter_map(|row| row["self"].as_u64()).sum();
    assert_eq!(Some(sum), json["events"][0]["weight_total"].as_u64());
    let csv = here.rprof("report --sort srcline --format csv").ok();
    csv.prints(",srcline,state\n").prints(line);
    // Without debug information there are no lines.
    let plain = c_with("shares.c", &["-s"]);
    here.record("-F 999 -e cpu-clock:u", &plain, "0.1");
    here.rprof("report --sort srcline").ok().prints("??:0");
}

#[test]
fn symfs_is_another_root_for_symbols() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = here.copy(&c_with("shares.c", &["-g"]), "gone");
    here.record("-F 999 -g -e cpu-clock:u", &program, "0.1");
    let root = here.path("root");
    let inside = program.strip_prefix("/").expect("absolute");
    let moved = root.join(inside);
    std::fs::create_dir_all(moved.parent().expect("a folder")).expect("made");
    std::fs::rename(&program, &moved).expect("moved");
    let unnamed = here.rprof("report").ok();
    assert!(!unnamed.out().contains("burn_seventy"), "{unnamed}");
    unnamed.prints("no such file");
    for reading in ["report --symbol", "report --focus", "annotate"] {
        here.rprof(&format!("{reading} burn_seventy"))
            .exits(1)
            .says("functions without a name: ")
            .says("no such file");
    }
    let options = "report --symfs root --sort symbol,srcline";
    here.rprof(options)
        .ok()
        .prints("burn_seventy")
        .prints("burn.h:");
    // The build-id identifies the file.
    let artefact = here.path("artefacts/deep/x.bin");
    std::fs::create_dir_all(artefact.parent().expect("a folder")).expect("made");
    std::fs::copy(&moved, &artefact).expect("copied");
    here.rprof("report --symfs artefacts --sort symbol,srcline")
        .ok()
        .prints("burn_seventy")
        .prints("burn.h:");
    here.sh("objcopy --only-keep-debug artefacts/deep/x.bin artefacts/y && strip -s artefacts/deep/x.bin")
        .ok();
    here.rprof("report --symfs artefacts")
        .ok()
        .prints("burn_seventy");
    std::fs::copy(c_with("recursion.c", &["-g"]), &moved).expect("copied");
    let wrong = here.rprof("report --symfs root").ok();
    wrong.prints("build-id differs");
}
