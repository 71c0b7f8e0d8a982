//! Layouts of the records in the two rings of a CPU.

use rprof_records::{ProcessEvent, SampleLayout};
use rprof_sampler::{EventIds, Role, Stream};

use super::merge::Released;

#[derive(Clone, Debug)]
pub(crate) struct Layouts {
    pub(crate) samples: SampleLayout,
    pub(crate) sideband: SampleLayout,
}

impl Layouts {
    /// Takes the layouts of the events' records.
    pub(crate) fn new(events: &[EventIds]) -> Layouts {
        Layouts {
            samples: EventIds::layout(events, Role::Samples),
            sideband: EventIds::layout(events, Role::Sideband),
        }
    }

    pub(crate) fn of(&self, stream: Stream) -> &SampleLayout {
        match stream {
            Stream::Samples => &self.samples,
            Stream::Sideband => &self.sideband,
        }
    }

    /// Decodes a record; `None` if it is no process event or is damaged.
    #[inline]
    pub(crate) fn process_event<'a>(&'a self, released: &Released<'a>) -> Option<ProcessEvent<'a>> {
        let raw = released.raw()?;
        if !ProcessEvent::is_recorded_as(raw.kind) {
            return None;
        }
        let layout = Some(self.of(released.stream));
        ProcessEvent::decode(&raw, layout).ok().flatten()
    }
}
