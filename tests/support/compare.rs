//! Two scripts of the same file, perf's and ours, frame by frame.
//!
//! A difference is explained only under the exact conditions of a [`Class`].

use std::collections::BTreeMap;

use super::folded::Folded;
use super::perf::{PerfFrame, PerfSample};

/// Why a frame may differ from perf's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// A call that does not return is the last instruction of its function, so the return
    /// address is the start of the next one, or of nothing. perf looks that address up; we
    /// look up the call.
    NextFunction,
    /// perf 6.1 gives an entry of the PLT the name of whatever stands before it, or of another
    /// entry; the first of them, by which functions are bound when they are first called, too.
    /// It is `.plt` here.
    Plt,
    /// Without a copy of the vdso in its own cache, perf has no names for it.
    Vdso,
    /// In the middle of an exec the user's registers are still those of the old program. perf
    /// still looks them up in its mappings; for us they went with it.
    Exec,
    /// perf leaves out all of a stack that has an address among the markers
    /// (`PERF_CONTEXT_MAX` and above) in it, as registers that were never meant to be frame
    /// pointers bring about; for us it is a frame without a name, and the rest stands.
    Garbage,
    /// perf shows the version of a symbol, `clock_gettime@@GLIBC_2.17`; we do not.
    Version,
    /// A function has two names, and perf took that of an old version, `cfree@GLIBC_2.2.5`, which
    /// nothing can be linked to any more; we take the other, `free`.
    OldVersion,
}

/// Explains a frame that perf prints in one way and rprof in another.
fn explain(by_perf: &PerfFrame, by_rprof: &PerfFrame, is_leaf: bool) -> Option<Class> {
    if (&by_perf.address, &by_perf.object) != (&by_rprof.address, &by_rprof.object) {
        return None;
    }
    if by_rprof.name.ends_with("@plt") || by_rprof.name == ".plt" {
        return Some(Class::Plt);
    }
    if by_perf.object == "[vdso]" && by_perf.name == "[unknown]" {
        return Some(Class::Vdso);
    }
    if by_perf.name.split('@').next() == Some(&by_rprof.name) && by_perf.offset == by_rprof.offset {
        return Some(Class::Version);
    }
    let is_old = by_perf.name.contains('@') && !by_perf.name.contains("@@");
    if is_old && by_perf.offset == by_rprof.offset && by_rprof.name != "[unknown]" {
        return Some(Class::OldVersion);
    }
    let is_next = by_perf.offset == "0" || by_perf.name == "[unknown]";
    let is_next = !is_leaf && is_next && by_perf.name != by_rprof.name;
    is_next.then_some(Class::NextFunction)
}

/// Returns true if a sample was taken in the middle of an exec.
pub(crate) fn is_exec(sample: &PerfSample) -> bool {
    (sample.frames.iter()).any(|f| matches!(&*f.name, "bprm_execve" | "begin_new_exec"))
}

/// Returns true if an address lies above the lowest of the markers, -4095.
fn is_garbage(frame: &PerfFrame) -> bool {
    u64::from_str_radix(&frame.address, 16).is_ok_and(|a| a >= -4095i64 as u64)
}

/// The comparison of two scripts.
#[derive(Default)]
pub(crate) struct Comparison {
    /// perf's samples with the explained frames as we have them.
    pub(crate) corrected: Vec<PerfSample>,
    /// Frames, or whole stacks, by class.
    pub(crate) classes: BTreeMap<Class, u64>,
    /// Leaf frames that were corrected: perf's name and ours.
    pub(crate) leaves: Vec<(String, String)>,
    pub(crate) unexplained: Vec<String>,
}

impl Comparison {
    pub(crate) fn of(by_perf: &[PerfSample], by_rprof: &[PerfSample]) -> Comparison {
        let mut comparison = Comparison::default();
        for (theirs, ours) in by_perf.iter().zip(by_rprof) {
            let corrected = comparison.sample(theirs, ours);
            comparison.corrected.push(corrected);
        }
        comparison
    }

    fn count(&mut self, class: Class) {
        *self.classes.entry(class).or_default() += 1;
    }

    fn sample(&mut self, theirs: &PerfSample, ours: &PerfSample) -> PerfSample {
        let mut sample = theirs.clone();
        let same_length = theirs.frames.len() == ours.frames.len();
        if theirs.head == ours.head
            && theirs.frames.is_empty()
            && ours.frames.iter().any(is_garbage)
        {
            self.count(Class::Garbage);
            sample.frames.clone_from(&ours.frames);
        } else if theirs.head != ours.head || !same_length {
            self.unexplained
                .push(format!("{theirs:?} is {ours:?} here"));
        } else {
            let is_exec = is_exec(ours);
            for (i, (theirs, ours)) in sample.frames.iter_mut().zip(&ours.frames).enumerate() {
                self.frame(theirs, ours, i == 0, is_exec);
            }
        }
        sample
    }

    /// Compares a frame, and makes it ours where the difference is explained.
    fn frame(&mut self, theirs: &mut PerfFrame, ours: &PerfFrame, is_leaf: bool, is_exec: bool) {
        if theirs == ours {
            return;
        }
        let lost = is_exec && !is_leaf && ours.object == "[unknown]";
        let class = match lost {
            true => Some(Class::Exec),
            false => explain(theirs, ours, is_leaf),
        };
        let Some(class) = class else {
            self.unexplained.push(format!("{theirs} is {ours} here"));
            return;
        };
        self.count(class);
        if is_leaf {
            self.leaves.push((theirs.name.clone(), ours.name.clone()));
        }
        theirs.clone_from(ours);
    }

    /// perf's samples by function, with the leaves that are explained under our names.
    pub(crate) fn correct(&self, mut by_perf: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        for (theirs, ours) in &self.leaves {
            match by_perf.get_mut(theirs) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(by_perf.remove(theirs)),
            }
            *by_perf.entry(ours.clone()).or_default() += 1;
        }
        by_perf
    }
}

/// Two kinds of names come out of inferno changed: `->` is taken for a call that a JVM inlined, and becomes two
/// frames; and names are cut at the first bracket, so that all lambdas of a function become that function. It is given
/// names without either.
fn legible(name: &str) -> String {
    name.replace("->", "=>").replace('(', "{").replace(')', "}")
}

/// The samples with such names changed.
pub(crate) fn legible_samples(mut samples: Vec<PerfSample>) -> Vec<PerfSample> {
    for frame in samples.iter_mut().flat_map(|s| &mut s.frames) {
        frame.name = legible(&frame.name);
    }
    samples
}

/// The stacks with such names changed in the same way.
pub(crate) fn legible_stacks(stacks: Folded) -> Folded {
    let mut sums = Folded::new();
    for (stack, weight) in stacks {
        // The thread comes first, and is left as it is.
        let stack = match stack.split_once(';') {
            Some((thread, frames)) => format!("{thread};{}", legible(frames)),
            None => stack,
        };
        *sums.entry(stack).or_default() += weight;
    }
    sums
}
