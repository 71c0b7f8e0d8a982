//! Folded stacks: what inferno and FlameGraph read.
//!
//! One line for each distinct stack: thread name, frames from root to leaf with
//! `;` between them, a space, the weight. FrameNames are shortened as
//! `stackcollapse-perf.pl` and `inferno-collapse-perf` do it, so that the result
//! of a recording is the same by either way.

use std::cmp::Ordering;
use std::fmt;
use std::io::{self, Write};

use rprof_parallel::map_ranges;
use rprof_profile::{AggregatedStack, FunctionId, Profile, WeighBy};
use rustc_hash::FxHashMap;

pub use crate::frame_text::frame_name;
use crate::frame_text::{is_java, java_name, thread_name};
use crate::names::CleanNames;

/// The folded stacks of one event, each once, in the order of their text.
///
/// They are never text before they are written: a stack is a list of ranks of names, ordered so
/// that the lists compare as the lines would.
#[derive(Debug, Default)]
pub struct Folded {
    /// FrameNames of frames, by number.
    names: Vec<String>,
    /// Numbers of names, by rank.
    ranked: Vec<u32>,
    /// Ranks, of one stack behind the other.
    ranks: Vec<u32>,
    stacks: Vec<Stack>,
}

/// A stack and its weight.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// First ranks of the stack, as many as fit: most comparisons end here.
    head: u64,
    start: usize,
    len: u32,
    weight: u64,
}

/// One line, without its end.
struct Line<'a>(&'a Folded, &'a Stack);

impl Folded {
    /// Returns true if there is no stack.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Returns the lines, sorted by stack: the stack, a space, its weight.
    pub fn lines(&self) -> impl Iterator<Item = impl fmt::Display> {
        self.stacks.iter().map(|stack| Line(self, stack))
    }

    /// Returns the weights, in the order of the lines.
    pub fn weights(&self) -> impl Iterator<Item = u64> {
        self.stacks.iter().map(|stack| stack.weight)
    }

    fn list(&self, stack: &Stack) -> &[u32] {
        &self.ranks[stack.start..][..stack.len as usize]
    }

    fn push(&self, stack: &Stack, line: &mut String) {
        for (at, rank) in self.list(stack).iter().enumerate() {
            if at > 0 {
                line.push(';');
            }
            line.push_str(&self.names[self.ranked[*rank as usize] as usize]);
        }
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        self.0.push(self.1, &mut line);
        write!(f, "{line} {}", self.1.weight)
    }
}

/// Returns the folded stacks of one event.
pub fn fold(profile: &Profile, event: usize, weight: WeighBy) -> Folded {
    let names = FrameNames::of(profile);
    let (ranks, ranked) = names.rank();
    let bits = (ranked.len() + 1).ilog2() + 1;
    let parts = map_ranges(profile.aggregated.len(), FEW, |part| {
        let mut folded = Folded::default();
        for entry in profile.aggregated[part].iter().filter(|e| e.event == event) {
            folded.add(profile, entry, weight, &names, &ranks);
        }
        folded.sort(bits);
        folded
    });
    let mut parts = parts.into_iter();
    let mut folded = parts.next().unwrap_or_default();
    (folded.names, folded.ranked) = (names.distinct, ranked);
    for part in parts {
        let before = folded.ranks.len();
        folded.ranks.extend(part.ranks);
        folded
            .stacks
            .extend(part.stacks.into_iter().map(|stack| Stack {
                start: before + stack.start,
                ..stack
            }));
    }
    folded.merge();
    folded
}

/// Fewer than this are not worth a thread.
const FEW: usize = 4096;

/// Distinct names of frames, each with a number.
struct FrameNames {
    distinct: Vec<String>,
    /// By function, the number of its name, and of that in threads of Java, if there are any.
    functions: [Vec<u32>; 2],
    /// By name of thread.
    threads: Vec<u32>,
}

/// Ranks of names in the order of lines. A name has two: one where a `;` follows, which counts
/// in that order, and one at the end of a stack, where nothing does.
struct Ranks {
    inner: Vec<u32>,
    last: Vec<u32>,
}

impl FrameNames {
    fn of(profile: &Profile) -> FrameNames {
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        numbers.reserve(profile.functions.len());
        let mut number = |name: String| {
            let next = numbers.len() as u32;
            *numbers.entry(name).or_insert(next)
        };
        let names = map_ranges(profile.functions.len(), FEW, |part| {
            let ids = part.map(|n| FunctionId(n as u32));
            ids.map(|id| frame_name(profile, id)).collect::<Vec<_>>()
        });
        let has_java = profile.comms.iter().any(|comm| is_java(comm));
        let mut functions = [Vec::new(), Vec::new()];
        for name in names.into_iter().flatten() {
            if has_java {
                functions[1].push(number(java_name(&name).to_owned()));
            }
            functions[0].push(number(name));
        }
        let clean = CleanNames::new(profile);
        let comms = 0..profile.comms.len() as u32;
        let threads = comms.map(|comm| number(thread_name(&clean.comm(comm))));
        let threads = threads.collect();
        let mut distinct = vec![String::new(); numbers.len()];
        for (name, number) in numbers {
            distinct[number as usize] = name;
        }
        FrameNames {
            distinct,
            functions,
            threads,
        }
    }

    /// Returns the ranks by number, and numbers by rank.
    fn rank(&self) -> (Ranks, Vec<u32>) {
        let name = |number: u32| self.distinct[number as usize].as_bytes();
        let mut all: Vec<(u64, u32, bool)> = Vec::with_capacity(2 * self.distinct.len());
        for (number, name) in (0..).zip(&self.distinct) {
            for is_inner in [false, true] {
                let mut bytes = name.bytes().chain(is_inner.then_some(b';'));
                let head = [(); 8].map(|()| bytes.next().unwrap_or(0));
                all.push((u64::from_be_bytes(head), number, is_inner));
            }
        }
        // The first bytes decide for most.
        all.sort_unstable_by(|a, b| {
            let rest = || in_line_order((name(a.1), a.2), (name(b.1), b.2));
            a.0.cmp(&b.0).then_with(rest)
        });
        let mut ranks = Ranks {
            inner: vec![0; self.distinct.len()],
            last: vec![0; self.distinct.len()],
        };
        for (rank, (_, number, is_inner)) in (0u32..).zip(&all) {
            let ranks = match is_inner {
                true => &mut ranks.inner,
                false => &mut ranks.last,
            };
            ranks[*number as usize] = rank;
        }
        let numbers = all.into_iter().map(|(_, number, _)| number);
        (ranks, numbers.collect())
    }
}

/// Compares two names, each with a `;` behind it if it is an inner one.
fn in_line_order(a: (&[u8], bool), b: (&[u8], bool)) -> Ordering {
    let common = a.0.len().min(b.0.len());
    let next = |(name, is_inner): (&[u8], bool)| match name.get(common) {
        Some(byte) => Some(*byte),
        None => is_inner.then_some(b';'),
    };
    let begin = a.0[..common].cmp(&b.0[..common]);
    // No name has a `;` in it, so that two with the same next are one.
    begin.then_with(|| next(a).cmp(&next(b)))
}

impl Folded {
    fn add(
        &mut self,
        profile: &Profile,
        entry: &AggregatedStack,
        weight: WeighBy,
        names: &FrameNames,
        ranks: &Ranks,
    ) {
        let start = self.ranks.len();
        let comm = profile.thread(entry.thread).comm as usize;
        let functions = &names.functions[usize::from(is_java(&profile.comms[comm]))];
        let stack = profile.stack(entry.stack).map(|f| functions[f.0 as usize]);
        if !profile.is_folded {
            self.ranks.push(ranks.inner[names.threads[comm] as usize]);
        }
        (self.ranks).extend(stack.map(|name| ranks.inner[name as usize]));
        let Some(innermost) = profile.stack(entry.stack).next_back() else {
            self.ranks.truncate(start);
            return;
        };
        if let Some(last) = self.ranks.last_mut() {
            *last = ranks.last[functions[innermost.0 as usize] as usize];
        }
        self.stacks.push(Stack {
            head: 0,
            start,
            len: (self.ranks.len() - start) as u32,
            weight: match weight {
                WeighBy::Period => entry.weight,
                WeighBy::Samples => entry.samples,
            },
        });
    }

    /// Puts the stacks in order, ranks being of so many bits, and makes one of those that are
    /// equal.
    fn sort(&mut self, bits: u32) {
        let fit = 64 / bits;
        for stack in &mut self.stacks {
            let list = &self.ranks[stack.start..][..stack.len as usize];
            // Nothing is less than anything: a stack comes before those that go on.
            let ranks = list.iter().map(|rank| u64::from(*rank) + 1);
            let ranks = ranks.chain(std::iter::repeat(0)).take(fit as usize);
            stack.head = ranks.fold(0, |head, rank| head << bits | rank);
        }
        self.merge();
    }

    /// Sorts stacks by their heads, then by their ranks, and adds up equal ones. Fast for parts that
    /// are sorted already.
    fn merge(&mut self) {
        let mut stacks = std::mem::take(&mut self.stacks);
        stacks.sort_by(|a, b| {
            let rest = || self.list(a).cmp(self.list(b));
            a.head.cmp(&b.head).then_with(rest)
        });
        stacks.dedup_by(|next, kept| {
            let same = next.head == kept.head && self.list(next) == self.list(kept);
            if same {
                kept.weight = kept.weight.saturating_add(next.weight);
            }
            same
        });
        self.stacks = stacks;
    }
}

/// Lines that are written at a time.
const AT_ONCE: usize = 16 << 10;

/// Writes the folded stacks of one event.
///
/// # Errors
/// Fails if the writer does.
pub fn write(
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    out: &mut dyn Write,
) -> io::Result<()> {
    let folded = fold(profile, event, weight);
    for stacks in folded.stacks.chunks(AT_ONCE) {
        let texts = map_ranges(stacks.len(), FEW, |part| {
            let mut text = String::new();
            for stack in &stacks[part] {
                folded.push(stack, &mut text);
                text.push(' ');
                text.push_str(&stack.weight.to_string());
                text.push('\n');
            }
            text
        });
        for text in texts {
            out.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the text itself, with names that begin with each other and go on with what sorts
    /// before and behind `;`.
    #[test]
    fn stacks_are_in_the_order_of_their_text() {
        let parts = ["a", "a!", "a b", "a~", "aa", "b", "", "<a>", "a:"];
        let names = FrameNames {
            distinct: parts.map(String::from).into(),
            functions: Default::default(),
            threads: Vec::new(),
        };
        let (ranks, ranked) = names.rank();
        let mut folded = Folded {
            names: names.distinct,
            ranked,
            ..Folded::default()
        };
        let mut expected = std::collections::BTreeMap::new();
        let mut numbers = rprof_testing::Random::new(1);
        let mut random = |below| numbers.index(below);
        for _ in 0..2000 {
            let stack: Vec<usize> = (0..2 + random(6)).map(|_| random(9)).collect();
            let text: Vec<&str> = stack.iter().map(|n| parts[*n]).collect();
            *expected.entry(text.join(";")).or_insert(0) += 1;
            let start = folded.ranks.len();
            let (last, others) = stack.split_last().unwrap();
            folded.ranks.extend(others.iter().map(|n| ranks.inner[*n]));
            folded.ranks.push(ranks.last[*last]);
            folded.stacks.push(Stack {
                head: 0,
                start,
                len: stack.len() as u32,
                weight: 1,
            });
        }
        folded.sort(if random(2) == 0 { 5 } else { 13 });
        let lines: Vec<String> = folded.lines().map(|line| line.to_string()).collect();
        let expected: Vec<String> = (expected.into_iter())
            .map(|(stack, weight)| format!("{stack} {weight}"))
            .collect();
        assert_eq!(lines, expected);
    }
}
