//! [`ExistingMapping`], and the bits and names that both readers share.

use rprof_records::BuildId;

pub(super) const MAP_SHARED: u32 = 1;
pub(super) const MAP_PRIVATE: u32 = 2;
pub(super) const MAP_HUGETLB: u32 = 0x40000;

pub(super) const PROT_READ: u32 = 1;
pub(super) const PROT_WRITE: u32 = 2;
pub(super) const PROT_EXEC: u32 = 4;

/// Executable mapping, with the fields of an MMAP2 record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExistingMapping {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// File offset of `start` in bytes.
    pub offset: u64,
    /// `PROT_*` bits.
    pub prot: u32,
    /// `MAP_*` bits.
    pub flags: u32,
    /// Major and minor device number of the file system.
    pub device: (u32, u32),
    /// Inode number of the file; 0 without a file.
    pub inode: u64,
    /// Build-id of the file, if the kernel returned it.
    pub build_id: Option<BuildId>,
    /// File name, as in an MMAP2 record.
    pub path: Vec<u8>,
}

/// Converts a name in /proc to an MMAP2 record's. Only /proc has names of anonymous memory
/// (`PR_SET_VMA_ANON_NAME`).
pub(super) fn mmap2_name(name: &[u8]) -> Vec<u8> {
    match name {
        b"" => b"//anon".to_vec(),
        name if name.starts_with(b"[anon") => b"//anon".to_vec(),
        name => name.to_vec(),
    }
}
