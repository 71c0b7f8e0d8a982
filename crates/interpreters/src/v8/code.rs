//! [`Code`]: which function does machine code of a JIT compiler belong to?

use super::heap::{Heap, is_object, smi};
use crate::snapshot::{Fault, Result};

/// Instructions start at multiples of this (`kCodeAlignment`).
const ALIGNMENT: u64 = 64;

/// Maximum length in bytes of one function's code.
const MAX_SIZE: u64 = 16 << 20;

/// Bytes read together in a search for a header.
const WINDOW: usize = 4096;

/// Maximum number of windows of a search. Most functions have less code.
const MAX_WINDOWS: usize = 16;

const MAX_HEADERS: usize = 8;

const KIND: u32 = 15;

/// Code object of V8, with the range of its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) object: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Number of the compiler that made it.
    kind: u32,
    /// Deoptimization data, or the bytecode of baseline code.
    data: u64,
}

/// What identifies the function of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// SharedFunctionInfo of optimized code.
    Function(u64),
    /// BytecodeArray of baseline code.
    Bytecode(u64),
    /// A copy of the interpreter: the frame holds the bytecode.
    Frame,
    /// Code of no JavaScript function, such as regular expressions.
    None,
}

impl Code {
    pub(super) const fn contains(&self, avma: u64) -> bool {
        self.start <= avma && avma < self.end
    }

    /// Reads a Code object. Its instructions must lie in one piece behind their header, which
    /// leads back to the object.
    pub(super) fn read(heap: &mut Heap<'_>, object: u64) -> Result<Self> {
        heap.of_type(object, heap.layout.type_code)?;
        let layout = heap.layout.code;
        let start = match layout.start {
            Some(offset) => heap.field(object, offset)?,
            None => object.wrapping_sub(1).wrapping_add(layout.header),
        };
        let size = u64::from(heap.half(object, layout.size)?);
        let code = Self {
            object,
            start,
            end: start.checked_add(size).ok_or(Fault::Invalid)?,
            kind: heap.half(object, layout.flags)? & KIND,
            data: heap.field(object, layout.data)?,
        };
        match (1..=MAX_SIZE).contains(&size) {
            true => Ok(code),
            false => Err(Fault::Invalid),
        }
    }

    /// Returns the code that contains an address: the function's current code, or else the code
    /// behind the nearest header. Old code still runs after a function got new code.
    pub(super) fn at(
        heap: &mut Heap<'_>,
        avma: u64,
        function: Option<u64>,
        headers: &mut Headers,
    ) -> Result<Self> {
        if let Some(function) = function {
            match Self::of_function(heap, function) {
                Ok(code) => {
                    headers.learn(heap, &code)?;
                    if code.contains(avma) {
                        return Ok(code);
                    }
                }
                Err(Fault::Unread) => return Err(Fault::Unread),
                Err(Fault::Invalid) => {}
            }
        }
        headers.search(heap, avma)
    }

    fn of_function(heap: &mut Heap<'_>, function: u64) -> Result<Self> {
        let function = heap.moved(function)?;
        let offset = heap.layout.code.of_function.ok_or(Fault::Invalid)?;
        let object = heap.field(function, offset)?;
        Self::read(heap, object)
    }

    pub(super) fn owner(&self, heap: &mut Heap<'_>) -> Result<Owner> {
        let baseline = heap.layout.kind_baseline;
        if self.kind == baseline {
            return bytecode(heap, self.data).map(Owner::Bytecode);
        }
        if self.kind + 1 == baseline {
            return Ok(Owner::Frame);
        }
        if self.kind < baseline || self.kind > baseline + 2 {
            return Ok(Owner::None);
        }
        let layout = heap.layout.code;
        let element = heap.layout.array_data + 8 * layout.deopt_function;
        let len = smi(heap.field(self.data, heap.layout.array_length)?);
        if len.is_none_or(|len| (len as u64) <= layout.deopt_function) {
            return Err(Fault::Invalid);
        }
        let mut shared = heap.field(self.data, element)?;
        if layout.has_wrapper {
            shared = heap.field(shared, 8)?;
        }
        heap.of_type(shared, heap.layout.type_shared)?;
        Ok(Owner::Function(shared))
    }
}

/// Maps of the headers before instructions. V8 has one for each isolate or process.
#[derive(Debug, Default)]
pub(super) struct Headers(Vec<u64>);

impl Headers {
    /// Keeps the map before generated code. Builtins have no header.
    fn learn(&mut self, heap: &mut Heap<'_>, code: &Code) -> Result<()> {
        let avma = code.start.wrapping_sub(heap.layout.code.header);
        let owner = match heap.layout.code.start {
            None => Ok(avma.wrapping_add(1)),
            Some(_) => heap.memory.u64(avma.wrapping_add(8)),
        };
        match owner.and_then(|owner| Ok((owner, heap.memory.u64(avma)?))) {
            Ok((owner, map)) if owner == code.object && is_object(map) => {
                if !self.0.contains(&map) && self.0.len() < MAX_HEADERS {
                    self.0.push(map);
                }
                Ok(())
            }
            Err(Fault::Unread) => Err(Fault::Unread),
            _ => Ok(()),
        }
    }

    /// Searches backwards for the header of the code at an address. Before the first map is known,
    /// each pair of objects may be a header.
    fn search(&mut self, heap: &mut Heap<'_>, avma: u64) -> Result<Code> {
        let header = heap.layout.code.header;
        let mut window = avma - avma % WINDOW as u64;
        let mut end = (avma & !(ALIGNMENT - 1)).wrapping_add(ALIGNMENT);
        let windows = match self.0.is_empty() && heap.layout.code.of_function.is_some() {
            true => 0,
            false => MAX_WINDOWS,
        };
        for _ in 0..windows {
            let bytes = heap.memory.wide(window, WINDOW)?;
            let until = usize::try_from(end.wrapping_sub(window)).unwrap_or(0);
            let word = |at: usize| {
                let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
                word.map_or(0, |word| u64::from_le_bytes(*word))
            };
            let is_header = |at: &usize| match self.0.is_empty() {
                true => is_object(word(*at)) && is_object(word(at + 8)),
                false => self.0.contains(&word(*at)),
            };
            // Instructions are aligned, so headers have the same distance from each other.
            let first = usize::try_from(header.wrapping_neg() % ALIGNMENT).unwrap_or(0);
            let places = (first..until.min(WINDOW)).step_by(ALIGNMENT as usize).rev();
            let found = places.filter(is_header).map(|at| (at, word(at)));
            let found: Vec<_> = found.take(MAX_HEADERS).collect();
            for (at, map) in found {
                let at = window.wrapping_add(at as u64);
                let object = match heap.layout.code.start {
                    None => at.wrapping_add(1),
                    Some(_) => heap.memory.u64(at.wrapping_add(8))?,
                };
                match Code::read(heap, object) {
                    Ok(code) if code.start == at.wrapping_add(header) && code.contains(avma) => {
                        if self.0.is_empty() {
                            self.0.push(map);
                        }
                        return Ok(code);
                    }
                    Err(Fault::Unread) => return Err(Fault::Unread),
                    _ => {}
                }
            }
            end = window;
            window = window.checked_sub(WINDOW as u64).ok_or(Fault::Invalid)?;
        }
        Err(Fault::Invalid)
    }
}

/// Returns the BytecodeArray in a function's data: the array itself, or reached by baseline code or
/// by the data of a copied interpreter.
pub(super) fn bytecode(heap: &mut Heap<'_>, data: u64) -> Result<u64> {
    let layout = *heap.layout;
    let number = heap.type_of(data)?;
    if number == layout.type_code {
        let inner = heap.field(data, layout.code.data)?;
        // Baseline code may lead to the data of a copied interpreter, but not to other code.
        return match heap.type_of(inner)? == layout.type_code {
            true => Err(Fault::Invalid),
            false => bytecode(heap, inner),
        };
    }
    if number == layout.type_interpreter_data {
        let inner = heap.field(data, 8)?;
        return heap.of_type(inner, layout.type_bytecode);
    }
    heap.of_type(data, layout.type_bytecode)
}
