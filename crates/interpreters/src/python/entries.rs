//! [`EntrySites`]: calls of native code into the interpreter.
//!
//! A call of a function puts its frame behind the caller's in the data stack. So the frame at this
//! address is the outermost one of its native frame, without a look. The exception is a call that
//! resumes a generator, whose frame is elsewhere: the frame at the address is of a function that
//! the generator calls. A call site does either, always.

use rustc_hash::FxHashMap;

/// Maximum number of call sites with functions. At the limit all are forgotten.
const MAX_SITES: usize = 4096;

/// Minimum number of observations.
const MIN_FIRST: u32 = 2;

/// Call sites by the return address (AVMA) of the interpreter's function.
#[derive(Debug, Default)]
pub(super) struct EntrySites {
    sites: FxHashMap<u64, Seen>,
    /// By call site and [number](super::codes::Codes::number) of the code object. While a function
    /// calls another, a sample may have the frame of one and the code of the other.
    functions: FxHashMap<(u64, u64), Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Number of frames behind the caller's that were the outermost ones, and that were not.
    first: u32,
    inside: u32,
}

impl EntrySites {
    /// Adds a frame of this function behind the caller's: whether it is the outermost one of its
    /// native frame.
    pub(super) fn observe(&mut self, site: u64, function: u64, is_outermost: bool) {
        if self.functions.len() >= MAX_SITES {
            *self = Self::default();
        }
        self.sites.entry(site).or_default().add(is_outermost);
        let function = self.functions.entry((site, function)).or_default();
        function.add(is_outermost);
    }

    /// Returns true if the site calls functions, such as this one.
    pub(super) fn calls(&self, site: u64, function: u64) -> bool {
        let seen = self.sites.get(&site);
        let is_call = seen.is_some_and(|seen| seen.inside == 0 && seen.first >= MIN_FIRST);
        let seen = self.functions.get(&(site, function));
        is_call && seen.is_some_and(|seen| seen.inside == 0 && seen.first > 0)
    }
}

impl Seen {
    fn add(&mut self, is_outermost: bool) {
        let count = match is_outermost {
            true => &mut self.first,
            false => &mut self.inside,
        };
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_with_one_other_observation_is_not_believed() {
        let mut sites = EntrySites::default();
        for _ in 0..MIN_FIRST {
            assert!(!sites.calls(7, 1));
            sites.observe(7, 1, true);
        }
        assert!(sites.calls(7, 1) && !sites.calls(7, 2) && !sites.calls(8, 1));
        sites.observe(7, 2, false);
        assert!(!sites.calls(7, 1));
    }
}
