//! [`DistinctStacks`]: the stacks of page faults or allocations, which are added up.

use std::hash::{Hash, Hasher};

use rprof_jit::InterpretedNames;
use rprof_memory::StackNumber;
use rprof_records::{ContextMarker, Misc, Sample, SampleFields};
use rustc_hash::{FxHashMap, FxHasher};

/// Maximum number of distinct stacks.
const MAX_STACKS: usize = 1 << 20;

/// Memory limit of all callchains, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Name of all stacks beyond the limits.
const FURTHER: &str = "mem::[further stacks]";

/// The last sample with a stack.
#[derive(Clone, Debug)]
pub(crate) struct KnownStack {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    /// Time of the sample: code at its addresses may change later.
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    pub(crate) ip: u64,
    pub(crate) address: u64,
    /// All samples of a stack agree on [`Misc::TRUNCATED_STACK`].
    pub(crate) misc: Misc,
    /// Leaf first, with markers.
    pub(crate) chain: Box<[u64]>,
}

#[derive(Debug)]
pub(crate) struct DistinctStacks {
    stacks: Vec<KnownStack>,
    by_hash: FxHashMap<u64, u32>,
    bytes: usize,
    chain: Vec<u64>,
    further: u64,
    refused: u64,
}

impl DistinctStacks {
    pub(crate) fn new(names: &InterpretedNames) -> DistinctStacks {
        DistinctStacks {
            stacks: Vec::new(),
            by_hash: FxHashMap::default(),
            bytes: 0,
            chain: Vec::new(),
            further: names.address_of(FURTHER).unwrap_or(0),
            refused: 0,
        }
    }

    /// Returns the stack of a sample: its thread, and its callchain without the addresses that
    /// `is_own` selects.
    pub(crate) fn intern(
        &mut self,
        sample: &Sample<'_>,
        misc: Misc,
        time: u64,
        is_own: impl Fn(u64) -> bool,
    ) -> StackNumber {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        let entries = sample
            .callchain()
            .into_iter()
            .flat_map(|chain| chain.iter());
        chain.extend(entries.filter(|address| !is_own(*address)));
        let is_full = self.stacks.len() >= MAX_STACKS || self.bytes >= MAX_BYTES;
        let (pid, tid) = (sample.pid().unwrap_or(0), sample.tid().unwrap_or(0));
        let is_cut = misc.has(Misc::TRUNCATED_STACK);
        let mut hash = hash_of(pid, tid, is_cut, &chain);
        if is_full && !self.by_hash.contains_key(&hash) {
            self.refused += 1;
            chain.clear();
            chain.extend([ContextMarker::USER.0, self.further]);
            hash = hash_of(pid, tid, is_cut, &chain);
        }
        // Different stacks with equal hashes get neighbouring keys.
        let id = loop {
            let Some(id) = self.by_hash.get(&hash).copied() else {
                let id = self.stacks.len() as u32;
                self.bytes += size_of_val(&*chain) + size_of::<KnownStack>();
                self.stacks.push(KnownStack {
                    pid,
                    tid,
                    time,
                    cpu: 0,
                    ip: 0,
                    address: 0,
                    misc,
                    chain: chain.as_slice().into(),
                });
                self.by_hash.insert(hash, id);
                break id;
            };
            let is_same = |known: &KnownStack| {
                (known.pid, known.tid) == (pid, tid)
                    && known.misc.has(Misc::TRUNCATED_STACK) == is_cut
                    && *known.chain == *chain
            };
            if self.stacks.get(id as usize).is_some_and(is_same) {
                break id;
            }
            hash = hash.wrapping_add(1);
        };
        if let Some(stack) = self.stacks.get_mut(id as usize) {
            (stack.time, stack.misc) = (time, misc);
            stack.cpu = sample.cpu().unwrap_or(0);
            stack.ip = sample.ip().filter(|ip| !is_own(*ip)).unwrap_or(0);
            stack.address = sample.addr().unwrap_or(0);
        }
        self.chain = chain;
        StackNumber(id)
    }

    pub(crate) fn fields(stack: &KnownStack) -> SampleFields {
        SampleFields {
            pid: stack.pid,
            tid: stack.tid,
            time: stack.time,
            cpu: stack.cpu,
            ip: stack.ip,
            addr: stack.address,
            callchain: stack.chain.to_vec(),
            ..SampleFields::default()
        }
    }

    pub(crate) fn get(&self, id: StackNumber) -> Option<&KnownStack> {
        self.stacks.get(id.0 as usize)
    }

    /// Returns the number of samples with stacks beyond the limits.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

fn hash_of(pid: i32, tid: i32, is_cut: bool, chain: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    (pid, tid, is_cut, chain).hash(&mut hasher);
    hasher.finish()
}
