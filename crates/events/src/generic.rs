//! Generic event names of perf-list(1), with the numbers of `include/uapi/linux/perf_event.h`.

use crate::hw_cache;
use perf_event_open_sys::bindings as abi;
use rprof_records::EventKind;

pub(crate) const SW_CPU_CLOCK: u64 = abi::PERF_COUNT_SW_CPU_CLOCK as u64;
pub(crate) const SW_CONTEXT_SWITCHES: u64 = abi::PERF_COUNT_SW_CONTEXT_SWITCHES as u64;
pub(crate) const SW_DUMMY: u64 = abi::PERF_COUNT_SW_DUMMY as u64;

pub(crate) const SW_BPF_OUTPUT: u64 = abi::PERF_COUNT_SW_BPF_OUTPUT as u64;

pub(crate) const SW_TASK_CLOCK: u64 = abi::PERF_COUNT_SW_TASK_CLOCK as u64;

pub(crate) struct GenericEvent {
    pub(crate) name: String,
    pub(crate) kind: EventKind,
    pub(crate) config: u64,
}

/// Names of one event, the canonical one first, and its number.
type NamedEvent = (&'static [&'static str], u32);

/// `PERF_TYPE_HARDWARE`, `enum perf_hw_id`.
const HARDWARE: &[NamedEvent] = &[
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
const SOFTWARE: &[NamedEvent] = &[
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

pub(crate) fn find(name: &str) -> Option<GenericEvent> {
    for (rows, kind) in [
        (HARDWARE, EventKind::HARDWARE),
        (SOFTWARE, EventKind::SOFTWARE),
    ] {
        let found = rows
            .iter()
            .find(|(names, _)| names.iter().any(|n| n.eq_ignore_ascii_case(name)));
        if let Some((names, config)) = found {
            return Some(GenericEvent {
                name: names[0].to_owned(),
                kind,
                config: u64::from(*config),
            });
        }
    }
    if let Some((name, config)) = hw_cache::find(name) {
        return Some(GenericEvent {
            name,
            kind: EventKind::HW_CACHE,
            config,
        });
    }
    raw(name)
}

/// Parses `r` and up to 16 hexadecimal digits: a raw code of the CPU's PMU.
fn raw(name: &str) -> Option<GenericEvent> {
    Some(GenericEvent {
        name: name.to_ascii_lowercase(),
        kind: EventKind::RAW,
        config: raw_code(name)?,
    })
}

/// Returns the number in `r1a8` or `r0x1a8`.
pub(crate) fn raw_code(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    match digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        // No digits or too many.
        true => u64::from_str_radix(digits, 16).ok(),
        false => None,
    }
}

/// Lists canonical name, other names, and number.
pub(crate) fn fixed(kind: EventKind) -> Vec<(&'static str, &'static [&'static str], u64)> {
    let rows = match kind {
        EventKind::HARDWARE => HARDWARE,
        EventKind::SOFTWARE => SOFTWARE,
        _ => &[],
    };
    (rows.iter())
        .map(|(names, config)| (names[0], &names[1..], u64::from(*config)))
        .collect()
}

pub(crate) fn all() -> Vec<String> {
    (HARDWARE.iter().chain(SOFTWARE))
        .map(|(names, _)| names[0].to_owned())
        .chain(hw_cache::all().map(|(name, _)| name))
        .collect()
}

/// Returns true for names that perf stat counts in user space.
pub(crate) fn is_counted_by_the_tool(name: &str) -> bool {
    matches!(name, "duration_time" | "user_time" | "system_time")
}
