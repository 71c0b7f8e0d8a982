//! Compares scripts of one file, by perf and rprof, frame by frame.
//!
//! A difference counts as explained only under the exact conditions of a [`Class`].

use std::collections::BTreeMap;

use super::folded::Folded;
use super::perf::{PerfFrame, PerfSample};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// A call that does not return is the last instruction of its function. perf looks up the
    /// return address, in the next function or in none. rprof looks up the call.
    NextFunction,
    /// perf 6.1 names a PLT entry after the symbol before it, or after another entry, even the
    /// first one, `.plt`.
    Plt,
    /// perf has no vdso names without a copy in its own cache.
    Vdso,
    /// During an exec, user registers still belong to the old program, whose mappings rprof has
    /// already removed.
    Exec,
    /// perf drops a whole stack if an address is in the marker range (`PERF_CONTEXT_MAX` and
    /// above), for example from a register that is no frame pointer. rprof keeps the rest.
    Garbage,
    /// perf shows a symbol's version, `clock_gettime@@GLIBC_2.17`.
    Version,
    /// perf uses the name of an old version, `cfree@GLIBC_2.2.5`, which is no longer linkable.
    /// rprof uses the other, `free`.
    OldVersion,
}

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

pub(crate) fn is_exec(sample: &PerfSample) -> bool {
    (sample.frames.iter()).any(|f| matches!(&*f.name, "bprm_execve" | "begin_new_exec"))
}

/// Returns true for addresses from -4095.
fn is_garbage(frame: &PerfFrame) -> bool {
    u64::from_str_radix(&frame.address, 16).is_ok_and(|a| a >= -4095i64 as u64)
}

#[derive(Default)]
pub(crate) struct Comparison {
    /// Explained frames replaced by rprof's.
    pub(crate) corrected: Vec<PerfSample>,
    /// Frames, or whole stacks.
    pub(crate) classes: BTreeMap<Class, u64>,
    /// Corrected leaf frames: perf's name and rprof's.
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

    /// Replaces perf's frame with ours if the difference is explained.
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

    /// Puts explained leaves under our names.
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

/// Replaces characters that inferno would change. It treats `->` as a call inlined by a JVM, and
/// cuts names at the first bracket, so that all lambdas of a function become that function.
fn legible(name: &str) -> String {
    name.replace("->", "=>").replace('(', "{").replace(')', "}")
}

/// Removes distinctions that perf lacks: `f (int) const`, `f [_Z1fi]` and `f (a.c:3)` become `f`.
pub(crate) fn bare(name: &str) -> &str {
    let ends = [" (", " [_Z"].map(|start| name.find(start));
    let end = ends.into_iter().flatten().min();
    end.map_or(name, |end| &name[..end])
}

pub(crate) fn legible_samples(mut samples: Vec<PerfSample>) -> Vec<PerfSample> {
    for frame in samples.iter_mut().flat_map(|s| &mut s.frames) {
        frame.name = legible(&frame.name);
    }
    samples
}

pub(crate) fn legible_stacks(stacks: Folded) -> Folded {
    let mut sums = Folded::new();
    for (stack, weight) in stacks {
        // The thread name comes first.
        let stack = match stack.split_once(';') {
            Some((thread, frames)) => format!("{thread};{}", legible(frames)),
            None => stack,
        };
        *sums.entry(stack).or_default() += weight;
    }
    sums
}
