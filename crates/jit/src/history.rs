//! [`History`]: finds the latest code range that covers an address at a given time.

/// Interval index over code ranges. Later ranges override earlier ones.
///
/// A segment tree over the distinct range ends. Each range is stored, by its number, at the nodes
/// that make it up. Numbers ascend with time. A lookup walks from a leaf to the root and searches
/// each node: O(log² n). A range takes O(log n) memory.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Ends of ranges, ascending: leaf `i` covers `points[i]..points[i + 1]`.
    points: Vec<u64>,
    /// Node `i` has `numbers[firsts[i]..firsts[i + 1]]`.
    firsts: Vec<u32>,
    numbers: Vec<u32>,
}

impl History {
    pub(super) fn new(ranges: &[(u64, u64)]) -> Self {
        let ends = |&(start, end): &(u64, u64)| [start, end];
        let mut points: Vec<u64> = ranges.iter().flat_map(ends).collect();
        points.sort_unstable();
        points.dedup();
        let leaves = points.len();
        let mut firsts = vec![0u32; 2 * leaves + 2];
        for range in ranges {
            each_node(&points, range, |node| firsts[node + 2] += 1);
        }
        for i in 1..firsts.len() {
            firsts[i] += firsts[i - 1];
        }
        let mut numbers = vec![0; firsts[firsts.len() - 1] as usize];
        // Filling advances each `firsts` entry to the next node.
        for (number, range) in (0u32..).zip(ranges) {
            each_node(&points, range, |node| {
                numbers[firsts[node + 1] as usize] = number;
                firsts[node + 1] += 1;
            });
        }
        Self {
            points,
            firsts,
            numbers,
        }
    }

    /// Returns the highest number below `limit` with a range at an address.
    pub(super) fn latest(&self, address: u64, limit: u32) -> Option<u32> {
        let after = self.points.partition_point(|point| *point <= address);
        let mut node = after.checked_sub(1)? + self.points.len();
        let mut latest = None;
        while node > 0 {
            let (from, to) = (self.firsts[node] as usize, self.firsts[node + 1] as usize);
            let here = self.numbers.get(from..to)?;
            let early = here.partition_point(|number| *number < limit);
            latest = latest.max(early.checked_sub(1).map(|last| here[last]));
            node /= 2;
        }
        latest
    }
}

fn each_node(points: &[u64], range: &(u64, u64), mut take: impl FnMut(usize)) {
    let place = |end| points.partition_point(|point| *point < end) + points.len();
    let (mut from, mut to) = (place(range.0), place(range.1));
    while from < to {
        if from % 2 == 1 {
            take(from);
            from += 1;
        }
        if to % 2 == 1 {
            to -= 1;
            take(to);
        }
        from /= 2;
        to /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_list() {
        let mut random = rprof_testing::Random::new(1);
        let mut next = |below| random.below(below);
        for count in 0..60 {
            let ranges: Vec<(u64, u64)> = (0..count)
                .map(|_| {
                    let start = next(50);
                    (start, start + next(20))
                })
                .collect();
            let history = History::new(&ranges);
            for address in 0..75 {
                for limit in 0..=count as u32 {
                    let covers = |i: &u32| {
                        let (start, end) = ranges[*i as usize];
                        start <= address && address < end
                    };
                    let expected = (0..limit).rev().find(covers);
                    let found = history.latest(address, limit);
                    assert_eq!(found, expected, "{address} below {limit} of {ranges:?}");
                }
            }
        }
    }
}
