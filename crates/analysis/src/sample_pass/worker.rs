//! Worker of pass two.

use rprof_perfdata::{Block, RecordedEvent};
use rprof_processes::{MapState, Moment, Pid, SpaceId, Tid, Timeline};
use rprof_records::{Attr, Endian, Misc, RawRecord, RecordType, Sample, WaitEnd};

use crate::caches::CacheStats;
use crate::caches::canonical::FunctionCanonicalizer;
use crate::caches::thread_states::ThreadStateCache;
use crate::comms::IDLE;
use crate::group_reads::MemberDelta;
use crate::groups::{RecordPosition, SampleGroup, SampleRow, WokenBy};
use crate::latency::{self, LatencyOptions, LatencyWeights, Share, WaitMoment};
use crate::options::{PassOptions, SampleRows};
use crate::requests::RequestTimes;
use crate::sample_pass::aggregate::{SampleAggregator, TOGETHER};
use crate::sample_pass::branch_stack::{self, has_branch_calls};
use crate::sample_pass::compact_rows::{CompactRow, RowsOfBlock};
use crate::sample_pass::fingerprint::FingerprintKeys;
use crate::sample_pass::fixed_layout::{FixedLayoutParser, default_weight};
use crate::sample_pass::pending::{Chain, PendingSample, SampledThread, callchain};
use crate::sample_pass::repeated_leaf;
use crate::sample_pass::results::WorkerOutput;
use crate::sideband_pass::Index;
use crate::stack_end::StackEnd;
use crate::unwind::{Stacks, Unwinding, has_dumps};
use rprof_profile::Filter;
use rprof_profile::filter::Origin;
use rprof_profile::memory::is_of_memory_over_time;
use rprof_profile::waits::WAITS;

pub(crate) struct Shared<'a> {
    pub(crate) index: &'a Index<'a>,
    pub(crate) filter: &'a Filter,
    /// Events that the filter accepts.
    pub(crate) wanted: &'a [bool],
    pub(crate) latency: LatencyOptions<'a>,
    pub(crate) requests: Option<&'a RequestTimes>,
    /// Events with weights in nanoseconds.
    pub(crate) is_time: &'a [bool],
    /// Fast parser by event, if the layout is fixed and only stacks are needed.
    pub(crate) fixed_layouts: &'a [Option<FixedLayoutParser>],
    /// Events whose chains may begin with one address twice.
    pub(crate) may_repeat_leaf: &'a [bool],
    pub(crate) pass: PassOptions,
    pub(crate) unwinding: Option<&'a Unwinding<'a>>,
    /// True if the recorder marks truncated stacks, as rprof does.
    pub(crate) marks_truncation: bool,
    /// `None` if samples keep their addresses.
    pub(crate) canonicalizer: Option<&'a FunctionCanonicalizer<'a>>,
    pub(crate) fingerprint_keys: FingerprintKeys,
}

pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    stacks: Option<Box<Stacks>>,
    thread_states: ThreadStateCache,
    aggregator: SampleAggregator<'a>,
    rows: RowsOfBlock,
    latency: LatencyWeights<'a>,
    out: WorkerOutput,
}

struct SampleContext {
    moment: Moment,
    pid: i32,
    tid: i32,
    misc: Misc,
    end: StackEnd,
    time: u64,
    thread_state: u32,
    woken: WokenBy,
    request: u32,
}

struct Accepted<'s, 'b> {
    sample: &'s Sample<'b>,
    context: SampleContext,
    /// Time of the snapshot for memory over time.
    shown_time: Option<u64>,
    period: u64,
    share: Share,
    is_wait: bool,
}

impl Accepted<'_, '_> {
    fn leaf_alone(&self) -> Chain<'static> {
        Chain::of_address(self.sample.ip().unwrap_or(0), self.is_wait)
    }
}

fn woken_by(end: WaitEnd, timeline: &Timeline, time: u64) -> WokenBy {
    match end {
        WaitEnd::Unknown => WokenBy::Unknown,
        WaitEnd::Interrupt => WokenBy::Interrupt,
        WaitEnd::Awake => WokenBy::Awake,
        WaitEnd::Thread { pid, tid } => WokenBy::Thread(timeline.comm_id(Pid(pid), Tid(tid), time)),
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>) -> Worker<'a> {
        Worker {
            shared,
            stacks: shared.unwinding.map(|u| Box::new(Stacks::new(u))),
            thread_states: ThreadStateCache::new(shared.pass.by_thread),
            aggregator: SampleAggregator::new(shared.index, shared.canonicalizer),
            rows: RowsOfBlock::default(),
            latency: LatencyWeights::new(shared.latency),
            out: WorkerOutput::default(),
        }
    }

    pub(crate) fn finish(self) -> WorkerOutput {
        let found = self.aggregator.finish();
        WorkerOutput {
            locations: found.locations,
            stacks: found.stacks,
            contexts: found.contexts,
            counts: found.counts,
            caches: CacheStats {
                thread_states: self.thread_states.stats(),
                ..found.caches
            },
            latency: self.latency.tally,
            ..self.out
        }
    }

    pub(crate) fn handle_block(&mut self, block: &Block<'_>, block_index: usize) {
        let flood_from = self.shared.index.flood_from;
        let keeps_rows = self.shared.pass.rows != SampleRows::None;
        if keeps_rows && flood_from.is_some_and(|first| block_index >= first) {
            return;
        }
        self.latency.begin_block();
        let mut walk = block.walk();
        let mut pending = Vec::with_capacity(TOGETHER);
        loop {
            let at = walk.consumed();
            let Some(walked) = walk.next() else { break };
            if walked.record.kind == RecordType::SAMPLE {
                self.handle_sample(
                    &walked.record,
                    RecordPosition::new(block_index, at),
                    &mut pending,
                );
            }
        }
        self.count(&pending);
        let rows = self.rows.finish(block_index);
        self.out.compact_rows.extend(rows);
    }

    #[inline]
    fn count(&mut self, pending: &[PendingSample<'_>]) {
        match self.shared.pass.rows {
            SampleRows::Compact => {
                let rows = &mut self.rows;
                self.aggregator.count(pending, |id| rows.counted(id));
            }
            _ => self.aggregator.count(pending, |_| ()),
        }
    }

    fn handle_sample<'b>(
        &mut self,
        record: &RawRecord<'b>,
        position: RecordPosition,
        pending: &mut Vec<PendingSample<'b>>,
    ) where
        'a: 'b,
    {
        let shared = self.shared;
        let index = shared.index;
        let events = index.data.events();
        let Some(event) = events.of_sample(record) else {
            return;
        };
        let wants = |event: usize| shared.wanted.get(event).is_some_and(|wanted| *wanted);
        let members = index.group_reads.at(position);
        if !members.map_or_else(
            || wants(event),
            |all| all.iter().any(|m| wants(m.event as usize)),
        ) {
            return;
        }
        if members.is_none()
            && let Some(Some(parser)) = shared.fixed_layouts.get(event)
            && let Some(body) = record.body.in_one_piece()
        {
            return self.handle_fixed_layout(parser, record.misc, body, event as u32, pending);
        }
        let described = &events.list()[event];
        let Ok(sample) = Sample::parse(record.body, &described.layout) else {
            self.out.faults.unreadable += 1;
            return;
        };
        self.out.faults.inconsistent += u64::from(!sample.is_consistent());
        let Some(mut accepted) = self.accept(&sample, described, record.misc) else {
            return;
        };
        let recorded;
        (recorded, accepted.context.end) =
            self.recorded(&sample, record.misc, described.layout.endian());
        let attr = &described.attr;
        let is_plain = members.is_none()
            && shared.pass.rows != SampleRows::Whole
            && !has_branch_calls(attr)
            && !(shared.unwinding.is_some() && has_dumps(attr));
        if is_plain {
            self.out.has_callchains |= sample.callchain().is_some();
            let chain = recorded.unwrap_or(accepted.leaf_alone());
            let weight = self.weight(event, accepted.share, accepted.period);
            let one = self.pending_sample(chain, &accepted.context, event as u32, weight);
            let row = CompactRow::new(accepted.shown_time, sample.cpu(), weight);
            return self.enqueue(one, row, pending);
        }
        let own = [MemberDelta {
            event: event as u32,
            period: accepted.period,
        }];
        let members = members.unwrap_or(&own).iter();
        let wanted = members.filter(|member| wants(member.event as usize));
        self.count_members(accepted, recorded, attr, position, wanted);
    }

    /// Returns a sample with its context, if the filter accepts it.
    fn accept<'s, 'b>(
        &mut self,
        sample: &'s Sample<'b>,
        described: &RecordedEvent,
        misc: Misc,
    ) -> Option<Accepted<'s, 'b>> {
        let shared = self.shared;
        let index = shared.index;
        let (pid, tid) = (sample.pid().unwrap_or(-1), sample.tid().unwrap_or(-1));
        let time = sample.time().unwrap_or(u64::MAX);
        let (thread_state, moment) = (self.thread_states).state_at(
            &index.timeline,
            &index.runtimes,
            Pid(pid),
            Tid(tid),
            time,
        );
        // The snapshot's time: the sample's own time tells which code was mapped.
        let shown_time = match is_of_memory_over_time(&described.name) {
            true => sample.addr(),
            false => sample.time(),
        };
        if shared.filter.is_by_sample() {
            let name = match tid {
                0 => Some(IDLE.as_bytes()),
                _ => moment.comm.and_then(|c| index.timeline.comm_name(c)),
            };
            let origin = Origin {
                pid: sample.pid(),
                tid: sample.tid(),
                cpu: sample.cpu(),
                time: shown_time,
                comm: name,
            };
            if !shared.filter.wants_origin(&origin) {
                return None;
            }
        }
        let request = match shared.requests {
            None => 0,
            Some(requests) => requests.of_sample(tid, sample.time(), sample.ip())?,
        };
        let period = sample.period().unwrap_or_else(|| default_weight(described));
        let is_wait = described.name == WAITS;
        self.at_time(shown_time, if is_wait { period } else { 0 });
        let wait_end = (sample.addr().filter(|_| is_wait)).map(WaitEnd::from_addr);
        let share = self.latency.share(latency::Moment {
            pid,
            tid,
            time: sample.time(),
            wait: is_wait.then(|| WaitMoment {
                length: period,
                is_awake: wait_end == Some(WaitEnd::Awake),
            }),
        })?;
        let woken = match wait_end.filter(|_| !shared.pass.leaves_only) {
            Some(end) => woken_by(end, &index.timeline, time),
            None => WokenBy::Unknown,
        };
        Some(Accepted {
            sample,
            context: SampleContext {
                moment,
                pid,
                tid,
                misc,
                end: self.recorded_end(misc),
                time,
                thread_state,
                woken,
                request,
            },
            shown_time,
            period,
            share,
            is_wait,
        })
    }

    /// Aggregates the `members` of a group read, or the one event of a sample. Its stack is unwound
    /// from the dump, taken from its branches, or recorded.
    fn count_members<'m>(
        &mut self,
        mut accepted: Accepted<'_, '_>,
        recorded: Option<Chain<'_>>,
        attr: &Attr,
        position: RecordPosition,
        members: impl Iterator<Item = &'m MemberDelta>,
    ) {
        let shared = self.shared;
        let sample = accepted.sample;
        let has_chain = recorded.is_some();
        // Moved out of `self`, because the chain borrows from it.
        let mut stacks = self.stacks.take();
        let unwound = match (shared.unwinding, &mut stacks) {
            (Some(unwinding), Some(stacks)) if has_dumps(attr) => {
                let moment = &accepted.context.moment;
                let space = moment.space.unwrap_or(SpaceId(u32::MAX));
                let state = moment.user.unwrap_or(MapState { space, epoch: 0 });
                let map = (shared.index.timeline).view(space, accepted.context.time);
                stacks.unwind(unwinding, sample, attr, (map, state))
            }
            _ => None,
        };
        self.out.has_callchains |= sample.callchain().is_some() || unwound.is_some();
        let from_branches;
        let chain = match unwound {
            Some((words, end)) => {
                accepted.context.end = end;
                Chain::Words(words)
            }
            None => {
                from_branches = branch_stack::chain(sample, attr);
                match (&from_branches, recorded) {
                    (Some(words), _) => Chain::Words(words),
                    (None, Some(chain)) => chain,
                    (None, None) => accepted.leaf_alone(),
                }
            }
        };
        let mut row = (shared.pass.rows == SampleRows::Whole).then(|| SampleRow {
            time: sample.time().unwrap_or(0),
            position,
            group: SampleGroup::default(),
            cpu: sample.cpu(),
            period: accepted.period,
            ip: sample.ip().unwrap_or(0),
            has_chain,
        });
        for member in members {
            let weight = self.weight(member.event as usize, accepted.share, member.period);
            let one = self.pending_sample(chain.clone(), &accepted.context, member.event, weight);
            let (key, id) = self.aggregator.count_one(one);
            if let Some(row) = &mut row {
                (row.group, row.period) = (self.aggregator.group(key), member.period);
                self.out.rows.push(*row);
            }
            if shared.pass.rows == SampleRows::Compact {
                let row = CompactRow::new(accepted.shown_time, sample.cpu(), weight);
                self.rows.push_counted(row, id);
            }
        }
        self.stacks = stacks;
    }

    #[inline]
    fn handle_fixed_layout<'b>(
        &mut self,
        parser: &FixedLayoutParser,
        misc: Misc,
        body: &'b [u8],
        event: u32,
        pending: &mut Vec<PendingSample<'b>>,
    ) where
        'a: 'b,
    {
        let index = self.shared.index;
        let Some(sample) = parser.read(body) else {
            self.out.faults.unreadable += 1;
            return;
        };
        self.out.faults.inconsistent += u64::from(!sample.is_consistent);
        let (pid, tid) = (sample.pid, sample.tid);
        let time = sample.time.unwrap_or(u64::MAX);
        let (thread_state, moment) = (self.thread_states).state_at(
            &index.timeline,
            &index.runtimes,
            Pid(pid),
            Tid(tid),
            time,
        );
        self.at_time(
            sample.time,
            if parser.is_of_waits() {
                sample.weight
            } else {
                0
            },
        );
        let wait = parser.is_of_waits().then_some(WaitMoment {
            length: sample.weight,
            is_awake: false,
        });
        let Some(share) = self.latency.share(latency::Moment {
            pid,
            tid,
            time: sample.time,
            wait,
        }) else {
            return;
        };
        let weight = self.weight(event as usize, share, sample.weight);
        self.out.has_callchains |= parser.has_chain();
        let chain = match sample.chain {
            Some(words) => Chain::Raw(words),
            None => Chain::of_address(sample.ip, parser.is_of_waits()),
        };
        let context_of_sample = SampleContext {
            moment,
            pid,
            tid,
            misc,
            end: self.recorded_end(misc),
            time,
            thread_state,
            woken: WokenBy::Unknown,
            request: 0,
        };
        let one = self.pending_sample(chain, &context_of_sample, event, weight);
        let row = CompactRow::new(sample.time, sample.cpu, weight);
        self.enqueue(one, row, pending);
    }

    #[inline]
    fn weight(&mut self, event: usize, share: Share, period: u64) -> u64 {
        let is_time = self.shared.is_time.get(event) == Some(&true);
        self.latency.weight(share, period, is_time)
    }

    /// Extends the time range by a sample that began `length` before `time`. The start of a wait is
    /// limited to the recording's and the filter's, since its weight may exceed its length.
    #[inline]
    fn at_time(&mut self, time: Option<u64>, length: u64) {
        if let Some(time) = time {
            let from = match length {
                0 => time,
                _ => {
                    let oldest = self.shared.index.began.unwrap_or(0);
                    let wanted = self.shared.filter.time.map_or(0, |(from, _)| from);
                    time.saturating_sub(length)
                        .max(oldest.max(wanted).min(time))
                }
            };
            let (first, last) = self.out.time.unwrap_or((from, time));
            self.out.time = Some((first.min(from), last.max(time)));
        }
    }

    /// Queues a sample, and aggregates a full queue.
    #[inline]
    fn enqueue<'b>(
        &mut self,
        one: PendingSample<'b>,
        row: CompactRow,
        pending: &mut Vec<PendingSample<'b>>,
    ) {
        if self.shared.pass.rows == SampleRows::Compact {
            self.rows.push_queued(row);
        }
        pending.push(one);
        if pending.len() >= TOGETHER {
            self.count(pending);
            pending.clear();
        }
    }

    /// Returns the recorded callchain with its deferred user part, if it has an address. The second
    /// value tells how it ends.
    fn recorded<'b>(
        &self,
        sample: &Sample<'b>,
        misc: Misc,
        endian: Endian,
    ) -> (Option<Chain<'b>>, StackEnd) {
        let end = self.recorded_end(misc);
        let plain = || callchain(sample).map(|chain| Chain::recorded(chain, endian));
        match sample.callchain().filter(|chain| chain.cookie().is_some()) {
            None => (plain(), end),
            Some(chain) => match self.shared.index.deferred.join(sample.tid(), &chain) {
                Some(joined) => (Some(Chain::Turned(joined)), end),
                None => (plain(), StackEnd::Other),
            },
        }
    }

    fn recorded_end(&self, misc: Misc) -> StackEnd {
        match misc.has(Misc::TRUNCATED_STACK) {
            _ if !self.shared.marks_truncation => StackEnd::Unknown,
            true => StackEnd::Cut,
            false => StackEnd::Root,
        }
    }

    #[inline]
    fn pending_sample<'b>(
        &mut self,
        chain: Chain<'b>,
        context_of_sample: &SampleContext,
        event: u32,
        weight: u64,
    ) -> PendingSample<'b> {
        let pass = self.shared.pass;
        let comm = context_of_sample.moment.comm;
        let group = || SampleGroup {
            event,
            comm,
            pid: if pass.by_thread {
                context_of_sample.pid
            } else {
                0
            },
            tid: if pass.by_thread || comm.is_none() {
                context_of_sample.tid
            } else {
                0
            },
            stack: 0,
            end: context_of_sample.end,
            woken: context_of_sample.woken,
            request: context_of_sample.request,
        };
        let kind = (context_of_sample.thread_state, event, context_of_sample.end);
        let contexts = &mut self.aggregator.contexts;
        let context = match (context_of_sample.woken, context_of_sample.request) {
            (WokenBy::Unknown, 0) => contexts.id(kind, group),
            _ => contexts.intern(group()),
        };
        let thread = SampledThread {
            space: context_of_sample.moment.space.unwrap_or(SpaceId(u32::MAX)),
            time: context_of_sample.time,
            pid: context_of_sample.pid,
            state: context_of_sample.thread_state,
        };
        let mode = context_of_sample.misc.cpu_mode();
        let may_repeat = self.shared.may_repeat_leaf.get(event as usize);
        let (chain, mode) = match may_repeat.is_some_and(|may| *may) {
            true => repeated_leaf::without_repeated(chain, mode),
            false => (chain, mode),
        };
        let keys = &self.shared.fingerprint_keys;
        match pass.leaves_only {
            true => PendingSample::of_leaf(&chain, mode, thread, (context, weight), keys),
            false => PendingSample::new(chain, mode, thread, (context, weight), keys),
        }
    }
}
