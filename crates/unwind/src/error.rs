//! [`TableError`]: why an image gives no table.

/// Why an image gives no [`UnwindTable`](crate::UnwindTable).
///
/// An image without call frame information is no error: its table has no rows, but knows the
/// entry point and the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not an ELF file, or its header does not lie in it.
    #[error("not an ELF file")]
    NotAnElf,
    /// An ELF file of 32 bits or in big-endian order.
    #[error("not a 64-bit little-endian ELF file")]
    WrongClass,
    /// An ELF file for a processor that is not an [`Arch`](crate::Arch).
    #[error("unsupported processor for unwinding (ELF machine {0})")]
    WrongMachine(u16),
    /// The program headers do not lie in the file.
    #[error("the ELF file's program headers are damaged")]
    Damaged,
}
