//! Distinguishes functions with equal display names but different linkage names.
//!
//! Without parameters, the overloads of a function have one display name, and demanglers lose text:
//! hashes of Rust's legacy names, constraints of C++. Such names get a suffix, which
//! `rprof_profile::pattern` recognizes:
//!
//! - ` (int) const`: the parameters, if they differ;
//! - `::h0123456789abcdef`: the hash of a legacy Rust name;
//! - ` [_Z1fIiEvT_Q5SmallIS0_E]`, ` [app__put__2]`: the linkage name, if demangling loses the
//!   difference, or if the language has no name for it (overloads of Ada).
//!
//! One function may have several linkage names: for its parts and clones (`.cold`,
//! `.constprop.0`), for constructors of bases and of whole objects, and for thunks. They stay one
//! function.

use crate::demangle::{Style, demangle};
use crate::frames::{Frames, InlinedName, Symbol};
use rprof_image::Reason;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

type Lookup = Result<Frames, Reason>;

pub(crate) fn tell_apart(lookups: &mut [Lookup], style: Style) {
    if style == Style::Mangled {
        return;
    }
    let suffixes = suffixes(lookups, style);
    if suffixes.is_empty() {
        return;
    }
    let renamed = |name: &str, raw: &str| -> Option<Box<str>> {
        let suffix = suffixes.get(name)?.get(raw)?;
        Some([name, suffix].concat().into())
    };
    let mut symbols: FxHashMap<*const Symbol, Option<Arc<Symbol>>> = FxHashMap::default();
    let mut inlined: FxHashMap<*const InlinedName, Option<Arc<InlinedName>>> = FxHashMap::default();
    for frames in lookups.iter_mut().flatten() {
        frames.rename(
            |symbol| {
                let make = || {
                    let name = renamed(&symbol.name, &symbol.raw)?;
                    let symbol = Symbol::clone(symbol);
                    Some(Arc::new(Symbol { name, ..symbol }))
                };
                symbols
                    .entry(Arc::as_ptr(symbol))
                    .or_insert_with(make)
                    .clone()
            },
            |function| {
                let make = || {
                    let name = renamed(&function.name, &function.raw)?;
                    let raw = Arc::clone(&function.raw);
                    Some(Arc::new(InlinedName { name, raw }))
                };
                let made = inlined.entry(Arc::as_ptr(function)).or_insert_with(make);
                made.clone()
            },
        );
    }
}

/// Returns the suffixes of linkage names, by display name.
fn suffixes(lookups: &[Lookup], style: Style) -> FxHashMap<Box<str>, FxHashMap<Box<str>, String>> {
    let mut seen: FxHashSet<(*const u8, *const u8)> = FxHashSet::default();
    let mut first: FxHashMap<&str, &str> = FxHashMap::default();
    let mut shared: FxHashMap<&str, BTreeSet<&str>> = FxHashMap::default();
    for frame in lookups.iter().flatten().flat_map(Frames::iter) {
        let is_new = seen.insert((frame.name.as_ptr(), frame.raw.as_ptr()));
        // Names without demangling are identical only if they are one name.
        if !is_new || frame.raw == frame.name {
            continue;
        }
        let other = *first.entry(frame.name).or_insert(frame.raw);
        if other != frame.raw {
            let all = shared.entry(frame.name).or_default();
            all.extend([other, frame.raw]);
        }
    }
    let told_apart = |(name, all): (&str, BTreeSet<&str>)| {
        let mut groups: FxHashMap<Cow<'_, str>, Vec<&str>> = FxHashMap::default();
        for raw in all {
            groups.entry(identity(raw)).or_default().push(raw);
        }
        if groups.len() < 2 {
            return None;
        }
        let mut uses: FxHashMap<String, usize> = FxHashMap::default();
        let groups: Vec<(Option<String>, Vec<&str>)> = (groups.into_values())
            .map(|all| (details(name, all[0], style), all))
            .collect();
        for details in groups.iter().filter_map(|(details, _)| details.as_ref()) {
            *uses.entry(details.clone()).or_default() += 1;
        }
        let mut suffixes = FxHashMap::default();
        for (details, all) in groups {
            let suffix = (details.filter(|details| uses[details] == 1))
                .unwrap_or_else(|| format!(" [{}]", all[0]));
            suffixes.extend(all.into_iter().map(|raw| (raw.into(), suffix.clone())));
        }
        Some((name.into(), suffixes))
    };
    shared.into_iter().filter_map(told_apart).collect()
}

/// Returns the text behind a display name that other functions of this name lack, probably: the
/// parameters, or the hash.
fn details(name: &str, raw: &str, style: Style) -> Option<String> {
    if let Some(hash) = rust_hash(raw) {
        return Some(format!("::{hash}"));
    }
    // The name of a PLT entry ends like its raw name.
    let raw = raw.strip_suffix("@plt").unwrap_or(raw);
    let short = demangle(raw, style);
    // File and line may follow.
    let short = name.starts_with(&*short).then_some(short)?;
    let full = demangle(raw, Style::Full);
    let at = full.find(&*short)?;
    let behind = full[at + short.len()..].strip_prefix('(')?;
    let behind = behind.split(" [clone .").next()?;
    Some(format!(" ({behind}"))
}

/// Returns the hash of a legacy Rust name: `h0123456789abcdef`.
fn rust_hash(raw: &str) -> Option<&str> {
    let at = raw.rfind("17h")?;
    let hash = raw.get(at + 2..at + 19)?;
    let is_hash = hash[1..].bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_end = raw.get(at + 19..)?.starts_with('E');
    (raw.starts_with("_ZN") && is_hash && is_end).then_some(hash)
}

/// Returns the part of a linkage name that is the same in all parts and variants of a function.
fn identity(raw: &str) -> Cow<'_, str> {
    let raw = raw.strip_suffix("@plt").unwrap_or(raw);
    let raw = raw.split('@').next().unwrap_or(raw);
    // These suffixes make names of local functions unique. Others mark clones, and LLVM's copies of
    // other functions.
    let is_local = raw.starts_with("_ZL") || raw.contains("_GLOBAL__N_");
    let (function, clones) = match rust_hash(raw) {
        Some(_) => raw.split_at(raw.rfind("17h").map_or(raw.len(), |at| at + 20)),
        None => raw.split_at(raw.find('.').unwrap_or(raw.len())),
    };
    let mut parts = clones.split('.').peekable();
    let mut unique = String::new();
    while let Some(part) = parts.next() {
        let is_unique = matches!(part, "lto_priv" | "__uniq") || is_local && part == "llvm";
        if is_unique && let Some(number) = parts.next() {
            unique.push('.');
            unique.push_str(number);
        }
    }
    let function = without_thunk(function);
    let bytes = function.as_bytes();
    let is_variant = |at: usize| {
        let kinds = match bytes.get(at.wrapping_sub(1)) {
            Some(b'C') => b'1'..=b'5',
            Some(b'D') => b'0'..=b'5',
            _ => return false,
        };
        let is_end = matches!(bytes.get(at + 1), Some(b'E' | b'I' | b'B'));
        function.starts_with("_Z") && kinds.contains(&bytes[at]) && is_end
    };
    if unique.is_empty() && !(0..bytes.len()).any(is_variant) {
        return function;
    }
    let letters = function.char_indices();
    let mut same: String = letters
        .map(|(at, letter)| if is_variant(at) { '*' } else { letter })
        .collect();
    same.push_str(&unique);
    Cow::Owned(same)
}

/// Returns the name of a thunk's function: `_ZThn16_N1A1fEv` is one of `_ZN1A1fEv`, but shown as a
/// thunk.
fn without_thunk(raw: &str) -> Cow<'_, str> {
    let offsets = match raw.as_bytes() {
        [b'_', b'Z', b'T', b'h', ..] => 1,
        [b'_', b'Z', b'T', b'v', ..] => 2,
        _ => return Cow::Borrowed(raw),
    };
    let mut rest = &raw[4..];
    for _ in 0..offsets {
        let Some((_, behind)) = rest.split_once('_') else {
            return Cow::Borrowed(raw);
        };
        rest = behind;
    }
    Cow::Owned(["_ZT", rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Display names of functions with these linkage names that are in one image.
    fn shown(raws: &[&str]) -> Vec<String> {
        let mut lookups: Vec<Lookup> = (raws.iter().zip(0..))
            .map(|(raw, start)| {
                let symbol = Symbol {
                    name: demangle(raw, Style::NoParameters).into(),
                    raw: (*raw).into(),
                    start,
                    size: 1,
                    module: None,
                    located: None,
                };
                Ok(Frames::new(Arc::new(symbol), 0))
            })
            .collect();
        tell_apart(&mut lookups, Style::NoParameters);
        let name = |lookup: &Lookup| lookup.as_ref().unwrap().symbol().name.to_string();
        lookups.iter().map(name).collect()
    }

    #[test]
    fn overloads_have_their_parameters() {
        assert_eq!(
            shown(&["_ZNK2F1clEi", "_ZNK2F1clEl", "_Z1fIiEvT_", "_Z4mainv"]),
            [
                "F1::operator() (int) const",
                "F1::operator() (long) const",
                "f<int>",
                "main"
            ]
        );
        assert_eq!(
            shown(&["_Z1fIiEiT_", "_Z1fIiEiPT_"]),
            ["f<int> (int)", "f<int> (int*)"]
        );
    }

    #[test]
    fn entries_of_the_plt_have_their_parameters() {
        let plt = shown(&["_Z1fi@plt", "_Z1fl@plt"]);
        assert_eq!(plt, ["f@plt (int)", "f@plt (long)"]);
    }

    #[test]
    fn parts_and_variants_of_one_function_stay_one() {
        for same in [
            ["_ZN1A1fEi", "_ZN1A1fEi.cold"],
            ["_ZN1A1fEi.part.0", "_ZN1A1fEi.constprop.1.isra.0"],
            ["_ZN1AC1Ei", "_ZN1AC2Ei"],
            ["_ZN1AD0Ev", "_ZN1AD2Ev"],
            ["_ZThn8_N1A1fEi", "_ZThn16_N1A1fEi"],
            ["_ZN1A1fEi", "_ZN1A1fEi@plt"],
            ["_ZN1A1fEi.llvm.123", "_ZN1A1fEi.llvm.456"],
            ["_RNvC6_123foo3bar.llvm.123", "_RNvC6_123foo3bar.llvm.456"],
        ] {
            let names: Vec<_> = same.map(|raw| demangle(raw, Style::NoParameters)).into();
            assert_eq!(shown(&same), names);
        }
    }

    #[test]
    fn local_functions_of_several_units_are_several() {
        assert_eq!(
            shown(&["_ZL1fv.lto_priv.0", "_ZL1fv.lto_priv.1.cold"]),
            ["f [_ZL1fv.lto_priv.0]", "f [_ZL1fv.lto_priv.1.cold]"]
        );
        assert_eq!(
            shown(&["_ZL1fv.llvm.12", "_ZL1fv.llvm.34"]),
            ["f [_ZL1fv.llvm.12]", "f [_ZL1fv.llvm.34]"]
        );
    }

    #[test]
    fn lost_text_is_in_the_linkage_name() {
        assert_eq!(
            shown(&["_Z1fIiEvT_Q5SmallIS0_E", "_Z1fIiEvT_Q3BigIS0_E"]),
            [
                "f<int> [_Z1fIiEvT_Q5SmallIS0_E]",
                "f<int> [_Z1fIiEvT_Q3BigIS0_E]"
            ]
        );
    }

    #[test]
    fn closures_in_legacy_rust_names_have_their_hash() {
        let closure = |hash| format!("_ZN4demo4main28_$u7b$$u7b$closure$u7d$$u7d$17h{hash}E");
        let (first, second) = (closure("00000000deadbeef"), closure("0123456789abcdef"));
        assert_eq!(
            shown(&[&first, &second]),
            [
                "demo::main::{{closure}}::h00000000deadbeef",
                "demo::main::{{closure}}::h0123456789abcdef"
            ]
        );
        assert_eq!(shown(&[&first, "_Z4mainv"])[0], "demo::main::{{closure}}");
    }
}
