//! Parts of a recording that no command here shows, with the command of perf that does.

use rprof_perfdata::{Feature, PerfData};
use rprof_records::{Attr, AttrFlags, BranchSampleType, EventKind, SampleType};

use crate::messages::say;

/// Prints a line for each thing that a recording holds and that its reports do not show.
pub(crate) fn tell(data: &PerfData, quiet: bool) {
    if quiet {
        return;
    }
    let file = data.path().display().to_string();
    let events = data.events().list();
    let attrs: Vec<(&str, &Attr)> = events.iter().map(|e| (&*e.name, &e.attr)).collect();
    let has_traces = data.features().has(Feature::AUXTRACE);
    for (what, command) in unshown(&attrs, has_traces) {
        say(format_args!(
            "{file} holds {what}, which are not shown: `{command} -i {file}` does"
        ));
    }
}

/// Returns what recordings of these events hold beside what is shown, and the command that shows it.
fn unshown(events: &[(&str, &Attr)], has_traces: bool) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let has = |wanted: SampleType| {
        let mut attrs = events.iter().map(|(_, attr)| attr.sample_type);
        attrs.any(|fields| fields.intersects(wanted))
    };
    if has_traces {
        found.push(("traces of the processor", "perf script --itrace=i1us"));
    }
    // Branches that are calls are stacks, which are shown.
    let branches = |(_, attr): &(&str, &Attr)| {
        attr.sample_type.contains(SampleType::BRANCH_STACK)
            && !attr
                .branch_sample_type
                .contains(BranchSampleType::CALL_STACK)
    };
    if events.iter().any(branches) {
        found.push((
            "branches taken before each sample",
            "perf report --branch-history",
        ));
    }
    if attrs_with_data_sources(events) {
        found.push(("addresses and sources of data", "perf mem report"));
    }
    if has(SampleType::TRANSACTION) {
        found.push(("transactions", "perf report --sort transaction,symbol"));
    }
    let is_named = |prefix: &str| events.iter().any(|(name, _)| name.starts_with(prefix));
    for (prefix, what, command) in [
        (
            "sched:sched_wakeup",
            "wake-ups with their delays",
            "perf sched latency",
        ),
        (
            "lock:",
            "locks with their waiting times",
            "perf lock report",
        ),
        ("kmem:", "allocations of the kernel", "perf kmem stat"),
    ] {
        if is_named(prefix) {
            found.push((what, command));
        }
    }
    let switches = |(_, attr): &(&str, &Attr)| attr.flags.contains(AttrFlags::CONTEXT_SWITCH);
    if events.iter().any(switches) {
        found.push((
            "switches between threads",
            "rprof script --show-switch-events",
        ));
    }
    found
}

/// Returns true if an event has addresses and sources of data. perf asks for both in each recording with copies of stacks
/// (`--call-graph dwarf`), and only events of memory accesses fill them in; the kernel's own events have neither.
fn attrs_with_data_sources(events: &[(&str, &Attr)]) -> bool {
    const MEMORY: [&str; 3] = ["mem-", "ibs_op", "arm_spe"];
    events.iter().any(|(name, attr)| {
        let is_of_kernel = matches!(attr.kind, EventKind::SOFTWARE | EventKind::TRACEPOINT);
        let is_of_memory = MEMORY.iter().any(|part| name.contains(part));
        let is_wanted = !attr.sample_type.contains(SampleType::STACK_USER) || is_of_memory;
        attr.sample_type.contains(SampleType::DATA_SRC) && !is_of_kernel && is_wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, attr: &Attr, has_traces: bool) -> Vec<&'static str> {
        let found = unshown(&[(name, attr)], has_traces);
        found.into_iter().map(|(_, command)| command).collect()
    }

    #[test]
    fn what_is_recorded_and_not_shown_is_named_with_its_command() {
        let fields = |sample_type| Attr {
            sample_type,
            ..Attr::default()
        };
        let plain = SampleType::IP | SampleType::TID | SampleType::CALLCHAIN;
        assert_eq!(of("cpu-clock", &fields(plain), false), [""; 0]);
        assert_eq!(
            of("cycles", &fields(plain), true),
            ["perf script --itrace=i1us"]
        );
        let branches = fields(plain | SampleType::BRANCH_STACK);
        assert_eq!(
            of("cycles", &branches, false),
            ["perf report --branch-history"]
        );
        let stacks = Attr {
            branch_sample_type: BranchSampleType::CALL_STACK,
            ..branches
        };
        assert_eq!(of("cycles", &stacks, false), [""; 0]);
        assert_eq!(
            of("mem-loads", &fields(SampleType::DATA_SRC), false),
            ["perf mem report"]
        );
        // As perf asks for it beside copies of stacks.
        let dumps = fields(plain | SampleType::DATA_SRC | SampleType::STACK_USER);
        assert_eq!(of("cycles", &dumps, false), [""; 0]);
        assert_eq!(
            of("cpu/mem-loads,ldlat=30/P", &dumps, false),
            ["perf mem report"]
        );
        let clock = Attr {
            kind: EventKind::SOFTWARE,
            ..fields(plain | SampleType::DATA_SRC)
        };
        assert_eq!(of("cpu-clock", &clock, false), [""; 0]);
        assert_eq!(
            of("sched:sched_wakeup", &fields(plain), false),
            ["perf sched latency"]
        );
        assert_eq!(
            of("lock:contention_begin:u", &fields(plain), false),
            ["perf lock report"]
        );
        let switches = Attr {
            flags: AttrFlags::CONTEXT_SWITCH,
            ..Attr::default()
        };
        assert_eq!(
            of("dummy", &switches, false),
            ["rprof script --show-switch-events"]
        );
    }
}
