//! Pass two: every sample to an interned stack of locations.

use std::hash::{BuildHasher, Hash};
use std::sync::Mutex;

use hashbrown::HashTable;
use rprof_perfdata::Block;
use rprof_processes::{CommId, MapState, Pid, SpaceId, Tid};
use rprof_records::{Callchain, ContextMarker, CpuMode, Misc, RawRecord, RecordType, Sample};
use rprof_symbols::Symbolizer;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::filter::Filter;
use crate::index::Index;
use crate::intern::{Lists, Values};
use crate::location::{Context, Location, addresses};
use crate::threads;
use crate::unwind::{StackEnd, Stacks, Unwinding, has_dumps};

/// What the idle task is called, of which no recorder tells.
pub(crate) const IDLE: &str = "swapper";

/// What samples are counted together by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(crate) event: u32,
    pub(crate) comm: Option<CommId>,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) stack: u32,
    pub(crate) end: StackEnd,
}

/// How much of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

/// All that pass two keeps: linear in distinct stacks.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) locations: Values<Location>,
    /// Leaf first, as numbers of locations.
    pub(crate) stacks: Lists<u32>,
    pub(crate) groups: FxHashMap<Group, Amount>,
    /// Samples that could not be read.
    pub(crate) unreadable: u64,
    /// Time of the first and of the last sample that counted.
    pub(crate) time: Option<(u64, u64)>,
    /// Whether any sample had a callchain.
    pub(crate) has_callchains: bool,
    /// The samples one by one, where they were asked for.
    pub(crate) rows: Vec<Row>,
}

/// One sample, for those who want them one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) time: u64,
    /// Place in the recording, as [`place_in`] makes it: orders samples of the same
    /// time, and finds the record again.
    pub(crate) order: u64,
    pub(crate) group: Group,
    pub(crate) cpu: Option<u32>,
    pub(crate) period: u64,
    pub(crate) ip: u64,
    pub(crate) has_chain: bool,
}

/// A place in the recording: the number of the block, and the bytes before the record
/// within it. No record begins 4 GiB into a block, blocks being cut after about a MiB.
pub(crate) fn place_in(block: usize, at: usize) -> u64 {
    (block as u64) << 32 | at as u64
}

/// What pass two shall keep besides stacks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keep {
    /// Tell samples apart by process and thread.
    pub(crate) tasks: bool,
    /// Keep a row for each sample.
    pub(crate) rows: bool,
}

/// Resolves all samples that `filter` wants.
pub(crate) fn resolve(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    filter: &Filter,
    keep: Keep,
    n: usize,
) -> Resolved {
    let unwinding = Unwinding::new(index, symbolizer);
    let notes = index.data.features().private().unwrap_or_default();
    let tells_ends = notes.iter().any(|(key, _)| key == "stacks.total");
    let events = index.data.events().list();
    let wanted: Vec<bool> = events.iter().map(|e| filter.wants_event(&e.name)).collect();
    let new_worker = || Worker {
        index,
        filter,
        wanted: &wanted,
        keep,
        unwinding: unwinding.as_ref(),
        stacks: unwinding.as_ref().map(Stacks::new),
        tells_ends,
        raw: RawStacks::default(),
        scratch: Vec::new(),
        out: Resolved::default(),
    };
    let parts = match index.kept_blocks() {
        Some(blocks) => threads::run(n, blocks.len(), |queue| {
            let mut worker = new_worker();
            while let Some(piece) = queue.next() {
                worker.take_block(&blocks[piece], piece);
            }
            worker.out
        }),
        // Decompressed again, one block at a time, so that memory stays bounded.
        None => {
            let blocks = Mutex::new(index.data.blocks().enumerate());
            threads::run(n, usize::MAX, |_| {
                let mut worker = new_worker();
                loop {
                    let next = match blocks.lock() {
                        Ok(mut blocks) => blocks.next(),
                        Err(_) => None,
                    };
                    match next {
                        Some((number, block)) => worker.take_block(&block, number),
                        None => return worker.out,
                    }
                }
            })
        }
    };
    let mut parts = parts.into_iter();
    let mut whole = parts.next().unwrap_or_default();
    for part in parts {
        whole.merge(&part);
    }
    whole
}

impl Resolved {
    /// For each location, in how many samples it is.
    pub(crate) fn samples_by_location(&self) -> Vec<u64> {
        let mut samples = vec![0; self.locations.as_slice().len()];
        for (group, amount) in &self.groups {
            for location in self.stacks.get(group.stack) {
                samples[*location as usize] += amount.samples;
            }
        }
        samples
    }

    fn merge(&mut self, other: &Resolved) {
        let locations: Vec<u32> = (other.locations.as_slice().iter())
            .map(|l| self.locations.intern(*l))
            .collect();
        let mut stack = Vec::new();
        let stacks: Vec<u32> = (0..other.stacks.len() as u32)
            .map(|s| {
                stack.clear();
                stack.extend(other.stacks.get(s).iter().map(|l| locations[*l as usize]));
                self.stacks.intern(&stack).0
            })
            .collect();
        for (group, amount) in &other.groups {
            let group = Group {
                stack: stacks[group.stack as usize],
                ..*group
            };
            let sum = self.groups.entry(group).or_default();
            sum.samples += amount.samples;
            sum.weight = sum.weight.saturating_add(amount.weight);
        }
        self.rows.extend(other.rows.iter().map(|row| Row {
            group: Group {
                stack: stacks[row.group.stack as usize],
                ..row.group
            },
            ..*row
        }));
        self.unreadable += other.unreadable;
        self.has_callchains |= other.has_callchains;
        self.time = match (self.time, other.time) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (a, b) => a.or(b),
        };
    }
}

/// The callchain, if it has an address. Where an unwinder shall find the user side, the
/// kernel writes a marker and nothing behind it.
fn callchain<'a>(sample: &Sample<'a>) -> Option<Callchain<'a>> {
    (sample.callchain()).filter(|c| c.iter().any(|e| !ContextMarker::is_marker(e)))
}

/// Raw callchains, each with the stack it resolved to. The key is its words
/// and whatever decides what they mean.
#[derive(Default)]
struct RawStacks {
    words: Vec<u64>,
    entries: Vec<RawStack>,
    table: HashTable<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RawKey {
    user: MapState,
    kernel: MapState,
    /// Anonymous memory is told apart by process.
    pid: i32,
    /// What its runtime had told by then.
    made: u64,
    mode: u8,
    chain: bool,
}

struct RawStack {
    key: RawKey,
    start: usize,
    end: usize,
    stack: u32,
}

impl RawStacks {
    fn hash(key: &RawKey, words: &[u64]) -> u64 {
        FxBuildHasher.hash_one((key, words))
    }

    fn find(&self, hash: u64, key: &RawKey, words: &[u64]) -> Option<u32> {
        let found = self.table.find(hash, |i| {
            let e = &self.entries[*i as usize];
            e.key == *key && self.words[e.start..e.end] == *words
        })?;
        Some(self.entries[*found as usize].stack)
    }

    fn insert(&mut self, hash: u64, key: RawKey, words: &[u64], stack: u32) {
        let start = self.words.len();
        self.words.extend_from_slice(words);
        let RawStacks {
            words,
            entries,
            table,
        } = self;
        let index = entries.len() as u32;
        entries.push(RawStack {
            key,
            start,
            end: words.len(),
            stack,
        });
        table.insert_unique(hash, index, |i| {
            let e = &entries[*i as usize];
            Self::hash(&e.key, &words[e.start..e.end])
        });
    }
}

struct Worker<'a> {
    index: &'a Index<'a>,
    filter: &'a Filter,
    wanted: &'a [bool],
    keep: Keep,
    /// Where samples have stack dumps.
    unwinding: Option<&'a Unwinding<'a>>,
    stacks: Option<Stacks>,
    /// Whether the recorder has marked the stacks that do not reach their root.
    tells_ends: bool,
    raw: RawStacks,
    scratch: Vec<u32>,
    out: Resolved,
}

impl Worker<'_> {
    fn take_block(&mut self, block: &Block<'_>, number: usize) {
        let mut walk = block.walk();
        if let Some(stacks) = &mut self.stacks {
            stacks.begin_block();
        }
        loop {
            let at = walk.consumed();
            let Some(walked) = walk.next() else { break };
            if walked.record.kind == RecordType::SAMPLE {
                self.take_sample(&walked.record, place_in(number, at));
            }
        }
    }

    fn take_sample(&mut self, record: &RawRecord<'_>, order: u64) {
        let index = self.index;
        let events = index.data.events();
        let Some(event) = events.of_sample(record) else {
            return;
        };
        let wanted = self.wanted;
        let wants = |event: usize| wanted.get(event).is_some_and(|wanted| *wanted);
        let members = index.reads.of(order);
        if !members.map_or_else(
            || wants(event),
            |all| all.iter().any(|m| wants(m.event as usize)),
        ) {
            return;
        }
        let layout = &events.list()[event].layout;
        let Ok(sample) = Sample::parse(record.body, layout) else {
            self.out.unreadable += 1;
            return;
        };
        let timeline = &index.timeline;
        let (pid, tid) = (sample.pid().unwrap_or(-1), sample.tid().unwrap_or(-1));
        let time = sample.time().unwrap_or(u64::MAX);
        // Thread 0 is the idle task, whichever process the sample names.
        let comm = match tid {
            0 => None,
            _ => timeline.comm_id(Pid(pid), Tid(tid), time),
        };
        if self.filter.is_by_sample() {
            let name = match tid {
                0 => Some(IDLE.as_bytes()),
                _ => comm.and_then(|c| timeline.comm_name(c)),
            };
            if !self.filter.wants(&sample, name) {
                return;
            }
        }
        if let Some(time) = sample.time() {
            let (first, last) = self.out.time.unwrap_or((time, time));
            self.out.time = Some((first.min(time), last.max(time)));
        }
        let (stack, end) = self.stack(&sample, record.misc, event, time);
        let group = Group {
            event: event as u32,
            comm,
            pid: if self.keep.tasks { pid } else { 0 },
            // A thread without a name is called by its number.
            tid: if self.keep.tasks || comm.is_none() {
                tid
            } else {
                0
            },
            stack,
            end,
        };
        // Without a period in the sample, it is what the event was opened with;
        // a frequency says nothing of it.
        let attr = &events.list()[event].attr;
        let weight =
            sample
                .period()
                .unwrap_or(match attr.flags.contains(rprof_records::AttrFlags::FREQ) {
                    true => 1,
                    false => attr.period_or_freq.max(1),
                });
        let row = Row {
            time: sample.time().unwrap_or(0),
            order,
            group,
            cpu: sample.cpu(),
            period: weight,
            ip: sample.ip().unwrap_or(0),
            has_chain: self.keep.rows && callchain(&sample).is_some(),
        };
        let Some(members) = members else {
            self.count(row);
            return;
        };
        for member in members.iter().filter(|m| wants(m.event as usize)) {
            let event = member.event;
            self.count(Row {
                group: Group { event, ..group },
                period: member.period,
                ..row
            });
        }
    }

    fn count(&mut self, row: Row) {
        let sum = self.out.groups.entry(row.group).or_default();
        sum.samples += 1;
        sum.weight = sum.weight.saturating_add(row.period);
        if self.keep.rows {
            self.out.rows.push(row);
        }
    }

    /// The interned stack of a sample.
    fn stack(
        &mut self,
        sample: &Sample<'_>,
        misc: Misc,
        event: usize,
        time: u64,
    ) -> (u32, StackEnd) {
        let timeline = &self.index.timeline;
        let pid = sample.pid().unwrap_or(-1);
        let space = timeline.space(Pid(pid), time);
        let user = timeline.view(space.unwrap_or(SpaceId(u32::MAX)), time);
        let nowhere = MapState {
            space: SpaceId(u32::MAX),
            epoch: 0,
        };
        let state = space.map_or(nowhere, |s| timeline.state(s, time));
        let attr = &self.index.data.events().list()[event].attr;
        let unwound = match (self.unwinding, &mut self.stacks) {
            (Some(shared), Some(stacks)) if has_dumps(attr) => {
                stacks.unwind(shared, sample, attr, (user, state))
            }
            _ => None,
        };
        let recorded;
        let chain: Option<&[u64]> = match unwound {
            Some((chain, _)) => Some(chain),
            None => {
                recorded = crate::lbr::chain(sample, attr)
                    .or_else(|| callchain(sample).map(|c| c.iter().collect::<Vec<u64>>()));
                recorded.as_deref()
            }
        };
        let end = match unwound {
            Some((_, end)) => end,
            None if !self.tells_ends => StackEnd::Unknown,
            None if misc.has(Misc::TRUNCATED_STACK) => StackEnd::Cut,
            None => StackEnd::Root,
        };
        self.out.has_callchains |= sample.callchain().is_some() || unwound.is_some();
        let ip = [sample.ip().unwrap_or(0)];
        let raw = chain.unwrap_or(&ip);
        let key = RawKey {
            user: state,
            kernel: timeline.state(SpaceId::KERNEL, time),
            pid,
            made: self.index.runtimes.epoch(pid, time),
            mode: (misc.0 & 7) as u8,
            chain: chain.is_some(),
        };
        let hash = RawStacks::hash(&key, raw);
        if let Some(stack) = self.raw.find(hash, &key, raw) {
            return (stack, end);
        }
        let context = Context {
            timeline,
            user,
            kernel: timeline.view(SpaceId::KERNEL, time),
            pid,
            time,
            runtimes: &self.index.runtimes,
        };
        self.scratch.clear();
        let mode = misc.cpu_mode();
        let mut add = |address, mode: CpuMode, caller| {
            let location = context.locate(address, mode, caller);
            self.scratch.push(self.out.locations.intern(location));
        };
        match chain {
            Some(chain) => {
                addresses(chain.iter().copied(), mode).for_each(|(a, m, c)| add(a, m, c));
            }
            None => add(sample.ip().unwrap_or(0), mode, false),
        }
        let (stack, _) = self.out.stacks.intern(&self.scratch);
        self.raw.insert(hash, key, raw, stack);
        (stack, end)
    }
}
