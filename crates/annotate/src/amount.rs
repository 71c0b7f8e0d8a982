//! [`Amount`]: what samples add up to.

use std::ops::AddAssign;

/// Sums of samples: those taken at a place, and those that were there or in what it called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Weight of the samples taken there.
    pub own: u64,
    /// Weight of those, and of the samples taken in what was called from there; each counts once.
    pub total: u64,
    /// Number of samples taken there.
    pub own_samples: u64,
    /// Number of samples taken there or in what was called from there.
    pub total_samples: u64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, more: Amount) {
        self.own = self.own.saturating_add(more.own);
        self.total = self.total.saturating_add(more.total);
        self.own_samples = self.own_samples.saturating_add(more.own_samples);
        self.total_samples = self.total_samples.saturating_add(more.total_samples);
    }
}

impl Amount {
    /// Returns samples that were in a place, taken there or not.
    pub(crate) fn of(weight: u64, samples: u64, is_leaf: bool) -> Amount {
        Amount {
            own: if is_leaf { weight } else { 0 },
            total: weight,
            own_samples: if is_leaf { samples } else { 0 },
            total_samples: samples,
        }
    }
}
