//! Names of events: waits, wall-clock time and memory; and modifiers of any event.

/// Name of the off-CPU event, as in perf.
pub const WAITS: &str = "offcpu-time";

/// Name of the wall-clock event: time on and off CPU.
pub const WALL_CLOCK: &str = "wall-clock";

/// Name of the event of resident memory at the end of a recording.
pub const RESIDENT: &str = "resident-memory";

/// Name of the event of resident memory at its peak.
pub const PEAK: &str = "peak-memory";

/// Name of the event of all memory that ever became resident.
pub const TOUCHED: &str = "touched-memory";

/// Name of the event of requested memory in use at the end of a recording.
pub const HEAP: &str = "heap-memory";

/// Name of the event of requested memory in use at its peak.
pub const HEAP_PEAK: &str = "peak-heap-memory";

/// Name of the event of all requested memory, released or not.
pub const ALLOCATED: &str = "allocated-memory";

/// Name of the event of allocations in use at the end of a recording, which counts them.
pub const HEAP_OBJECTS: &str = "heap-objects";

/// Name of the event of all allocations, which counts them.
pub const ALLOCATED_OBJECTS: &str = "allocated-objects";

/// Name of the event of bytes that became part of the memory in use between two snapshots.
pub const GROWTH: &str = "memory-growth";

/// Name of the event of bytes that left the memory in use between two snapshots.
pub const RELEASE: &str = "memory-release";

/// Suffix of events whose samples weigh their latency: `cpu-clock:latency`.
const LATENCY: &str = ":latency";

pub(crate) fn by_latency(event: &str) -> String {
    format!("{}{LATENCY}", without_latency(event))
}

/// Returns true if the samples of an event weigh their latency.
pub fn is_by_latency(event: &str) -> bool {
    event.ends_with(LATENCY)
}

pub(crate) fn without_latency(event: &str) -> &str {
    event.strip_suffix(LATENCY).unwrap_or(event)
}

/// Returns true for events whose weights are bytes of memory.
pub fn is_of_memory(event: &str) -> bool {
    matches!(
        event.split(':').next(),
        Some(RESIDENT | PEAK | TOUCHED | HEAP | HEAP_PEAK | ALLOCATED | GROWTH | RELEASE)
    )
}

/// Returns true for events of memory whose samples each stand for all page faults or allocations of
/// a stack: in bytes, or as their number.
pub fn sums_memory(event: &str) -> bool {
    is_of_memory(event) || matches!(event, HEAP_OBJECTS | ALLOCATED_OBJECTS)
}

/// Returns true for events of memory over time: [`GROWTH`] and [`RELEASE`]. Their address is the
/// time of their snapshot. Their own time is one when their code was mapped.
pub fn is_of_memory_over_time(event: &str) -> bool {
    matches!(event, GROWTH | RELEASE)
}

/// Sample types in pprof profiles.
const PPROF_TYPES: [&str; 2] = ["offcpu", "wall"];

/// Returns true for off-CPU events (`offcpu` in pprof), with or without modifiers.
pub fn is_of_waits(event: &str) -> bool {
    let [offcpu, _] = PPROF_TYPES;
    matches!(event.split(':').next(), Some(name) if name == WAITS || name == offcpu)
}

/// Returns true for wall-clock events (`wall` in pprof).
pub fn is_of_wall_clock(event: &str) -> bool {
    let [_, wall] = PPROF_TYPES;
    let event = without_latency(event);
    event == WALL_CLOCK || event == wall
}

/// Returns the noun for amounts of an event in nanoseconds: `CPU time`, `waiting time`. Other tools'
/// events have their own name as noun, which may contain any character.
pub fn noun_of_time(event: &str) -> &str {
    const CLOCKS: [&str; 4] = ["cpu-clock", "task-clock", "cpu", "cycles"];
    let name = split_modifiers(event).0;
    match () {
        () if without_latency(event) != event => "elapsed time",
        () if is_of_waits(event) => "waiting time",
        () if is_of_wall_clock(event) => "wall-clock time",
        () if CLOCKS.contains(&name) => "CPU time",
        () => event,
    }
}

/// Returns true for letters that perf accepts after an event's last `:` or `/` (perf-list(1),
/// "Event modifiers").
pub fn is_modifier(letter: char) -> bool {
    "ukhGHIpPSDeWbRX".contains(letter)
}

/// Splits an event name into the event and its modifiers, perhaps none: `cycles:u`,
/// `sched:sched_switch:k`, `cpu/cycles/pp`.
pub(crate) fn split_modifiers(name: &str) -> (&str, &str) {
    let Some(at) = name.rfind([':', '/']) else {
        return (name, "");
    };
    let letters = &name[at + 1..];
    if letters.is_empty() || !letters.chars().all(is_modifier) {
        return (name, "");
    }
    match name.as_bytes()[at] {
        b'/' => (&name[..=at], letters),
        _ => (&name[..at], letters),
    }
}

#[cfg(test)]
mod tests {
    use super::{noun_of_time, split_modifiers};

    #[test]
    fn modifiers_are_split_from_the_event() {
        for (name, split) in [
            ("cycles", ("cycles", "")),
            ("cycles:ppp", ("cycles", "ppp")),
            ("cycles:R", ("cycles", "R")),
            ("cpu/cycles/", ("cpu/cycles/", "")),
            ("cpu/cycles/uX", ("cpu/cycles/", "uX")),
            ("sched:sched_switch", ("sched:sched_switch", "")),
            ("sched:sched_switch:u", ("sched:sched_switch", "u")),
            ("cycles:", ("cycles:", "")),
        ] {
            assert_eq!(split_modifiers(name), split, "{name}");
        }
    }

    #[test]
    fn only_time_on_a_cpu_is_cpu_time() {
        for (event, noun) in [
            ("cpu-clock", "CPU time"),
            ("task-clock:u", "CPU time"),
            ("cpu", "CPU time"),
            ("cpu-clock:latency", "elapsed time"),
            ("wall-clock:latency", "elapsed time"),
            ("offcpu-time", "waiting time"),
            ("wall-clock", "wall-clock time"),
            ("wall", "wall-clock time"),
            ("delay", "delay"),
        ] {
            assert_eq!(noun_of_time(event), noun, "{event}");
        }
    }
}
