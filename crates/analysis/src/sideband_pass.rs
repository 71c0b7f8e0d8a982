//! Pass one: walks over record headers, and decodes the sideband.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use rprof_image::MemoryBudget;
use rprof_jit::JitProcesses;
use rprof_perfdata::{AuxTally, Block, Damage, PerfData, Walk};
use rprof_processes::{ProcessMapBuilder, Timeline};
use rprof_profile::filter::Origin;
use rprof_profile::{Filter, Gap, GapCause};
use rprof_records::{
    CpuMode, Lost, Misc, ProcessEvent, RawRecord, Record, RecordType, SampleId, SampleType,
};

use crate::deferred_callchains::DeferredCallchains;
use crate::group_reads::{GroupReadCollector, GroupReadDeltas};
use crate::groups::RecordPosition;
use crate::jit::{self, Runtimes};
use crate::machine::RecordedMachine;

/// Samples that any recording may have where they are kept one by one; beyond that there is one for each
/// two bytes of the file at most. A sample that compresses well takes some ten.
const HONEST_SAMPLES: u64 = 2 << 20;

/// Result of pass one: timeline of processes, tallies, damage.
#[derive(Debug)]
pub struct Index<'a> {
    /// The recording.
    pub data: &'a PerfData,
    /// Processes and threads with their mappings and names over time.
    pub timeline: Timeline,
    /// Tallies, by event in the file's order.
    pub events: Vec<EventTally>,
    /// Samples whose event the file does not describe.
    pub samples_of_unknown_events: u64,
    /// Records other than samples that could not be read.
    pub unreadable: u64,
    /// Records of types that this program does not know.
    pub unknown: UnknownRecords,
    /// Pieces of AUX traces, and what is missing in them.
    pub aux: AuxTally,
    /// Damage at which reading ended early, if any.
    pub damage: Option<Damage>,
    /// Deltas of group members' counts.
    pub(crate) group_reads: GroupReadDeltas,
    /// User parts of callchains that have records of their own.
    pub(crate) deferred: DeferredCallchains,
    /// JIT code of all processes.
    pub(crate) runtimes: Runtimes<'a>,
    /// Number of the block from which on there are more samples than honest recordings of this length have.
    pub(crate) flood_from: Option<usize>,
    /// Relation of the recording to this machine.
    pub(crate) machine: RecordedMachine,
    /// Time of the first record that is not a sample: nothing in the recording is older. `None` if it has none with a time.
    pub(crate) began: Option<u64>,
    /// Blocks of the recording, if they are borrowed from the file and so cost no memory, or were
    /// asked for.
    blocks: Option<Vec<Block<'a>>>,
}

/// Counts of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTally {
    /// SAMPLE records: a sample that reads the counts of a group is one.
    pub samples: u64,
    /// Records that were dropped because a ring was full (LOST), or samples that
    /// the hardware dropped (LOST_SAMPLES).
    pub lost: u64,
    /// Number of times that the kernel throttled the event.
    pub throttled: u64,
    /// Records that say how many were dropped, while there are few enough of them to be kept.
    losses: Vec<Incident>,
    /// Records that say when the kernel throttled the event, up to the same number.
    throttles: Vec<Incident>,
}

/// Records of types that no table of the kernel, of perf or of simpleperf names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownRecords {
    /// Number of records.
    pub count: u64,
    /// Their types, in order; the first few that were met.
    types: BTreeSet<u32>,
}

impl UnknownRecords {
    /// Most types that are named: a hostile file may have any number of them.
    const MOST_TYPES: usize = 4;

    fn add(&mut self, kind: RecordType) {
        self.count += 1;
        if self.types.len() < UnknownRecords::MOST_TYPES {
            self.types.insert(kind.0);
        }
    }
}

impl fmt::Display for UnknownRecords {
    /// Writes a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.types.iter().map(u32::to_string).collect();
        write!(
            f,
            "{} records of unknown types ({}) were skipped: a newer recorder wrote them, or they \
             are damaged samples",
            self.count,
            types.join(", ")
        )
    }
}

/// Most [`Incident`]s of a kind that are kept of an event.
const MOST_LOSSES: usize = 100_000;

/// A record that says how many records were dropped before it, or that the event was throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Incident {
    cause: GapCause,
    pid: Option<i32>,
    tid: Option<i32>,
    cpu: Option<u32>,
    time: Option<u64>,
}

impl Incident {
    fn new(cause: GapCause, at: SampleId) -> Incident {
        Incident {
            cause,
            pid: at.pid,
            tid: at.tid,
            cpu: at.cpu,
            time: at.time,
        }
    }

    /// Returns true if a filter wants samples of this place and time. Threads are not told by name here.
    fn is_within(&self, filter: &Filter) -> bool {
        filter.wants_origin(&Origin {
            pid: self.pid,
            tid: self.tid,
            cpu: self.cpu,
            time: self.time,
            comm: None,
        })
    }
}

impl EventTally {
    fn add_loss(&mut self, lost: u64, at: SampleId) {
        self.lost = self.lost.saturating_add(lost);
        if self.losses.len() < MOST_LOSSES {
            let cause = GapCause::Lost(lost);
            self.losses.push(Incident::new(cause, at));
        }
    }

    fn add_throttle(&mut self, at: SampleId) {
        self.throttled += 1;
        if self.throttles.len() < MOST_LOSSES {
            let throttle = Incident::new(GapCause::Throttled, at);
            self.throttles.push(throttle);
        }
    }

    /// Returns the number of records dropped where and when a filter wants samples: on its CPUs, in its time, and while
    /// its threads ran. Threads are not told by name here.
    pub(crate) fn lost_within(&self, filter: &Filter) -> u64 {
        if !filter.is_by_sample() || self.losses.len() == MOST_LOSSES {
            return self.lost;
        }
        self.gaps_within(filter)
            .fold(0, |sum, gap| match gap.cause {
                GapCause::Lost(lost) => sum.saturating_add(lost),
                _ => sum,
            })
    }

    /// Returns the moments at which samples are missing where and when a filter wants them. One without a time is at 0.
    pub(crate) fn gaps_within(&self, filter: &Filter) -> impl Iterator<Item = Gap> {
        let filter = Filter {
            comms: Vec::new(),
            ..filter.clone()
        };
        let incidents = self.losses.iter().chain(&self.throttles);
        let within = incidents.filter(move |incident| incident.is_within(&filter));
        within.map(|incident| Gap {
            time: incident.time.unwrap_or(0),
            cpu: incident.cpu,
            cause: incident.cause,
        })
    }
}

/// A process event with its time.
type Stamped<'a> = (u64, ProcessEvent<'a>);

impl<'a> Index<'a> {
    /// Reads all headers, and all of the sideband.
    pub fn build(data: &'a PerfData) -> Index<'a> {
        Index::build_with(data, &rprof_symbols::Memory::default().strangers, || ())
    }

    /// Reads like [`build`](Self::build), and calls `on_kernel_sample` for each kernel sample. Files that
    /// strangers may have made take `memory`.
    pub(crate) fn build_with(
        data: &'a PerfData,
        memory: &MemoryBudget,
        on_kernel_sample: impl FnMut(),
    ) -> Index<'a> {
        let mut builder = ProcessMapBuilder::new();
        builder.set_build_ids(data.features().inode_build_ids());
        let mut pass = Pass {
            data,
            events: vec![EventTally::default(); data.events().list().len()],
            samples_of_unknown_events: 0,
            unreadable: 0,
            unknown: UnknownRecords::default(),
            aux: AuxTally::default(),
            group_reads: GroupReadCollector::default(),
            deferred: DeferredCallchains::default(),
            builder,
            jit_processes: JitProcesses::default(),
            on_kernel_sample,
        };
        let mut damage = None;
        let mut kept = Some(Vec::new());
        let mut sideband: Vec<Stamped<'_>> = Vec::new();
        let mut block_index = 0;
        let mut flood_from = None;
        let honest = HONEST_SAMPLES + data.data_len() / 2;
        for block in data.blocks() {
            let block = match block {
                Ok(block) => block,
                Err(found) => {
                    damage.get_or_insert(found);
                    continue;
                }
            };
            match block.bytes {
                Cow::Borrowed(bytes) => {
                    let walk = Walk::new(bytes, block.offset, data.endian());
                    pass.handle_block(walk, block_index, |one| sideband.push(one));
                    if let Some(kept) = &mut kept {
                        kept.push(block);
                    }
                }
                Cow::Owned(_) => {
                    kept = None;
                    pass.handle_block(block.walk(), block_index, |(time, event)| {
                        sideband.push((time, event.into_owned()));
                    });
                }
            }
            block_index += 1;
            if flood_from.is_none() && pass.events.iter().map(|e| e.samples).sum::<u64>() > honest {
                flood_from = Some(block_index);
            }
        }
        // Each CPU's records are in order, those of all CPUs are not; records with
        // the same time stay in the order of the file.
        sideband.sort_by_key(|(time, _)| *time);
        // What lay there before is recorded at time 0.
        let began = (sideband.iter())
            .map(|(time, _)| *time)
            .find(|time| *time > 0);
        for (time, event) in sideband {
            jit::follow(&mut pass.jit_processes, &event);
            pass.builder.handle(time, &event);
        }
        let machine = RecordedMachine::of(data);
        Index {
            data,
            timeline: pass.builder.finish(),
            events: pass.events,
            samples_of_unknown_events: pass.samples_of_unknown_events,
            unreadable: pass.unreadable,
            unknown: pass.unknown,
            aux: pass.aux,
            damage,
            group_reads: pass.group_reads.finish(),
            deferred: pass.deferred,
            runtimes: Runtimes::new(data, machine.is_here, pass.jit_processes, memory),
            machine,
            began,
            flood_from,
            blocks: kept,
        }
    }

    /// Keeps all blocks from now on, decompressed ones too: takes memory for all that
    /// the recording expands to.
    pub(crate) fn keep_blocks(&mut self) {
        let data = self.data;
        // Damage was noted when the index was built.
        let most = self.flood_from.unwrap_or(usize::MAX);
        let blocks = || data.blocks().filter_map(Result::ok).take(most).collect();
        self.blocks.get_or_insert_with(blocks);
    }

    /// Returns the blocks of the recording, if they are kept.
    pub(crate) fn kept_blocks(&self) -> Option<&[Block<'a>]> {
        self.blocks.as_deref()
    }
}

struct Pass<'a, F> {
    data: &'a PerfData,
    events: Vec<EventTally>,
    samples_of_unknown_events: u64,
    unreadable: u64,
    unknown: UnknownRecords,
    aux: AuxTally,
    group_reads: GroupReadCollector,
    deferred: DeferredCallchains,
    builder: ProcessMapBuilder,
    jit_processes: JitProcesses,
    on_kernel_sample: F,
}

impl<'a, F: FnMut()> Pass<'a, F> {
    /// Counts the records of a block, and passes process events to `to`.
    fn handle_block<'r>(
        &mut self,
        mut walk: Walk<'r>,
        block: usize,
        mut to: impl FnMut(Stamped<'r>),
    ) where
        'a: 'r,
    {
        // With one event only, its samples need no parsing to be counted.
        let only = match self.data.events().list() {
            [only] => !only.attr.sample_type.contains(SampleType::READ),
            _ => false,
        };
        loop {
            if only {
                walk.skip_samples(|misc| {
                    self.events[0].samples += 1;
                    self.note_mode(misc);
                    true
                });
            }
            let position = RecordPosition::new(block, walk.consumed());
            let Some(walked) = walk.next() else { break };
            if let Some(one) = self.handle_record(&walked.record, position) {
                to(one);
            }
        }
    }

    #[inline]
    fn note_mode(&mut self, misc: Misc) {
        if misc.cpu_mode() == CpuMode::Kernel {
            (self.on_kernel_sample)();
        }
    }

    /// Counts a record, and returns its process event if it has one.
    fn handle_record<'r>(
        &mut self,
        raw: &RawRecord<'r>,
        position: RecordPosition,
    ) -> Option<Stamped<'r>>
    where
        'a: 'r,
    {
        let events = self.data.events();
        match raw.kind {
            RecordType::SAMPLE => {
                self.note_mode(raw.misc);
                match events.of_sample(raw) {
                    Some(event) => {
                        self.events[event].samples += 1;
                        self.group_reads.add_sample(events, event, raw, position);
                    }
                    None => self.samples_of_unknown_events += 1,
                }
                None
            }
            RecordType::LOST | RecordType::LOST_SAMPLES | RecordType::THROTTLE => {
                let event = events.of_other(raw)?;
                let tally = &mut self.events[event];
                let layout = events.layout_of(raw);
                match Record::decode(raw, layout) {
                    Ok(Record::Lost(Lost { lost, .. }) | Record::LostSamples { lost }) => {
                        let at = layout.map(|layout| layout.sample_id(raw));
                        tally.add_loss(lost, at.unwrap_or_default());
                    }
                    Ok(Record::Throttle { .. }) => {
                        let at = layout.map(|layout| layout.sample_id(raw));
                        tally.add_throttle(at.unwrap_or_default());
                    }
                    _ => self.unreadable += 1,
                }
                None
            }
            RecordType::AUX => {
                self.aux.handle(raw);
                None
            }
            RecordType::CALLCHAIN_DEFERRED => {
                let is_read = self.deferred.handle(raw, events.layout_of(raw));
                self.unreadable += u64::from(!is_read);
                None
            }
            kind if ProcessEvent::is_recorded_as(kind) => {
                let layout = events.layout_of(raw);
                match ProcessEvent::decode(raw, layout) {
                    Ok(event) => event.map(|event| (ProcessEvent::time_of(raw, layout), event)),
                    Err(_) => {
                        self.unreadable += 1;
                        None
                    }
                }
            }
            kind => {
                if !kind.is_known() {
                    self.unknown.add(kind);
                }
                None
            }
        }
    }
}
