//! Limits for reading other tools' profiles. A few hostile bytes may encode any number of frames,
//! names and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rprof_image::{MemoryBudget, MemoryLease};

use crate::builder::ProfileBuilder;

/// Maximum depth of a stack. Deeper stacks lose callers.
pub const MAX_FRAMES: usize = 4096;

/// Maximum number of events. Samples of further events are dropped: a report takes time linear in
/// the whole profile for each event.
pub const MAX_EVENTS: usize = 1000;

/// Default memory budget for a command's inputs, in bytes. It keeps the process below 512 MiB.
pub const READING_MEMORY: u64 = 320 << 20;

/// Granularity of reservations, in bytes.
const STEP: u64 = 64 << 10;

/// Budget for a command's inputs: memory for tables, and work beyond one pass over the input.
/// Clones share it.
#[derive(Clone, Debug)]
pub struct ReadingBudget {
    memory: MemoryBudget,
    work: Arc<AtomicU64>,
}

impl ReadingBudget {
    /// Creates a budget of `memory` bytes, with proportional work.
    pub fn new(memory: u64) -> ReadingBudget {
        ReadingBudget {
            memory: MemoryBudget::new(memory),
            work: Arc::default(),
        }
    }

    /// Returns the reserved bytes, including finished profiles.
    pub fn memory(&self) -> u64 {
        self.memory.taken()
    }

    /// Returns the peak of reserved bytes.
    pub fn peak(&self) -> u64 {
        self.memory.peak()
    }

    /// Returns the work so far, in bytes of repeated name lookups.
    pub fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }
}

impl Default for ReadingBudget {
    fn default() -> Self {
        ReadingBudget::new(READING_MEMORY)
    }
}

/// Memory reservation for reading a profile.
#[derive(Debug)]
pub struct MemoryReservation {
    /// `None` if there is no budget.
    lease: Option<MemoryLease>,
    budget: ReadingBudget,
    /// Bytes outside the profile.
    beside: u64,
}

/// Limit that an input exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverLimit {
    /// The tables exceed the memory budget.
    #[error("it takes more than {} MiB of memory; export less, or allow more with --memory", most >> 20)]
    Memory {
        /// Bytes of the budget.
        most: u64,
    },
    /// The input refers to long names too often.
    #[error("its repeated long names expand to more than {} MiB; export less, or allow more with \
             --memory", most >> 20)]
    Work {
        /// Limit in bytes.
        most: u64,
    },
}

/// Maximum bytes of repeated names per byte of memory budget.
const WORK: u64 = 8;

impl MemoryReservation {
    /// Starts an empty reservation.
    pub fn new(budget: &ReadingBudget) -> MemoryReservation {
        MemoryReservation {
            lease: budget.memory.take(0),
            budget: budget.clone(),
            beside: 0,
        }
    }

    /// Reserves memory outside the profile.
    ///
    /// # Errors
    /// The memory budget is exhausted.
    pub fn hold(&mut self, bytes: u64) -> Result<(), OverLimit> {
        self.beside = self.beside.saturating_add(bytes);
        self.grow(self.beside)
    }

    /// Releases memory outside the profile.
    pub fn give_back(&mut self, bytes: u64) {
        self.beside = self.beside.saturating_sub(bytes);
    }

    /// Counts the work of a repeated name lookup.
    ///
    /// # Errors
    /// The work limit is exceeded.
    pub fn pay(&mut self, bytes: usize) -> Result<(), OverLimit> {
        let before = self.budget.work.fetch_add(bytes as u64, Ordering::Relaxed);
        let most = self.budget.memory.most().saturating_mul(WORK);
        match before.saturating_add(bytes as u64) > most {
            true => Err(OverLimit::Work { most }),
            false => Ok(()),
        }
    }

    /// Reserves the profile's current size.
    ///
    /// # Errors
    /// The memory budget is exhausted.
    pub fn hold_profile(&mut self, builder: &ProfileBuilder) -> Result<(), OverLimit> {
        self.grow(self.beside.saturating_add(builder.held_bytes()))
    }

    fn grow(&mut self, bytes: u64) -> Result<(), OverLimit> {
        let most = self.budget.memory.most();
        let wanted = bytes.div_ceil(STEP).saturating_mul(STEP).min(most);
        let lease = self.lease.as_mut().filter(|_| bytes <= most);
        match lease.is_some_and(|lease| lease.grow_to(wanted)) {
            true => Ok(()),
            false => Err(OverLimit::Memory { most }),
        }
    }

    /// Ends reading. The profile's memory stays reserved as long as the budget lives.
    pub fn keep(self, builder: &ProfileBuilder) {
        if let Some(mut lease) = self.lease {
            lease.shrink_to(builder.held_bytes());
            lease.keep();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_share_a_budget_and_what_was_kept_stays_taken() {
        let budget = ReadingBudget::new(1 << 20);
        let mut first = MemoryReservation::new(&budget);
        first.hold(600 << 10).unwrap();
        let mut second = MemoryReservation::new(&budget);
        let error = second.hold(600 << 10).unwrap_err();
        assert!(
            error.to_string().starts_with("it takes more than 1 MiB"),
            "{error}"
        );
        first.keep(&ProfileBuilder::new());
        let rest = budget.memory();
        assert!(rest < 64 << 10, "{rest}");
        let mut long = ProfileBuilder::new();
        let object = long.intern_object("x");
        long.intern_function(Ok(&"n".repeat(600 << 10)), object);
        let mut kept = MemoryReservation::new(&budget);
        kept.hold_profile(&long).unwrap();
        kept.keep(&long);
        assert!(MemoryReservation::new(&budget).hold(600 << 10).is_err());
        let mut third = MemoryReservation::new(&budget);
        third.hold(300 << 10).unwrap();
        third.give_back(300 << 10);
        third.hold(300 << 10).unwrap();
        third.pay(8 << 20).unwrap();
        assert_eq!(third.pay(1), Err(OverLimit::Work { most: 8 << 20 }));
    }

    #[test]
    fn a_profile_is_counted_with_its_names_and_stacks() {
        let budget = ReadingBudget::new(1 << 20);
        let mut memory = MemoryReservation::new(&budget);
        let mut builder = ProfileBuilder::with_addresses();
        let object = builder.intern_object("x");
        memory.hold_profile(&builder).unwrap();
        builder.intern_function(Ok(&"n".repeat(2 << 20)), object);
        assert!(builder.held_bytes() > 2 << 20);
        assert!(memory.hold_profile(&builder).is_err());
    }
}
