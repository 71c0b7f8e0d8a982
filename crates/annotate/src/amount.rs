//! [`Amount`]: sums of samples.

use std::ops::AddAssign;

use serde::Serialize;

/// Self and total of a place in the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Weight of samples at this place.
    #[serde(rename = "self")]
    pub own: u64,
    /// Weight of samples at this place or in its callees. Each sample counts once.
    pub total: u64,
    /// Number of samples at this place.
    #[serde(rename = "self_samples")]
    pub own_samples: u64,
    /// Number of samples at this place or in its callees.
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
    pub(crate) fn of(weight: u64, samples: u64, is_leaf: bool) -> Amount {
        Amount {
            own: if is_leaf { weight } else { 0 },
            total: weight,
            own_samples: if is_leaf { samples } else { 0 },
            total_samples: samples,
        }
    }
}
