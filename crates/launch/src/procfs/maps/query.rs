//! `PROCMAP_QUERY` (linux/fs.h, Linux 6.11).

use super::mapping::{
    ExistingMapping, MAP_HUGETLB, MAP_PRIVATE, MAP_SHARED, PROT_EXEC, PROT_READ, PROT_WRITE,
    mmap2_name,
};
use rprof_records::BuildId;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;

/// `struct procmap_query` (linux/fs.h).
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `_IOWR(PROCFS_IOCTL_MAGIC, 17, struct procmap_query)` on most architectures. On the others
/// (MIPS, PowerPC, SPARC, Alpha), the kernel returns `ENOTTY`.
const PROCMAP_QUERY: u64 =
    (3 << 30) | ((size_of::<Query>() as u64) << 16) | ((b'f' as u64) << 8) | 17;

/// `PROCMAP_QUERY_VMA_READABLE`, in queries and results.
const READABLE: u64 = 1;
/// `PROCMAP_QUERY_VMA_WRITABLE`.
const WRITABLE: u64 = 2;
/// `PROCMAP_QUERY_VMA_EXECUTABLE`.
const EXECUTABLE: u64 = 4;
/// `PROCMAP_QUERY_VMA_SHARED`.
const SHARED: u64 = 8;
/// `PROCMAP_QUERY_COVERING_OR_NEXT_VMA`.
const OR_NEXT: u64 = 16;

/// Maximum bytes in an MMAP2 record.
const BUILD_ID: usize = BuildId::MAX_RECORD_LEN;

/// Returns the executable mapping at `at`, or else the next one. `name` is a buffer. With
/// `with_build_id`, the kernel reads the file.
///
/// # Errors
/// Returns the kernel's error number: `ENOTTY` or `EINVAL` before Linux 6.11, `ESRCH` for a process
/// without memory.
pub(super) fn next(
    file: &File,
    at: u64,
    name: &mut [u8],
    with_build_id: bool,
) -> Result<Option<ExistingMapping>, Errno> {
    let mut build_id = [0u8; BUILD_ID];
    let mut query = Query {
        size: size_of::<Query>() as u64,
        query_flags: EXECUTABLE | OR_NEXT,
        query_addr: at,
        vma_name_size: u32::try_from(name.len()).unwrap_or(u32::MAX),
        vma_name_addr: name.as_mut_ptr() as u64,
        build_id_size: if with_build_id { BUILD_ID as u32 } else { 0 },
        build_id_addr: if with_build_id {
            build_id.as_mut_ptr() as u64
        } else {
            0
        },
        ..Query::default()
    };
    // SAFETY: the query has the layout and size that the kernel expects. Its two addresses point to
    // as many writable bytes as the sizes beside them say, and these outlive the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
    if result < 0 {
        return match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOENT) => Ok(None),
            errno => Err(rprof_errno::from_raw(errno.unwrap_or_default())),
        };
    }
    // The size includes the name's zero byte.
    let length = (query.vma_name_size as usize).saturating_sub(1);
    let file_name = name.get(..length).unwrap_or_default();
    let bit = |flag, value| {
        if query.vma_flags & flag != 0 {
            value
        } else {
            0
        }
    };
    let huge = query.vma_page_size > rustix::param::page_size() as u64;
    let build_id_len = if with_build_id {
        query.build_id_size as usize
    } else {
        0
    };
    Ok(Some(ExistingMapping {
        start: query.vma_start,
        // Ensures progress.
        end: query.vma_end.max(at.saturating_add(1)),
        offset: query.vma_offset,
        prot: bit(READABLE, PROT_READ) | bit(WRITABLE, PROT_WRITE) | bit(EXECUTABLE, PROT_EXEC),
        flags: match query.vma_flags & SHARED != 0 {
            true => MAP_SHARED,
            false => MAP_PRIVATE,
        } | if huge { MAP_HUGETLB } else { 0 },
        device: (query.dev_major, query.dev_minor),
        inode: query.inode,
        build_id: build_id.get(..build_id_len).and_then(BuildId::new),
        path: mmap2_name(file_name),
    }))
}
