//! Records to counted stacks of locations.

use rprof_perfdata::{Event, Events};
use rprof_processes::{ImageKind, LiveMap, NamedImages, Pid, Tid};
use rprof_profile::intern::{Lists, Values};
use rprof_records::{CpuMode, Lost, Misc, ProcessEvent, RawRecord, Record, RecordType, Sample};

use crate::comms::thread_name;
use crate::location::{CodeRegion, Location, addresses};
use crate::sample_pass::fixed_layout::default_weight;
use crate::sample_pass::pending::callchain;
use crate::stack_end::StackEnd;

/// Key of a count: samples that agree in all of it are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    /// Index of the event.
    pub(super) event: u32,
    /// Id of the thread's name.
    pub(super) name: u32,
    /// Id of the stack.
    pub(super) stack: u32,
    /// True if the stack reaches its root.
    pub(super) end: StackEnd,
}

/// Counts of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) samples: u64,
    pub(super) weight: u64,
}

/// An event, and what was lost of it.
#[derive(Clone, Debug)]
pub(super) struct CountedEvent {
    pub(super) name: String,
    pub(super) lost: u64,
    pub(super) throttled: u64,
}

/// Counts of all samples so far, and the processes as they are now.
#[derive(Debug, Default)]
pub(super) struct Counter {
    pub(super) map: LiveMap<NamedImages>,
    pub(super) events: Vec<CountedEvent>,
    pub(super) names: Values<String>,
    pub(super) locations: Values<Location>,
    /// Locations, leaf first.
    pub(super) stacks: Lists<u32>,
    pub(super) groups: Values<Group>,
    /// By id of the group.
    pub(super) counts: Vec<Count>,
    pub(super) has_callchains: bool,
    /// Times of the first and the last sample.
    pub(super) time: Option<(u64, u64)>,
    /// Records that could not be read, or are of no known event.
    pub(super) unreadable: u64,
    /// Stack of the sample at hand.
    stack: Vec<u32>,
}

impl Counter {
    /// Adds events, and returns the index of the first.
    pub(super) fn add_events(&mut self, events: &Events) -> u32 {
        let first = self.events.len() as u32;
        let events = events.list().iter();
        self.events.extend(events.map(|event| CountedEvent {
            name: event.name.clone(),
            lost: 0,
            throttled: 0,
        }));
        first
    }

    /// Counts a record of one of `events`, whose first has the index `first`.
    pub(super) fn handle(
        &mut self,
        events: &Events,
        first: u32,
        raw: &RawRecord<'_>,
        marks_truncation: bool,
    ) {
        let is_read = match raw.kind {
            RecordType::SAMPLE => events.of_sample(raw).and_then(|event| {
                let described = &events.list()[event];
                self.count(raw, described, first + event as u32, marks_truncation)
            }),
            RecordType::LOST | RecordType::LOST_SAMPLES | RecordType::THROTTLE => {
                (events.of_other(raw)).and_then(|event| {
                    let event = self.events.get_mut(first as usize + event)?;
                    match Record::decode(raw, events.layout_of(raw)).ok()? {
                        Record::Lost(Lost { lost, .. }) | Record::LostSamples { lost } => {
                            event.lost = event.lost.saturating_add(lost);
                        }
                        _ => event.throttled += 1,
                    }
                    Some(())
                })
            }
            _ => ProcessEvent::decode(raw, events.layout_of(raw))
                .ok()
                .map(|event| {
                    if let Some(event) = event {
                        self.map.handle(&event);
                    }
                }),
        };
        self.unreadable += u64::from(is_read.is_none());
    }

    fn count(
        &mut self,
        raw: &RawRecord<'_>,
        described: &Event,
        event: u32,
        marks_truncation: bool,
    ) -> Option<()> {
        let sample = Sample::parse(raw.body, &described.layout).ok()?;
        let (pid, tid) = (sample.pid().unwrap_or(-1), sample.tid().unwrap_or(-1));
        let mode = raw.misc.cpu_mode();
        let mut stack = std::mem::take(&mut self.stack);
        stack.clear();
        match callchain(&sample) {
            Some(chain) => stack.extend(
                addresses(chain.iter(), mode, false)
                    .map(|(address, mode, caller)| self.location(pid, address, mode, caller)),
            ),
            None => stack.push(self.location(pid, sample.ip().unwrap_or(0), mode, false)),
        }
        self.has_callchains |= sample.callchain().is_some();
        let name = self.map.name(Pid(pid), Tid(tid)).map(|name| &**name);
        let group = Group {
            event,
            name: self.names.intern(thread_name(name, tid)),
            stack: self.stacks.intern(&stack).0,
            end: match raw.misc.has(Misc::TRUNCATED_STACK) {
                _ if !marks_truncation => StackEnd::Unknown,
                true => StackEnd::Cut,
                false => StackEnd::Root,
            },
        };
        self.stack = stack;
        let group = self.groups.intern(group) as usize;
        if self.counts.len() <= group {
            self.counts.resize(group + 1, Count::default());
        }
        let weight = sample.period().unwrap_or_else(|| default_weight(described));
        let count = &mut self.counts[group];
        count.samples += 1;
        count.weight = count.weight.saturating_add(weight);
        if let Some(time) = sample.time() {
            let (first, last) = self.time.unwrap_or((time, time));
            self.time = Some((first.min(time), last.max(time)));
        }
        Some(())
    }

    /// Returns the id of the location at an address of a process as it is now.
    fn location(&mut self, pid: i32, address: u64, mode: CpuMode, caller: bool) -> u32 {
        let lookup = address.wrapping_sub(u64::from(caller));
        let (region, lookup) = match mode {
            CpuMode::Kernel => (CodeRegion::Kernel(None), lookup),
            CpuMode::Hypervisor => (CodeRegion::Hypervisor, lookup),
            CpuMode::GuestKernel => (CodeRegion::GuestKernel, lookup),
            CpuMode::GuestUser => (CodeRegion::GuestUser, lookup),
            CpuMode::User | CpuMode::Unknown if rprof_image::vsyscall(lookup).is_some() => {
                (CodeRegion::Vsyscall, lookup)
            }
            CpuMode::User | CpuMode::Unknown => match self.map.find(Pid(pid), lookup) {
                None => (CodeRegion::Unmapped, lookup),
                Some(mapping) => {
                    let image = mapping.backing;
                    let kind = self.map.images().get(image.0 as usize).map(|i| i.kind);
                    match kind {
                        Some(ImageKind::Anonymous) => {
                            (CodeRegion::Anonymous { pid, image }, lookup)
                        }
                        _ => {
                            let offset = (lookup - mapping.start).wrapping_add(mapping.file_offset);
                            (CodeRegion::Image(image), offset)
                        }
                    }
                }
            },
        };
        self.locations.intern(Location {
            region,
            lookup,
            caller,
        })
    }
}
