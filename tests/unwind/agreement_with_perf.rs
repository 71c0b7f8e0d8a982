//! Stack dumps in perf's files: perf's unwinder and rprof's, frame by frame.
//!
//! Stacks must be equal, except for name differences in `support/compare.rs`, and the [`End`]s
//! here.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{
    Comparison, Here, PERF_SCRIPT, PerfFrame, PerfSample, c, c_with, cxx, is_exec, large_source,
    needs, perf_samples, rust,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// Zeroes that perf reads at the end of the dump: an extra frame at address -1. rprof stops
    /// there.
    PastTheCopy,
    /// perf stops before the root: in the vdso, in most of a static program, and just after an
    /// exec.
    ShortOfRoot,
    /// perf skips frames, mostly callers of `mmap`.
    Skipped,
}

#[derive(Default)]
struct Unwound {
    ends: BTreeMap<End, usize>,
    frames: usize,
    names: Comparison,
}

impl Unwound {
    fn of(theirs: Vec<PerfSample>, ours: Vec<PerfSample>) -> Unwound {
        let mut unwound = Unwound::default();
        let pairs = theirs.into_iter().zip(ours);
        // A sample during an exec has registers of one program and the stack of another. Neither
        // result is right.
        let pairs = pairs.filter(|(_, ours)| !is_exec(ours));
        let (theirs, ours): (Vec<_>, Vec<_>) = pairs.map(|(a, b)| unwound.align(a, b)).unzip();
        unwound.names = Comparison::of(&theirs, &ours);
        unwound
    }

    fn align(&mut self, mut theirs: PerfSample, mut ours: PerfSample) -> (PerfSample, PerfSample) {
        let past = |frame: &PerfFrame| frame.address == "ffffffffffffffff";
        let is_past = theirs.frames.last().is_some_and(past);
        if is_past && !ours.frames.last().is_some_and(past) {
            theirs.frames.pop();
            self.count(End::PastTheCopy);
            if ours.frames.len() == theirs.frames.len() + 1 {
                ours.frames.pop();
            }
        }
        let (long, short) = (ours.frames.len(), theirs.frames.len());
        // Stacks longer than the dump have no root in either.
        let vdso = |frame: &PerfFrame| frame.object == "[vdso]";
        let is_known = reaches_root(&ours) || theirs.frames.last().is_some_and(vdso);
        if long > short && short > 0 && is_known && !reaches_root(&theirs) {
            ours.frames.truncate(short);
            self.count(End::ShortOfRoot);
        }
        if theirs.frames.len() < ours.frames.len() && reaches_root(&ours) && reaches_root(&theirs) {
            let common = common(&theirs.frames, &ours.frames);
            if common.len() == theirs.frames.len() {
                ours.frames = common;
                self.count(End::Skipped);
            }
        }
        for (theirs, ours) in theirs.frames.iter_mut().zip(&ours.frames).skip(1) {
            *theirs = as_return_address(theirs, ours);
        }
        self.frames += theirs.frames.len();
        (theirs, ours)
    }

    fn count(&mut self, end: End) {
        *self.ends.entry(end).or_default() += 1;
    }

    fn unexplained(&self) -> &[String] {
        &self.names.unexplained
    }

    fn tell(&self, what: &str) {
        let others = self.unexplained();
        let named: u64 = self.names.classes.values().sum();
        let percent = |part: usize| part as f64 * 100.0 / self.frames as f64;
        println!(
            "{what}: {} samples, {} frames: {:.3} % the same, {:.3} % named otherwise for known \
             reasons {:?}, {:.3} % for none; stacks that end elsewhere {:?}: {:#?}",
            self.names.corrected.len(),
            self.frames,
            percent(self.frames - named as usize - others.len()),
            percent(named as usize),
            self.names.classes,
            percent(others.len()),
            self.ends,
            &others[..others.len().min(10)],
        );
    }
}

fn reaches_root(sample: &PerfSample) -> bool {
    let roots = ["_start", "clone3", "__clone", "clone", "thread_start"];
    (sample.frames.last()).is_some_and(|frame| roots.contains(&&*frame.name))
}

/// Returns our frames, if all of perf's are there in order.
fn common(theirs: &[PerfFrame], ours: &[PerfFrame]) -> Vec<PerfFrame> {
    let mut rest = ours.iter();
    let found = theirs.iter().map_while(|theirs| {
        rest.find(|ours| as_return_address(theirs, ours).address == ours.address)
    });
    found.cloned().collect()
}

/// perf shows return address - 1 for callers.
fn as_return_address(theirs: &PerfFrame, ours: &PerfFrame) -> PerfFrame {
    let next = |hex: &str| u64::from_str_radix(hex, 16).ok()?.checked_add(1);
    if next(&theirs.address) != u64::from_str_radix(&ours.address, 16).ok() {
        return theirs.clone();
    }
    let offset = next(&theirs.offset).map(|offset| format!("{offset:x}"));
    PerfFrame {
        address: ours.address.clone(),
        offset: offset.unwrap_or_default(),
        ..theirs.clone()
    }
}

fn compare(program: &Path, args: &str, here: &Here) -> Unwound {
    here.perf_record("-e cpu-clock --call-graph dwarf", program, args);
    let theirs = perf_samples(&here.perf(PERF_SCRIPT).ok());
    let ours = perf_samples(&here.rprof("script --no-inline").ok());
    assert!(!theirs.is_empty(), "{}: no samples", program.display());
    assert_eq!(ours.len(), theirs.len(), "{}: samples", program.display());
    let unwound = Unwound::of(theirs, ours);
    unwound.tell(&program.file_name().unwrap_or_default().to_string_lossy());
    unwound
}

fn assert_same(program: &Path, args: &str) {
    let unwound = compare(program, args, &Here::new());
    let others = unwound.unexplained();
    // perf's unwinder is wrong for a few samples at the start or end of a program.
    assert!(
        others.len() <= unwound.frames / 200 + 10,
        "{} of {} frames in {}: {:#?}",
        others.len(),
        unwound.frames,
        program.display(),
        &others[..others.len().min(10)],
    );
}

const NO_FRAME_POINTERS: &str = "-fomit-frame-pointer";

#[test]
fn dumps_without_frame_pointers_unwind_as_in_perf() {
    needs!(PerfEvents, Perf);
    assert_same(&c_with("shares.c", &["-O2", NO_FRAME_POINTERS]), "0.5");
}

#[test]
fn dumps_of_a_static_program_unwind_as_in_perf() {
    needs!(PerfEvents, Perf);
    assert_same(&c_with("shares.c", &["-static", NO_FRAME_POINTERS]), "0.3");
}

#[test]
fn dumps_of_threads_unwind_as_in_perf() {
    needs!(PerfEvents, Perf);
    assert_same(&c_with("threads.c", &[NO_FRAME_POINTERS]), "0.3");
}

#[test]
fn dumps_of_system_calls_unwind_as_in_perf() {
    needs!(PerfEvents, Perf, Kernel);
    assert_same(&c_with("syscalls.c", &[NO_FRAME_POINTERS]), "0.5");
}

#[test]
fn stacks_deeper_than_the_dump_unwind_as_in_perf() {
    needs!(PerfEvents, Perf);
    assert_same(&c("recursion.c"), "1000 0.2");
}

#[test]
fn dumps_of_processes_unwind_as_in_perf() {
    needs!(PerfEvents, Perf);
    let args = format!("0.2 {} 0.2", c("shares.c").display());
    assert_same(&c_with("fork_exec.c", &[NO_FRAME_POINTERS]), &args);
}

#[test]
fn dumps_of_cxx_unwind_as_in_perf() {
    needs!(PerfEvents, Perf, Cxx);
    assert_same(&cxx("names.cpp"), "0.1");
}

#[test]
fn dumps_of_rust_unwind_as_in_perf() {
    needs!(PerfEvents, Perf);
    assert_same(&rust("names.rs", &["-Cforce-frame-pointers=no"]), "0.1");
}

#[test]
fn dumps_of_a_compiler_unwind_as_in_perf() {
    needs!(PerfEvents, Perf, Gcc);
    let here = Here::new();
    std::fs::write(here.path("large.c"), large_source(150)).expect("a file");
    let unwound = compare("gcc".as_ref(), "-O2 -c large.c -o large.o", &here);
    // In memmove and memset, perf misses the caller at the stack pointer and continues with a wrong
    // frame: a few per thousand.
    let others = unwound.unexplained().len();
    assert!(
        others * 100 < unwound.frames,
        "{others} of {} frames",
        unwound.frames
    );
}
