//! [`TableError`]: reasons why an image gives no table.

/// Reason why an image gives no [`UnwindTable`](crate::UnwindTable).
///
/// Missing call frame information is no error: the table then has no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Not an ELF file, or the ELF header is cut off.
    #[error("not an ELF file")]
    NotAnElf,
    /// A big-endian ELF file, or a class that does not fit its processor (x32).
    #[error("big-endian, or addresses of another size than its processor's")]
    WrongClass,
    /// An ELF file for an unsupported processor (see [`Arch`](crate::Arch)).
    #[error("unsupported processor for unwinding (ELF machine {0})")]
    WrongMachine(u16),
    /// The program headers lie outside the file.
    #[error("the ELF file's program headers are damaged")]
    Damaged,
}
