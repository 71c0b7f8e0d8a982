//! Requests (`record --requests`): each function runs only in its own spans.

use std::path::Path;

use serde_json::Value;

use crate::support::{Folded, Here, c_with, check, folded, measured, needs, rust, skip};

const EXPORTED: &str = "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1";

/// Start of a program, on a busy machine.
const FIRST_NS: u64 = 50_000_000;

/// Samples by agreement of request and function. `no_span` runs outside of all spans.
#[derive(Debug, Default)]
struct Tally {
    right: u64,
    wrong: u64,
    without: u64,
}

impl Tally {
    /// `number` returns N for a root frame with a request.
    fn of(stacks: &Folded, number: impl Fn(&str) -> Option<u32>) -> Tally {
        let mut tally = Tally::default();
        for (stack, weight) in stacks {
            let mut frames = stack.split(';');
            let root = frames.next().expect("a root");
            if frames.clone().any(|frame| frame.starts_with("no_span")) {
                match root {
                    "[no_request]" => {}
                    _ => tally.wrong += weight,
                }
                continue;
            }
            let Some(function) = frames.find_map(|frame| frame.strip_prefix("busy_")) else {
                continue;
            };
            // Python's functions have a file behind the name.
            let ran = function[..1]
                .parse::<u32>()
                .expect("the number of the function");
            *match (root, number(root)) {
                ("[no_request]", _) => &mut tally.without,
                (_, Some(found)) if found == ran => &mut tally.right,
                _ => &mut tally.wrong,
            } += weight;
        }
        tally
    }

    /// Checks that no sample has the request of another function.
    ///
    /// # Errors
    /// More samples are without a request than run until the recorder finds the variable.
    fn check(&self) -> Result<(), String> {
        assert_eq!(self.wrong, 0, "{self:?}");
        assert!(self.right > 0, "{self:?}");
        let all = self.right + self.without;
        let most = (all / 100).max(FIRST_NS);
        check(self.without <= most, || format!("{self:?}"))
    }
}

fn of_span(root: &str) -> Option<u32> {
    (root.len() == 16).then(|| u32::from_str_radix(&root[14..], 16).ok())?
}

fn of_route(root: &str) -> Option<u32> {
    root.strip_prefix("/route-")?.parse().ok()
}

fn stacks(here: &Here, options: &str) -> Folded {
    folded(&here.rprof("collapse").words(options).ok())
}

/// Records and judges the recording, and again if the recorder of a busy machine found the variable
/// late. Returns false if this kernel has no BPF.
fn judge(
    options: &str,
    program: &Path,
    words: &[&str],
    judgement: impl Fn(&Here) -> Result<(), String>,
) -> bool {
    let mut is_recorded = false;
    measured(|| {
        let here = Here::new();
        is_recorded = record(&here, options, program, words);
        match is_recorded {
            true => judgement(&here),
            false => Ok(()),
        }
    });
    is_recorded
}

fn by_span(here: &Here) -> Result<(), String> {
    Tally::of(&stacks(here, "--by span"), of_span).check()
}

/// Returns false if this kernel has no BPF.
fn record(here: &Here, options: &str, program: &Path, words: &[&str]) -> bool {
    let recorder = here
        .rprof("record --requests -e cpu-clock -F 1999")
        .words(options);
    let mut recorder = recorder.arg("--").arg(program);
    for word in words {
        recorder = recorder.arg(word);
    }
    let run = recorder.ok();
    let is_recorded = !run.err().contains("requests are not recorded");
    if !is_recorded {
        skip("a kernel with BPF");
    }
    is_recorded
}

#[test]
fn samples_have_the_span_that_ran_also_if_records_are_reused() {
    needs!(PerfEvents, Root);
    let program = c_with("requests.c", &[EXPORTED]);
    for mode in ["swap", "in-place"] {
        let is_recorded = judge("", &program, &["2000", mode], |here| {
            by_span(here)?;
            Tally::of(&stacks(here, "--by http.route"), of_route).check()?;
            let slow = stacks(here, "--by span --slower-than 10ms");
            let slow = Tally::of(&slow, |root| of_span(root).filter(|number| *number == 7));
            assert!(slow.right > 0 && slow.without == 0, "{slow:?}");
            // A span is slow too while its thread waits for a CPU.
            check(slow.wrong * 10 <= slow.right, || format!("{slow:?}"))
        });
        if !is_recorded {
            return;
        }
    }
}

#[test]
fn variables_of_libraries_are_found_in_each_tls_dialect() {
    needs!(PerfEvents, Root);
    let program = c_with("requests.c", &["-DUSE_LIBRARY"]);
    let dialects: &[&[&str]] = match cfg!(target_arch = "x86_64") {
        true => &[
            &["-mtls-dialect=gnu"],
            &["-mtls-dialect=gnu2"],
            &["-ftls-model=initial-exec"],
        ],
        false => &[&[]],
    };
    for dialect in dialects {
        let flags = [&["-DLIBRARY", "-shared", "-fPIC"], *dialect].concat();
        let library = c_with("requests.c", &flags);
        let library = library.to_str().expect("UTF-8");
        if !judge("", &program, &["1500", "swap", library], by_span) {
            return;
        }
    }
}

#[test]
fn children_threads_and_later_programs_have_only_requests_of_their_own() {
    needs!(PerfEvents, Root);
    let program = c_with("requests.c", &[EXPORTED]);
    for how in ["fork", "exec", "threads"] {
        let is_recorded = judge("", &program, &["1000", "swap", "-", how], |here| {
            by_span(here)?;
            match how {
                "fork" => Tally::of(&stacks(here, "--by http.route"), of_route).check(),
                _ => Ok(()),
            }
        });
        if !is_recorded {
            return;
        }
    }
}

#[test]
fn static_programs_have_requests() {
    needs!(PerfEvents, Root);
    for flag in ["-static", "-static-pie"] {
        let program = c_with("requests.c", &[flag]);
        if !judge("", &program, &["1000", "swap"], by_span) {
            return;
        }
    }
}

#[test]
fn a_library_that_was_unloaded_leaves_no_requests() {
    needs!(PerfEvents, Root);
    let program = c_with("requests.c", &["-DUSE_LIBRARY"]);
    let shared = ["-shared", "-fPIC"];
    let [library, decoy] = ["-DLIBRARY", "-DDECOY"].map(|kind| {
        let library = c_with("requests.c", &[&shared[..], &["-DLIBRARY", kind]].concat());
        library.to_str().expect("UTF-8").to_owned()
    });
    let how = format!("reload:{decoy}");
    judge("", &program, &["1000", "swap", &library, &how], by_span);
}

#[test]
fn pools_of_threads_in_rust_and_rust_libraries_have_requests() {
    needs!(PerfEvents, Root);
    if !cfg!(target_arch = "x86_64") {
        skip("the fixture is for x86-64");
        return;
    }
    let program = rust("requests.rs", &[&format!("-Clink-arg={EXPORTED}")]);
    if !judge("", &program, &["1500"], by_span) {
        return;
    }
    // Rust makes the symbol local, unless another version script exports it.
    let script = Path::new(env!("CARGO_TARGET_TMPDIR")).join("requests.map");
    std::fs::write(&script, "{ global: otel_thread_ctx_v1; };").expect("a version script");
    let script = format!("-Clink-arg=-Wl,--version-script={}", script.display());
    let library = rust(
        "requests.rs",
        &["--cfg=library", "--crate-type=cdylib", &script],
    );
    let program = c_with("requests.c", &["-DUSE_LIBRARY"]);
    let library = library.to_str().expect("UTF-8");
    judge("", &program, &["1500", "swap", library], by_span);
}

#[test]
fn python_has_requests_by_a_c_library_in_threads_and_forked_processes() {
    needs!(PerfEvents, Root, Tool("python3"));
    let library = c_with("requests.c", &["-DLIBRARY", "-shared", "-fPIC"]);
    let library = library.to_str().expect("UTF-8");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/requests.py");
    judge(
        "",
        Path::new("python3"),
        &[source, "1500", library],
        by_span,
    );
}

#[test]
fn a_limit_on_locked_memory_is_lifted_if_the_kernel_refuses_programs() {
    needs!(PerfEvents, Root, Tool("strace"), Tool("prlimit"));
    let here = Here::new();
    let program = c_with("requests.c", &[EXPORTED]);
    if !record(&here, "", &program, &["10", "swap"]) {
        return;
    }
    // Kernels before 5.11 refuse programs above the limit. Here strace refuses calls.
    let refusing = |when: &str| {
        let strace = here
            .command("strace")
            .words("-qq -o /dev/null -e trace=bpf");
        let strace = strace
            .arg("-e")
            .arg(format!("inject=bpf:error=EPERM:{when}"));
        let limited = strace.words("prlimit --memlock=65536:");
        let recorder = limited.arg(env!("CARGO_BIN_EXE_rprof"));
        let recorder = recorder
            .words("record --requests -e cpu-clock --")
            .arg(&program);
        recorder.words("10 swap").ok()
    };
    let once = refusing("when=1");
    assert!(!once.err().contains("requests are not recorded"), "{once}");
    let always = refusing("when=1+");
    always.says("requests are not recorded: Operation not permitted (EPERM); ");
    assert!(!always.err().contains("run it as root"), "{always}");
}

#[test]
fn a_trace_selects_the_samples_of_its_thread() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    let program = c_with("requests.c", &[EXPORTED]);
    if !record(&here, "", &program, &["1000", "swap"]) {
        return;
    }
    let trace = format!("02{}01", "00".repeat(14));
    let both = stacks(&here, "--by trace");
    let of = |stacks: &Folded, root: &str| -> u64 {
        let its = stacks.iter().filter(|(stack, _)| stack.starts_with(root));
        its.map(|(_, weight)| weight).sum()
    };
    let one = stacks(&here, &format!("--by trace --trace {trace}"));
    assert!(of(&one, &trace) > 0);
    assert_eq!(of(&one, &trace), of(&both, &trace));
    assert_eq!(one.values().sum::<u64>(), of(&one, &trace), "nothing else");
    let report = here.rprof("report --format json --by trace").ok();
    let report: Value = serde_json::from_slice(report.bytes()).expect("JSON");
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    let mut names = rows.iter().map(|row| &row["by"]["trace"]);
    assert!(names.any(|name| *name == *trace), "{report:#}");
    here.rprof("report --by http.route")
        .ok()
        .prints("http.route\n");
    let wrong = here.rprof("report --trace 12").exits(2);
    wrong.says("a trace id has 32 hexadecimal digits");
    let without = here.rprof("report --by http.rout").exits(1);
    without
        .says("no request has the attribute http.rout; known attributes: http.method, http.route");
    let slow = here.rprof("report --slower-than 1h").exits(1);
    slow.says("none passes --slower-than 3600s");
    here.rprof("report --slower-than 0")
        .exits(2)
        .says("above 0");
    let diff = here.rprof("diff --by http.route perf.data perf.data");
    diff.exits(2).says("the table compares functions");
    let top = here.rprof("top --requests").exits(2);
    top.says("`rprof record --requests` records requests");
}

#[test]
fn waits_belong_to_the_span_in_which_they_began() {
    needs!(PerfEvents, Root);
    let program = c_with("requests.c", &[EXPORTED, "-DSLEEPS"]);
    judge("--off-cpu", &program, &["1500", "swap"], |here| {
        let stacks = stacks(here, "--off-cpu --no-fold-idle --by span");
        Tally::of(&stacks, of_span).check()
    });
}

#[test]
fn a_recording_without_requests_names_the_flag_that_records_them() {
    needs!(PerfEvents);
    let here = Here::new();
    here.rprof("record -e cpu-clock -- true").ok();
    for option in ["--by span", "--slower-than 5ms"] {
        let run = here.rprof("report").words(option).exits(2);
        run.says("`rprof record --requests` records them");
    }
}
