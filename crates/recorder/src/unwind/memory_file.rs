//! [`MemoryFile`]: the open memory of a process.

use std::fs::File;
use std::os::unix::fs::FileExt;

use libc::{c_ulong, c_void, iovec, pid_t, process_vm_readv};
use rprof_interpreters::MemoryRead;
use rprof_launch::procfs::Procfs;
use rprof_processes::Pid;

/// Minimum number of reads for one call together. A read of the file costs as much as a call with
/// three reads.
const MIN_TOGETHER: usize = 4;

/// Maximum number of calls for one batch. Each call ends at an unreadable place.
const MAX_CALLS: usize = 16;

/// Memory of a process. Its reads may hang.
///
/// The file belongs to one address space, but takes a call for each place. process_vm_readv(2) reads
/// many places, but from any process that has the number. So a read of the file follows: it
/// succeeds only while the address space exists.
#[derive(Debug)]
pub(super) struct MemoryFile {
    file: File,
    id: pid_t,
}

impl MemoryFile {
    /// Opens the memory of a process. `None` if it is unreadable.
    pub(super) fn open(pid: Pid) -> Option<Self> {
        let proc = Procfs::default();
        let id = proc.id_with_memory(pid.0.cast_unsigned());
        Some(Self {
            file: File::open(proc.folder(id).join("mem")).ok()?,
            id: id.cast_signed(),
        })
    }

    /// Reads some bytes from an address. Returns their number, 0 for an unreadable address.
    pub(super) fn read(&self, bytes: &mut [u8], avma: u64) -> usize {
        self.file.read_at(bytes, avma).unwrap_or(0)
    }

    /// Makes the reads of a batch, in order.
    pub(super) fn read_batch(&self, reads: &mut [MemoryRead]) {
        self.read_unconfirmed(reads);
        let mut read = reads.iter().filter(|read| read.is_read);
        if reads.len() >= MIN_TOGETHER
            && let Some(last) = read.next_back()
            && !self.exists(last.address)
        {
            reads.iter_mut().for_each(|read| read.is_read = false);
        }
    }

    /// Makes the reads of a batch, in order. They may be of another process, if the address space
    /// does not [exist](Self::exists) afterwards.
    pub(super) fn read_unconfirmed(&self, reads: &mut [MemoryRead]) {
        let mut left = reads;
        for _ in 0..MAX_CALLS {
            if left.len() < MIN_TOGETHER {
                break;
            }
            let done = self.read_together(left);
            let (_, rest) = left.split_at_mut(done);
            // The next place is unreadable, at least for this call.
            let Some((next, rest)) = rest.split_first_mut() else {
                return;
            };
            self.read_one(next);
            left = rest;
        }
        left.iter_mut().for_each(|read| self.read_one(read));
    }

    fn read_one(&self, read: &mut MemoryRead) {
        read.is_read = (self.file)
            .read_exact_at(&mut read.bytes, read.address)
            .is_ok();
    }

    /// Returns true if the address space still has a readable byte at an address.
    pub(super) fn exists(&self, avma: u64) -> bool {
        self.read(&mut [0], avma) == 1
    }

    /// Reads with one call, up to the first unreadable place. Returns the number of finished reads.
    fn read_together(&self, reads: &mut [MemoryRead]) -> usize {
        let local: Vec<iovec> = (reads.iter_mut())
            .map(|read| iovec {
                iov_base: read.bytes.as_mut_ptr().cast::<c_void>(),
                iov_len: read.bytes.len(),
            })
            .collect();
        let remote: Vec<iovec> = (reads.iter())
            .map(|read| iovec {
                iov_base: std::ptr::without_provenance_mut(read.address as usize),
                iov_len: read.bytes.len(),
            })
            .collect();
        // SAFETY: each local entry is the whole buffer of one read, which nothing else uses during
        // the call. The kernel checks remote addresses, and only reads there.
        let read = unsafe {
            process_vm_readv(
                self.id,
                local.as_ptr(),
                local.len() as c_ulong,
                remote.as_ptr(),
                remote.len() as c_ulong,
                0,
            )
        };
        let mut bytes = usize::try_from(read).unwrap_or(0);
        let mut done = 0;
        for read in reads {
            match bytes.checked_sub(read.bytes.len()) {
                Some(rest) => bytes = rest,
                None => break,
            }
            read.is_read = true;
            done += 1;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_around_unreadable_places_succeed() {
        let here: Vec<u64> = (0..600).collect();
        let at = |n: usize| (&raw const here[n]).addr() as u64;
        let memory = MemoryFile::open(Pid(std::process::id().cast_signed())).unwrap();
        let places = [
            8,
            at(0),
            at(1),
            16,
            at(599),
            u64::MAX - 3,
            at(7),
            at(8),
            at(9),
            at(10),
            24,
        ];
        for len in 0..places.len() {
            let mut reads: Vec<MemoryRead> = (places.iter().take(len))
                .map(|avma| MemoryRead::new(*avma, 8))
                .collect();
            memory.read_batch(&mut reads);
            let found: Vec<Option<u64>> = reads.iter().map(|read| read.u64(0)).collect();
            let expected = [
                None,
                Some(0),
                Some(1),
                None,
                Some(599),
                None,
                Some(7),
                Some(8),
                Some(9),
                Some(10),
                None,
            ];
            assert_eq!(found, expected[..len]);
        }
    }

    #[test]
    fn another_process_with_the_number_is_not_read() {
        let here = [7u64; 8];
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let memory = MemoryFile::open(Pid(child.id().cast_signed()));
        child.wait().unwrap();
        // The number now belongs to this process.
        let memory = memory.map(|memory| MemoryFile {
            id: std::process::id().cast_signed(),
            ..memory
        });
        let Some(memory) = memory else {
            // It had ended before its memory was opened.
            return;
        };
        let at = (&raw const here).addr() as u64;
        let mut reads: Vec<MemoryRead> = (0..8).map(|n| MemoryRead::new(at + 8 * n, 8)).collect();
        memory.read_batch(&mut reads);
        assert!(reads.iter().all(|read| !read.is_read), "{reads:?}");
    }
}
