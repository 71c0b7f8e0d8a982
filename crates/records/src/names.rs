//! Event names derived from numbers.

use crate::attr::{Attr, EventKind};
use crate::flags::AttrFlags;

/// `enum perf_hw_id`, by number.
const HARDWARE: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

/// `enum perf_sw_ids`, by number.
const SOFTWARE: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

impl Attr {
    /// Returns a name derived from the attr's numbers, as in perf: `cycles:u`, `raw 0x1a8`,
    /// `tracepoint 317`, `PMU 8, config 0x3c`.
    pub fn name(&self) -> String {
        let listed = |names: &[&str], kind| {
            (usize::try_from(self.config).ok())
                .and_then(|i| names.get(i))
                .map_or(format!("{kind} {:#x}", self.config), ToString::to_string)
        };
        let mut name = match self.kind {
            EventKind::HARDWARE => listed(&HARDWARE, "hardware event"),
            EventKind::SOFTWARE => listed(&SOFTWARE, "software event"),
            EventKind::TRACEPOINT => format!("tracepoint {}", self.config),
            EventKind::HW_CACHE => format!("cache event {:#x}", self.config),
            EventKind::RAW => format!("raw {:#x}", self.config),
            EventKind::BREAKPOINT => format!("mem:{:#x}", self.config1),
            EventKind(pmu) => format!("PMU {pmu}, config {:#x}", self.config),
        };
        let excluded = |flag| self.flags.contains(flag);
        let sides = [
            (AttrFlags::EXCLUDE_USER, 'u'),
            (AttrFlags::EXCLUDE_KERNEL, 'k'),
            (AttrFlags::EXCLUDE_HV, 'h'),
        ];
        // perf excludes the hypervisor alone by default.
        if excluded(AttrFlags::EXCLUDE_USER) || excluded(AttrFlags::EXCLUDE_KERNEL) {
            name.push(':');
            name.extend((sides.iter()).filter_map(|(flag, c)| (!excluded(*flag)).then_some(*c)));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let named = |kind, config, flags| {
            Attr {
                kind,
                config,
                flags,
                ..Attr::default()
            }
            .name()
        };
        let user = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        assert_eq!(named(EventKind::HARDWARE, 0, user), "cycles:u");
        assert_eq!(
            named(EventKind::SOFTWARE, 0, AttrFlags::EXCLUDE_HV),
            "cpu-clock"
        );
        assert_eq!(
            named(EventKind::SOFTWARE, 99, user),
            "software event 0x63:u"
        );
        assert_eq!(
            named(EventKind::RAW, 0x1a8, AttrFlags::empty()),
            "raw 0x1a8"
        );
    }
}
