//! Go programs with known paths, where the runtime switches stacks.

use std::path::{Path, PathBuf};

use crate::support::{Here, check, folded, measured, needs};

fn go(here: &Here, name: &str, flags: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/go");
    let program = here.path("program");
    rprof_testing::build_go(&sources.join(name), &program, flags);
    program
}

#[derive(Debug, Default)]
struct Counts {
    right: u64,
    wrong: u64,
    short: u64,
}

impl Counts {
    /// Checks that nearly all are complete. A busy machine may not read code in time.
    fn check(&self, at_least: u64) -> Result<(), String> {
        check(self.wrong == 0 && self.right > at_least, || {
            format!("{self:?}")
        })?;
        check(self.right > self.short * 20, || format!("{self:?}"))
    }
}

/// The last function of `path` has the other ones as callers, up to the root of a goroutine.
fn count(here: &Here, path: &[&str]) -> Counts {
    let mut counts = Counts::default();
    for (stack, samples) in folded(&here.rprof("collapse --weight samples").ok()) {
        let frames: Vec<&str> = (stack.split(';').skip(1))
            .map(|name| name.strip_suffix(".abi0").unwrap_or(name))
            .filter(|name| !name.starts_with("_cgo_"))
            .collect();
        let Some(at) = frames.iter().position(|name| Some(name) == path.last()) else {
            continue;
        };
        let is_right = frames[..=at].ends_with(path);
        match frames.first() {
            Some(&"runtime.goexit") if is_right => counts.right += samples,
            Some(&"runtime.goexit") => {
                println!("{stack}");
                counts.wrong += samples;
            }
            _ => counts.short += samples,
        }
    }
    println!("{path:?}: {counts:?}");
    counts
}

fn share_complete(here: &Here) -> f64 {
    let run = here.rprof("report").ok();
    let (out, err) = (run.out(), run.err());
    let share = out.lines().chain(err.lines()).find_map(|line| {
        let (before, _) = line.split_once("% reach their root")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    share.unwrap_or_else(|| panic!("{run}"))
}

#[test]
fn callers_of_the_systems_stack_are_on_that_of_the_goroutine() {
    needs!(PerfEvents, X86_64, Go);
    for flags in [&[][..], &["-buildmode=pie"]] {
        let here = Here::new();
        let program = go(&here, "plain", flags);
        measured(|| {
            here.record("-F 1999 -g", &program, "0.5");
            count(
                &here,
                &[
                    "main.way_callers",
                    "main.inner_callers",
                    "runtime.Callers",
                    "runtime.callers",
                    "runtime.systemstack",
                    "runtime.callers.func1",
                ],
            )
            .check(50)?;
            let vdso = ["main.way_now", "main.inner_now", "time.Now", "time.now"];
            count(&here, &vdso).check(20)?;
            let complete = share_complete(&here);
            check(complete > 95.0, || format!("{complete}"))
        });
    }
}

#[test]
fn callers_of_c_code_are_on_the_stack_of_the_goroutine() {
    needs!(PerfEvents, X86_64, Go, Tool("gcc"));
    let here = Here::new();
    let program = go(&here, "c", &[]);
    let c = |name: &str| -> Vec<String> {
        let names = ["main.way_", "main.inner_"].map(|part| format!("{part}{name}"));
        let c = ["c_middle_", "c_leaf_"].map(|part| format!("{part}{name}"));
        let between = [
            format!("main._Cfunc_c_middle_{name}"),
            "runtime.cgocall".into(),
            "runtime.asmcgocall".into(),
            c[0].clone(),
        ];
        names
            .into_iter()
            .chain(between)
            .chain([c[1].clone()])
            .collect()
    };
    measured(|| {
        here.record("-F 1999 -g", &program, "1");
        for name in ["plain", "register"] {
            let path = c(name);
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            count(&here, &path).check(50)?;
        }
        Ok(())
    });
}

/// Roots are detected by their properties, not by the names in glibc.
#[test]
fn stacks_by_frame_pointers_reach_the_root_of_goroutines() {
    needs!(PerfEvents, X86_64, Go);
    let here = Here::new();
    let program = go(&here, "plain", &[]);
    for options in ["--call-graph fp", "--call-graph fp -e cpu-clock:u"] {
        here.record(options, &program, "0.5");
        let complete = share_complete(&here);
        assert!(complete > 80.0, "{complete}");
    }
}
