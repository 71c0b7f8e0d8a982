//! Event descriptions for the file, with the attrs of the rewritten records.

use rprof_perfdata::EventDescription;
use rprof_records::Attr;
use rprof_sampler::{EventIds, Role};

use crate::offcpu;
use crate::unwind::is_to_unwind;

/// Changes to records before they are written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rewriting {
    /// Registers and stack bytes become callchains.
    pub(crate) unwinds: bool,
    /// Mask of user registers that samples keep.
    pub(crate) kept_registers: u64,
    /// Keeps SWITCH records besides the waits computed from them.
    pub(crate) keeps_switches: bool,
    /// Waits contain their wakers.
    pub(crate) records_wakers: bool,
}

impl Rewriting {
    pub(crate) fn unwound(&self, attr: &Attr) -> Attr {
        match self.unwinds && is_to_unwind(attr) {
            true => attr.unwound(self.kept_registers),
            false => attr.clone(),
        }
    }

    pub(crate) fn describe(&self, events: &[EventIds]) -> Vec<EventDescription> {
        let describe = |event: &EventIds| {
            let attr = self.unwound(&event.attr);
            let (attr, name) = match event.role {
                Role::OffCpu => {
                    let attr = offcpu::attr_of_waits(&attr, *self);
                    (attr, offcpu::EVENT_NAME.to_owned())
                }
                _ => (attr, event.name.clone()),
            };
            let ids = event.ids.clone();
            EventDescription { attr, name, ids }
        };
        // Wakeups are part of the waits that they end.
        let is_written = |event: &&EventIds| event.role != Role::Wakeups;
        events.iter().filter(is_written).map(describe).collect()
    }
}
