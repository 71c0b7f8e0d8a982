//! rprof and perf agree on the same file, from either recorder.
//!
//! Known bugs of perf give differences of known classes (see `support/compare.rs`), which are
//! counted. Everything else must be equal: samples, frames, per-function counts, folded stacks.

use std::path::Path;

use crate::support::{
    Comparison, Folded, Here, PERF_REPORT, PERF_SCRIPT, bare, c, c_with, cxx, fold_samples, folded,
    large_source, legible_samples, legible_stacks, needs, perf_samples, perf_self_samples, rust,
};

/// Share of samples that may differ: those at a program's start and end may hit any code.
const BY_CHANCE: f64 = 0.01;

fn assert_near(ours: &Folded, theirs: &Folded, what: &str) {
    let share = difference(theirs, ours);
    let others = || -> Vec<_> {
        let differs = |(name, weight): &(&String, &u64)| theirs.get(*name) != Some(weight);
        ours.iter().filter(differs).take(20).collect()
    };
    assert!(
        share <= BY_CHANCE,
        "{what}: {:.2} %: {:#?}",
        share * 100.0,
        others()
    );
}

fn assert_agreement(here: &Here, what: &str) {
    here.perf("evlist -v")
        .ok()
        .says_nothing()
        .prints("sample_type: ");
    let script = here.perf(PERF_SCRIPT).ok();
    script.complains_of_losses_only();
    let by_perf = perf_samples(&script);
    let by_rprof = perf_samples(&here.rprof("script --no-inline").ok());
    let report = here.report("--no-children --no-located");
    assert!(!by_perf.is_empty(), "{what}: no samples");
    assert_eq!(
        by_rprof.len(),
        by_perf.len(),
        "{what}: samples in the scripts"
    );
    assert_eq!(report.samples(), by_perf.len() as u64, "{what}: samples");

    let comparison = Comparison::of(&by_perf, &by_rprof);
    let unexplained = &comparison.unexplained;
    assert!(
        unexplained.len() as f64 <= BY_CHANCE * by_perf.len() as f64,
        "{what}: {} frames: {:#?}",
        unexplained.len(),
        &unexplained[..unexplained.len().min(20)]
    );

    let by_perf = here.perf(PERF_REPORT).ok();
    by_perf.complains_of_losses_only();
    let by_perf = comparison.correct(perf_self_samples(&by_perf).remove(0));
    assert_near(
        &report.only().self_samples(),
        &by_perf,
        &format!("{what}: samples by function"),
    );

    let by_perf = fold_samples(&legible_samples(comparison.corrected));
    let by_rprof = legible_stacks(folded(
        &here.rprof("collapse --no-inline --no-located").ok(),
    ));
    assert_near(&by_rprof, &by_perf, &format!("{what}: folded stacks"));
    show(&format!(
        "{what}: {} samples, {:?}",
        report.samples(),
        comparison.classes
    ));
}

#[allow(
    clippy::print_stdout,
    reason = "what a test prints is kept by the harness"
)]
fn show(line: &str) {
    println!("{line}");
}

fn assert_agreement_on(program: &Path, args: &str) {
    let name = program.file_name().expect("a name").to_string_lossy();
    let here = Here::new();
    here.record("-e cpu-clock -F 999 -g", program, args);
    assert_agreement(&here, &format!("{name} by rprof"));
    let here = Here::new();
    here.perf_record("-e cpu-clock", program, args);
    assert_agreement(&here, &format!("{name} by perf"));
}

#[test]
fn three_functions_have_the_samples_of_perf() {
    needs!(PerfEvents, Perf);
    assert_agreement_on(&c("shares.c"), "0.5");
}

#[test]
fn a_static_program_has_the_samples_of_perf() {
    needs!(PerfEvents, Perf);
    assert_agreement_on(&c_with("shares.c", &["-static"]), "0.3");
}

#[test]
fn a_program_at_fixed_addresses_has_the_samples_of_perf() {
    needs!(PerfEvents, Perf);
    assert_agreement_on(&c_with("shares.c", &["-no-pie"]), "0.3");
}

#[test]
fn two_threads_have_the_samples_of_perf() {
    needs!(PerfEvents, Perf);
    assert_agreement_on(&c("threads.c"), "0.3");
}

#[test]
fn system_calls_have_the_samples_of_perf() {
    needs!(PerfEvents, Perf, Kernel);
    assert_agreement_on(&c("syscalls.c"), "0.5");
}

#[test]
fn deep_recursion_has_the_samples_of_perf() {
    needs!(PerfEvents, Perf);
    // Deeper than the kernel's limit.
    assert_agreement_on(&c("recursion.c"), "1000 0.2");
}

#[test]
fn processes_have_the_samples_of_perf() {
    needs!(PerfEvents, Perf);
    let args = format!("0.2 {} 0.2", c("shares.c").display());
    assert_agreement_on(&c("fork_exec.c"), &args);
}

#[test]
fn cxx_functions_have_the_samples_of_perf() {
    needs!(PerfEvents, Perf, Cxx);
    assert_agreement_on(&cxx("names.cpp"), "0.1");
}

#[test]
fn rust_functions_have_the_samples_of_perf() {
    needs!(PerfEvents, Perf);
    assert_agreement_on(&rust("names.rs", &[]), "0.1");
}

#[test]
fn samples_without_stacks_are_those_of_perf() {
    needs!(PerfEvents, Perf);
    let here = Here::new();
    here.record("-e cpu-clock -F 999", &c("shares.c"), "0.3");
    assert_agreement(&here, "without stacks");
}

/// Gcc mostly has no frame pointers, so its "callers" are random register values.
#[test]
fn a_compiler_has_the_samples_of_perf() {
    needs!(PerfEvents, Perf, Gcc);
    let args = "-O2 -c large.c -o large.o";
    for recorder in ["rprof", "perf"] {
        let here = Here::new();
        std::fs::write(here.path("large.c"), large_source(300)).unwrap();
        match recorder {
            "rprof" => here.record("-e cpu-clock -F 999 -g", "gcc".as_ref(), args),
            _ => here.perf_record("-e cpu-clock", "gcc".as_ref(), args),
        }
        assert_near_agreement(&here, &format!("gcc by {recorder}"));
    }
}

/// Acts like [`assert_agreement`], but 2 % of the weight may differ.
fn assert_near_agreement(here: &Here, what: &str) {
    let script = here.perf(PERF_SCRIPT).ok();
    script.complains_of_losses_only();
    let theirs = perf_samples(&script);
    let ours = perf_samples(&here.rprof("script --no-inline").ok());
    let report = here.report("--no-located");
    assert_eq!(ours.len(), theirs.len(), "{what}: samples");
    assert_eq!(report.samples(), theirs.len() as u64, "{what}: samples");

    let comparison = Comparison::of(&theirs, &ours);
    let by_perf = perf_self_samples(&here.perf(PERF_REPORT).ok()).remove(0);
    let by_perf = comparison.correct(by_perf);
    let mut own = Folded::new();
    for (name, samples) in report.only().self_samples() {
        *own.entry(bare(&name).to_owned()).or_default() += samples;
    }
    let functions = difference(&by_perf, &own);

    let told_apart = folded(&here.rprof("collapse --no-inline --no-located").ok());
    let mut stacks = Folded::new();
    for (stack, weight) in told_apart {
        let frames: Vec<&str> = stack.split(';').map(bare).collect();
        *stacks.entry(frames.join(";")).or_default() += weight;
    }
    let raw = difference(&fold_samples(&theirs), &stacks);
    let corrected = fold_samples(&legible_samples(comparison.corrected));
    let rest = difference(&corrected, &legible_stacks(stacks));
    let unexplained = &comparison.unexplained;
    show(&format!(
        "{what}: {} samples; weight in other stacks {:.2} %, for no known reason {:.2} %, in other \
         functions {:.2} %; known differences {:?}, others {}: {:#?}",
        theirs.len(),
        raw * 100.0,
        rest * 100.0,
        functions * 100.0,
        comparison.classes,
        unexplained.len(),
        &unexplained[..unexplained.len().min(20)],
    ));
    assert!(rest < 0.02, "{what}: {:.2} % in other stacks", rest * 100.0);
    let percent = functions * 100.0;
    assert!(
        functions < 0.02,
        "{what}: {percent:.2} % in other functions"
    );
}

/// Returns the share of the weight in different stacks.
fn difference(a: &Folded, b: &Folded) -> f64 {
    let of_b = |stack| b.get(stack).copied().unwrap_or(0);
    let common: u64 = a
        .iter()
        .map(|(stack, weight)| (*weight).min(of_b(stack)))
        .sum();
    let whole = a.values().sum::<u64>().max(b.values().sum());
    1.0 - common as f64 / whole as f64
}
