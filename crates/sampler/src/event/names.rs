//! The generic event names of perf-list(1) and their numbers in
//! `include/uapi/linux/perf_event.h`.

use perf_event_open_sys::bindings as abi;
use rprof_records::EventKind;

/// `PERF_COUNT_SW_CPU_CLOCK`.
pub(super) const SW_CPU_CLOCK: u64 = abi::PERF_COUNT_SW_CPU_CLOCK as u64;
/// `PERF_COUNT_SW_DUMMY`.
pub(super) const SW_DUMMY: u64 = abi::PERF_COUNT_SW_DUMMY as u64;

/// A name and what it stands for.
pub(super) struct Known {
    pub(super) name: String,
    pub(super) kind: EventKind,
    pub(super) config: u64,
}

/// Names of one event, the canonical one first.
type Row = (&'static [&'static str], u32);

/// `PERF_TYPE_HARDWARE`, `enum perf_hw_id`.
const HARDWARE: &[Row] = &[
    (&["cycles", "cpu-cycles"], abi::PERF_COUNT_HW_CPU_CYCLES),
    (&["instructions"], abi::PERF_COUNT_HW_INSTRUCTIONS),
    (&["cache-references"], abi::PERF_COUNT_HW_CACHE_REFERENCES),
    (&["cache-misses"], abi::PERF_COUNT_HW_CACHE_MISSES),
    (
        &["branches", "branch-instructions"],
        abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
    ),
    (&["branch-misses"], abi::PERF_COUNT_HW_BRANCH_MISSES),
    (&["bus-cycles"], abi::PERF_COUNT_HW_BUS_CYCLES),
    (
        &["stalled-cycles-frontend", "idle-cycles-frontend"],
        abi::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
    ),
    (
        &["stalled-cycles-backend", "idle-cycles-backend"],
        abi::PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
    ),
    (&["ref-cycles"], abi::PERF_COUNT_HW_REF_CPU_CYCLES),
];

/// `PERF_TYPE_SOFTWARE`, `enum perf_sw_ids`.
const SOFTWARE: &[Row] = &[
    (&["cpu-clock"], abi::PERF_COUNT_SW_CPU_CLOCK),
    (&["task-clock"], abi::PERF_COUNT_SW_TASK_CLOCK),
    (&["page-faults", "faults"], abi::PERF_COUNT_SW_PAGE_FAULTS),
    (
        &["context-switches", "cs"],
        abi::PERF_COUNT_SW_CONTEXT_SWITCHES,
    ),
    (
        &["cpu-migrations", "migrations"],
        abi::PERF_COUNT_SW_CPU_MIGRATIONS,
    ),
    (&["minor-faults"], abi::PERF_COUNT_SW_PAGE_FAULTS_MIN),
    (&["major-faults"], abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    (&["alignment-faults"], abi::PERF_COUNT_SW_ALIGNMENT_FAULTS),
    (&["emulation-faults"], abi::PERF_COUNT_SW_EMULATION_FAULTS),
    (&["dummy"], abi::PERF_COUNT_SW_DUMMY),
    (&["bpf-output"], abi::PERF_COUNT_SW_BPF_OUTPUT),
    (&["cgroup-switches"], abi::PERF_COUNT_SW_CGROUP_SWITCHES),
];

/// `PERF_TYPE_HW_CACHE`: the cache, its number, and which operations (read, write,
/// prefetch) make sense there, as the perf tool lists them.
const CACHES: &[(&str, u32, [bool; 3])] = &[
    (
        "L1-dcache",
        abi::PERF_COUNT_HW_CACHE_L1D,
        [true, true, true],
    ),
    (
        "L1-icache",
        abi::PERF_COUNT_HW_CACHE_L1I,
        [true, false, true],
    ),
    ("LLC", abi::PERF_COUNT_HW_CACHE_LL, [true, true, true]),
    ("dTLB", abi::PERF_COUNT_HW_CACHE_DTLB, [true, true, true]),
    ("iTLB", abi::PERF_COUNT_HW_CACHE_ITLB, [true, false, false]),
    ("branch", abi::PERF_COUNT_HW_CACHE_BPU, [true, false, false]),
    ("node", abi::PERF_COUNT_HW_CACHE_NODE, [true, true, true]),
];

/// Operation by number: name of its accesses, name of its misses.
const OPERATIONS: [(&str, &str); 3] = [
    ("loads", "load-misses"),
    ("stores", "store-misses"),
    ("prefetches", "prefetch-misses"),
];

/// Every cache event with `cache | operation << 8 | result << 16`, perf_event_open(2).
fn cache_events() -> impl Iterator<Item = (String, u64)> {
    CACHES.iter().flat_map(|(cache, number, operations)| {
        let kept = OPERATIONS
            .iter()
            .enumerate()
            .filter(|(op, _)| operations[*op]);
        kept.flat_map(move |(op, (accesses, misses))| {
            let base = u64::from(*number) | (op as u64) << 8;
            // "branch-misses" is the generic event's name; the cache form is distinct.
            [
                (format!("{cache}-{accesses}"), base),
                (format!("{cache}-{misses}"), base | 1 << 16),
            ]
        })
    })
}

/// Finds what a name stands for; letter case does not count.
pub(super) fn find(name: &str) -> Option<Known> {
    for (rows, kind) in [
        (HARDWARE, EventKind::HARDWARE),
        (SOFTWARE, EventKind::SOFTWARE),
    ] {
        let found = rows
            .iter()
            .find(|(names, _)| names.iter().any(|n| n.eq_ignore_ascii_case(name)));
        if let Some((names, config)) = found {
            return Some(Known {
                name: names[0].to_owned(),
                kind,
                config: u64::from(*config),
            });
        }
    }
    let cache = cache_events().find(|(known, _)| known.eq_ignore_ascii_case(name));
    if let Some((name, config)) = cache {
        return Some(Known {
            name,
            kind: EventKind::HW_CACHE,
            config,
        });
    }
    raw(name)
}

/// `r` and up to 16 hexadecimal digits: a code of the CPU's own PMU.
fn raw(name: &str) -> Option<Known> {
    let digits = name.strip_prefix('r')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(Known {
        name: name.to_ascii_lowercase(),
        kind: EventKind::RAW,
        config: u64::from_str_radix(digits, 16).ok()?,
    })
}

/// All canonical names.
pub(super) fn all() -> Vec<String> {
    (HARDWARE.iter().chain(SOFTWARE))
        .map(|(names, _)| names[0].to_owned())
        .chain(cache_events().map(|(name, _)| name))
        .collect()
}
