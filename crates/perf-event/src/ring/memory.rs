//! The memory behind a ring: the kernel's mapping, or plain memory in tests.

use crate::errno::Errno;
use perf_event_open_sys::bindings::perf_event_mmap_page;
use rprof_records::RawBytes;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;
use std::ffi::c_void;
use std::mem::offset_of;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Control words and data of one ring.
#[derive(Debug)]
pub(super) struct Memory {
    head: NonNull<AtomicU64>,
    tail: NonNull<AtomicU64>,
    data: NonNull<u8>,
    /// Bytes of data: a power of two.
    size: usize,
    _owner: Owner,
}

// SAFETY: the pointers lead into memory that `_owner` owns and that moves with it. A
// `Memory` is used by the one thread that has it; the other side of the counters is
// the kernel's, and they are atomic.
unsafe impl Send for Memory {}

/// Keeps the memory alive.
#[derive(Debug)]
enum Owner {
    Kernel(#[expect(dead_code, reason = "held for its drop")] Mapping),
    #[cfg(test)]
    Test(#[expect(dead_code, reason = "held for its drop")] Box<super::tests::Shared>),
}

/// A mapping that is undone on drop.
#[derive(Debug)]
struct Mapping {
    base: NonNull<c_void>,
    length: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what mmap returned; no pointer into it outlives its `Memory`.
        // Unmapping a whole mapping cannot fail.
        let _ = unsafe { munmap(self.base.as_ptr(), self.length) };
    }
}

impl Memory {
    /// Maps the control page and `size` bytes of data of an event.
    pub(super) fn map(fd: BorrowedFd<'_>, size: usize) -> Result<Memory, Errno> {
        let page = page_size();
        if !size.is_power_of_two() || size < page {
            return Err(Errno::INVAL);
        }
        let length = page + size;
        // Writable, which tells the kernel that data_tail is kept up to date: it then
        // drops new records when the ring is full, in place of overwriting old ones.
        // SAFETY: a new mapping at a place of the kernel's choice touches no other memory.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )?
        };
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        let mapping = Mapping { base, length };
        let control = base.cast::<u8>();
        // SAFETY: the first page is a perf_event_mmap_page, so both words lie within the mapping
        // and are aligned for 64 bits; the data begins one page in.
        unsafe {
            Ok(Memory {
                head: control
                    .add(offset_of!(perf_event_mmap_page, data_head))
                    .cast(),
                tail: control
                    .add(offset_of!(perf_event_mmap_page, data_tail))
                    .cast(),
                data: control.add(page),
                size,
                _owner: Owner::Kernel(mapping),
            })
        }
    }

    #[cfg(test)]
    pub(super) fn fake(mut shared: Box<super::tests::Shared>) -> Memory {
        Memory {
            head: NonNull::from(&shared.head),
            tail: NonNull::from(&shared.tail),
            data: NonNull::from(shared.data.as_mut_slice()).cast(),
            size: shared.data.len(),
            _owner: Owner::Test(shared),
        }
    }

    /// Writes one byte of data, as the kernel would.
    #[cfg(test)]
    pub(super) fn poke(&mut self, at: usize, byte: u8) {
        assert!(at < self.size);
        // SAFETY: within the data, which no reference covers.
        unsafe { self.data.add(at).write(byte) };
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn head(&self) -> &AtomicU64 {
        // SAFETY: points to an aligned word of memory that `_owner` keeps, shared
        // with the kernel, which also takes it for atomic.
        unsafe { self.head.as_ref() }
    }

    pub(super) fn tail(&self) -> &AtomicU64 {
        // SAFETY: as for `head`.
        unsafe { self.tail.as_ref() }
    }

    /// Returns `length` bytes (at most the ring's size) from counter value `position` on, in two
    /// pieces where they wrap around the end.
    ///
    /// The caller has seen the head beyond them, so the kernel leaves them alone until the tail
    /// passes them; and the caller does not move the tail while it holds the returned bytes.
    pub(super) fn bytes(&self, position: u64, length: usize) -> RawBytes<'_> {
        assert!(length <= self.size, "more bytes than the ring holds");
        let start = (position & (self.size as u64 - 1)) as usize;
        let first = length.min(self.size - start);
        // SAFETY: start + first <= size and length - first <= start <= size, so both pieces lie in
        // the data, which is initialised (by the kernel, with zeroes at first) and stays mapped
        // as long as `self`. Nobody writes between tail and head.
        unsafe {
            let data = self.data.as_ptr();
            RawBytes::split(
                std::slice::from_raw_parts(data.add(start), first),
                std::slice::from_raw_parts(data, length - first),
            )
        }
    }
}
