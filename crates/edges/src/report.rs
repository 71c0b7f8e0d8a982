//! [`check`]: checks all stacks of a text, and counts.

use std::collections::BTreeMap;
use std::fmt;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::checker::{Checker, Frame};
use crate::script::{Line, stacks};
use crate::verdict::EdgeVerdict;

/// Kind of address that callers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// The return address, as in callchains of rprof and of the kernel.
    Return,
    /// The byte before, as perf prints the stacks that it unwinds itself.
    Before,
}

/// Caller or callee of a pair, described for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeSide {
    /// Path of the image, or its name.
    pub object: String,
    /// Address in the image: a return address, except for innermost and interrupted frames.
    pub address: u64,
    /// Function and distance from its start, if a symbol names it.
    pub function: String,
    /// The instruction at the address, or the one before a return address.
    pub instruction: String,
}

/// A pair that is impossible or unclear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeFinding {
    /// The cause.
    pub verdict: EdgeVerdict,
    /// Number of samples that contain the pair.
    pub samples: u64,
    /// Name of the thread of the first one.
    pub thread: String,
    /// The inner frame.
    pub callee: EdgeSide,
    /// The outer frame.
    pub caller: EdgeSide,
}

/// Number of pairs, repeated and different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCount {
    /// Occurrences in all samples.
    pub samples: u64,
    /// Different pairs of addresses.
    pub distinct: u64,
}

/// Result for a recording.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Stacks with at least one frame outside of the kernel.
    pub stacks: u64,
    /// Pairs by verdict.
    pub pairs: BTreeMap<EdgeVerdict, EdgeCount>,
    /// Pairs that are impossible or unclear, the most frequent first.
    pub findings: Vec<EdgeFinding>,
}

impl Report {
    /// Returns the number of checked pairs in all samples.
    pub fn checked(&self) -> u64 {
        self.sum(EdgeVerdict::is_checked)
    }

    /// Returns the number of impossible pairs in all samples.
    pub fn impossible(&self) -> u64 {
        self.sum(EdgeVerdict::is_impossible)
    }

    fn sum(&self, wanted: impl Fn(EdgeVerdict) -> bool) -> u64 {
        let counts = self.pairs.iter().filter(|(verdict, _)| wanted(**verdict));
        counts.map(|(_, count)| count.samples).sum()
    }

    /// Returns the result as JSON.
    pub fn json(&self) -> Value {
        let pairs = self.pairs.iter().map(|(verdict, count)| {
            let counts = json!({"samples": count.samples, "distinct": count.distinct});
            (verdict.text().to_owned(), counts)
        });
        let side = |side: &EdgeSide| {
            json!({
                "object": side.object, "address": format!("{:#x}", side.address),
                "function": side.function, "instruction": side.instruction,
            })
        };
        let findings = self.findings.iter().map(|finding| {
            json!({
                "verdict": finding.verdict.text(), "impossible": finding.verdict.is_impossible(),
                "samples": finding.samples, "thread": finding.thread,
                "callee": side(&finding.callee), "caller": side(&finding.caller),
            })
        });
        json!({
            "stacks": self.stacks, "checked": self.checked(), "impossible": self.impossible(),
            "pairs": pairs.collect::<serde_json::Map<_, _>>(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for EdgeSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.object.rsplit('/').next().unwrap_or(&self.object);
        write!(f, "{file} {:#x}", self.address)?;
        if !self.function.is_empty() {
            write!(f, " {}", self.function)?;
        }
        write!(f, ": {}", self.instruction)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (checked, impossible) = (self.checked(), self.impossible());
        writeln!(
            f,
            "{} stacks, {checked} pairs checked, {impossible} impossible",
            self.stacks
        )?;
        for (verdict, count) in &self.pairs {
            let (text, EdgeCount { samples, distinct }) = (verdict.text(), count);
            writeln!(f, "  {samples:>9} {text} ({distinct} different)")?;
        }
        for finding in &self.findings {
            let (text, thread) = (finding.verdict.text(), &finding.thread);
            writeln!(f, "{} x {text}, in {thread}:", finding.samples)?;
            writeln!(f, "    caller {}", finding.caller)?;
            writeln!(f, "    callee {}", finding.callee)?;
        }
        Ok(())
    }
}

/// Checks all stacks in the output of `rprof script` or `perf script` with
/// [`FIELDS`](crate::FIELDS). Reads the images from their paths.
pub fn check(text: &str, callers: Callers) -> Report {
    let mut checker = Checker::default();
    // Names lead to images that appear later too.
    for (_, lines) in stacks(text) {
        for line in lines.into_iter().filter(|line| !line.is_kernel()) {
            checker.image_of(line.object);
        }
    }
    checker.forget_foreign_vdso();
    let mut report = Report::default();
    let mut seen: FxHashMap<(Frame, Frame), Seen<'_>> = FxHashMap::default();
    for (thread, lines) in stacks(text) {
        let user: Vec<Line<'_>> = lines.into_iter().filter(|line| !line.is_kernel()).collect();
        report.stacks += u64::from(!user.is_empty());
        let frames = frames(&mut checker, &user, callers);
        for (pair, lines) in frames.windows(2).zip(user.windows(2)) {
            let entry = seen.entry((pair[0], pair[1])).or_insert(Seen {
                samples: 0,
                thread,
                objects: [lines[0].object, lines[1].object],
            });
            entry.samples += 1;
        }
    }
    for ((callee, caller), seen) in seen {
        let verdict = checker.check(callee, caller);
        let count = report.pairs.entry(verdict).or_default();
        count.samples += seen.samples;
        count.distinct += 1;
        if verdict.is_impossible() || verdict == EdgeVerdict::Unclear {
            report.findings.push(EdgeFinding {
                verdict,
                samples: seen.samples,
                thread: seen.thread.to_owned(),
                callee: side(&checker, callee, seen.objects[0]),
                caller: side(&checker, caller, seen.objects[1]),
            });
        }
    }
    let order = |finding: &EdgeFinding| {
        let (callee, caller) = (finding.callee.address, finding.caller.address);
        (std::cmp::Reverse(finding.samples), caller, callee)
    };
    report.findings.sort_by_key(order);
    report
}

/// A pair in the samples.
struct Seen<'a> {
    samples: u64,
    thread: &'a str,
    objects: [&'a str; 2],
}

fn frames(checker: &mut Checker, user: &[Line<'_>], callers: Callers) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::with_capacity(user.len());
    for line in user {
        let is_interrupted = frames.last().is_none_or(|inner| inner.is_trampoline);
        let found = checker.image_of(line.object);
        let stated = found.and_then(|at| checker.image(at).address_of(line.address));
        // An address outside of its image is as good as none.
        let image = found.filter(|_| stated.is_some());
        let mut address = stated.unwrap_or(line.address);
        if callers == Callers::Before && !is_interrupted {
            address = address.wrapping_add(1);
        }
        // rprof states the first instruction of a function that a signal interrupted one byte higher,
        // as readers look up the byte before.
        let is_behind_handler = is_interrupted && !frames.is_empty();
        let before = address.wrapping_sub(1);
        let is_start = |at| (checker.image(at).piece(before)).is_some_and(|it| it.start == before);
        if is_behind_handler && image.is_some_and(is_start) {
            address = before;
        }
        let is_trampoline = image.is_some_and(|at| checker.image(at).is_trampoline(address));
        frames.push(Frame {
            image,
            address,
            is_exact: is_interrupted || is_trampoline,
            is_trampoline,
        });
    }
    frames
}

fn side(checker: &Checker, frame: Frame, object: &str) -> EdgeSide {
    let lookup = frame.lookup();
    let image = frame.image.map(|at| checker.image(at));
    let symbol = image.and_then(|image| image.symbol(lookup));
    let function = symbol.map_or_else(String::new, |(name, distance)| {
        format!("{name}+{distance:#x}")
    });
    EdgeSide {
        object: object.to_owned(),
        address: frame.address,
        function,
        instruction: checker.instruction(frame),
    }
}
