//! [`RecentAddresses`]: addresses that are probably needed next.

use std::collections::VecDeque;

/// Addresses by their last use, at most `MOST` of them.
#[derive(Debug, Default)]
pub(super) struct RecentAddresses<const MOST: usize> {
    addresses: VecDeque<u64>,
}

impl<const MOST: usize> RecentAddresses<MOST> {
    /// Returns the addresses, most recent first.
    pub(super) fn get(&mut self) -> &[u64] {
        self.addresses.make_contiguous()
    }

    /// Adds addresses, or moves them to the front.
    pub(super) fn add(&mut self, addresses: &[u64]) {
        self.addresses
            .retain(|address| !addresses.contains(address));
        for address in addresses.iter().rev().take(MOST) {
            self.addresses.push_front(*address);
        }
        self.addresses.truncate(MOST);
    }

    /// Removes the addresses for which `is_useful` returns false.
    pub(super) fn retain(&mut self, mut is_useful: impl FnMut(u64) -> bool) {
        self.addresses.retain(|address| is_useful(*address));
    }
}
