//! Pass one: walks over record headers, and decodes the sideband.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use rprof_image::MemoryBudget;
use rprof_jit::JitProcesses;
use rprof_perfdata::{AuxTally, Block, Damage, PerfData, Walk};
use rprof_processes::{ProcessMapBuilder, Timeline};
use rprof_profile::filter::Origin;
use rprof_profile::language::INJECTED_CODE;
use rprof_profile::unit::counted;
use rprof_profile::{Filter, Gap, GapCause};
use rprof_records::{
    CpuMode, Lost, Misc, ProcessEvent, RawRecord, Record, RecordType, SampleId, SampleType,
};

use crate::deferred_callchains::DeferredCallchains;
use crate::group_reads::{GroupReadCollector, GroupReadDeltas};
use crate::groups::RecordPosition;
use crate::jit::{self, Runtimes};
use crate::machine::RecordedMachine;

/// Number of single samples accepted from any recording. Beyond it, the limit is one for each two
/// bytes of the file. A sample that compresses well takes about ten.
const HONEST_SAMPLES: u64 = 2 << 20;

/// Result of pass one: timeline of processes, tallies, damage.
#[derive(Debug)]
pub struct Index<'a> {
    /// The recording.
    pub data: &'a PerfData,
    /// Processes and threads with their mappings and names over time.
    pub timeline: Timeline,
    /// Tallies by event, in file order.
    pub events: Vec<EventTally>,
    /// Samples of events that the file does not describe.
    pub samples_of_unknown_events: u64,
    /// Damaged records other than samples.
    pub unreadable: u64,
    /// Records of unknown types.
    pub unknown: UnknownRecords,
    /// AUX traces and their gaps.
    pub aux: AuxTally,
    /// Damage that ended reading early.
    pub damage: Option<Damage>,
    pub(crate) group_reads: GroupReadDeltas,
    pub(crate) deferred: DeferredCallchains,
    pub(crate) runtimes: Runtimes<'a>,
    /// First block beyond the limit on samples.
    pub(crate) flood_from: Option<usize>,
    pub(crate) machine: RecordedMachine,
    /// Time of the first timed record that is not a sample. The recording is not older.
    pub(crate) began: Option<u64>,
    /// Blocks that are borrowed from the file and cost no memory, or were requested.
    blocks: Option<Vec<Block<'a>>>,
}

/// Counts of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTally {
    /// SAMPLE records. A group read counts as one.
    pub samples: u64,
    /// Records dropped because a ring buffer was full (LOST), or samples dropped by the hardware
    /// (LOST_SAMPLES).
    pub lost: u64,
    /// Number of times that the kernel throttled the event.
    pub throttled: u64,
    /// Incidents, up to [`MAX_LOSSES`].
    losses: Vec<Incident>,
    throttles: Vec<Incident>,
}

/// Records of types unknown to the kernel, perf and simpleperf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownRecords {
    /// Number of records.
    pub count: u64,
    /// The first few types, ascending.
    types: BTreeSet<u32>,
}

impl UnknownRecords {
    /// Maximum number of types listed. A hostile file may have any number.
    const MAX_TYPES: usize = 4;

    fn add(&mut self, kind: RecordType) {
        self.count += 1;
        if self.types.len() < UnknownRecords::MAX_TYPES {
            self.types.insert(kind.0);
        }
    }
}

impl fmt::Display for UnknownRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.types.iter().map(u32::to_string).collect();
        write!(
            f,
            "skipped {} of unknown type ({}): from a newer recorder, or damaged",
            counted(self.count, "record"),
            types.join(", ")
        )
    }
}

/// Maximum number of [`Incident`]s of a kind kept for an event.
const MAX_LOSSES: usize = 100_000;

/// Record of a loss before it, or of throttling.
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

    /// Returns true if the filter accepts its CPU, thread and time. Ignores thread names.
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
        if self.losses.len() < MAX_LOSSES {
            let cause = GapCause::Lost(lost);
            self.losses.push(Incident::new(cause, at));
        }
    }

    fn add_throttle(&mut self, at: SampleId) {
        self.throttled += 1;
        if self.throttles.len() < MAX_LOSSES {
            let throttle = Incident::new(GapCause::Throttled, at);
            self.throttles.push(throttle);
        }
    }

    /// Returns the number of records dropped within the filter. Ignores thread names.
    pub(crate) fn lost_within(&self, filter: &Filter) -> u64 {
        if !filter.is_by_sample() || self.losses.len() == MAX_LOSSES {
            return self.lost;
        }
        self.gaps_within(filter)
            .fold(0, |sum, gap| match gap.cause {
                GapCause::Lost(lost) => sum.saturating_add(lost),
                _ => sum,
            })
    }

    /// Returns the accepted times of missing samples. A gap without a time is at 0.
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

type Stamped<'a> = (u64, ProcessEvent<'a>);

impl<'a> Index<'a> {
    /// Reads all headers and the whole sideband.
    pub fn build(data: &'a PerfData) -> Index<'a> {
        Index::build_with(
            data,
            &rprof_symbols::MemoryLimits::default().strangers,
            || (),
        )
    }

    /// Returns true if interpreter code in the recording may be
    /// [folded](rprof_profile::Profile::fold_languages) into named functions.
    pub(crate) fn may_fold(&self) -> bool {
        let mut images = self.timeline.images().iter();
        let injected = INJECTED_CODE.as_bytes();
        let is_injected = |path: &[u8]| {
            let name = path.rsplit(|byte| *byte == b'/').next();
            name.is_some_and(|name| name.starts_with(injected))
        };
        images.any(|image| is_injected(&image.path)) || self.runtimes.has_functions()
    }

    /// Calls `on_kernel_sample` for each kernel sample. Untrusted files count against `memory`.
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
        // Records are in order within a CPU only.
        sideband.sort_by_key(|(time, _)| *time);
        // Records at time 0 describe the state before the start.
        let began = (sideband.iter())
            .map(|(time, _)| *time)
            .find(|time| *time > 0);
        for (time, event) in sideband {
            jit::follow(&mut pass.jit_processes, time, &event);
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

    /// Keeps all blocks, so memory grows with the decompressed size.
    pub(crate) fn keep_blocks(&mut self) {
        let data = self.data;
        let most = self.flood_from.unwrap_or(usize::MAX);
        let blocks = || data.blocks().filter_map(Result::ok).take(most).collect();
        self.blocks.get_or_insert_with(blocks);
    }

    pub(crate) fn for_each_block(&self, mut handle: impl FnMut(Walk<'_>)) {
        match self.kept_blocks() {
            Some(blocks) => {
                for block in blocks {
                    handle(block.walk());
                }
            }
            None => {
                for block in self.data.blocks().filter_map(Result::ok) {
                    handle(block.walk());
                }
            }
        }
    }

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
        // Samples of a single event need no parsing.
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
