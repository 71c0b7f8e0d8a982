//! Of several symbols at one address, the one that names it.
//!
//! The order of preference is that of `perf`, found by feeding it files made for the
//! purpose: see `tests/perf.rs`, which does so again wherever `perf` is installed.

use super::Strings;
use super::table::{Entry, Origin};
use crate::demangle::{Style, demangle_bytes};
use std::borrow::Cow;

/// A symbol of the file, before it is known whether it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) name: u32,
    pub(super) origin: Origin,
    pub(super) untyped: bool,
    /// Whether it has a version that is kept for old programs alone.
    pub(super) is_old: bool,
    pub(super) weak: bool,
    pub(super) global: bool,
    /// End of its section, where a symbol without size ends at the latest.
    pub(super) limit: u64,
}

/// Extends symbols without size and keeps one symbol for each address.
pub(super) struct Chooser<'a> {
    data: &'a [u8],
    strings: &'a Strings,
    /// How many names may still be demangled to settle ties. Millions of aliases
    /// at one address occur in no honest file.
    demangle_budget: u32,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(data: &'a [u8], strings: &'a Strings) -> Self {
        Self {
            data,
            strings,
            demangle_budget: 100_000,
        }
    }

    /// Sorts `candidates`. Order among equal starts matters: earlier ones win ties.
    pub(super) fn settle(&mut self, candidates: &mut Vec<Candidate>) {
        candidates.sort_by_key(|candidate| candidate.start);
        for index in 0..candidates.len() {
            let next = candidates
                .get(index + 1)
                .map_or(u64::MAX, |next| next.start);
            let candidate = &mut candidates[index];
            if candidate.size == 0 {
                // With aliases at this address, only the last of them gets a size,
                // and so wins. That is as arbitrary as in `perf`, and the same.
                candidate.size = next.min(candidate.limit).saturating_sub(candidate.start);
            }
        }
        candidates.dedup_by(|next, kept| {
            let same = next.start == kept.start;
            if same && !self.first_is_better(kept, next) {
                *kept = *next;
            }
            same
        });
    }

    fn first_is_better(&mut self, a: &Candidate, b: &Candidate) -> bool {
        if (a.size == 0) != (b.size == 0) {
            return b.size == 0;
        }
        if a.untyped != b.untyped {
            return b.untyped;
        }
        if a.weak != b.weak {
            return b.weak;
        }
        if a.global != b.global {
            return a.global;
        }
        if a.is_old != b.is_old {
            return b.is_old;
        }
        let (a_name, b_name) = (self.name(a), self.name(b));
        let underscores = |name: &str| name.bytes().take_while(|&byte| byte == b'_').count();
        let by_underscores = underscores(&b_name).cmp(&underscores(&a_name));
        let order = by_underscores.then_with(|| a_name.len().cmp(&b_name.len()));
        // Old kernels had each system call as sys_foo and SyS_foo.
        order
            .then_with(|| (!a_name.starts_with("SyS")).cmp(&false))
            .is_gt()
    }

    /// The name that counts is the one that is shown.
    fn name(&mut self, candidate: &Candidate) -> Cow<'a, str> {
        let raw = self
            .strings
            .get(self.data, candidate.origin, candidate.name);
        // Enough to tell names apart, and a bound on the work for each alias.
        let raw = &raw[..raw.len().min(4096)];
        if self.demangle_budget == 0 {
            return Cow::Borrowed(str::from_utf8(raw).unwrap_or_default());
        }
        self.demangle_budget -= 1;
        demangle_bytes(raw, Style::NoParameters)
    }
}

impl From<&Candidate> for Entry {
    fn from(candidate: &Candidate) -> Self {
        Self::new(
            candidate.start,
            candidate.size,
            candidate.origin,
            candidate.name,
        )
    }
}
