//! Resolves overlapping entries into disjoint spans.

use std::collections::BTreeMap;

use super::entry::Entry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    /// Inclusive, as an exclusive end could overflow.
    pub(super) last: u64,
    pub(super) entry: u32,
}

/// Cuts earlier entries where later ones overlap them. Returns disjoint spans, ascending.
///
/// Works on runs of overlapping entries: most entries overlap no other and need no tree.
pub(super) fn flatten(entries: &[Entry]) -> Vec<Span> {
    let span = |number: u32| {
        let entry = entries.get(number as usize)?;
        Some(Span {
            start: entry.start,
            last: entry.last(),
            entry: number,
        })
    };
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let mut by_start: Vec<u32> = (0..count).collect();
    by_start.sort_unstable_by_key(|number| (span(*number).map(|span| span.start), *number));
    let mut spans = Vec::with_capacity(entries.len());
    let mut run: Vec<Span> = Vec::new();
    let mut last = 0;
    for next in by_start.into_iter().filter_map(span) {
        if !run.is_empty() && next.start > last {
            flatten_run(&mut run, &mut spans);
        }
        last = match run.is_empty() {
            true => next.last,
            false => last.max(next.last),
        };
        run.push(next);
    }
    flatten_run(&mut run, &mut spans);
    spans
}

fn flatten_run(run: &mut Vec<Span>, spans: &mut Vec<Span>) {
    if run.len() < 2 {
        spans.append(run);
        return;
    }
    run.sort_unstable_by_key(|span| span.entry);
    let mut tree: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    let mut covered = Vec::new();
    for Span { start, last, entry } in run.drain(..) {
        let before = tree.range(..start).next_back();
        if let Some((&from, &(to, owner))) = before
            && to >= start
        {
            tree.insert(from, (start - 1, owner));
            if to > last {
                tree.insert(last + 1, (to, owner));
            }
        }
        covered.clear();
        covered.extend(tree.range(start..=last).map(|(from, span)| (*from, *span)));
        for &(from, (to, owner)) in &covered {
            tree.remove(&from);
            if to > last {
                tree.insert(last + 1, (to, owner));
            }
        }
        tree.insert(start, (last, entry));
    }
    let span = |(start, (last, entry))| Span { start, last, entry };
    spans.extend(tree.into_iter().map(span));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_testing::Random;

    fn entry(start: u64, size: u64) -> Entry {
        Entry {
            start,
            size,
            name: 0,
            name_len: 0,
        }
    }

    #[test]
    fn every_address_has_the_latest_entry_that_covers_it() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let count = 1 + random.below(30);
            let entries: Vec<Entry> = (0..count)
                .map(|_| entry(random.below(100), 1 + random.below(12)))
                .collect();
            let spans = flatten(&entries);
            assert!(spans.is_sorted_by(|a, b| a.last < b.start), "{spans:?}");
            for address in 0..130 {
                let covers = |e: &Entry| (e.start..=e.last()).contains(&address);
                let expected = entries.iter().rposition(covers);
                let found = (spans.iter()).find(|span| (span.start..=span.last).contains(&address));
                let found = found.map(|span| span.entry as usize);
                assert_eq!(found, expected, "{address} in {entries:?}");
            }
        }
    }

    #[test]
    fn the_end_of_memory_is_in_a_span() {
        let spans = flatten(&[entry(u64::MAX, 1), entry(0, u64::MAX), entry(5, 1)]);
        let span = |start, last, entry| Span { start, last, entry };
        let expected = [
            span(0, 4, 1),
            span(5, 5, 2),
            span(6, u64::MAX - 1, 1),
            span(u64::MAX, u64::MAX, 0),
        ];
        assert_eq!(spans, expected);
    }
}
