//! Generic cache events: `L1-dcache-load-misses` and its many other spellings.
//!
//! A name consists of a cache, then an operation and a result in either order. The defaults are
//! read and access. The spellings are perf's (`tools/perf/util/evsel.c`).

use perf_event_open_sys::bindings as abi;

/// Spellings, the usual one first; number; support of read, write and prefetch.
type Cache = (&'static [&'static str], u32, [bool; 3]);

const CACHES: &[Cache] = &[
    (
        &["L1-dcache", "l1-d", "l1d", "L1-data"],
        abi::PERF_COUNT_HW_CACHE_L1D,
        [true, true, true],
    ),
    (
        &["L1-icache", "l1-i", "l1i", "L1-instruction"],
        abi::PERF_COUNT_HW_CACHE_L1I,
        [true, false, true],
    ),
    (
        &["LLC", "L2"],
        abi::PERF_COUNT_HW_CACHE_LL,
        [true, true, true],
    ),
    (
        &["dTLB", "d-tlb", "Data-TLB"],
        abi::PERF_COUNT_HW_CACHE_DTLB,
        [true, true, true],
    ),
    (
        &["iTLB", "i-tlb", "Instruction-TLB"],
        abi::PERF_COUNT_HW_CACHE_ITLB,
        [true, false, false],
    ),
    (
        &["branch", "branches", "bpu", "btb", "bpc"],
        abi::PERF_COUNT_HW_CACHE_BPU,
        [true, false, false],
    ),
    (&["node"], abi::PERF_COUNT_HW_CACHE_NODE, [true, true, true]),
];

/// Operations by number (`enum perf_hw_cache_op_id`).
const OPERATIONS: [&[&str]; 3] = [
    &["loads", "load", "read"],
    &["stores", "store", "write"],
    &[
        "prefetches",
        "prefetch",
        "speculative-read",
        "speculative-load",
    ],
];

/// Results by number (`enum perf_hw_cache_op_result_id`).
const RESULTS: [&[&str]; 2] = [&["refs", "Reference", "ops", "access"], &["misses", "miss"]];

/// Returns the usual name of any spelling, and the number `cache | operation << 8 | result << 16`.
pub(crate) fn find(name: &str) -> Option<(String, u64)> {
    let spellings = CACHES.iter().enumerate().flat_map(|(at, (names, ..))| {
        let names: &'static [&'static str] = names;
        names.iter().map(move |name| (at, *name))
    });
    let (cache, rest) = longest(name, spellings)?;
    let (mut operation, mut result) = (None, None);
    let mut rest = rest;
    while let Some(part) = rest.strip_prefix('-') {
        if operation.is_some() && result.is_some() {
            return None;
        }
        rest = match (
            longest(part, numbered(&OPERATIONS)),
            longest(part, numbered(&RESULTS)),
        ) {
            (Some((number, rest)), _) if operation.is_none() => {
                operation = Some(number);
                rest
            }
            (_, Some((number, rest))) if result.is_none() => {
                result = Some(number);
                rest
            }
            _ => return None,
        };
    }
    let (operation, result) = (operation.unwrap_or(0), result.unwrap_or(0));
    let sensible = rest.is_empty() && CACHES[cache].2[operation];
    sensible.then(|| {
        (
            usual_name(cache, operation, result),
            number(cache, operation, result),
        )
    })
}

pub(crate) fn all() -> impl Iterator<Item = (String, u64)> {
    (0..CACHES.len()).flat_map(|cache| {
        let operations = (0..3).filter(move |operation| CACHES[cache].2[*operation]);
        operations.flat_map(move |operation| {
            (0..2).map(move |result| {
                (
                    usual_name(cache, operation, result),
                    number(cache, operation, result),
                )
            })
        })
    })
}

fn number(cache: usize, operation: usize, result: usize) -> u64 {
    u64::from(CACHES[cache].1) | (operation as u64) << 8 | (result as u64) << 16
}

fn usual_name(cache: usize, operation: usize, result: usize) -> String {
    let cache = CACHES[cache].0[0];
    match result {
        0 => format!("{cache}-{}", OPERATIONS[operation][0]),
        _ => format!("{cache}-{}-misses", OPERATIONS[operation][1]),
    }
}

fn numbered(rows: &[&'static [&'static str]]) -> impl Iterator<Item = (usize, &'static str)> {
    let rows = rows.iter().enumerate();
    rows.flat_map(|(number, names)| names.iter().map(move |name| (number, *name)))
}

/// Finds the longest spelling that is the first word. Returns its number and the rest of the text.
fn longest(
    text: &str,
    spellings: impl Iterator<Item = (usize, &'static str)>,
) -> Option<(usize, &str)> {
    let begins = spellings.filter_map(|(number, spelling)| {
        let (head, rest) = text.split_at_checked(spelling.len())?;
        let whole = rest.is_empty() || rest.starts_with('-');
        (whole && head.eq_ignore_ascii_case(spelling)).then_some((number, rest))
    });
    begins.min_by_key(|(_, rest)| rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_has_its_usual_name() {
        for (typed, usual, number) in [
            ("L1-dcache", "L1-dcache-loads", 0),
            ("l1d-loads-misses", "L1-dcache-load-misses", 0x1_0000),
            ("L1-data-misses", "L1-dcache-load-misses", 0x1_0000),
            ("Data-TLB-write-miss", "dTLB-store-misses", 0x1_0103),
            ("llc-speculative-read-miss", "LLC-prefetch-misses", 0x1_0202),
            ("LLC-misses-store", "LLC-store-misses", 0x1_0102),
            ("node-prefetch-misses", "node-prefetch-misses", 0x1_0206),
            ("branch-load-misses", "branch-load-misses", 0x1_0005),
            ("bpu-refs", "branch-loads", 5),
            ("iTLB-load-access", "iTLB-loads", 4),
        ] {
            assert_eq!(find(typed), Some((usual.to_owned(), number)), "{typed}");
        }
    }

    #[test]
    fn operations_that_a_cache_does_not_have_are_not_found() {
        for typed in [
            "L1-icache-stores",
            "iTLB-prefetches",
            "L1-dcache-",
            "L1-dcache-loads-stores",
            "L1-dcache-loads-misses-misses",
            "L1-dcacheloads",
            "L3-loads",
            "",
            "-",
            "é",
        ] {
            assert_eq!(find(typed), None, "{typed}");
        }
    }
}
