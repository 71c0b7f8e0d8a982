//! [`CodeCache`]: which blob of HotSpot's code does an instruction belong to?
//!
//! The code cache consists of heaps. Each has a map with a byte for each segment, which leads to the
//! first segment of a block (`src/hotspot/share/memory/heap.cpp` of the JDK). A block holds a blob.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::blob::{Blob, Compiled};
use super::layout::{CodeLayout, Layout};
use super::pcs::{Pc, Scope, read_chain, read_pcs};
use crate::snapshot::{Fault, Result, Snapshot};

/// Validity of a proof in nanoseconds. HotSpot frees code that several steps found unused, and
/// metadata when it unloads classes.
pub(super) const FRESH: u64 = 50_000_000;

/// Maximum number of objects that are proven again together.
const MAX_TOGETHER: usize = 64;

/// Maximum number of heaps. HotSpot has one, or three with segmented code cache.
const MAX_HEAPS: u32 = 8;

/// Bytes of a segment, as a power of two.
const SEGMENT_SHIFTS: std::ops::RangeInclusive<u32> = 4..=16;

/// Mark of a free segment.
const FREE: u8 = 0xff;

/// Maximum number of steps through a map. One step crosses up to 254 segments.
const MAX_STEPS: usize = 64;

const MAX_KNOWN: usize = 1 << 15;

/// Maximum number of cached instructions and scopes.
const MAX_CACHED: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Heap {
    low: u64,
    high: u64,
    segments: u64,
    segment_shift: u32,
}

#[derive(Debug)]
struct Known {
    blob: Blob,
    proven: u64,
    pcs: Option<Vec<Pc>>,
    /// Active methods by scope.
    chains: FxHashMap<u32, Arc<[Scope]>>,
}

impl Known {
    /// Returns the number of cached entries.
    fn len(&self) -> usize {
        let scopes = self.chains.values().map(|chain| chain.len());
        self.pcs.as_ref().map_or(0, Vec::len) + scopes.sum::<usize>()
    }
}

/// Code of one process.
#[derive(Debug, Default)]
pub(super) struct CodeCache {
    heaps: Vec<Heap>,
    /// Blobs by the start of their code.
    known: BTreeMap<u64, Known>,
    /// Number of cached instructions and scopes.
    cached: usize,
    recent: Recent,
}

impl CodeCache {
    /// Returns the blob whose code contains an address. `None` for an address outside of HotSpot's
    /// heaps, and [`Fault::Invalid`] for code whose blob is unreadable or was freed.
    pub(super) fn find(
        &mut self,
        memory: &mut Snapshot,
        layout: &CodeLayout,
        avma: u64,
        time: u64,
    ) -> Result<Option<Blob>> {
        let below = self.known.range_mut(..=avma).next_back();
        if let Some((&start, known)) = below.filter(|(_, known)| avma < known.blob.end) {
            self.recent.add(start);
            if is_fresh(known.proven, time) {
                return Ok(Some(known.blob.clone()));
            }
            match Blob::read(memory, layout, known.blob.at) {
                Ok(blob) if blob == known.blob => {
                    known.proven = time;
                    return Ok(Some(blob));
                }
                Err(Fault::Unread) => return Err(Fault::Unread),
                _ => self.forget(start),
            }
        }
        if self.heap_at(avma).is_none() {
            self.heaps = read_heaps(memory, layout)?;
        }
        let Some(heap) = self.heap_at(avma) else {
            return Ok(None);
        };
        let block = heap.block(memory, avma)?;
        let blob = Blob::read(memory, layout, block.wrapping_add(layout.block_size))?;
        if !(blob.start..blob.end).contains(&avma) || blob.at < heap.low {
            return Err(Fault::Invalid);
        }
        if self.known.len() >= MAX_KNOWN || self.cached >= MAX_CACHED {
            self.known.clear();
            self.cached = 0;
        }
        let known = Known {
            blob: blob.clone(),
            proven: time,
            pcs: None,
            chains: FxHashMap::default(),
        };
        self.recent.add(blob.start);
        self.known.insert(blob.start, known);
        Ok(Some(blob))
    }

    /// Proves blobs of recent stacks again, as far as a snapshot has them. Requests the others.
    pub(super) fn refresh(&mut self, memory: &mut Snapshot, layout: &CodeLayout, time: u64) {
        for start in self.recent.iter() {
            if let Some(known) = self.known.get_mut(&start)
                && is_aging(known.proven, time)
                && Blob::read(memory, layout, known.blob.at).is_ok_and(|blob| blob == known.blob)
            {
                known.proven = time;
            }
        }
    }

    /// Returns the instructions of compiled code that have a scope, sorted.
    pub(super) fn pcs(
        &mut self,
        memory: &mut Snapshot,
        layout: &CodeLayout,
        blob: &Blob,
        compiled: &Compiled,
    ) -> Result<&[Pc]> {
        let known = self.known.get_mut(&blob.start).ok_or(Fault::Invalid)?;
        if known.pcs.is_none() {
            let pcs = read_pcs(memory, layout, compiled)?;
            self.cached += pcs.len();
            known.pcs = Some(pcs);
        }
        known.pcs.as_deref().ok_or(Fault::Invalid)
    }

    /// Returns the methods active in a scope of compiled code, outermost first.
    pub(super) fn chain(
        &mut self,
        memory: &mut Snapshot,
        layout: &Layout,
        blob: &Blob,
        compiled: &Compiled,
        scope: u32,
    ) -> Result<Arc<[Scope]>> {
        let known = self.known.get_mut(&blob.start).ok_or(Fault::Invalid)?;
        if let Some(chain) = known.chains.get(&scope) {
            return Ok(Arc::clone(chain));
        }
        let chain: Arc<[Scope]> = read_chain(memory, layout, compiled, scope)?.into();
        self.cached += chain.len();
        known.chains.insert(scope, Arc::clone(&chain));
        Ok(chain)
    }

    fn forget(&mut self, start: u64) {
        let known = self.known.remove(&start);
        self.cached -= known.map_or(0, |known| known.len());
    }

    fn heap_at(&self, avma: u64) -> Option<Heap> {
        let mut heaps = self.heaps.iter();
        heaps
            .find(|heap| (heap.low..heap.high).contains(&avma))
            .copied()
    }
}

impl Heap {
    fn read(memory: &mut Snapshot, layout: &CodeLayout, at: u64) -> Result<Self> {
        let space = at.wrapping_add(layout.heap_memory);
        let words = [
            memory.u64(space.wrapping_add(layout.space_low)),
            memory.u64(space.wrapping_add(layout.space_high)),
            memory.u64(
                at.wrapping_add(layout.heap_segments)
                    .wrapping_add(layout.space_low),
            ),
        ];
        let segment_shift = memory.u32(at.wrapping_add(layout.heap_segment_shift))?;
        let [low, high, segments] = words;
        let heap = Self {
            low: low?,
            high: high?,
            segments: segments?,
            segment_shift,
        };
        match heap.low < heap.high && SEGMENT_SHIFTS.contains(&segment_shift) {
            true => Ok(heap),
            false => Err(Fault::Invalid),
        }
    }

    /// Returns the address of the block that contains an address.
    fn block(&self, memory: &mut Snapshot, avma: u64) -> Result<u64> {
        let mut segment = avma.wrapping_sub(self.low) >> self.segment_shift;
        for _ in 0..MAX_STEPS {
            let [step] = memory.bytes(self.segments.wrapping_add(segment))?;
            match step {
                0 => return Ok(self.low.wrapping_add(segment << self.segment_shift)),
                FREE => break,
                _ => segment = segment.checked_sub(step.into()).ok_or(Fault::Invalid)?,
            }
        }
        Err(Fault::Invalid)
    }
}

fn read_heaps(memory: &mut Snapshot, layout: &CodeLayout) -> Result<Vec<Heap>> {
    let list = memory.u64(layout.heaps)?;
    let len = memory.u32(list.wrapping_add(layout.list_len));
    let data = memory.u64(list.wrapping_add(layout.list_data))?;
    let len = len?.min(MAX_HEAPS);
    let pointers: Vec<_> = (0..u64::from(len))
        .map(|number| memory.u64(data.wrapping_add(8 * number)))
        .collect();
    let pointers = pointers.into_iter().collect::<Result<Vec<u64>>>()?;
    let heaps: Vec<_> = (pointers.into_iter())
        .map(|pointer| Heap::read(memory, layout, pointer))
        .collect();
    let heaps = heaps.into_iter().collect::<Result<Vec<Heap>>>()?;
    match heaps.is_empty() {
        true => Err(Fault::Invalid),
        false => Ok(heaps),
    }
}

pub(super) fn is_fresh(proven: u64, time: u64) -> bool {
    time.saturating_sub(proven) < FRESH
}

/// Returns true if another proof is useful that takes no batch of reads of its own.
pub(super) fn is_aging(proven: u64, time: u64) -> bool {
    time.saturating_sub(proven) >= FRESH / 2
}

/// Addresses of objects of the last stacks. Their proofs become old at different times, and each
/// batch of reads takes as long. So they are proven again together.
#[derive(Debug)]
pub(super) struct Recent([u64; MAX_TOGETHER]);

impl Default for Recent {
    fn default() -> Self {
        Self([0; MAX_TOGETHER])
    }
}

impl Recent {
    /// Adds an address. It replaces another one.
    pub(super) fn add(&mut self, address: u64) {
        // Objects have different sizes. The upper bits of the product depend on all bits.
        let mixed = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
        if let Some(place) = self.0.get_mut(mixed % MAX_TOGETHER) {
            *place = address;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + use<> {
        self.0.into_iter().filter(|address| *address != 0)
    }
}
