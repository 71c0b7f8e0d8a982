//! [`Identities`]: which function does a frame run?
//!
//! The garbage collector moves young objects, such as the JSFunction in a frame's slot, and reuses
//! their memory. So the JSFunction is only a way to find what proves the function:
//!
//! - interpreter and baseline code: the frame's BytecodeArray belongs to one SharedFunctionInfo,
//!   which refers to it;
//! - optimized code: the instruction lies in a Code object, whose deoptimization data names the
//!   SharedFunctionInfo.
//!
//! Both were proven less than [`FRESH`] before the sample, or are proven again.

use std::collections::BTreeMap;

use rprof_unwind::goes_on_with_bytecode;
use rustc_hash::FxHashMap;

use super::code::{Code, Headers, Owner, bytecode};
use super::heap::Heap;
use crate::snapshot::{Fault, Result};

/// Validity of a proof in nanoseconds. V8 frees code and bytecode that several collections found
/// unused, and its memory is reused later still.
pub(super) const FRESH: u64 = 50_000_000;

const MAX_KNOWN: usize = 1 << 15;

/// Number of types of functions: classes and each built-in constructor have one.
const FUNCTION_TYPES: u16 = 20;

/// Frame that may run a JavaScript function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JsFrame {
    /// Index of the native frame.
    pub(super) native: usize,
    /// Address in generated code. `None` in the interpreter.
    pub(super) code: Option<u64>,
    /// Return address of callers, whose frame is complete. `None` for the sampled frame.
    pub(super) called_from: Option<u64>,
    /// Object in the slot of the JSFunction.
    pub(super) function: Option<u64>,
    /// Object in the slot of the BytecodeArray.
    pub(super) bytecode: Option<u64>,
}

/// Function of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// The SharedFunctionInfo.
    Function(u64),
    /// SharedFunctionInfos of the function and, if known, of its caller. The sampled function has no
    /// frame yet, and the unwinder has skipped the caller: the frame pointer is still the caller's.
    Called(u64, Option<u64>),
    /// The frame runs no JavaScript function.
    Other,
}

#[derive(Debug)]
struct Known<T> {
    is: T,
    proven: u64,
}

/// Proven functions of one process.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// By start of the instructions.
    codes: BTreeMap<u64, Known<(Code, Owner)>>,
    /// SharedFunctionInfo by BytecodeArray.
    functions: FxHashMap<u64, Known<u64>>,
    /// SharedFunctionInfo by JSFunction of optimized code that was sampled itself.
    leaves: FxHashMap<u64, Known<u64>>,
    headers: Headers,
    returns: Returns,
}

pub(super) fn is_fresh(proven: u64, time: u64) -> bool {
    time.saturating_sub(proven) < FRESH
}

impl Identities {
    /// Returns the function of a frame sampled at `time`. [`Fault::Invalid`] if it runs one that
    /// nothing proves.
    pub(super) fn of(
        &mut self,
        heap: &mut Heap<'_>,
        frame: &JsFrame,
        time: u64,
    ) -> Result<Identity> {
        let Some(avma) = frame.code else {
            return self.interpreted(heap, frame, time);
        };
        let owner = match self.owner(heap, avma, frame.function, time) {
            // Code of another generator, unless the frame has the shape of V8's.
            Err(Fault::Invalid) if frame.function.is_none() => Owner::None,
            owner => owner?,
        };
        let shared = match owner {
            Owner::Function(shared) => shared,
            Owner::Bytecode(bytecode) => self.function_of(heap, bytecode, frame.function, time)?,
            Owner::Frame => return self.interpreted(heap, frame, time),
            Owner::None => return Ok(Identity::Other),
        };
        if frame.called_from.is_none() && self.is_of_caller(heap, frame, owner, time)? {
            let caller = match frame.bytecode {
                Some(bytecode) => self.function_of(heap, bytecode, frame.function, time),
                None => Err(Fault::Invalid),
            };
            return match caller {
                Err(Fault::Unread) => Err(Fault::Unread),
                caller => Ok(Identity::Called(shared, caller.ok())),
            };
        }
        Ok(Identity::Function(shared))
    }

    /// Returns the function of a frame in the interpreter. Frames of builtins have the same first
    /// slots, and may have bytecode of a former frame in the next one.
    fn interpreted(&mut self, heap: &mut Heap<'_>, frame: &JsFrame, time: u64) -> Result<Identity> {
        let Some(bytecode) = frame.bytecode else {
            return Ok(Identity::Other);
        };
        let is_proven = match frame.called_from {
            _ if frame.code.is_some() => true,
            Some(avma) => self.returns.is_to_interpreter(heap, avma)?,
            None => false,
        };
        let is_array = match heap.type_of(bytecode) {
            Err(Fault::Unread) => return Err(Fault::Unread),
            number => number == Ok(heap.layout.type_bytecode),
        };
        match (is_proven, is_array) {
            (true, true) => {
                let shared = self.function_of(heap, bytecode, frame.function, time);
                return shared.map(Identity::Function);
            }
            // The collector has moved the array.
            (true, false) => return Err(Fault::Invalid),
            (false, true) => {}
            (false, false) => return Ok(Identity::Other),
        }
        let shared = frame.function.ok_or(Fault::Invalid);
        let is_its_own = shared
            .and_then(|function| shared_of(heap, function))
            .and_then(|shared| Ok((shared, refers(heap, shared, bytecode)?)));
        match is_its_own {
            Ok((shared, true)) => Ok(Identity::Function(shared)),
            Err(Fault::Unread) => Err(Fault::Unread),
            _ => Ok(Identity::Other),
        }
    }

    fn owner(
        &mut self,
        heap: &mut Heap<'_>,
        avma: u64,
        function: Option<u64>,
        time: u64,
    ) -> Result<Owner> {
        let below = self.codes.range_mut(..=avma).next_back();
        if let Some((&start, known)) = below.filter(|(_, known)| known.is.0.contains(avma)) {
            let (code, owner) = known.is;
            if is_fresh(known.proven, time) {
                return Ok(owner);
            }
            let again = Code::read(heap, code.object);
            match again.and_then(|again| Ok((again, again.owner(heap)?))) {
                Ok(again) if again == known.is => {
                    known.proven = time;
                    return Ok(owner);
                }
                Err(Fault::Unread) => return Err(Fault::Unread),
                _ => self.codes.remove(&start),
            };
        }
        let code = Code::at(heap, avma, function, &mut self.headers)?;
        let owner = code.owner(heap)?;
        if self.codes.len() >= MAX_KNOWN {
            self.codes.clear();
        }
        let known = Known {
            is: (code, owner),
            proven: time,
        };
        self.codes.insert(code.start, known);
        Ok(owner)
    }

    /// Returns the SharedFunctionInfo that refers to a BytecodeArray.
    fn function_of(
        &mut self,
        heap: &mut Heap<'_>,
        array: u64,
        function: Option<u64>,
        time: u64,
    ) -> Result<u64> {
        if let Some(known) = self.functions.get_mut(&array) {
            let shared = known.is;
            if is_fresh(known.proven, time) {
                return Ok(shared);
            }
            match refers(heap, shared, array) {
                Ok(true) => {
                    known.proven = time;
                    return Ok(shared);
                }
                Err(Fault::Unread) => return Err(Fault::Unread),
                _ => self.functions.remove(&array),
            };
        }
        let shared = shared_of(heap, function.ok_or(Fault::Invalid)?)?;
        if !refers(heap, shared, array)? {
            return Err(Fault::Invalid);
        }
        if self.functions.len() >= MAX_KNOWN {
            self.functions.clear();
        }
        let known = Known {
            is: shared,
            proven: time,
        };
        self.functions.insert(array, known);
        Ok(shared)
    }

    /// Returns true if the frame pointer of the sampled frame belongs to another function than the
    /// code.
    fn is_of_caller(
        &mut self,
        heap: &mut Heap<'_>,
        frame: &JsFrame,
        owner: Owner,
        time: u64,
    ) -> Result<bool> {
        let Some(function) = frame.function else {
            return Ok(false);
        };
        let shared = match owner {
            Owner::Bytecode(bytecode) => return Ok(frame.bytecode != Some(bytecode)),
            Owner::Function(shared) => shared,
            Owner::Frame | Owner::None => return Ok(false),
        };
        // A recent JSFunction may have moved, but hardly a caller's to its place.
        let known = self.leaves.get(&function);
        if known.is_some_and(|known| known.is == shared && is_fresh(known.proven, time)) {
            return Ok(false);
        }
        match shared_of(heap, function) {
            Ok(other) if other == shared => {
                if self.leaves.len() >= MAX_KNOWN {
                    self.leaves.clear();
                }
                let known = Known {
                    is: shared,
                    proven: time,
                };
                self.leaves.insert(function, known);
                Ok(false)
            }
            Ok(_) => Ok(true),
            Err(Fault::Invalid) => Ok(false),
            Err(Fault::Unread) => Err(Fault::Unread),
        }
    }
}

/// Return addresses in the image: whether the code there is the interpreter's.
#[derive(Debug, Default)]
struct Returns(FxHashMap<u64, bool>);

impl Returns {
    /// Returns true if the code at a return address goes on with the bytecode in the frame's slot.
    /// Only the interpreter's code does.
    fn is_to_interpreter(&mut self, heap: &mut Heap<'_>, avma: u64) -> Result<bool> {
        if let Some(known) = self.0.get(&avma) {
            return Ok(*known);
        }
        let code: [u8; 10] = heap.memory.bytes(avma)?;
        let is_interpreter = goes_on_with_bytecode(&code);
        if self.0.len() < MAX_KNOWN {
            self.0.insert(avma, is_interpreter);
        }
        Ok(is_interpreter)
    }
}

/// Returns the SharedFunctionInfo of a JSFunction.
fn shared_of(heap: &mut Heap<'_>, function: u64) -> Result<u64> {
    let first = heap.layout.type_function;
    let function = heap.moved(function)?;
    let number = heap.type_of(function)?;
    if !(first..first.saturating_add(FUNCTION_TYPES)).contains(&number) {
        return Err(Fault::Invalid);
    }
    let shared = heap.field(function, heap.layout.function_shared)?;
    heap.of_type(shared, heap.layout.type_shared)
}

/// Returns true if this is the BytecodeArray of the function.
fn refers(heap: &mut Heap<'_>, shared: u64, array: u64) -> Result<bool> {
    heap.of_type(shared, heap.layout.type_shared)?;
    let data = heap.field(shared, heap.layout.shared_data)?;
    Ok(bytecode(heap, data)? == array)
}
