//! Parses text as a perf map, and looks up addresses. Compares with a linear search from the last
//! entry to the first.
//!
//! Input: the text.

use rprof_jit::PerfMap;

pub(crate) fn run(data: &[u8]) {
    let map = PerfMap::parse(data.to_vec());
    let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
    assert!(map.len() as u64 + map.bad_lines() + map.left_out() <= lines as u64);
    let count = map.len() as u32;
    assert!(map.function(count).is_none());
    let entries: Vec<_> = (0..count)
        .map(|number| map.function(number).expect("it is below the count"))
        .map(|function| {
            assert!(function.size > 0);
            assert!(function.name.len() < 16_384);
            (
                function.start,
                function.start.saturating_add(function.size - 1),
            )
        })
        .collect();
    // A limit, to avoid quadratic time.
    for (start, last) in entries.iter().take(64) {
        for avma in [
            start.wrapping_sub(1),
            *start,
            start / 2 + last / 2,
            *last,
            last.wrapping_add(1),
        ] {
            let covers = |(start, last): &(u64, u64)| (*start..=*last).contains(&avma);
            let expected = entries.iter().rposition(covers).map(|n| n as u32);
            assert_eq!(map.find(avma), expected, "{avma:#x}");
        }
    }
}
