//! Counters of one place, with fallbacks.

use crate::places::{Place, Subject};
use rprof_events::{Event, Modifiers};
use rprof_perf_event::{Builder, Errno, OpenEventError, PerfFd};
use rprof_records::{Attr, AttrFlags, EventKind, ReadFormat, SampleType};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) exclude_kernel: bool,
    pub(crate) exclude_user: bool,
    pub(crate) inherit: bool,
    /// Start the events when the command calls exec.
    pub(crate) enable_on_exec: bool,
}

impl Settings {
    /// Opens an event; `None` if it does not apply to the place's CPU.
    pub(crate) fn open(
        &self,
        event: &Event,
        place: &Place,
        leader: Option<&PerfFd>,
    ) -> Result<Option<PerfFd>, OpenEventError> {
        let is_here = |cpus: &[u32]| place.cpu.is_none_or(|cpu| cpus.contains(&cpu));
        if event.cpus().is_some_and(|cpus| !is_here(cpus)) {
            return Ok(None);
        }
        match self.try_open(event, place, leader) {
            // By default, events exclude guests. PMUs without exclusion refuse that.
            Err(error) if error.errno == Errno::INVAL && leaves_out_guests(event) => {
                let all = event.clone().including_guests();
                self.try_open(&all, place, leader).map_err(|_| error)
            }
            opened => opened,
        }
        .map(Some)
    }

    fn try_open(
        &self,
        event: &Event,
        place: &Place,
        leader: Option<&PerfFd>,
    ) -> Result<PerfFd, OpenEventError> {
        let attr = self.attr(event, leader.is_none());
        let mut builder = Builder::from_attr(self.describe(event), attr);
        if let Some(path) = event.probe_path() {
            builder = builder.probe_path(path);
        }
        if let Some(cpu) = place.cpu {
            builder = builder.cpu(cpu);
        }
        builder = match (&place.subject, place.cpu) {
            (Subject::Thread(thread), _) => builder.thread(thread.tid as i32),
            (Subject::Everything, cpu) => builder.everything_on(cpu.unwrap_or_default()),
            (Subject::Cgroup(group), cpu) => {
                builder.cgroup(Arc::clone(group), cpu.unwrap_or_default())
            }
        };
        builder.open_fd(leader)
    }

    /// Returns the attr of a counter. Only group leaders start and stop.
    fn attr(&self, event: &Event, leads: bool) -> Attr {
        let mut attr = Attr::default();
        event.apply(&mut attr);
        // Sampling settings do not apply to counters.
        attr.sample_type = SampleType::empty();
        attr.flags
            .remove(AttrFlags::PRECISE_IP_1 | AttrFlags::PRECISE_IP_2);
        attr.read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        attr.flags.set(AttrFlags::DISABLED, leads);
        attr.flags
            .set(AttrFlags::ENABLE_ON_EXEC, leads && self.enable_on_exec);
        let inherits = event.settings().inherit.unwrap_or(self.inherit);
        attr.flags
            .set(AttrFlags::INHERIT, inherits && event.is_inherited());
        if self.exclude_kernel {
            attr.flags |= AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        }
        if self.exclude_user {
            attr.flags |= AttrFlags::EXCLUDE_USER;
        }
        attr
    }

    /// Describes an event with its effective modes, such as `cycles:u`.
    pub(crate) fn describe(&self, event: &Event) -> String {
        let named = event.modifiers();
        let all = named.is_empty();
        if !self.exclude_kernel && !self.exclude_user {
            return event.describe();
        }
        let real = Modifiers {
            user: (all || named.user) && !self.exclude_user,
            kernel: (all || named.kernel) && !self.exclude_kernel,
            hypervisor: named.hypervisor && !self.exclude_kernel,
        };
        match real.user || real.kernel {
            true => event.clone().with_modifiers(real).describe(),
            false => event.describe(),
        }
    }
}

fn leaves_out_guests(event: &Event) -> bool {
    event.kind().0 > EventKind::BREAKPOINT.0 && event.qualifiers().exclude_guest
}

pub(crate) fn is_kernel_only(event: &Event) -> bool {
    /// `PERF_COUNT_SW_CONTEXT_SWITCHES`, `_CPU_MIGRATIONS` and `_CGROUP_SWITCHES` (`enum
    /// perf_sw_ids`).
    const IN_THE_KERNEL: [u64; 3] = [3, 4, 11];
    event.kind() == EventKind::SOFTWARE && IN_THE_KERNEL.contains(&event.config())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            exclude_kernel: false,
            exclude_user: false,
            inherit: true,
            enable_on_exec: true,
        }
    }

    #[test]
    fn leaders_start_with_the_command_and_members_with_them() {
        let events = Event::parse_list("{cycles,instructions}:S").unwrap();
        let leader = settings().attr(&events[0], true);
        let both = AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC;
        assert!(leader.flags.contains(both | AttrFlags::INHERIT));
        let member = settings().attr(&events[1], false);
        assert!(!member.flags.intersects(both));
        assert!(member.flags.contains(AttrFlags::INHERIT));
        assert_eq!(member.sample_type, SampleType::empty());
        assert!(!leader.read_format.contains(ReadFormat::GROUP));
    }

    #[test]
    fn a_name_says_which_sides_are_counted() {
        let user = Settings {
            exclude_kernel: true,
            ..settings()
        };
        let named = |text| user.describe(&Event::parse(text).unwrap());
        assert_eq!(
            (named("cycles"), named("cycles:uk")),
            ("cycles:u".into(), "cycles:u".into())
        );
        assert_eq!(settings().describe(&Event::cycles()), "cycles");
        // No mode would remain.
        assert_eq!(named("cycles:k"), "cycles:k");
    }
}
