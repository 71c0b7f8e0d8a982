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
    #[error("an ELF file of another class than 64 bits, little endian")]
    WrongClass,
    /// An ELF file for a processor that is not an [`Arch`](crate::Arch).
    #[error("an ELF file for a processor (e_machine {0}) whose stacks are not unwound")]
    WrongMachine(u16),
    /// The program headers do not lie in the file.
    #[error("the ELF file's program headers are damaged")]
    Damaged,
}
