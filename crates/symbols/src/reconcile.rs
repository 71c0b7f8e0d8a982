//! Merges symbol table and debug information into one result.
//!
//! Both name the function at an address, and they may disagree. The rules:
//!
//! - A PLT entry comes from the table.
//! - The symbol that covers the address names the function, as in `perf` and LLVM's tools. This
//!   decides among aliases (`malloc`, `__libc_malloc`). It separates parts of functions (`f.cold`,
//!   `f.part.0`, `f.isra.0`, `f.constprop.0`), which debug information all calls `f`. It shows the
//!   name of an indirect function instead of its resolver.
//! - Debug information wins over a symbol that only reaches the address because its size is missing
//!   or wrong (labels, data in text).
//! - Without a symbol, debug information names the function.
//! - Without debug information, there are no lines or inlined calls.
//!
//! Inlined calls have their linkage name if available. Functions that share another name get file
//! and line appended (`same_names`). Versions (`f@@V1`) and the lowest bit of Thumb addresses are
//! removed.

use crate::demangle::{Language, Style, demangle_in};
use crate::dwarf::Found;
use crate::elf::ElfSymbol;
use crate::frames::{Frames, Inlined, InlinedName, Symbol};
use rprof_parallel::map_chunks;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::sync::Arc;

/// Names shared by many addresses, each demangled once.
pub(crate) struct Reconciler<'a> {
    style: Style,
    has_evidence: &'a (dyn Fn(Language) -> bool + Sync),
    /// The key tells PLT entries apart, which come from another table if there is a debug file.
    symbols: FxHashMap<(u64, bool), Arc<Symbol>>,
    functions: FxHashMap<(u64, Arc<str>), Arc<Symbol>>,
    inlined: FxHashMap<Arc<str>, Arc<InlinedName>>,
    told_apart: FxHashMap<(Arc<str>, Arc<str>), Arc<InlinedName>>,
    /// Keyed by the memory address of the raw name, which is faster than the text.
    by_place: FxHashMap<usize, Arc<InlinedName>>,
}

impl<'a> Reconciler<'a> {
    /// Demangles the names of all inlined calls in parallel, as this takes longest. `has_evidence`
    /// returns true for the languages of the image.
    pub(crate) fn new(
        style: Style,
        has_evidence: &'a (dyn Fn(Language) -> bool + Sync),
        found: &[Option<Found>],
        threads: usize,
    ) -> Self {
        let frames = found
            .iter()
            .flatten()
            .flat_map(|found| found.frames.iter().skip(1));
        let raw: FxHashSet<&Arc<str>> = frames.filter_map(|frame| frame.name.as_ref()).collect();
        let raw: Vec<&Arc<str>> = raw.into_iter().collect();
        let named = map_chunks(threads, &raw, 64, |some| {
            let name = |raw: &&Arc<str>| {
                let name = demangle_in(raw, style, has_evidence).into();
                let raw = Arc::clone(raw);
                (Arc::clone(&raw), Arc::new(InlinedName { name, raw }))
            };
            some.iter().map(name).collect::<Vec<_>>()
        });
        Self {
            style,
            has_evidence,
            symbols: FxHashMap::default(),
            functions: FxHashMap::default(),
            inlined: named.into_iter().flatten().collect(),
            told_apart: FxHashMap::default(),
            by_place: FxHashMap::default(),
        }
    }

    pub(crate) fn frames(
        &mut self,
        svma: u64,
        symbol: Option<ElfSymbol<'_>>,
        found: Option<Found>,
    ) -> Option<Frames> {
        let found = found.filter(|_| symbol.is_none_or(|symbol| !symbol.is_plt()));
        let found = found.unwrap_or_default();
        let function = found.frames.first();
        let symbol = match (symbol, function.and_then(|function| function.name.as_ref())) {
            (Some(symbol), Some(name)) if symbol.start() < found.range.start => {
                self.function(name, &found)
            }
            (Some(symbol), Some(name)) if symbol.raw() == name.as_bytes() => self.symbol(
                &symbol,
                function.and_then(|function| function.distinction.as_deref()),
            ),
            (Some(symbol), _) => self.symbol(&symbol, None),
            (None, Some(name)) => self.function(name, &found),
            (None, None) => return None,
        };
        let offset = svma.wrapping_sub(symbol.start);
        // A frame's line is its call of the next frame.
        let mut calls = found.frames.into_iter();
        let start_line = calls.next().map_or(0, |function| function.start_line);
        let mut inlined: Vec<Inlined> = Vec::new();
        let mut outermost = None;
        for call in calls {
            match inlined.last_mut() {
                Some(last) => last.line = call.call,
                None => outermost = call.call,
            }
            inlined.push(Inlined {
                function: self.inlined(call.name.as_ref(), call.distinction.as_ref()),
                line: None,
                start_line: call.start_line,
            });
        }
        match inlined.last_mut() {
            Some(last) => last.line = found.line,
            None => outermost = found.line,
        }
        let frames = Frames::new(symbol, offset).with(outermost, inlined.into());
        Some(frames.beginning_at(start_line))
    }

    fn symbol(&mut self, found: &ElfSymbol<'_>, distinction: Option<&str>) -> Arc<Symbol> {
        let (style, has_evidence) = (self.style, self.has_evidence);
        let make = || {
            let mut raw = String::from_utf8_lossy(found.raw()).into_owned();
            if found.is_plt() {
                raw.push_str("@plt");
            }
            Arc::new(Symbol {
                name: with_distinction(found.name_in(style, has_evidence), distinction),
                raw: raw.into(),
                start: found.start(),
                size: found.size(),
                module: None,
                located: None,
            })
        };
        let key = (found.start(), found.is_plt());
        Arc::clone(self.symbols.entry(key).or_insert_with(make))
    }

    fn function(&mut self, name: &Arc<str>, found: &Found) -> Arc<Symbol> {
        let (style, has_evidence) = (self.style, self.has_evidence);
        let range = &found.range;
        let distinction = found.frames.first().and_then(|f| f.distinction.as_deref());
        let make = || {
            Arc::new(Symbol {
                name: with_distinction(demangle_in(name, style, has_evidence), distinction),
                raw: (**name).into(),
                start: range.start,
                size: range.end - range.start,
                module: None,
                located: None,
            })
        };
        let key = (range.start, Arc::clone(name));
        Arc::clone(self.functions.entry(key).or_insert_with(make))
    }

    /// `raw` must live until all calls are named, so that no other text reuses its address.
    fn inlined(
        &mut self,
        raw: Option<&Arc<str>>,
        distinction: Option<&Arc<str>>,
    ) -> Arc<InlinedName> {
        if let (Some(raw), Some(distinction)) = (raw, distinction) {
            let (style, has_evidence) = (self.style, self.has_evidence);
            let make = || {
                let name = demangle_in(raw, style, has_evidence);
                let name = with_distinction(name, Some(distinction));
                let raw = Arc::clone(raw);
                Arc::new(InlinedName { name, raw })
            };
            let key = (Arc::clone(raw), Arc::clone(distinction));
            return Arc::clone(self.told_apart.entry(key).or_insert_with(make));
        }
        let place = raw.map_or(0, |raw| raw.as_ptr().addr());
        if let Some(known) = self.by_place.get(&place) {
            return Arc::clone(known);
        }
        let raw = raw.map_or_else(|| "??".into(), Arc::clone);
        let (style, has_evidence) = (self.style, self.has_evidence);
        let make = || {
            let name = demangle_in(&raw, style, has_evidence).into();
            let raw = Arc::clone(&raw);
            Arc::new(InlinedName { name, raw })
        };
        let name = Arc::clone(self.inlined.entry(Arc::clone(&raw)).or_insert_with(make));
        self.by_place.insert(place, Arc::clone(&name));
        name
    }
}

fn with_distinction(name: Cow<'_, str>, distinction: Option<&str>) -> Box<str> {
    match distinction {
        Some(distinction) => [&*name, distinction].concat().into(),
        None => name.into(),
    }
}
