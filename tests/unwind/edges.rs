//! Stacks of unprepared programs against disassembly: each caller must be able to call its callee.
//! `benches/edges` has some ninety programs.

use rprof_edges::{Callers, FIELDS, Report};

use crate::support::{Here, c_with, large_source, needs};

/// Programs that run for a third of a second, or for a second if they take no other time.
const PROGRAMS: [(&str, &str); 5] = [
    ("gcc", "gcc -O2 -c large.c -o large.o"),
    (
        "python3",
        "python3 -c 'import json, re, zlib, time\nwhile time.process_time() < 0.4:\n t = json.dumps({str(k): [k] * 5 for k in range(5000)})\n \
         re.sub(r\"(\\d+)\", r\"<\\1>\", t); zlib.compress(t.encode()); sorted(json.loads(t))'",
    ),
    (
        "perl",
        "perl -e 'while ((times)[0] < 0.35) { my %h = map { (\"k$_\" => $_ * 7 % 1001) } 1 .. 9000; my $t = join \",\", \
         sort { $h{$a} <=> $h{$b} || $a cmp $b } keys %h; $t =~ s/k(\\d+)/<$1>/g }'",
    ),
    ("openssl", "openssl speed -seconds 1 ecdsap256"),
    ("xz", "xz -6 -k -c text >/dev/null"),
];

fn stacks(here: &Here) -> String {
    let script = here.rprof("script --no-inline -F").arg(FIELDS);
    script.arg("-i").arg("perf.data").ok().out()
}

fn check(text: &str) -> Report {
    rprof_edges::check(text, Callers::Return)
}

fn without_second_frames(text: &str) -> String {
    let mut frames = 0;
    let is_kept = |line: &&str| {
        frames = if line.starts_with([' ', '\t']) {
            frames + 1
        } else {
            0
        };
        frames != 2
    };
    let kept = text.lines().filter(is_kept);
    kept.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn every_caller_of_six_programs_can_call_its_callee() {
    needs!(PerfEvents, X86_64, Gcc);
    needs!(File("/usr/bin/openssl"));
    for tool in ["python3", "perl", "xz"] {
        needs!(Tool(tool));
    }
    let here = Here::new();
    std::fs::write(here.path("large.c"), large_source(150)).expect("a file");
    std::fs::write(here.path("text"), large_source(4000)).expect("a file");
    let callbacks = c_with("callbacks.c", &["-fomit-frame-pointer"]);
    let callbacks = format!("{} 0.35", callbacks.display());
    let mut pairs = 0;
    for (name, line) in PROGRAMS.into_iter().chain([("callbacks", &*callbacks)]) {
        let record = here.rprof("record -q -e cpu-clock:u -F 2999 -g -- sh -c");
        record.arg(line).ok();
        let text = stacks(&here);
        let report = check(&text);
        println!("{name}: {report}");
        assert_eq!(report.impossible(), 0, "{name}: {report}");
        assert!(report.checked() > 300, "{name}: {report}");
        pairs += report.checked();
        // The same stacks with a fault: otherwise the check might see nothing.
        let faulty = check(&without_second_frames(&text));
        assert!(faulty.impossible() > 30, "{name}: {faulty}");
    }
    assert!(pairs > 10_000, "{pairs}");
}
