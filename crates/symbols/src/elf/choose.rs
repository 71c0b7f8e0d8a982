//! Choice of one symbol among several at the same address, as in `perf`.
//!
//! The order was found with purpose-built files: see `tests/it/perf.rs`, which repeats the
//! comparison.

use super::strings::Strings;
use super::table::{Entry, Origin};
use crate::demangle::{Style, demangle_bytes};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) start: u64,
    pub(super) size: u64,
    pub(super) name: u32,
    pub(super) origin: Origin,
    pub(super) untyped: bool,
    /// True for an old symbol version, kept only for old programs.
    pub(super) is_old: bool,
    pub(super) weak: bool,
    pub(super) global: bool,
    /// End of its section, which limits a symbol without size.
    pub(super) limit: u64,
}

impl Candidate {
    /// Creates a marker: another symbol starts at `start`. Markers are not kept.
    pub(super) fn mark(start: u64) -> Self {
        Self {
            start,
            size: 1,
            name: 0,
            origin: Origin::PltHeader,
            untyped: false,
            is_old: false,
            weak: false,
            global: false,
            limit: u64::MAX,
        }
    }

    /// Returns true for a symbol without type and size.
    fn is_label(&self) -> bool {
        self.untyped && self.size == 0
    }
}

/// Extends symbols without size and keeps one symbol per address.
pub(super) struct Chooser<'a> {
    data: &'a [u8],
    strings: &'a Strings,
    /// Remaining demanglings to settle ties. No real file has millions of aliases at one address.
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

    /// Sorts `candidates` and keeps one per address. Earlier ones win ties.
    pub(super) fn settle(&mut self, candidates: &mut Vec<Candidate>) {
        sort(candidates);
        // End of the functions with a size, up to the current symbol.
        let mut covered = 0;
        for index in 0..candidates.len() {
            let next = candidates
                .get(index + 1)
                .map_or(u64::MAX, |next| next.start);
            let candidate = &mut candidates[index];
            if candidate.is_label() && candidate.start < covered {
                // The function names the code at a label, such as in inline assembly.
                continue;
            }
            if !candidate.untyped {
                covered = covered.max(candidate.start.saturating_add(candidate.size));
            }
            if candidate.size == 0 {
                // Arbitrary, as in `perf`.
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
        if same_rank(self.raw_name(a), self.raw_name(b)) {
            return true;
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

    fn raw_name(&self, candidate: &Candidate) -> &'a [u8] {
        let raw = (self.strings).get(self.data, candidate.origin, candidate.name);
        // Enough to compare names, and a limit on the work per alias.
        &raw[..raw.len().min(4096)]
    }

    fn name(&mut self, candidate: &Candidate) -> Cow<'a, str> {
        let raw = self.raw_name(candidate);
        if self.demangle_budget == 0 {
            return Cow::Borrowed(str::from_utf8(raw).unwrap_or_default());
        }
        self.demangle_budget -= 1;
        demangle_bytes(raw, Style::NoParameters)
    }
}

fn sort(candidates: &mut Vec<Candidate>) {
    if candidates.is_sorted_by_key(|candidate| candidate.start) {
        return;
    }
    // Candidates are large: sort their indexes.
    let starts = candidates.iter().map(|candidate| candidate.start);
    let mut order: Vec<(u64, usize)> = starts.zip(0..).collect();
    order.sort_unstable();
    *candidates = order.iter().map(|&(_, at)| candidates[at]).collect();
}

/// Returns true if two names surely rank the same after demangling, as nearly all aliases in real
/// files.
fn same_rank(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (without_version(a), without_version(b));
    // May rank differently, so it must be demangled.
    let settled = |name: &[u8]| !name.windows(3).any(|part| part == b"SyS");
    (a == b || variants_of_one(a, b)) && settled(a) && settled(b)
}

fn without_version(name: &[u8]) -> &[u8] {
    match name.iter().position(|&byte| byte == b'@') {
        Some(at) if at > 0 && !name.ends_with(b"@plt") => &name[..at],
        _ => name,
    }
}

/// Returns true if mangled names differ only in the digits of `C1` to `C3` or `D0` to `D2` (Itanium
/// C++ ABI, "Constructors and Destructors"), which are not shown. Identifiers like `fC1` and `fC2`
/// have equal length, so they rank the same too.
fn variants_of_one(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() || !a.starts_with(b"_ZN") || !b.starts_with(b"_ZN") {
        return false;
    }
    let pairs = a.windows(2).zip(b.windows(2));
    let mut differing = pairs.filter(|(a, b)| a[1] != b[1]);
    differing.all(|(a, b)| {
        let digits = match a[0] {
            b'C' => b'1'..=b'3',
            b'D' => b'0'..=b'2',
            _ => return false,
        };
        a[0] == b[0] && digits.contains(&a[1]) && digits.contains(&b[1])
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names with equal rank in the shortcut also have equal rank after demangling.
    #[test]
    fn equal_rank_without_demangling_is_equal_rank() {
        let same: [(&str, &str); 7] = [
            ("_ZN1AC1Ev", "_ZN1AC2Ev"),
            ("_ZN1AD0Ev", "_ZN1AD2Ev"),
            ("_ZN1AD1Ev@@V_1", "_ZN1AD2Ev"),
            (
                "_ZNSt12out_of_rangeC1ERKSs@@GLIBCXX_3.4",
                "_ZNSt12out_of_rangeC2ERKSs",
            ),
            ("_ZN1A3fC1Ev", "_ZN1A3fC2Ev"),
            ("_ZN4llvm5TwineC1ERKS0_S2_", "_ZN4llvm5TwineC3ERKS0_S2_"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
        ];
        let rank = |name: &str| {
            let shown = demangle_bytes(name.as_bytes(), Style::NoParameters).into_owned();
            let underscores = shown.bytes().take_while(|&byte| byte == b'_').count();
            (underscores, shown.len(), shown.starts_with("SyS"))
        };
        for (a, b) in same {
            assert!(same_rank(a.as_bytes(), b.as_bytes()), "{a} {b}");
            assert_eq!(rank(a), rank(b), "{a} {b}");
        }
    }

    #[test]
    fn names_that_may_rank_otherwise_go_the_long_way() {
        for (a, b) in [
            ("_ZN1AC1Ev", "_ZN1AD1Ev"),
            ("_ZN1AC1Ev", "_ZN1AC1Ei"),
            ("_ZN1AD1Ev", "_ZN1AD4Ev"),
            ("_ZN3SySC1Ev", "_ZN3SySC2Ev"),
            ("SyS_read", "SyS_read"),
            ("f@plt", "f"),
            ("C1", "C2"),
        ] {
            assert!(!same_rank(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
    }
}
