//! Java: HotSpot of JDK 11, 17, 21 and 25.
//!
//! All frames of Java methods are on the machine stack. The interpreter keeps the Method in a slot of
//! its frames. Compiled code lies in a blob that names its method, and has tables of the methods
//! inlined into it. Metadata of methods does not move, and lives as long as the class.
//!
//! Files that name compiled code change nothing: HotSpot writes perf maps at one moment, so they are
//! never complete. Views join both names of a method.
//!
//! | file | idea |
//! |---|---|
//! | `tables` | tables that `libjvm.so` exports for debuggers |
//! | `layout` | offsets of a version |
//! | `frames` | which native frames may run a method |
//! | `code` | heaps of the code cache, known blobs, validity of proofs |
//! | `blob` | header of a piece of code |
//! | `pcs` | which methods are active at an instruction, with inlined ones |
//! | `numbers` | compressed numbers |
//! | `method` | name, file and line of a method |

mod blob;
mod code;
mod frames;
mod layout;
mod method;
mod numbers;
mod pcs;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rprof_unwind::is_return_barrier;
use rustc_hash::FxHashMap;

use crate::snapshot::{Fault, Result, Snapshot};
use crate::{
    CodeKind, FROZEN_JAVA_CALLERS, Found, ImageSymbols, Interpreter, JAVA_STUB, Names, NativeFrame,
    ProcessMemory, RuntimeImage, RuntimeKind, Stack, UNNAMED_JAVA,
};
use blob::{Blob, BlobKind, Compiled};
use code::{CodeCache, Recent, is_aging, is_fresh};
use frames::JavaFrame;
use layout::Layout;
use method::{MethodProof, interpreter_entry};
use pcs::Scope;
use tables::Exports;

/// Maximum number of rounds of reads for one stack. A new process takes about fifteen.
const MAX_ROUNDS: usize = 50;

const MAX_NAMED: usize = 1 << 16;

/// Time in nanoseconds for which reused memory makes names doubtful. An agent that redefines classes
/// again and again frees methods some milliseconds after a sample, and others get their memory.
const REUSE: u64 = 10_000_000_000;

/// Age in nanoseconds of a method that surely has its name.
const SETTLED: u64 = 250_000_000;

/// Maximum bytes from the interpreter's entry to the instruction that saves the Method.
const MAX_ENTRY: u64 = 1 << 10;

/// HotSpot in `libjvm.so`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HotSpot;

impl RuntimeKind for HotSpot {
    fn is_image(&self, name: &[u8]) -> bool {
        name == b"libjvm.so"
    }

    fn wants_symbol(&self, name: &[u8]) -> bool {
        tables::is_needed(name)
    }

    fn has_all(&self, symbols: &ImageSymbols) -> bool {
        Exports::find(symbols).is_some()
    }

    fn image(&self, _: &[u8], symbols: &ImageSymbols) -> Option<Arc<dyn RuntimeImage>> {
        let exports = Exports::find(symbols)?;
        Some(Arc::new(HotSpotImage { exports }))
    }
}

#[derive(Debug)]
struct HotSpotImage {
    exports: Exports,
}

impl RuntimeImage for HotSpotImage {
    fn process(self: Arc<Self>, bias: u64) -> Box<dyn Interpreter> {
        Box::new(HotSpotProcess {
            image: self,
            bias,
            layout: None,
            code: CodeCache::default(),
            named: FxHashMap::default(),
            reused: None,
            recent: Recent::default(),
        })
    }
}

#[derive(Debug)]
struct HotSpotProcess {
    image: Arc<HotSpotImage>,
    bias: u64,
    /// The inner `None` is an unsupported version.
    layout: Option<Option<Box<Layout>>>,
    code: CodeCache,
    /// By Method.
    named: FxHashMap<u64, Named>,
    /// Time of the last sample that found another method at a known address.
    reused: Option<u64>,
    recent: Recent,
}

#[derive(Debug)]
struct Named {
    proof: MethodProof,
    /// Times of the first and of the last proof.
    first: u64,
    proven: u64,
    address: Option<u64>,
}

impl Interpreter for HotSpotProcess {
    fn is_own(&self, frame: &NativeFrame) -> bool {
        frame.code == CodeKind::Generated
    }

    fn read(
        &mut self,
        stack: &Stack<'_>,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
        found: &mut Found,
    ) {
        let layout = self.layout.take().or_else(|| self.read_layout(memory));
        if let Some(Some(layout)) = &layout {
            self.read_with(layout, stack, memory, names, found);
        } else {
            found.is_unread = layout.is_none();
        }
        self.layout = layout;
    }
}

/// What a frame in generated code runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Runs {
    /// Methods, innermost first: entries of [`Names`], or `None` without a name.
    Methods(Vec<Option<u64>>),
    /// A stub of HotSpot, with the entry of its name, or callers in the heap.
    Stub(Option<u64>),
    /// Code that is not HotSpot's.
    Other,
}

impl HotSpotProcess {
    /// Returns `None` if the memory is unreadable, and the inner `None` for an unsupported version.
    fn read_layout(&self, memory: &mut dyn ProcessMemory) -> Option<Option<Box<Layout>>> {
        let mut snapshot = Snapshot::default();
        for _ in 0..MAX_ROUNDS {
            match Layout::read(&self.image.exports, self.bias, &mut snapshot) {
                Ok(layout) => return Some(layout.map(Box::new)),
                Err(Fault::Invalid) => return snapshot.has_read().then_some(None),
                Err(Fault::Unread) => {}
            }
            if !snapshot.fetch(memory) {
                break;
            }
        }
        snapshot.has_read().then_some(None)
    }

    fn read_with(
        &mut self,
        layout: &Layout,
        stack: &Stack<'_>,
        memory: &mut dyn ProcessMemory,
        names: &mut dyn Names,
        found: &mut Found,
    ) {
        let frames = frames::candidates(stack);
        let mut snapshot = Snapshot::default();
        let mut runs: Vec<Option<Runs>> = vec![None; frames.len()];
        for _ in 0..MAX_ROUNDS {
            let unknown = (frames.iter().zip(&mut runs)).filter(|(_, runs)| runs.is_none());
            for (frame, runs) in unknown {
                *runs = match self.runs(&mut snapshot, layout, stack, frame, names) {
                    Ok(runs) => Some(runs),
                    Err(Fault::Invalid) => Some(Runs::Methods(vec![None])),
                    Err(Fault::Unread) => None,
                };
            }
            let is_missing = snapshot.is_missing();
            if is_missing || snapshot.has_read() {
                self.refresh(&mut snapshot, layout, stack.time);
            }
            // Requests of other stacks alone take no batch.
            if !is_missing {
                break;
            }
            snapshot.fetch(memory);
        }
        for (frame, runs) in frames.iter().zip(runs) {
            match runs.unwrap_or_else(|| Runs::Methods(vec![None])) {
                Runs::Methods(methods) => {
                    for method in methods {
                        found.push(frame.native, method, UNNAMED_JAVA, names);
                    }
                }
                Runs::Stub(Some(address)) => found.push_stub(frame.native, address),
                Runs::Stub(None) | Runs::Other => {}
            }
        }
        found.is_unread |= found.unnamed > 0 && !snapshot.has_read();
    }

    /// Proves code and methods of recent stacks again, as far as a snapshot has them. Requests the
    /// others.
    fn refresh(&mut self, memory: &mut Snapshot, layout: &Layout, time: u64) {
        self.code.refresh(memory, &layout.code, time);
        for method in self.recent.iter() {
            if let Some(named) = self.named.get_mut(&method)
                && is_aging(named.proven, time)
                && named.proof.is_unchanged(memory, &layout.method) == Ok(true)
            {
                named.proven = time;
            }
        }
    }

    /// Returns what a frame runs. [`Fault::Invalid`] if it runs a method that nothing proves.
    fn runs(
        &mut self,
        memory: &mut Snapshot,
        layout: &Layout,
        stack: &Stack<'_>,
        frame: &JavaFrame,
        names: &mut dyn Names,
    ) -> Result<Runs> {
        let time = stack.time;
        let Some(blob) = (self.code).find(memory, &layout.code, frame.inside, time)? else {
            return Ok(Runs::Other);
        };
        let compiled = match &blob.kind {
            BlobKind::Interpreter => {
                let method = interpreted(memory, layout, frame)?;
                let name = self.name(memory, layout, method, time, names)?;
                return Ok(Runs::Methods(vec![name]));
            }
            BlobKind::Stub(_) if frame.has_called && is_barrier(memory, frame.pc)? => {
                return Ok(Runs::Stub(names.address_of(FROZEN_JAVA_CALLERS)));
            }
            BlobKind::Stub(name) => {
                return Ok(Runs::Stub(names.address_of(&format!("{JAVA_STUB}{name}"))));
            }
            BlobKind::Compiled(compiled) => *compiled,
        };
        // Code for another class of receiver may jump away.
        if frame.pc < compiled.verified_entry && compiled.entry <= frame.pc && !frame.has_called {
            return Err(Fault::Invalid);
        }
        let word = |above: u64| stack.memory.read_u64(frame.sp.checked_add(above)?);
        let scopes = match compiled.return_address(frame.pc, word) {
            Some(pc) => self.scopes(memory, layout, &blob, &compiled, frame.at(pc)),
            None => Err(Fault::Invalid),
        };
        let mut methods: Vec<Option<u64>> = vec![Some(compiled.method)];
        match scopes {
            Ok(scopes) => methods.extend(scopes.iter().skip(1).map(|scope| Some(scope.method))),
            Err(Fault::Unread) => return Err(Fault::Unread),
            // Some inlined method made the call.
            Err(Fault::Invalid) if frame.has_called && compiled.is_bytecode => methods.push(None),
            Err(Fault::Invalid) => {}
        }
        let named: Vec<_> = (methods.iter().rev())
            .map(|method| match method {
                Some(method) => self.name(memory, layout, *method, time, names),
                None => Ok(None),
            })
            .collect();
        let named: Result<Vec<_>> = (named.into_iter())
            .map(|name| match name {
                Err(Fault::Invalid) => Ok(None),
                name => name,
            })
            .collect();
        Ok(Runs::Methods(named?))
    }

    /// Returns the methods active at a frame's instruction, outermost first.
    fn scopes(
        &mut self,
        memory: &mut Snapshot,
        layout: &Layout,
        blob: &Blob,
        compiled: &Compiled,
        frame: JavaFrame,
    ) -> Result<Vec<Scope>> {
        let pcs = self.code.pcs(memory, &layout.code, blob, compiled)?;
        let offset = i32::try_from(frame.pc.wrapping_sub(blob.start));
        let offset = offset.map_err(|_| Fault::Invalid)?;
        let [before, after] = pcs::scopes_at(pcs, offset, frame.has_called);
        let (Some(before), Some(after)) = (before, after) else {
            return Err(Fault::Invalid);
        };
        let code = &mut self.code;
        let one = code.chain(memory, layout, blob, compiled, before);
        let other = code.chain(memory, layout, blob, compiled, after)?;
        let one = one?;
        let count = pcs::common(&one, &other);
        Ok(one.iter().take(count).copied().collect())
    }

    /// Returns the entry of a method's name. `None` at the limit of names, and for a recent method
    /// while the process reuses memory of methods.
    fn name(
        &mut self,
        memory: &mut Snapshot,
        layout: &Layout,
        method: u64,
        time: u64,
        names: &mut dyn Names,
    ) -> Result<Option<u64>> {
        self.recent.add(method);
        let is_reused = |at: u64| time.saturating_sub(at) < REUSE;
        if let Some(named) = self.named.get_mut(&method) {
            let is_reusing = self.reused.is_some_and(is_reused);
            if is_fresh(named.proven, time) && !is_reusing {
                return Ok(named.address);
            }
            match named.proof.is_unchanged(memory, &layout.method) {
                Ok(true) => {
                    named.proven = time;
                    let is_settled = time.saturating_sub(named.first) >= SETTLED;
                    return Ok(named.address.filter(|_| is_settled || !is_reusing));
                }
                Ok(false) => {
                    self.named.remove(&method);
                    self.reused = Some(time);
                }
                // A read that failed or came too late is no evidence of reuse.
                Err(fault) => return Err(fault),
            }
        }
        let proof = MethodProof::read(memory, &layout.method, method)?;
        let text = proof.describe(memory, layout)?;
        let named = Named {
            proof,
            first: time,
            proven: time,
            address: names.address_of(&text),
        };
        let is_reusing = self.reused.is_some_and(is_reused);
        let address = named.address.filter(|_| !is_reusing);
        if self.named.len() >= MAX_NAMED {
            self.named.clear();
        }
        self.named.insert(method, named);
        Ok(address)
    }
}

/// Returns true if a frame of a virtual thread returns to a barrier: its callers are in the heap.
fn is_barrier(memory: &mut Snapshot, avma: u64) -> Result<bool> {
    let code: [u8; 8] = memory.bytes(avma)?;
    Ok(is_return_barrier(&code))
}

/// Returns the Method of a frame of the interpreter.
fn interpreted(memory: &mut Snapshot, layout: &Layout, frame: &JavaFrame) -> Result<u64> {
    if let Some(method) = frame.method {
        return Ok(method);
    }
    let method = frame.entered.ok_or(Fault::Invalid)?;
    let entry = interpreter_entry(memory, &layout.method, method)?;
    match frame.pc.wrapping_sub(entry) < MAX_ENTRY {
        true => Ok(method),
        false => Err(Fault::Invalid),
    }
}

#[cfg(test)]
mod reuse {
    use super::code::FRESH;
    use super::tests::{Process, at, interpreted, read, session};
    use super::{REUSE, SETTLED};
    use crate::{MemoryRead, ProcessMemory};

    /// A process with one method whose memory no read reaches in time.
    struct Late<'p>(&'p mut Process, u64);

    impl ProcessMemory for Late<'_> {
        fn read(&mut self, reads: &mut [MemoryRead]) {
            self.0.read(reads);
            for read in reads {
                let end = read.address.wrapping_add(read.bytes.len() as u64);
                read.is_read &= !(read.address..end).contains(&self.1);
            }
        }
    }

    #[test]
    fn a_read_that_failed_is_no_reuse() {
        let mut process = Process::new();
        let method = process.method("f", 3);
        let (interpreter, stub) = (process.blob("Interpreter"), process.blob("Stub"));
        let pushed = [interpreted(interpreter + 0x100, method), at(stub + 8)];
        let mut session = session();
        let mut unnamed = |memory: &mut dyn ProcessMemory, time| {
            read(&mut session, memory, &pushed, time).1.unnamed
        };
        assert_eq!(unnamed(&mut process, 0), 0);
        assert_eq!(unnamed(&mut Late(&mut process, method), FRESH), 1);
        assert_eq!(unnamed(&mut process, FRESH + 1), 0);
    }

    #[test]
    fn methods_have_no_names_while_others_get_their_memory() {
        let mut process = Process::new();
        let [f, g, h] =
            [("f", 3), ("g", 12), ("h", 30)].map(|(name, line)| process.method(name, line));
        let (interpreter, stub) = (process.blob("Interpreter"), process.blob("Stub"));
        let mut session = session();
        let mut is_named = |process: &mut Process, method, time| {
            let pushed = [interpreted(interpreter + 0x100, method), at(stub + 8)];
            read(&mut session, process, &pushed, time).1.unnamed == 0
        };
        assert!(is_named(&mut process, f, 0));
        // A class was redefined, and its method is another one now.
        let other = process.word(g + 8);
        process.put(f + 8, other);
        assert!(!is_named(&mut process, f, FRESH));
        assert!(!is_named(&mut process, g, FRESH));
        assert!(!is_named(&mut process, f, FRESH + SETTLED - 1));
        assert!(is_named(&mut process, f, FRESH + SETTLED));
        assert!(is_named(&mut process, h, FRESH + REUSE));
    }
}
