//! Memory shared with the kernel, or allocated by tests.

use crate::errno::Errno;
use rprof_records::RawBytes;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of whole words, which both sides access atomically.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<AtomicU64>,
    /// Length in bytes, a multiple of 8.
    length: usize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    Kernel { writable: bool },
    MadeUp(#[expect(dead_code, reason = "held for its drop")] Vec<AtomicU64>),
}

// SAFETY: the mapping owns the memory, which does not move. Words are atomics; bytes require the
// contract of `bytes`.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Owner::Kernel { .. } = self.owner {
            // SAFETY: exactly what mmap returned; no pointer into it outlives its `Mapping`.
            // Unmapping a whole mapping cannot fail.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
        }
    }
}

impl Mapping {
    /// Maps memory of an event. If the control page is writable, the kernel drops new records when
    /// the ring buffer is full, instead of overwriting old ones.
    pub(crate) fn of_fd(
        fd: BorrowedFd<'_>,
        length: usize,
        writable: bool,
        offset: u64,
    ) -> Result<Arc<Mapping>, Errno> {
        let access = match writable {
            true => ProtFlags::READ | ProtFlags::WRITE,
            false => ProtFlags::READ,
        };
        let place = std::ptr::null_mut();
        // SAFETY: a new mapping at a place of the kernel's choice touches no other memory.
        let base = unsafe { mmap(place, length, access, MapFlags::SHARED, fd, offset)? };
        Ok(Arc::new(Mapping {
            base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?,
            length,
            owner: Owner::Kernel { writable },
        }))
    }

    pub(crate) fn of_words(words: impl IntoIterator<Item = u64>) -> Arc<Mapping> {
        let mut words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        Arc::new(Mapping {
            base: NonNull::new(words.as_mut_ptr()).unwrap_or(NonNull::dangling()),
            length: words.len() * 8,
            owner: Owner::MadeUp(words),
        })
    }

    pub(crate) fn is_kernels(&self) -> bool {
        matches!(self.owner, Owner::Kernel { .. })
    }

    pub(crate) fn is_writable(&self) -> bool {
        !matches!(self.owner, Owner::Kernel { writable: false })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns a word by its index; `None` beyond the end. Stores require a writable mapping.
    pub(crate) fn word(&self, number: usize) -> Option<&AtomicU64> {
        if number >= self.length / 8 {
            return None;
        }
        // SAFETY: within the memory, which `self` owns, and aligned: mappings start at a page.
        Some(unsafe { self.base.add(number).as_ref() })
    }

    /// Returns a word's value, 0 beyond the end.
    pub(crate) fn load(&self, number: usize, order: Ordering) -> u64 {
        self.word(number).map_or(0, |word| word.load(order))
    }

    /// Returns `length` bytes from `start`.
    ///
    /// # Safety
    /// The bytes must not be written while they are borrowed.
    pub(crate) unsafe fn bytes(&self, start: usize, length: usize) -> &[u8] {
        let end = start.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.length), "beyond the end");
        // SAFETY: within the memory, which the kernel initialised and which stays mapped as long as
        // `self`. The caller guarantees that no one writes.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast::<u8>().add(start), length) }
    }
}

/// Head and tail counters of a control page, and their area: ring buffer data, or an AUX area.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    control: Arc<Mapping>,
    head: usize,
    tail: usize,
    area: Arc<Mapping>,
    start: usize,
    /// Bytes of the area: a power of two.
    size: usize,
}

impl Memory {
    /// Returns `None` if a part exceeds its mapping, or the size is not a power of two.
    pub(crate) fn new(
        (control, head, tail): (Arc<Mapping>, usize, usize),
        (area, start, size): (Arc<Mapping>, usize, usize),
    ) -> Option<Memory> {
        let fits = control.word(head).is_some()
            && control.word(tail).is_some()
            && start.is_multiple_of(8)
            && size.is_power_of_two()
            && size >= 8
            && start.checked_add(size)? <= area.len();
        fits.then_some(Memory {
            control,
            head,
            tail,
            area,
            start,
            size,
        })
    }

    pub(crate) fn control(&self) -> &Arc<Mapping> {
        &self.control
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the head counter. Acquire pairs with the kernel's barrier: all bytes before the head
    /// are visible.
    pub(crate) fn head(&self) -> u64 {
        self.control.load(self.head, Ordering::Acquire)
    }

    pub(crate) fn tail(&self) -> u64 {
        self.control.load(self.tail, Ordering::Relaxed)
    }

    /// Moves the tail. Release: copies end before the kernel may overwrite the area. Does nothing
    /// on a read-only control page.
    pub(crate) fn set_tail(&self, tail: u64) {
        if self.control.is_writable()
            && let Some(word) = self.control.word(self.tail)
        {
            word.store(tail, Ordering::Release);
        }
    }

    /// Returns `length` bytes (at most the area's size) from counter value `position`, in two
    /// pieces if they wrap around.
    ///
    /// The caller must have seen a head beyond them, and must not move the tail while it holds
    /// them.
    pub(crate) fn bytes(&self, position: u64, length: usize) -> RawBytes<'_> {
        assert!(length <= self.size, "more bytes than the ring holds");
        let begin = (position & (self.size as u64 - 1)) as usize;
        let first = length.min(self.size - begin);
        // SAFETY: the kernel does not write between tail and head.
        unsafe {
            RawBytes::split(
                self.area.bytes(self.start + begin, first),
                self.area.bytes(self.start, length - first),
            )
        }
    }

    /// Copies `length` bytes from counter value `position`, both multiples of 8. The other side may
    /// overwrite them meanwhile, so the caller must check afterwards.
    pub(crate) fn copy_unsure(&self, position: u64, length: usize, out: &mut Vec<u8>) {
        for at in (0..length.min(self.size) as u64).step_by(8) {
            let offset = (position.wrapping_add(at) & (self.size as u64 - 1)) as usize;
            let word = self.area.load((self.start + offset) / 8, Ordering::Relaxed);
            out.extend_from_slice(&word.to_ne_bytes());
        }
        // Orders the reads before that check.
        std::sync::atomic::fence(Ordering::Acquire);
    }

    #[cfg(test)]
    pub(crate) fn set_head(&self, head: u64) {
        self.control
            .word(self.head)
            .unwrap()
            .store(head, Ordering::Release);
    }

    #[cfg(test)]
    pub(crate) fn poke(&self, at: usize, byte: u8) {
        assert!(at < self.size);
        let word = self.area.word((self.start + at) / 8).unwrap();
        let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        bytes[(self.start + at) % 8] = byte;
        word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
    }
}
