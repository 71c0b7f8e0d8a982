//! [`Reason`]: why a frame has no name.

use std::fmt;

use crate::open_error::OpenError;

/// Cause of a frame without a name.
///
/// `Display` gives a few plain words; [`Reason::key`] a stable word for machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// No file at this path in our namespace.
    NoSuchFile,
    /// The file exists but may not be read.
    PermissionDenied,
    /// A directory, device, FIFO or socket, which is never read.
    NotARegularFile,
    /// Another error (I/O error, too many open files).
    ReadFailed,
    /// No ELF file, or of a kind that is never mapped (an object file).
    NotAnElf,
    /// The ELF file is damaged or truncated.
    DamagedElf,
    /// The build-id differs from the recorded one.
    BuildIdMismatch,
    /// The inode number differs, or the file was written after it was mapped.
    FileChanged,
    /// Recorded on another machine without a build-id, so a file here may differ.
    Unidentified,
    /// The part of the recording that identifies the image is missing.
    HeaderMissing,
    /// No full symbol table, and the function is not exported.
    Stripped,
    /// No symbol covers this address.
    NoSymbolAtAddress,
    /// The debug file exceeds a length or decompression limit.
    DebugFileTooLong,
    /// Outside of the loaded segments.
    OutsideImage,
    /// Anonymous memory (heap, stack, generated code).
    AnonymousMemory,
    /// Generated code without a perf map.
    JitWithoutMap,
    /// The address is in no mapping of the process.
    Unmapped,
    /// The kernel hides its addresses (`kernel.kptr_restrict`).
    KernelSymbolsHidden,
    /// `/proc/kallsyms` is missing or unreadable.
    NoKernelSymbols,
    /// The recorded kernel is not the running one.
    ForeignKernel,
    /// The module is not loaded here, or is another build.
    ForeignModule,
    /// The recorded vdso is not the running kernel's.
    ForeignVdso,
    /// The sample is of a guest or the hypervisor, whose programs are not accessible.
    Guest,
    /// Special kernel mapping (`[vsyscall]`, `[uprobes]`, ...).
    SpecialMapping,
    /// Unnamed in the imported profile.
    NotInInput,
}

impl Reason {
    /// Reasons in declaration order.
    pub const ALL: &'static [Self] = &[
        Self::NoSuchFile,
        Self::PermissionDenied,
        Self::NotARegularFile,
        Self::ReadFailed,
        Self::NotAnElf,
        Self::DamagedElf,
        Self::BuildIdMismatch,
        Self::FileChanged,
        Self::Unidentified,
        Self::HeaderMissing,
        Self::Stripped,
        Self::NoSymbolAtAddress,
        Self::DebugFileTooLong,
        Self::OutsideImage,
        Self::AnonymousMemory,
        Self::JitWithoutMap,
        Self::Unmapped,
        Self::KernelSymbolsHidden,
        Self::NoKernelSymbols,
        Self::ForeignKernel,
        Self::ForeignModule,
        Self::ForeignVdso,
        Self::Guest,
        Self::SpecialMapping,
        Self::NotInInput,
    ];

    /// Returns a stable `snake_case` word, for JSON and other machine-read output.
    #[must_use]
    pub fn key(self) -> &'static str {
        self.texts().0
    }

    /// Returns a remedy for the user, as a sentence. `None` if there is no remedy.
    #[must_use]
    pub fn remedy(self) -> Option<&'static str> {
        self.texts().2
    }

    fn texts(self) -> (&'static str, &'static str, Option<&'static str>) {
        match self {
            Self::NoSuchFile => (
                "no_such_file",
                "no such file",
                Some("Report on the machine, or in the container, where the program ran."),
            ),
            Self::PermissionDenied => (
                "permission_denied",
                "permission denied",
                Some("Run the report as a user who may read the file."),
            ),
            Self::NotARegularFile => ("not_a_regular_file", "not a regular file", None),
            Self::ReadFailed => ("read_failed", "could not be read", None),
            Self::NotAnElf => ("not_an_elf", "not an ELF program or library", None),
            Self::DamagedElf => (
                "damaged_elf",
                "damaged ELF file",
                Some("Install the file again, or build it again."),
            ),
            Self::BuildIdMismatch => (
                "build_id_mismatch",
                "build-id differs",
                Some("Restore the recorded build, or record again."),
            ),
            Self::FileChanged => (
                "file_changed",
                "file replaced since",
                Some("Record again without replacing the file."),
            ),
            Self::Unidentified => (
                "unidentified",
                "recorded without a build-id, perhaps on another machine",
                Some("Report on the recorded machine, or record with build-ids."),
            ),
            Self::HeaderMissing => (
                "header_missing",
                "the part of the recording that identifies it is missing",
                Some("Copy the whole recording, or record again."),
            ),
            Self::Stripped => (
                "stripped",
                "stripped, no symbol table",
                Some("Install the debug symbols of its package, or build it without stripping."),
            ),
            Self::NoSymbolAtAddress => ("no_symbol_at_address", "no symbol at this address", None),
            Self::DebugFileTooLong => ("debug_file_too_long", "debug information too large", None),
            Self::OutsideImage => ("outside_image", "outside the image", None),
            Self::AnonymousMemory => (
                "anonymous_memory",
                "anonymous memory",
                Some("If a runtime generates code, have it write a perf map (/tmp/perf-PID.map)."),
            ),
            Self::JitWithoutMap => (
                "jit_without_map",
                "generated code without a map",
                Some("Have the runtime write a perf map (for example node --perf-basic-prof)."),
            ),
            Self::Unmapped => ("unmapped", "no mapping at this address", None),
            Self::KernelSymbolsHidden => (
                "kernel_symbols_hidden",
                "kernel addresses hidden",
                Some("Run as root, or set kernel.kptr_restrict=0 (sysctl)."),
            ),
            Self::NoKernelSymbols => (
                "no_kernel_symbols",
                "no kernel symbols",
                Some("Mount /proc; the kernel needs CONFIG_KALLSYMS."),
            ),
            Self::ForeignKernel => (
                "foreign_kernel",
                "another kernel",
                Some(
                    "Report on the recorded machine while the same kernel runs, or give its \
                     vmlinux.",
                ),
            ),
            Self::ForeignModule => (
                "foreign_module",
                "kernel module not loaded or another build",
                Some("Report on the recorded machine with the module loaded."),
            ),
            Self::ForeignVdso => (
                "foreign_vdso",
                "vdso of another kernel",
                Some("Report while the recorded kernel runs."),
            ),
            Self::Guest => (
                "guest",
                "in a guest or the hypervisor",
                Some("Record inside the guest."),
            ),
            Self::SpecialMapping => ("special_mapping", "special kernel mapping", None),
            Self::NotInInput => ("not_in_input", "unnamed in the imported file", None),
        }
    }
}

impl From<OpenError> for Reason {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NoSuchFile => Self::NoSuchFile,
            OpenError::PermissionDenied => Self::PermissionDenied,
            OpenError::NotARegularFile => Self::NotARegularFile,
            OpenError::Empty => Self::NotAnElf,
            _ => Self::ReadFailed,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.texts().1)
    }
}

impl std::error::Error for Reason {}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn all_is_complete() {
        let last = Reason::NotInInput;
        assert_eq!(Reason::ALL.len(), last as usize + 1);
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index, "{reason:?}");
            assert!(!reason.to_string().is_empty());
            assert!(reason.remedy().is_none_or(|text| text.ends_with('.')));
        }
    }

    #[test]
    fn keys_are_distinct_snake_case() {
        let mut keys: Vec<_> = Reason::ALL.iter().map(|reason| reason.key()).collect();
        assert!(
            keys.iter()
                .all(|key| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        );
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), Reason::ALL.len());
    }
}
