//! Which methods does an instruction of compiled code belong to?
//!
//! HotSpot describes the instructions after calls, at safepoints and at possible exceptions
//! (`PcDesc`). Each leads to a scope: the method and its bytecode index there, and the scope of its
//! caller if the method is inlined (`src/hotspot/share/code/scopeDesc.cpp` of the JDK).

use super::blob::Compiled;
use super::layout::{CodeLayout, Layout};
use super::numbers::{MAX_LEN, Numbers};
use crate::snapshot::{Fault, Result, Snapshot};

/// Maximum number of described instructions of one method.
const MAX_PCS: usize = 1 << 16;

/// Maximum number of inlined calls within each other.
const MAX_DEPTH: usize = 64;

/// Described instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pc {
    /// Offset in bytes from the start of the code. The first and the last entry are limits.
    offset: i32,
    /// Offset of its scope; 0 for none.
    scope: u32,
}

/// Activation of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// The Method.
    pub(super) method: u64,
    /// Bytecode index plus one.
    bytecode: u32,
}

/// Reads the table of described instructions.
pub(super) fn read_pcs(
    memory: &mut Snapshot,
    layout: &CodeLayout,
    compiled: &Compiled,
) -> Result<Vec<Pc>> {
    let len = usize::try_from(compiled.pcs_end.wrapping_sub(compiled.pcs));
    let size = layout.pc_size as usize;
    let len = len.map_err(|_| Fault::Invalid)?;
    if len / size > MAX_PCS {
        return Err(Fault::Invalid);
    }
    let bytes = memory.wide(compiled.pcs, len)?;
    let number = |entry: &[u8], offset: u64| {
        let bytes = entry.get(offset as usize..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let pc = |entry: &[u8]| {
        Some(Pc {
            offset: number(entry, layout.pc_offset)? as i32,
            scope: number(entry, layout.pc_scope)?,
        })
    };
    let pcs: Option<Vec<Pc>> = bytes.chunks_exact(size).map(pc).collect();
    let is_sorted = |pcs: &Vec<Pc>| pcs.is_sorted_by_key(|pc| pc.offset);
    pcs.filter(is_sorted).ok_or(Fault::Invalid)
}

/// Returns the scopes that prove methods: one for an instruction that is described itself, or those
/// on both sides of another one.
pub(super) fn scopes_at(pcs: &[Pc], offset: i32, has_called: bool) -> [Option<u32>; 2] {
    let next = pcs.partition_point(|pc| pc.offset < offset);
    let scope = |at: Option<usize>| {
        let pc = pcs.get(at?)?;
        (pc.scope != 0).then_some(pc.scope)
    };
    if pcs.get(next).is_some_and(|pc| pc.offset == offset) {
        return [scope(Some(next)); 2];
    }
    match has_called {
        true => [None; 2],
        false => [scope(next.checked_sub(1)), scope(Some(next))],
    }
}

/// Returns the methods active in a scope, outermost first.
pub(super) fn read_chain(
    memory: &mut Snapshot,
    layout: &Layout,
    compiled: &Compiled,
    scope: u32,
) -> Result<Vec<Scope>> {
    let mut found = Vec::new();
    let mut next = scope;
    while next != 0 {
        let at = compiled.scopes.wrapping_add(next.into());
        if found.len() == MAX_DEPTH || at >= compiled.scopes_end {
            return Err(Fault::Invalid);
        }
        let bytes: [u8; 3 * MAX_LEN] = memory.bytes(at)?;
        let mut numbers = Numbers::new(&bytes, layout.excludes_zeros);
        let mut number = || numbers.unsigned().ok_or(Fault::Invalid);
        let (caller, index, bytecode) = (number()?, number()?, number()?);
        let index = u64::from(index).checked_sub(1).ok_or(Fault::Invalid)?;
        let slot = compiled.metadata.wrapping_add(8 * index);
        if slot >= compiled.metadata_end {
            return Err(Fault::Invalid);
        }
        let method = memory.u64(slot)?;
        found.push(Scope { method, bytecode });
        next = caller;
    }
    found.reverse();
    match found
        .first()
        .is_some_and(|scope| scope.method == compiled.method)
    {
        true => Ok(found),
        false => Err(Fault::Invalid),
    }
}

/// Returns the number of outer activations that two chains have in common. An inlined method is the
/// same activation if its callers are at the same bytecode.
pub(super) fn common(one: &[Scope], other: &[Scope]) -> usize {
    let mut count = 0;
    for (a, b) in one.iter().zip(other) {
        if a.method != b.method {
            break;
        }
        count += 1;
        if a.bytecode != b.bytecode {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(chain: &[(u64, u32)]) -> Vec<Scope> {
        let scope = |(method, bytecode): &(u64, u32)| Scope {
            method: *method,
            bytecode: *bytecode,
        };
        chain.iter().map(scope).collect()
    }

    #[test]
    fn callers_are_described_exactly_and_others_lie_between_two() {
        let pcs =
            [(-1, 0), (8, 5), (20, 7), (i32::MAX, 0)].map(|(offset, scope)| Pc { offset, scope });
        assert_eq!(scopes_at(&pcs, 8, true), [Some(5); 2]);
        assert_eq!(scopes_at(&pcs, 9, true), [None; 2]);
        assert_eq!(scopes_at(&pcs, 9, false), [Some(5), Some(7)]);
        assert_eq!(scopes_at(&pcs, 4, false), [None, Some(5)]);
        assert_eq!(scopes_at(&pcs, 30, false), [Some(7), None]);
        assert_eq!(scopes_at(&[], 30, false), [None; 2]);
    }

    #[test]
    fn activations_are_common_up_to_the_first_difference() {
        let one = scopes(&[(1, 5), (2, 3), (3, 0)]);
        for (other, count) in [
            (scopes(&[(1, 5), (2, 3), (3, 9)]), 3),
            (scopes(&[(1, 5), (2, 4), (3, 0)]), 2),
            (scopes(&[(1, 9), (2, 3), (3, 0)]), 1),
            (scopes(&[(1, 5)]), 1),
            (scopes(&[(4, 5)]), 0),
        ] {
            assert_eq!(common(&one, &other), count);
        }
    }
}
