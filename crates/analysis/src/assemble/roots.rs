//! Separates complete stacks from truncated ones: by the recorder's mark, or by the names and code
//! at the root.

use rprof_profile::memory::MEMORY_OBJECT;
use rprof_profile::{Function, StackEnds, StackPosition};

use crate::assemble::inputs::AssembleInputs;
use crate::stack_end::StackEnd;

/// Adds `amount` stacks of a group to the tally. `from_root` iterates over their locations, root
/// first.
pub(super) fn tally(
    stacks: &mut StackEnds,
    from_root: impl Iterator<Item = u32>,
    end: StackEnd,
    amount: u64,
    known: &AssembleInputs<'_>,
) {
    stacks.total += amount;
    match end {
        StackEnd::Unknown => {}
        StackEnd::Root => stacks.complete += amount,
        StackEnd::Cut => stacks.truncated += amount,
        StackEnd::NoUnwindInfo => stacks.no_unwind_info += amount,
        StackEnd::OtherStack => {
            stacks.other += amount;
            stacks.other_stack += amount;
        }
        StackEnd::Other => stacks.other += amount,
    }
    if end != StackEnd::Unknown {
        stacks.unwound += amount;
        return;
    }
    let function = |location| {
        let function = known.symbols.outermost(location);
        &known.symbols.functions[function.0 as usize]
    };
    // Kinds of memory stand outside the program's own frames.
    let is_memory = |location: &u32| {
        let object = function(*location).object;
        &*known.symbols.objects[object.0 as usize].name == MEMORY_OBJECT
    };
    let mut from_root = from_root.peekable();
    let has_memory = from_root.next_if(is_memory).is_some();
    while from_root.next_if(is_memory).is_some() {}
    let first = from_root.next();
    if has_memory && first.is_none() {
        stacks.complete += amount;
        return;
    }
    let outermost = first.map(|at| (known.is_kernel[at as usize], function(at)));
    let is_named = reaches_root(outermost, || from_root.next().map(function));
    match is_named || first.is_some_and(|at| known.root_code.is_root(at)) {
        true => stacks.complete += amount,
        false => stacks.truncated += amount,
    }
}

/// Returns true if names show that a stack reaches its root. `outermost` is the outermost function,
/// with true for kernel code. `next` returns its callee.
pub(crate) fn reaches_root<'a>(
    outermost: Option<(bool, &Function)>,
    next: impl FnOnce() -> Option<&'a Function>,
) -> bool {
    match outermost {
        None => false,
        // A kernel thread, or an unrecorded user part.
        Some((true, _)) => true,
        Some((false, function)) if function.position == StackPosition::Root => true,
        // A stripped C library's start code has no name, but only it calls an entry.
        Some((false, function)) => {
            let is_entry = |next: &Function| next.position == StackPosition::Entry;
            function.name.is_err() && next().is_some_and(is_entry)
        }
    }
}
