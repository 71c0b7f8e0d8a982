//! Name and position of a function, from its SharedFunctionInfo.

use super::heap::{Heap, smi};
use crate::snapshot::{Fault, Result};

/// Maximum length of a function's name in UTF-16 units.
const MAX_NAME: usize = 160;

/// Name of functions without one.
const ANONYMOUS: &str = "(anonymous)";

/// Variables whose names the ScopeInfo itself holds (`kScopeInfoMaxInlinedLocalNamesSize`).
const MAX_INLINED_NAMES: u64 = 75;

/// Word index of the number of context variables in a ScopeInfo, and of the word after it.
const VARIABLES: u64 = 3;
const AFTER_COUNTS: u64 = 4;

/// Bits of a ScopeInfo's flags (`ScopeFlags` in `src/objects/scope-info.tq` of V8).
const SCOPE_TYPE: u32 = 15;
const HAS_SAVED_CLASS_VARIABLE: u32 = 1 << 10;
const FUNCTION_VARIABLE: u32 = 3 << 12;
const HAS_INFERRED_NAME: u32 = 1 << 14;

/// Name of a function, and its place in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedFunction {
    pub(super) name: String,
    /// The Script object.
    pub(super) script: u64,
    /// Offset in UTF-16 units of the parameters, or of the beginning of the script.
    pub(super) start: u32,
}

/// Words of a SharedFunctionInfo that determine its name.
pub(super) fn fingerprint(heap: &mut Heap<'_>, shared: u64) -> Result<[u64; 2]> {
    heap.of_type(shared, heap.layout.type_shared)?;
    let (name, script) = (heap.layout.shared_name, heap.layout.shared_script);
    Ok([heap.field(shared, name)?, heap.field(shared, script)?])
}

impl NamedFunction {
    pub(super) fn read(heap: &mut Heap<'_>, shared: u64) -> Result<Self> {
        let [name, script] = fingerprint(heap, shared)?;
        heap.of_type(script, heap.layout.type_script)?;
        let (name, start) = match heap.type_of(name) {
            Ok(number) if number == heap.layout.type_scope => of_scope(heap, name)?,
            Err(Fault::Unread) => return Err(Fault::Unread),
            // Before its first call, a function has a name or a marker here.
            other => {
                let name = match other {
                    Ok(number) if number < heap.layout.first_nonstring => {
                        heap.string(name, MAX_NAME)?
                    }
                    _ => String::new(),
                };
                uncompiled(heap, shared, name)?
            }
        };
        let name = match name.is_empty() {
            true => ANONYMOUS.to_owned(),
            false => name,
        };
        Ok(Self {
            name,
            script,
            start,
        })
    }
}

/// Returns the name and the start of a function that has been compiled.
fn of_scope(heap: &mut Heap<'_>, scope: u64) -> Result<(String, u32)> {
    let word = |heap: &mut Heap<'_>, index: u64| heap.field(scope, index * 8);
    let number = |heap: &mut Heap<'_>, index: u64| {
        smi(word(heap, index)?)
            .and_then(|number| u32::try_from(number).ok())
            .ok_or(Fault::Invalid)
    };
    let layout = heap.layout.scope;
    let flags = match layout.is_new {
        true => heap.half(scope, 8)?,
        false => number(heap, 1)?,
    };
    let variables = u64::from(number(heap, VARIABLES)?);
    let names = match variables < MAX_INLINED_NAMES {
        true => variables,
        false => 1,
    };
    let is_module = flags & SCOPE_TYPE == layout.module;
    let mut next = AFTER_COUNTS + names + variables;
    next += if layout.is_new { 2 } else { 0 };
    next += u64::from(is_module && layout.has_module_word);
    next += u64::from(flags & HAS_SAVED_CLASS_VARIABLE != 0);
    let mut name = String::new();
    if flags & FUNCTION_VARIABLE != 0 {
        name = name_at(heap, scope, next)?;
        next += 2;
    }
    if flags & HAS_INFERRED_NAME != 0 {
        if name.is_empty() {
            name = name_at(heap, scope, next)?;
        }
        next += 1;
    }
    let position = if layout.is_new { AFTER_COUNTS } else { next };
    let (start, end) = (number(heap, position)?, number(heap, position + 1)?);
    match start <= end {
        true => Ok((name, start)),
        false => Err(Fault::Invalid),
    }
}

/// Returns the string in a slot of a ScopeInfo; empty for another object or for 0.
fn name_at(heap: &mut Heap<'_>, scope: u64, index: u64) -> Result<String> {
    let name = heap.field(scope, index * 8)?;
    if smi(name).is_some() || heap.type_of(name)? >= heap.layout.first_nonstring {
        return Ok(String::new());
    }
    heap.string(name, MAX_NAME)
}

/// Returns the name and the start of a function that is not compiled, or no longer.
fn uncompiled(heap: &mut Heap<'_>, shared: u64, name: String) -> Result<(String, u32)> {
    let data = heap.field(shared, heap.layout.shared_data)?;
    let (first, last) = heap.layout.type_uncompiled;
    if !(first..=last).contains(&heap.type_of(data)?) {
        return Err(Fault::Invalid);
    }
    let name = match name.is_empty() {
        true => {
            let inferred = heap.field(data, heap.layout.uncompiled_name)?;
            heap.string(inferred, MAX_NAME)?
        }
        false => name,
    };
    Ok((name, heap.half(data, heap.layout.uncompiled_start)?))
}
