//! One of the threads of pass two: samples of its blocks to groups.

use rprof_perfdata::Block;
use rprof_processes::{MapState, Pid, SpaceId, Tid};
use rprof_records::{Misc, RawRecord, RecordType, Sample};

use crate::coarse::Coarse;
use crate::filter::Filter;
use crate::identity::Identities;
use crate::index::Index;
use crate::lbr::has_branch_calls;
use crate::location::{Context, Location, addresses, leaf};
use crate::memo::{Memo, Tag};
use crate::quick::{Quick, default_weight};
use crate::resolve::{Group, IDLE, Keep, Resolved, Row, place_in};
use crate::seen::{Numbers, Seen};
use crate::tasks::Tasks;
use crate::unwind::{StackEnd, Stacks, Unwinding, has_dumps};
use crate::waiting::{Chain, Fresh, Taken, Task, Waiting, callchain};

/// What the workers have in common.
pub(crate) struct Shared<'a> {
    pub(crate) index: &'a Index<'a>,
    pub(crate) filter: &'a Filter,
    /// By event, whether it is wanted.
    pub(crate) wanted: &'a [bool],
    /// By event, how its samples are read where they are of the usual form and nothing but
    /// their stacks is wanted.
    pub(crate) quick: &'a [Option<Quick>],
    pub(crate) keep: Keep,
    /// Where samples have stack dumps.
    pub(crate) unwinding: Option<&'a Unwinding<'a>>,
    /// Whether the recorder has marked the stacks that do not reach their root.
    pub(crate) tells_ends: bool,
    /// What stands for addresses, where these need not be kept.
    pub(crate) coarse: Option<&'a Coarse<'a>>,
    pub(crate) identities: Identities,
}

/// Keeps what it has found out so far.
pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    stacks: Option<Box<Stacks>>,
    tasks: Tasks,
    seen: Seen,
    /// Numbers of lists of callers.
    callers: Numbers,
    fresh: Vec<Fresh>,
    words: Vec<u64>,
    list: Vec<u32>,
    /// Callers that are not in the memo: their places in the list, addresses, tags, locations.
    missed: Vec<(usize, u64, Option<Tag>, Location)>,
    memo: Memo,
    out: Resolved,
}

/// Samples that are looked up together: the memory that each waits for is then on its way for
/// all of them.
const TOGETHER: usize = 64;

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>) -> Worker<'a> {
        Worker {
            shared,
            stacks: shared.unwinding.map(|u| Box::new(Stacks::new(u))),
            tasks: Tasks::new(shared.keep.tasks),
            seen: Seen::default(),
            callers: Numbers::default(),
            fresh: Vec::new(),
            words: Vec::new(),
            list: Vec::new(),
            missed: Vec::new(),
            memo: Memo::default(),
            out: Resolved::default(),
        }
    }

    /// What it found.
    pub(crate) fn finish(mut self) -> Resolved {
        self.out.groups = self.seen.finish();
        self.out
    }

    /// Takes all samples of a block.
    pub(crate) fn take_block(&mut self, block: &Block<'_>, number: usize) {
        let mut walk = block.walk();
        let mut waiting = Vec::with_capacity(TOGETHER);
        if let Some(stacks) = &mut self.stacks {
            stacks.begin_block();
        }
        loop {
            let at = walk.consumed();
            let Some(walked) = walk.next() else { break };
            if walked.record.kind == RecordType::SAMPLE {
                self.take_sample(&walked.record, place_in(number, at), &mut waiting);
            }
        }
        self.count_all(&mut waiting);
    }

    fn take_sample<'b>(
        &mut self,
        record: &RawRecord<'b>,
        order: u64,
        waiting: &mut Vec<Waiting<'b>>,
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
        let members = index.reads.of(order);
        if !members.map_or_else(
            || wants(event),
            |all| all.iter().any(|m| wants(m.event as usize)),
        ) {
            return;
        }
        if members.is_none()
            && let Some(Some(quick)) = shared.quick.get(event)
            && let Some(body) = record.body.in_one_piece()
        {
            return self.take_quick(quick, record.misc, body, event as u32, waiting);
        }
        let described = &events.list()[event];
        let Ok(sample) = Sample::parse(record.body, &described.layout) else {
            self.out.unreadable += 1;
            return;
        };
        let (pid, tid) = (sample.pid().unwrap_or(-1), sample.tid().unwrap_or(-1));
        let time = sample.time().unwrap_or(u64::MAX);
        let (task, moment) =
            (self.tasks).at(&index.timeline, &index.runtimes, Pid(pid), Tid(tid), time);
        if shared.filter.is_by_sample() {
            let name = match tid {
                0 => Some(IDLE.as_bytes()),
                _ => moment.comm.and_then(|c| index.timeline.comm_name(c)),
            };
            if !shared.filter.wants(&sample, name) {
                return;
            }
        }
        self.at_time(sample.time());
        let attr = &described.attr;
        let weight = sample.period().unwrap_or_else(|| default_weight(described));

        let recorded = callchain(&sample);
        let is_plain = members.is_none() && !shared.keep.rows && !has_branch_calls(attr);
        if is_plain && !(shared.unwinding.is_some() && has_dumps(attr)) {
            self.out.has_callchains |= sample.callchain().is_some();
            let taken = Taken {
                chain: match recorded {
                    Some(chain) => Chain::Recorded(chain),
                    None => Chain::Ip(sample.ip().unwrap_or(0)),
                },
                moment,
                pid,
                tid,
                misc: record.misc,
                end: self.recorded_end(record.misc),
                time,
                task,
            };
            return self.wait(taken, event as u32, weight, waiting);
        }

        // Out of `self` while the chain borrows from it.
        let mut stacks = self.stacks.take();
        let unwound = match (shared.unwinding, &mut stacks) {
            (Some(unwinding), Some(stacks)) if has_dumps(attr) => {
                let space = moment.space.unwrap_or(SpaceId(u32::MAX));
                let state = moment.user.unwrap_or(MapState { space, epoch: 0 });
                let map = index.timeline.view(space, time);
                stacks.unwind(unwinding, &sample, attr, (map, state))
            }
            _ => None,
        };
        let from_branches;
        let (chain, end) = match unwound {
            Some((words, end)) => (Chain::Words(words), end),
            None => {
                from_branches = crate::lbr::chain(&sample, attr);
                let chain = match (&from_branches, recorded) {
                    (Some(words), _) => Chain::Words(words),
                    (None, Some(chain)) => Chain::Recorded(chain),
                    (None, None) => Chain::Ip(sample.ip().unwrap_or(0)),
                };
                (chain, self.recorded_end(record.misc))
            }
        };
        self.out.has_callchains |= sample.callchain().is_some() || unwound.is_some();
        let taken = Taken {
            chain,
            moment,
            pid,
            tid,
            misc: record.misc,
            end,
            time,
            task,
        };
        let mut row = shared.keep.rows.then(|| Row {
            time: sample.time().unwrap_or(0),
            order,
            group: Group::default(),
            cpu: sample.cpu(),
            period: weight,
            ip: sample.ip().unwrap_or(0),
            has_chain: recorded.is_some(),
        });
        match members {
            None => self.count(&taken, event as u32, weight, row.as_mut()),
            Some(members) => {
                for member in members.iter().filter(|m| wants(m.event as usize)) {
                    self.count(&taken, member.event, member.period, row.as_mut());
                }
            }
        }
        self.stacks = stacks;
    }

    /// Takes a sample of the usual form.
    #[inline]
    fn take_quick<'b>(
        &mut self,
        quick: &Quick,
        misc: Misc,
        body: &'b [u8],
        event: u32,
        waiting: &mut Vec<Waiting<'b>>,
    ) where
        'a: 'b,
    {
        let index = self.shared.index;
        let Some(sample) = quick.read(body) else {
            self.out.unreadable += 1;
            return;
        };
        let (pid, tid) = (sample.pid, sample.tid);
        let time = sample.time.unwrap_or(u64::MAX);
        let (task, moment) =
            (self.tasks).at(&index.timeline, &index.runtimes, Pid(pid), Tid(tid), time);
        self.at_time(sample.time);
        self.out.has_callchains |= quick.has_chain();
        let taken = Taken {
            chain: match sample.chain {
                Some(words) => Chain::Raw(words),
                None => Chain::Ip(sample.ip),
            },
            moment,
            pid,
            tid,
            misc,
            end: self.recorded_end(misc),
            time,
            task,
        };
        self.wait(taken, event, sample.weight, waiting);
    }

    /// Notes the time of a sample that counts.
    #[inline]
    fn at_time(&mut self, time: Option<u64>) {
        if let Some(time) = time {
            let (first, last) = self.out.time.unwrap_or((time, time));
            self.out.time = Some((first.min(time), last.max(time)));
        }
    }

    /// Lets a sample wait until there are enough to be looked up together.
    #[inline]
    fn wait<'b>(
        &mut self,
        taken: Taken<'b>,
        event: u32,
        weight: u64,
        waiting: &mut Vec<Waiting<'b>>,
    ) {
        waiting.push(Waiting {
            identity: taken.identity(&self.shared.identities, event),
            taken,
            event,
            weight,
        });
        if waiting.len() >= TOGETHER {
            self.count_all(waiting);
        }
    }

    /// How a stack ends that was recorded as a callchain.
    fn recorded_end(&self, misc: Misc) -> StackEnd {
        match misc.has(Misc::TRUNCATED_STACK) {
            _ if !self.shared.tells_ends => StackEnd::Unknown,
            true => StackEnd::Cut,
            false => StackEnd::Root,
        }
    }

    /// Counts samples that wait.
    fn count_all(&mut self, waiting: &mut Vec<Waiting<'_>>) {
        // Those that were seen before, with nothing between one look-up and the next.
        waiting.retain(|one| self.seen.count(one.identity, one.weight).is_none());
        if waiting.is_empty() {
            return;
        }
        self.fresh.clear();
        self.words.clear();
        for one in waiting.iter() {
            let fresh = self.fresh(&one.taken);
            self.fresh.push(fresh);
        }
        self.intern_fresh();
        for (at, one) in waiting.iter().enumerate() {
            let group = self.group(&one.taken, one.event, self.fresh[at].stack);
            self.fresh[at].group = self.seen.group(group);
        }
        for (one, fresh) in waiting.drain(..).zip(&self.fresh) {
            // One before it may have been the same.
            if self.seen.count(one.identity, one.weight).is_none() {
                self.seen.insert(one.identity, fresh.group, one.weight);
            }
        }
    }

    /// Counts a sample, and keeps its row, if there is one.
    #[inline]
    fn count(&mut self, taken: &Taken<'_>, event: u32, weight: u64, row: Option<&mut Row>) {
        let identity = taken.identity(&self.shared.identities, event);
        let group = match self.seen.count(identity, weight) {
            Some(group) => *group,
            None => {
                self.fresh.clear();
                self.words.clear();
                let fresh = self.fresh(taken);
                self.fresh.push(fresh);
                self.intern_fresh();
                let group = self.group(taken, event, self.fresh[0].stack);
                let number = self.seen.group(group);
                self.seen.insert(identity, number, weight);
                group
            }
        };
        if let Some(row) = row {
            (row.group, row.period) = (group, weight);
            self.out.rows.push(*row);
        }
    }

    /// The group of a sample that was not seen before.
    fn group(&self, taken: &Taken<'_>, event: u32, stack: u32) -> Group {
        let keep = self.shared.keep;
        let comm = taken.moment.comm;
        Group {
            event,
            comm,
            pid: if keep.tasks { taken.pid } else { 0 },
            // A thread without a name is called by its number.
            tid: if keep.tasks || comm.is_none() {
                taken.tid
            } else {
                0
            },
            stack,
            end: taken.end,
        }
    }

    fn context(&self, taken: Task) -> Context<'a> {
        let timeline = &self.shared.index.timeline;
        Context {
            timeline,
            user: timeline.view(taken.space, taken.time),
            kernel: timeline.view(SpaceId::KERNEL, taken.time),
            pid: taken.pid,
            time: taken.time,
            runtimes: &self.shared.index.runtimes,
        }
    }

    /// What a sample that was not seen before is to be known by; its words go into `words`.
    fn fresh(&mut self, taken: &Taken<'_>) -> Fresh {
        let task = Task {
            space: taken.moment.space.unwrap_or(SpaceId(u32::MAX)),
            time: taken.time,
            pid: taken.pid,
        };
        let context = self.context(task);
        let mode = taken.misc.cpu_mode();
        let start = self.words.len();
        match &taken.chain {
            Chain::Recorded(chain) => self.words.extend(chain.iter()),
            Chain::Raw(words) => {
                (self.words).extend(words.iter().map(|w| u64::from_ne_bytes(*w)));
            }
            Chain::Words(words) => self.words.extend_from_slice(words),
            Chain::Ip(_) => {}
        }
        let (leaf, mode, callers) = match taken.chain {
            // An address in the markers' range is one here.
            Chain::Ip(ip) => (Some((ip, mode)), mode, start..start),
            _ => match leaf(&self.words[start..], mode) {
                Some((address, mode, rest)) => {
                    let callers = start + rest..self.words.len();
                    (Some((address, mode)), mode, callers)
                }
                None => (None, mode, start..start),
            },
        };
        let seed = u64::from(taken.task) << 32 | mode as u64;
        let words = self.words[callers.clone()].iter().copied();
        Fresh {
            leaf: leaf.map(|(address, mode)| context.locate(address, mode, false)),
            identity: self.shared.identities.of(seed, words),
            task,
            number: taken.task,
            mode,
            callers,
            list: None,
            stack: 0,
            group: 0,
        }
    }

    /// Interns the stacks of what is fresh: step by step for all of them, as each step
    /// waits for other memory.
    fn intern_fresh(&mut self) {
        let mut all = std::mem::take(&mut self.fresh);
        for one in &mut all {
            one.list = self.callers.find(one.identity);
        }
        if let Some(coarse) = self.shared.coarse {
            for one in &mut all {
                one.leaf = one.leaf.map(|leaf| coarse.of(leaf));
            }
        }
        for one in &mut all {
            one.stack = match one.leaf {
                Some(leaf) => self.out.locations.intern(leaf),
                None => 0,
            };
        }
        for one in &mut all {
            let list = match one.list {
                Some(list) => list,
                None => self.resolve_callers(one),
            };
            let leaf = one.leaf.map(|_| one.stack);
            one.stack = self.out.stacks.intern(leaf, list);
        }
        self.fresh = all;
    }

    /// Resolves callers that were not seen before.
    #[cold]
    fn resolve_callers(&mut self, one: &Fresh) -> u32 {
        let context = self.context(one.task);
        let coarse = self.shared.coarse;
        let Worker {
            words,
            callers,
            list,
            missed,
            memo,
            out,
            ..
        } = self;
        let words = words[one.callers.clone()].iter().copied();
        callers.get_or_insert_with(one.identity, || {
            list.clear();
            missed.clear();
            for (address, mode, caller) in addresses(words, one.mode, true) {
                let tag = Tag::new(one.number, mode as u8, caller);
                match tag.and_then(|tag| memo.find(address, tag)) {
                    Some(number) => list.push(number),
                    None => {
                        let location = context.locate(address, mode, caller);
                        missed.push((list.len(), address, tag, location));
                        list.push(0);
                    }
                }
            }
            // Step by step for all of them, as each step waits for other memory.
            if let Some(coarse) = coarse {
                missed.iter_mut().for_each(|(.., l)| *l = coarse.of(*l));
            }
            for (at, address, tag, location) in &*missed {
                list[*at] = out.locations.intern(*location);
                if let Some(tag) = tag {
                    memo.keep(*address, *tag, list[*at]);
                }
            }
            out.stacks.intern_callers(list)
        })
    }
}
