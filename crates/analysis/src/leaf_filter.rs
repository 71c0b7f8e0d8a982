//! Filters on objects and functions, which are known once samples are symbolized.

use rprof_profile::Filter;

use crate::symbolize::Symbols;

/// Returns true if the filter accepts the leaf of a stack: its object, and the function there or a
/// call inlined into it.
pub(crate) fn leaf_wanted(filter: &Filter, leaf: Option<u32>, symbols: &Symbols) -> bool {
    if filter.objects.is_empty() && filter.symbols.is_empty() {
        return true;
    }
    let Some(leaf) = leaf else { return false };
    let mut functions = symbols
        .frames(leaf)
        .iter()
        .map(|frame| &symbols.functions[frame.function.0 as usize]);
    let object = &symbols.objects[symbols.functions[symbols.outermost(leaf).0 as usize]
        .object
        .0 as usize];
    let object_ok = filter.objects.is_empty()
        || (filter.objects.iter()).any(|o| **o == *object.name || o == object.base_name());
    let symbol_ok = filter.symbols.is_empty()
        || functions.any(|function| {
            (function.name.as_ref()).is_ok_and(|n| filter.symbols.iter().any(|s| **s == **n))
        });
    object_ok && symbol_ok
}
