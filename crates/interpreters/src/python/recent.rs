//! [`RecentCodes`]: code objects of the last stacks.

use std::collections::VecDeque;

/// Maximum number of code objects.
const MOST: usize = 48;

/// Code objects that are probably on the next stack, so that their proofs are read with its frames.
#[derive(Debug, Default)]
pub(super) struct RecentCodes {
    codes: VecDeque<u64>,
}

impl RecentCodes {
    pub(super) fn get(&mut self) -> &[u64] {
        self.codes.make_contiguous()
    }

    pub(super) fn add(&mut self, codes: &[u64]) {
        self.codes.retain(|code| !codes.contains(code));
        for code in codes.iter().rev().take(MOST) {
            self.codes.push_front(*code);
        }
        self.codes.truncate(MOST);
    }
}
