//! [`CodeCache`]: which blob of HotSpot's code does an instruction belong to?
//!
//! The code cache consists of heaps. Each has a map with a byte for each segment, which leads to the
//! first segment of a block (`src/hotspot/share/memory/heap.cpp` of the JDK). A block holds a blob:
//! a header, and the code.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::is_fresh;
use super::layout::{CodeLayout, Layout};
use super::pcs::{Pc, Scope, read_chain, read_pcs};
use crate::snapshot::{Fault, Result, Snapshot};

/// Maximum number of heaps. HotSpot has one, or three with segmented code cache.
const MAX_HEAPS: u32 = 8;

/// Bytes of a segment, as a power of two.
const SEGMENT_SHIFTS: std::ops::RangeInclusive<u32> = 4..=16;

/// Mark of a free segment.
const FREE: u8 = 0xff;

/// Maximum number of steps through a map. One step crosses up to 254 segments.
const MAX_STEPS: usize = 64;

/// Maximum bytes of a blob.
const MAX_BLOB: u64 = 64 << 20;

const MAX_KNOWN: usize = 1 << 15;

/// Maximum number of cached instructions and scopes.
const MAX_CACHED: usize = 1 << 20;

/// Maximum length of a blob's name.
const MAX_NAME: usize = 48;

/// Blob of code, with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Blob {
    /// Address of the header.
    pub(super) at: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    name: u64,
    pub(super) kind: BlobKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlobKind {
    Interpreter,
    Compiled(Compiled),
    /// Code of no method, with HotSpot's name for it.
    Stub(String),
}

/// Fields of compiled code. All are addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compiled {
    /// The Method.
    pub(super) method: u64,
    /// Code between these two checks the class of the receiver, and may jump to another method.
    pub(super) entry: u64,
    pub(super) verified_entry: u64,
    /// Return addresses that replace those of frames with invalid code.
    pub(super) deoptimization: [u64; 2],
    /// Where such a frame keeps its return address, in bytes above the stack pointer.
    pub(super) original_pc: u64,
    /// False for the wrapper of a native method, which has no table of instructions.
    pub(super) is_bytecode: bool,
    pub(super) metadata: u64,
    pub(super) scopes: u64,
    pub(super) pcs: u64,
    pub(super) pcs_end: u64,
}

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
        self.known.insert(blob.start, known);
        Ok(Some(blob))
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
            let pcs = read_pcs(memory, layout, blob, compiled)?;
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

impl Blob {
    /// Reads the header at an address.
    fn read(memory: &mut Snapshot, layout: &CodeLayout, at: u64) -> Result<Self> {
        let place = |offset: u64| at.wrapping_add(offset);
        let words = [layout.blob_start, layout.blob_end, layout.blob_name];
        let words = words.map(|offset| memory.u64(place(offset)));
        let size = u64::from(memory.u32(place(layout.blob_size))?);
        let [start, end, name] = words;
        let (start, end, name) = (start?, end?, name?);
        let last = at.checked_add(size).ok_or(Fault::Invalid)?;
        if !(at < start && start < end && end <= last && size <= MAX_BLOB) {
            return Err(Fault::Invalid);
        }
        let kind = match &*text(memory, name)? {
            "Interpreter" => BlobKind::Interpreter,
            name @ ("nmethod" | "native nmethod") => {
                let is_bytecode = name == "nmethod";
                BlobKind::Compiled(Compiled::read(memory, layout, at, last, is_bytecode)?)
            }
            name => BlobKind::Stub(name.to_owned()),
        };
        Ok(Self {
            at,
            start,
            end,
            name,
            kind,
        })
    }
}

impl Compiled {
    fn read(
        memory: &mut Snapshot,
        layout: &CodeLayout,
        at: u64,
        last: u64,
        is_bytecode: bool,
    ) -> Result<Self> {
        let place = |offset: u64| at.wrapping_add(offset);
        let handlers = (layout.deoptimization).map(|offset| memory.u64(place(offset)));
        let original_pc = memory.u32(place(layout.original_pc_offset));
        let words = [
            layout.method,
            layout.entry,
            layout.verified_entry,
            layout.scopes,
        ];
        let words = words.map(|offset| memory.u64(place(offset)));
        let offsets = [
            layout.metadata_offset,
            layout.pcs_offset,
            layout.pcs_end_offset,
        ];
        let offsets = offsets.map(|offset| memory.u32(place(offset)));
        let [method, entry, verified_entry, scopes] = words;
        let [metadata, pcs, pcs_end] = offsets;
        let [handler, mh_handler] = handlers;
        let compiled = Self {
            method: method?,
            entry: entry?,
            verified_entry: verified_entry?,
            deoptimization: [handler?, mh_handler?],
            original_pc: original_pc?.into(),
            is_bytecode,
            metadata: place(metadata?.into()),
            scopes: scopes?,
            pcs: place(pcs?.into()),
            pcs_end: place(pcs_end?.into()),
        };
        let order = [
            at,
            compiled.metadata,
            compiled.scopes,
            compiled.pcs,
            compiled.pcs_end,
            last,
        ];
        match order.is_sorted() {
            true => Ok(compiled),
            false => Err(Fault::Invalid),
        }
    }
}

impl Compiled {
    /// Returns the return address of a frame of this code. `word` reads the stack at a distance
    /// from the frame's stack pointer.
    pub(super) fn return_address(&self, pc: u64, word: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        match self.deoptimization.contains(&pc) {
            true => word(self.original_pc),
            false => Some(pc),
        }
    }
}

/// Returns a blob's name. It is a constant of `libjvm.so`, or was copied for a stub.
fn text(memory: &mut Snapshot, avma: u64) -> Result<String> {
    let bytes: [u8; MAX_NAME] = memory.bytes(avma)?;
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .ok_or(Fault::Invalid)?;
    let name = bytes.get(..end).unwrap_or_default();
    match !name.is_empty() && name.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        true => Ok(String::from_utf8_lossy(name).into_owned()),
        false => Err(Fault::Invalid),
    }
}
