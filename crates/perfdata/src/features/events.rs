//! Events with names and ids, and their groups.

use rprof_records::Attr;

use super::codec::Decoder;
use super::{Feature, FeatureSections};

/// Event, as in EVENT_DESC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedEvent {
    /// Attributes of the event.
    pub attr: Attr,
    /// Name of the event.
    pub name: String,
    /// Ids of its instances.
    pub ids: Vec<u64>,
}

/// Event group, whose members count together (GROUP_DESC).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventGroup {
    /// Name of the group; may be empty.
    pub name: String,
    /// Index of the leader.
    pub leader: u32,
    /// Number of events, including the leader.
    pub members: u32,
}

impl FeatureSections {
    /// Returns the events with names and ids.
    pub fn event_descriptions(&self) -> Option<Vec<DescribedEvent>> {
        let mut section = self.decoder(Feature::EVENT_DESC)?;
        let (count, attr_size) = (section.u32()?, section.u32()? as usize);
        section.items(u64::from(count), attr_size.saturating_add(8), |section| {
            let attr = Attr::parse(section.take(attr_size)?, section.endian()).ok()?;
            let ids = section.u32()?;
            let name = section.string()?;
            let ids = section.items(u64::from(ids), 8, Decoder::u64)?;
            Some(DescribedEvent { attr, name, ids })
        })
    }

    /// Sets the event descriptions. Does nothing if an attr exceeds `attr_size` bytes.
    pub fn insert_event_descriptions(&mut self, events: &[DescribedEvent], attr_size: usize) {
        let endian = self.endian();
        let attrs: Result<Vec<_>, _> = (events.iter())
            .map(|e| e.attr.encode(endian, attr_size))
            .collect();
        let Ok(attrs) = attrs else {
            return;
        };
        self.encode(Feature::EVENT_DESC, |out| {
            out.u32(events.len() as u32);
            out.u32(attr_size as u32);
            for (event, attr) in events.iter().zip(attrs) {
                out.bytes.extend(attr);
                out.u32(event.ids.len() as u32);
                out.string(&event.name);
                event.ids.iter().for_each(|id| out.u64(*id));
            }
        });
    }

    /// Returns the groups of events (GROUP_DESC); `None` without the section.
    pub fn event_groups(&self) -> Option<Vec<EventGroup>> {
        self.decoder(Feature::GROUP_DESC)?.list(12, |section| {
            Some(EventGroup {
                name: section.string()?,
                leader: section.u32()?,
                members: section.u32()?,
            })
        })
    }

    /// Sets the groups of events.
    pub fn insert_event_groups(&mut self, groups: &[EventGroup]) {
        self.encode(Feature::GROUP_DESC, |out| {
            out.list(groups, |out, group| {
                out.string(&group.name);
                out.u32(group.leader);
                out.u32(group.members);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            let events = [DescribedEvent {
                attr: Attr::default(),
                name: "cpu-clock".into(),
                ids: vec![1, 2],
            }];
            f.insert_event_descriptions(&events, 128);
            assert_eq!(f.event_descriptions().unwrap(), events);
            let groups = [EventGroup {
                name: "{cycles,instructions}".into(),
                leader: 0,
                members: 2,
            }];
            f.insert_event_groups(&groups);
            assert_eq!(f.event_groups().unwrap(), groups);
        });
    }
}
