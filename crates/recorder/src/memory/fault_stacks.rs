//! [`FaultStacks`]: distinct stacks of page faults.

use std::hash::{Hash, Hasher};

use rprof_jit::InterpretedNames;
use rprof_memory::StackId;
use rprof_records::{ContextMarker, Misc, Sample};
use rustc_hash::{FxHashMap, FxHasher};

/// Maximum number of distinct stacks.
const MAX_STACKS: usize = 1 << 20;

/// Memory limit of all callchains, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Name of all stacks beyond the limits.
const FURTHER: &str = "mem::[further stacks]";

/// The last fault with a stack.
#[derive(Clone, Debug)]
pub(super) struct FaultStack {
    pub(super) pid: i32,
    pub(super) tid: i32,
    /// Time of the fault: code at its addresses may change later.
    pub(super) time: u64,
    pub(super) cpu: u32,
    pub(super) ip: u64,
    pub(super) address: u64,
    pub(super) misc: Misc,
    /// Leaf first, with markers.
    pub(super) chain: Box<[u64]>,
}

#[derive(Debug)]
pub(super) struct FaultStacks {
    stacks: Vec<FaultStack>,
    by_hash: FxHashMap<u64, u32>,
    bytes: usize,
    chain: Vec<u64>,
    further: u64,
    refused: u64,
}

impl FaultStacks {
    pub(super) fn new(names: &InterpretedNames) -> FaultStacks {
        FaultStacks {
            stacks: Vec::new(),
            by_hash: FxHashMap::default(),
            bytes: 0,
            chain: Vec::new(),
            further: names.address_of(FURTHER).unwrap_or(0),
            refused: 0,
        }
    }

    /// Returns the stack of a fault: thread and callchain.
    pub(super) fn intern(&mut self, sample: &Sample<'_>, misc: Misc, time: u64) -> StackId {
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        chain.extend(
            sample
                .callchain()
                .into_iter()
                .flat_map(|chain| chain.iter()),
        );
        let is_full = self.stacks.len() >= MAX_STACKS || self.bytes >= MAX_BYTES;
        let (pid, tid) = (sample.pid().unwrap_or(0), sample.tid().unwrap_or(0));
        let mut hash = hash_of(pid, tid, &chain);
        if is_full && !self.by_hash.contains_key(&hash) {
            self.refused += 1;
            chain.clear();
            chain.extend([ContextMarker::USER.0, self.further]);
            hash = hash_of(pid, tid, &chain);
        }
        // Different stacks with equal hashes get neighbouring keys.
        let id = loop {
            let Some(id) = self.by_hash.get(&hash).copied() else {
                let id = self.stacks.len() as u32;
                self.bytes += size_of_val(&*chain) + size_of::<FaultStack>();
                self.stacks.push(FaultStack {
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
            let known = self.stacks.get(id as usize);
            if known
                .is_some_and(|known| (known.pid, known.tid) == (pid, tid) && *known.chain == *chain)
            {
                break id;
            }
            hash = hash.wrapping_add(1);
        };
        if let Some(stack) = self.stacks.get_mut(id as usize) {
            (stack.time, stack.misc) = (time, misc);
            stack.cpu = sample.cpu().unwrap_or(0);
            stack.ip = sample.ip().unwrap_or(0);
            stack.address = sample.addr().unwrap_or(0);
        }
        self.chain = chain;
        StackId(id)
    }

    pub(super) fn get(&self, id: StackId) -> Option<&FaultStack> {
        self.stacks.get(id.0 as usize)
    }

    /// Returns the number of faults with stacks beyond the limits.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

fn hash_of(pid: i32, tid: i32, chain: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    (pid, tid, chain).hash(&mut hasher);
    hasher.finish()
}
