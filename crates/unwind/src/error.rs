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
    /// A 32-bit or big-endian ELF file.
    #[error("an ELF file of another class than 64 bits, little endian")]
    WrongClass,
    /// An ELF file for an unsupported processor (see [`Arch`](crate::Arch)).
    #[error("an ELF file for a processor (e_machine {0}) whose stacks are not unwound")]
    WrongMachine(u16),
    /// The program headers lie outside the file.
    #[error("the ELF file's program headers are damaged")]
    Damaged,
}
