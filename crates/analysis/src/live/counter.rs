//! Counts live samples by stack.

use rprof_jit::JitProcesses;
use rprof_perfdata::{Events, RecordedEvent};
use rprof_processes::{ImageKind, LiveMap, NamedImages, Pid, Tid};
use rprof_records::{CpuMode, Lost, Misc, ProcessEvent, RawRecord, Record, RecordType, Sample};

use super::counts::{Counts, Group};
use super::jit::JitOwner;
use crate::comms::thread_name;
use crate::location::{CodeRegion, Location, addresses};
use crate::sample_pass::fixed_layout::default_weight;
use crate::sample_pass::pending::callchain;
use crate::stack_end::StackEnd;

#[derive(Clone, Debug)]
pub(super) struct CountedEvent {
    pub(super) name: String,
    pub(super) lost: u64,
    pub(super) throttled: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counter {
    pub(super) map: LiveMap<NamedImages>,
    jit: JitProcesses,
    pub(super) events: Vec<CountedEvent>,
    pub(super) counts: Counts,
    pub(super) has_callchains: bool,
    pub(super) skips_idle: bool,
    /// Damaged records, and records of unknown events.
    pub(super) unreadable: u64,
    /// Scratch space.
    stack: Vec<u32>,
}

impl Counter {
    /// Adds events. Returns the index of the first.
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

    /// Counts a record of one of `events`. `first` is the index of the first event.
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
                        self.follow(&event);
                    }
                }),
        };
        self.unreadable += u64::from(is_read.is_none());
    }

    fn follow(&mut self, event: &ProcessEvent<'_>) {
        let has_ended = self.map.handle(event);
        // 0: the start time of a live process comes from procfs.
        crate::jit::follow(&mut self.jit, 0, event);
        if let ProcessEvent::Ended { pid, .. } = event
            && has_ended
        {
            self.jit.forget(*pid);
        }
    }

    /// Returns the processes whose files describe a process's JIT code: itself, then its ancestors.
    pub(super) fn owners_of_jit_code(&self, pid: i32) -> Vec<JitOwner> {
        let owner = |pid| JitOwner {
            pid,
            jitdumps: self.jit.jitdumps(pid).to_vec(),
        };
        self.jit.lineage(pid).map(owner).collect()
    }

    fn count(
        &mut self,
        raw: &RawRecord<'_>,
        described: &RecordedEvent,
        event: u32,
        marks_truncation: bool,
    ) -> Option<()> {
        let sample = Sample::parse(raw.body, &described.layout).ok()?;
        let (pid, tid) = (sample.pid().unwrap_or(-1), sample.tid().unwrap_or(-1));
        if self.skips_idle && pid == 0 {
            return Some(());
        }
        let mode = raw.misc.cpu_mode();
        self.counts.make_room();
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
            name: self.counts.names.intern(thread_name(name, tid)),
            stack: self.counts.stacks.intern(&stack).0,
            end: match raw.misc.has(Misc::TRUNCATED_STACK) {
                _ if !marks_truncation => StackEnd::Unknown,
                true => StackEnd::Cut,
                false => StackEnd::Root,
            },
        };
        self.stack = stack;
        let weight = sample.period().unwrap_or_else(|| default_weight(described));
        self.counts.add(group, weight, sample.time());
        Some(())
    }

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
        self.counts.locations.intern(Location {
            region,
            lookup,
            caller,
        })
    }
}
