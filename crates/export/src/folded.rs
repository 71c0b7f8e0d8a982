//! Folded stacks, the input format of inferno and FlameGraph.
//!
//! Each distinct stack is one line: thread name, frames from root to leaf separated by `;`, a
//! space, the weight. Names match the other output formats. `stackcollapse-perf.pl` and
//! `inferno-collapse-perf` produce the same lines, except that they cut names at the first bracket.

use std::fmt;
use std::io::{self, Write};

use rprof_parallel::map_ranges;
use rprof_profile::{AggregatedStack, Profile, WeighBy};

use crate::frame_kind::{FrameKind, FrameKinds};
pub use crate::frame_text::frame_name;
use crate::frame_text::has_thread_frame;
use crate::name_ranks::{FEW, FrameNames, Ranks};
use crate::threads::ThreadMerging;

/// Folded stacks of one event, distinct and sorted by text.
///
/// A stack is a list of name ranks. Comparing two lists gives the same result as comparing the
/// lines. Text exists only while writing.
#[derive(Debug, Default)]
pub struct Folded {
    names: Vec<String>,
    /// Name numbers, by rank.
    ranked: Vec<u32>,
    /// Ranks of all stacks, concatenated.
    ranks: Vec<u32>,
    /// Frame kinds, parallel to `ranks`; empty for text output.
    kinds: Vec<FrameKind>,
    stacks: Vec<Stack>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct GraphForm {
    /// Leaf first, thread last.
    pub(crate) reverse: bool,
    pub(crate) threads: ThreadMerging,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphStack<'f> {
    /// Name ranks, root first. See [`Folded::name_of`].
    pub(crate) ranks: &'f [u32],
    pub(crate) kinds: &'f [FrameKind],
    pub(crate) weight: u64,
    pub(crate) samples: u64,
}

#[derive(Clone, Copy, Debug)]
struct Stack {
    /// As many leading ranks as fit. They decide most comparisons.
    head: u64,
    start: usize,
    len: u32,
    weight: u64,
    samples: u64,
}

struct Line<'a>(&'a Folded, &'a Stack);

impl Folded {
    /// Returns true if there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Iterates over the lines in stack order.
    pub fn lines(&self) -> impl Iterator<Item = impl fmt::Display> {
        self.stacks.iter().map(|stack| Line(self, stack))
    }

    /// Iterates over the weights, in the order of the lines.
    pub fn weights(&self) -> impl Iterator<Item = u64> {
        self.stacks.iter().map(|stack| stack.weight)
    }

    /// Iterates over the stacks for a graph. Stacks with a common prefix are adjacent.
    pub(crate) fn graph(&self) -> impl Iterator<Item = GraphStack<'_>> {
        self.stacks.iter().map(|stack| GraphStack {
            ranks: self.list(stack),
            kinds: self.kinds_of(stack),
            weight: stack.weight,
            samples: stack.samples,
        })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the index in [`names`](Self::names) of a rank.
    pub(crate) fn name_of(&self, rank: u32) -> usize {
        self.ranked[rank as usize] as usize
    }

    fn list(&self, stack: &Stack) -> &[u32] {
        &self.ranks[stack.start..][..stack.len as usize]
    }

    fn kinds_of(&self, stack: &Stack) -> &[FrameKind] {
        match self.kinds.is_empty() {
            true => &[],
            false => &self.kinds[stack.start..][..stack.len as usize],
        }
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

/// Folds the stacks of one event.
pub fn fold(profile: &Profile, event: usize, weight: WeighBy) -> Folded {
    fold_as(profile, event, weight, None)
}

/// Folds the stacks of one event for a flame graph: frames have kinds, and equal names with equal
/// callers merge.
pub(crate) fn fold_graph(
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    form: &GraphForm,
) -> Folded {
    fold_as(profile, event, weight, Some(form))
}

fn fold_as(profile: &Profile, event: usize, weight: WeighBy, form: Option<&GraphForm>) -> Folded {
    let names = FrameNames::of(profile, form.map(|form| &form.threads));
    let kinds = form.map(|_| FrameKinds::of(profile));
    let reverse = form.is_some_and(|form| form.reverse);
    let (ranks, ranked) = names.rank();
    let bits = (ranked.len() + 1).ilog2() + 1;
    let parts = map_ranges(profile.aggregated.len(), FEW, |part| {
        let mut folded = Folded::default();
        for entry in profile.aggregated[part].iter().filter(|e| e.event == event) {
            match &kinds {
                None => folded.add(profile, entry, weight, &names, &ranks),
                Some(kinds) => folded.add_to_graph(profile, entry, weight, (&names, &ranks, kinds)),
            }
        }
        if reverse {
            folded.reverse();
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
        folded.kinds.extend(part.kinds);
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
        let functions = &names.functions;
        let stack = profile.stack(entry.stack).map(|f| functions[f.0 as usize]);
        if has_thread_frame(profile, entry) {
            self.ranks.push(ranks.inner[names.threads[comm] as usize]);
        }
        (self.ranks).extend(stack.map(|name| ranks.inner[name as usize]));
        // Without frames: the thread only.
        let innermost = profile.stack(entry.stack).next_back();
        let innermost = innermost.map(|function| functions[function.0 as usize]);
        let Some(last) = self.ranks[start..].last_mut() else {
            return;
        };
        *last = ranks.last[innermost.unwrap_or(names.threads[comm]) as usize];
        self.stacks.push(Stack {
            head: 0,
            start,
            len: (self.ranks.len() - start) as u32,
            weight: weight_of(entry, weight),
            samples: entry.samples,
        });
    }

    /// Adds a stack for a graph. All names get inner ranks, and frames get kinds.
    fn add_to_graph(
        &mut self,
        profile: &Profile,
        entry: &AggregatedStack,
        weight: WeighBy,
        (names, ranks, kinds): (&FrameNames, &Ranks, &FrameKinds),
    ) {
        let start = self.ranks.len();
        let comm = profile.thread(entry.thread).comm as usize;
        let functions = &names.functions;
        if has_thread_frame(profile, entry) {
            self.ranks.push(ranks.inner[names.threads[comm] as usize]);
            self.kinds.push(FrameKind::Thread);
        }
        let before = self.ranks.len();
        for id in profile.frames(entry.stack) {
            let frame = profile.frame(id);
            let function = frame.function.0 as usize;
            self.ranks.push(ranks.inner[functions[function] as usize]);
            self.kinds.push(kinds.of_frame(&frame));
        }
        if self.kinds.get(before) == Some(&FrameKind::Idle) && before > start {
            // Idle threads form one block, whatever their names.
            self.ranks.swap(start, before);
            self.kinds.swap(start, before);
        }
        // Without frames: the thread only.
        if self.ranks.len() == start {
            return;
        }
        self.stacks.push(Stack {
            head: 0,
            start,
            len: (self.ranks.len() - start) as u32,
            weight: weight_of(entry, weight),
            samples: entry.samples,
        });
    }

    fn reverse(&mut self) {
        for stack in &self.stacks {
            let all = stack.start..stack.start + stack.len as usize;
            self.ranks[all.clone()].reverse();
            self.kinds[all].reverse();
        }
    }

    /// Sorts the stacks and merges equal ones. Each rank has `bits` bits.
    fn sort(&mut self, bits: u32) {
        let fit = 64 / bits;
        for stack in &mut self.stacks {
            let list = &self.ranks[stack.start..][..stack.len as usize];
            // Padding 0: a stack precedes its extensions.
            let ranks = list.iter().map(|rank| u64::from(*rank) + 1);
            let ranks = ranks.chain(std::iter::repeat(0)).take(fit as usize);
            stack.head = ranks.fold(0, |head, rank| head << bits | rank);
        }
        self.merge();
    }

    /// Sorts the stacks, and sums up equal ones. Fast if parts are already sorted.
    fn merge(&mut self) {
        let mut stacks = std::mem::take(&mut self.stacks);
        stacks.sort_by(|a, b| {
            let rest = || self.list(a).cmp(self.list(b));
            let kinds = || self.kinds_of(a).cmp(self.kinds_of(b));
            a.head.cmp(&b.head).then_with(rest).then_with(kinds)
        });
        stacks.dedup_by(|next, kept| {
            let same = next.head == kept.head
                && self.list(next) == self.list(kept)
                && self.kinds_of(next) == self.kinds_of(kept);
            if same {
                kept.weight = kept.weight.saturating_add(next.weight);
                kept.samples = kept.samples.saturating_add(next.samples);
            }
            same
        });
        self.stacks = stacks;
    }
}

fn weight_of(entry: &AggregatedStack, weight: WeighBy) -> u64 {
    match weight {
        WeighBy::Period => entry.weight,
        WeighBy::Samples => entry.samples,
    }
}

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
    write_stacks(&fold(profile, event, weight), out)
}

/// Writes the folded stacks of one event with weights divided by `unit`. The written integers sum
/// to the total in this unit, rounded down. Omits stacks whose weight becomes 0.
///
/// # Errors
/// Fails if the writer does.
pub fn write_in_units(
    profile: &Profile,
    event: usize,
    weight: WeighBy,
    unit: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut folded = fold(profile, event, weight);
    let (mut sum, mut before) = (0u128, 0u128);
    for stack in &mut folded.stacks {
        sum += u128::from(stack.weight);
        let whole = sum / u128::from(unit.max(1));
        stack.weight = u64::try_from(whole - before).unwrap_or(u64::MAX);
        before = whole;
    }
    folded.stacks.retain(|stack| stack.weight > 0);
    write_stacks(&folded, out)
}

fn write_stacks(folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
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

    /// Uses names that are prefixes of each other and continue with characters around `;`.
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
                samples: 1,
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
