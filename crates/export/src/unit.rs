//! Units of the weights of an event.

/// Returns what the periods of an event count: `ns`, the name of a generic event, or `events`.
pub(crate) fn unit(event: &str) -> &str {
    let (name, rest) = event.split_at(event.find([':', '/']).unwrap_or(event.len()));
    match name {
        // The clock events count the time that passed.
        "cpu-clock" | "task-clock" => "ns",
        // A name, with modifiers at most; `sched:sched_switch` and `cpu/event=1/` are more.
        name if rest.trim_start_matches(':').len() < 4 && !rest.contains('/') => name,
        _ => "events",
    }
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn units() {
        for (event, expected) in [
            ("cpu-clock:u", "ns"),
            ("cpu-clock/freq=99/u", "ns"),
            ("page-faults", "page-faults"),
            ("cycles:ppp", "cycles"),
            ("sched:sched_switch", "events"),
            ("cpu/event=0x3c/", "events"),
            ("mem:0x1000/8:w", "events"),
            ("uprobe:/bin/ls:main", "events"),
        ] {
            assert_eq!(unit(event), expected, "{event}");
        }
    }
}
