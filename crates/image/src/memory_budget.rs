//! [`MemoryBudget`]: memory limit shared by all files of one analysis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory limit for expanded and decompressed files: a few kilobytes can expand to gigabytes.
/// Clones share it.
///
/// ```
/// use rprof_image::MemoryBudget;
///
/// let budget = MemoryBudget::new(100);
/// let first = budget.take(70);
/// assert!(first.is_some() && budget.take(40).is_none());
/// drop(first);
/// assert!(budget.take(40).is_some());
/// assert_eq!(budget.refused(), 1);
/// ```
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    most: u64,
    left: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
}

/// Memory reserved from a [`MemoryBudget`]; returned when dropped.
#[derive(Debug)]
#[must_use]
pub struct MemoryLease {
    budget: MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    /// Creates a budget, in bytes.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self(Arc::new(Counts {
            most,
            left: AtomicU64::new(most),
            peak: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.0.most
    }

    /// Returns the reserved bytes.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.0.most - self.0.left.load(Ordering::Relaxed)
    }

    /// Returns the maximum of reserved bytes at any time.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Reserves bytes. If they exceed the budget, returns `None` and counts a refusal.
    pub fn take(&self, bytes: u64) -> Option<MemoryLease> {
        let take = |left: u64| left.checked_sub(bytes);
        // Relaxed: the counter synchronizes no other memory.
        let order = Ordering::Relaxed;
        let Ok(left) = self.0.left.fetch_update(order, order, take) else {
            self.0.refused.fetch_add(1, order);
            return None;
        };
        self.0.peak.fetch_max(self.0.most - left + bytes, order);
        let budget = self.clone();
        Some(MemoryLease { budget, bytes })
    }

    /// Counts another refusal: reading a file would take too long.
    pub fn refuse(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of refusals.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl MemoryLease {
    /// Grows the lease to at least this many bytes. Returns false if they exceed the
    /// budget.
    ///
    /// ```
    /// let budget = rprof_image::MemoryBudget::new(1 << 20);
    /// let mut lease = budget.take(0).expect("nothing is wanted yet");
    /// assert!(lease.grow_to(1 << 19) && lease.grow_to(1 << 19) && !lease.grow_to(2 << 20));
    /// drop(lease);
    /// assert!(budget.take(1 << 20).is_some());
    /// ```
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else {
            return true;
        };
        let Some(mut taken) = self.budget.take(more) else {
            return false;
        };
        self.bytes += std::mem::take(&mut taken.bytes);
        true
    }

    /// Shrinks the lease to at most this many bytes.
    ///
    /// ```
    /// let budget = rprof_image::MemoryBudget::new(1 << 20);
    /// let mut lease = budget.take(1 << 19).expect("there is as much");
    /// lease.shrink_to(1 << 10);
    /// assert_eq!(budget.taken(), 1 << 10);
    /// ```
    pub fn shrink_to(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        (self.budget.0.left).fetch_add(surplus, Ordering::Relaxed);
    }

    /// Keeps the reservation for the lifetime of the budget.
    pub fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        (self.budget.0.left).fetch_add(self.bytes, Ordering::Relaxed);
    }
}
