//! [`ElfError`].

/// Why a file has no [`ElfSymbols`](super::ElfSymbols).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The bytes do not start with an ELF header of a known class and byte order.
    #[error("not an ELF file")]
    NotElf,
    /// An object file or core dump: its addresses do not refer to mapped code.
    #[error("ELF file of type {0}, which is neither a program nor a library")]
    NotLoadable(u16),
    /// The headers contradict the length of the file.
    #[error("damaged ELF file: {0}")]
    Damaged(Box<str>),
}
