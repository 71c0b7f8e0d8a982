//! Units of weights.

use std::fmt;

/// Unit of an event's weights, in which sums of periods are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WeightUnit {
    /// Nanoseconds: of the clock events, whose periods are the time that passed.
    Nanoseconds,
    /// Occurrences of a generic event, by its name: `cycles`, `page-faults`.
    Named(Box<str>),
    /// Occurrences of an event without a generic name: a tracepoint, a raw event, a breakpoint.
    #[default]
    Events,
    /// Samples: each weighs one, or nothing else is known of the weights (folded text).
    Samples,
}

impl WeightUnit {
    /// Returns the unit of an event by its name, as perf writes it.
    ///
    /// ```
    /// use rprof_profile::WeightUnit;
    ///
    /// assert_eq!(WeightUnit::of_event("cpu-clock:u"), WeightUnit::Nanoseconds);
    /// assert_eq!(WeightUnit::of_event("cycles:ppp").as_str(), "cycles");
    /// assert_eq!(WeightUnit::of_event("sched:sched_switch"), WeightUnit::Events);
    /// ```
    pub fn of_event(event: &str) -> WeightUnit {
        let (name, rest) = event.split_at(event.find([':', '/']).unwrap_or(event.len()));
        match name {
            "cpu-clock" | "task-clock" => WeightUnit::Nanoseconds,
            // A name with modifiers at most; `sched:sched_switch` and `cpu/event=1/` are more.
            name if rest.trim_start_matches(':').len() < 4 && !rest.contains('/') => {
                WeightUnit::Named(name.into())
            }
            _ => WeightUnit::Events,
        }
    }

    /// Returns the unit as a word: `ns`, the event's generic name, `events` or `samples`.
    pub fn as_str(&self) -> &str {
        match self {
            WeightUnit::Nanoseconds => "ns",
            WeightUnit::Named(name) => name,
            WeightUnit::Events => "events",
            WeightUnit::Samples => "samples",
        }
    }
}

impl fmt::Display for WeightUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::WeightUnit;

    #[test]
    fn units_follow_from_event_names() {
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
            assert_eq!(WeightUnit::of_event(event).as_str(), expected, "{event}");
        }
    }
}
