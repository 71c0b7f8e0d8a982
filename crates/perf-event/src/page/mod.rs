//! [`ControlPage`]: the page in front of a ring, which tells counts and times without a system call.

mod fields;
mod hardware;
#[cfg(test)]
mod tests;
mod tsc;
pub(crate) mod word;

pub use fields::{PageCapabilities, PageFields, UserReading};
pub use tsc::TscConversion;

use crate::errno::Errno;
use crate::mapping::Mapping;
use rustix::param::page_size;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Attempts at reading a page that changes; the kernel's changes take some instructions.
const ATTEMPTS: usize = 1 << 16;

/// Control page of an event (`struct perf_event_mmap_page`).
///
/// ```no_run
/// use rprof_perf_event::{Builder, ControlPage, Hardware};
/// use std::os::fd::AsFd;
///
/// let cycles = Builder::hardware(Hardware::CPU_CYCLES).exclude_kernel(true).disabled(false).open()?;
/// let page = ControlPage::map(cycles.fd().as_fd())?;
/// // Some tens of cycles, where the processor and the kernel allow it; else a system call.
/// let value = match page.read_here().and_then(|reading| reading.value) {
///     Some(value) => value,
///     None => cycles.read()?.value,
/// };
/// println!("{value} cycles");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ControlPage {
    mapping: Arc<Mapping>,
}

/// Positions in a page that no lock guards: each is read by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in perf_event_open(2), in bytes")]
pub struct PagePositions {
    pub data_head: u64,
    pub data_tail: u64,
    pub data_offset: u64,
    pub data_size: u64,
    pub aux_head: u64,
    pub aux_tail: u64,
    pub aux_offset: u64,
    pub aux_size: u64,
}

impl ControlPage {
    /// Maps the control page of an event, without a ring and not writable.
    ///
    /// # Errors
    /// The kernel's: `EPERM` past the allowance `perf_event_mlock_kb`, `EINVAL` for an event that is
    /// inherited and of any CPU, or whose ring is mapped already.
    pub fn map(fd: BorrowedFd<'_>) -> Result<ControlPage, Errno> {
        Ok(ControlPage::of(Mapping::of_fd(fd, page_size(), false, 0)?))
    }

    /// Makes a page up, of the bytes of a `struct perf_event_mmap_page`: missing ones are zero.
    pub fn from_bytes(bytes: &[u8]) -> ControlPage {
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        let zeroes = std::iter::repeat(0);
        ControlPage::of(Mapping::of_words(words.chain(zeroes).take(word::COUNT)))
    }

    pub(crate) fn of(mapping: Arc<Mapping>) -> ControlPage {
        ControlPage { mapping }
    }

    /// Reads all fields that belong together. `None` if the page never stands still, as no kernel has it.
    pub fn fields(&self) -> Option<PageFields> {
        Some(self.consistent(|_| ())?.0)
    }

    /// Reads the count of this very thread without a system call, where the page says that it can be
    /// had: `value` is `None` where it cannot, and [`Counter::read`](crate::Counter::read) is what is
    /// left. The times are those of now if [`PageCapabilities::USER_TIME`] is set, else those of the
    /// last change.
    ///
    /// The answer is right only on the thread that the event counts, since the counter is that of
    /// the CPU which asks.
    pub fn read_here(&self) -> Option<UserReading> {
        let kernels = self.mapping.is_kernels();
        let (fields, (counter, tsc)) = self.consistent(|fields| {
            let counter = match fields.counter() {
                // SAFETY: the kernel's page says that its counters may be read here.
                Some(number) if kernels => unsafe { hardware::counter(number) },
                _ => None,
            };
            let tsc = match fields.capabilities.contains(PageCapabilities::USER_TIME) {
                true if kernels => hardware::tsc(),
                _ => None,
            };
            (counter, tsc)
        })?;
        Some(fields.reading(counter, tsc))
    }

    /// Reads positions of the ring and of the AUX area.
    pub fn positions(&self) -> PagePositions {
        let load = |number| self.mapping.load(number, Ordering::Acquire);
        PagePositions {
            data_head: load(word::DATA_HEAD),
            data_tail: load(word::DATA_TAIL),
            data_offset: load(word::DATA_OFFSET),
            data_size: load(word::DATA_SIZE),
            aux_head: load(word::AUX_HEAD),
            aux_tail: load(word::AUX_TAIL),
            aux_offset: load(word::AUX_OFFSET),
            aux_size: load(word::AUX_SIZE),
        }
    }

    /// Reads the fields, and what `beside` reads, between two looks at the lock that saw the same
    /// (perf_event_open(2), "MMAP layout": `lock`).
    fn consistent<T>(&self, beside: impl Fn(&PageFields) -> T) -> Option<(PageFields, T)> {
        for _ in 0..ATTEMPTS {
            let lock = self.mapping.load(word::LOCK, Ordering::Acquire);
            let mut words = [0; word::LOCKED];
            for (number, word) in words.iter_mut().enumerate() {
                *word = self.mapping.load(number, Ordering::Relaxed);
            }
            words[word::LOCK] = lock;
            let fields = PageFields::from_words(&words);
            // Odd while the kernel is at it.
            if fields.lock.is_multiple_of(2) {
                let other = beside(&fields);
                fence(Ordering::Acquire);
                if self.mapping.load(word::LOCK, Ordering::Relaxed) == lock {
                    return Some((fields, other));
                }
            }
            std::hint::spin_loop();
        }
        None
    }
}
