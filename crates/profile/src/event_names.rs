//! Names of the events that measure waits and wall-clock time.

/// Name of the off-CPU event, as in perf.
pub const WAITS: &str = "offcpu-time";

/// Name of the wall-clock event: time on and off CPU.
pub const WALL_CLOCK: &str = "wall-clock";

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
    event == WALL_CLOCK || event == wall
}
