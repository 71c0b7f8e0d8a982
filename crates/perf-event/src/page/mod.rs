//! [`ControlPage`]: the page before a ring buffer, with counts and times that need no system call.

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

/// Attempts at reading a page that changes.
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

/// Positions in a page, each read separately because no lock covers them.
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
    /// Maps the control page of an event read-only, without a ring buffer.
    ///
    /// # Errors
    /// Returns the kernel's error: `EPERM` above the limit `perf_event_mlock_kb`; `EINVAL` for an
    /// event that is inherited and for any CPU, or whose ring buffer is already mapped.
    pub fn map(fd: BorrowedFd<'_>) -> Result<ControlPage, Errno> {
        Ok(ControlPage::of(Mapping::of_fd(fd, page_size(), false, 0)?))
    }

    /// Creates a page from the bytes of a `struct perf_event_mmap_page`. Missing bytes are zero.
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

    /// Reads a consistent snapshot of the fields. `None` if the page never stops changing, which no
    /// kernel does.
    pub fn fields(&self) -> Option<PageFields> {
        Some(self.consistent(|_| ())?.0)
    }

    /// Reads the count of the calling thread without a system call, if possible. If `value` is
    /// `None`, use [`Counter::read`](crate::Counter::read). Times are current with
    /// [`PageCapabilities::USER_TIME`], else those of the last change.
    ///
    /// Correct only on the counted thread: the instruction reads the current CPU's counter.
    pub fn read_here(&self) -> Option<UserReading> {
        let kernels = self.mapping.is_kernels();
        let (fields, (counter, tsc)) = self.consistent(|fields| {
            let counter = match fields.counter() {
                // SAFETY: the kernel's page permits reading its counters here.
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

    /// Reads the positions of the ring buffer and of the AUX area.
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

    /// Reads the fields, and runs `beside`, between two equal reads of the `lock`
    /// (perf_event_open(2), "MMAP layout").
    fn consistent<T>(&self, beside: impl Fn(&PageFields) -> T) -> Option<(PageFields, T)> {
        for _ in 0..ATTEMPTS {
            let lock = self.mapping.load(word::LOCK, Ordering::Acquire);
            let mut words = [0; word::LOCKED];
            for (number, word) in words.iter_mut().enumerate() {
                *word = self.mapping.load(number, Ordering::Relaxed);
            }
            words[word::LOCK] = lock;
            let fields = PageFields::from_words(&words);
            // Odd during a change.
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
