//! Identity of images: the key of a lookup, and the marks by which a file is recognised.

use crate::file_reader::FileReader;
use crate::notes::build_id_of;
use crate::regular_file::RegularFile;
use rprof_records::BuildId;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Kind of an image, which determines the meaning of offsets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ImageSource {
    /// An ELF file at this path, which is opened as it stands (callers prepend
    /// `/proc/PID/root` or a sysroot). Offsets are file offsets.
    File(PathBuf),
    /// The running kernel without its modules. Offsets are AVMAs.
    Kernel,
    /// A module of the running kernel, by name as in `/proc/modules`, without brackets
    /// or `.ko`. Offsets are AVMAs.
    KernelModule(Box<str>),
    /// The vdso. Offsets are file offsets, that is, from the start of its mapping.
    Vdso,
}

/// Identifies an image, together with
/// what is known of its identity: a file of that path is not enough, as it may have
/// been replaced since.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageKey {
    source: ImageSource,
    build_id: Option<BuildId>,
    inode: Option<u64>,
    recorded_start: Option<u64>,
}

impl ImageKey {
    fn new(source: ImageSource) -> Self {
        Self {
            source,
            build_id: None,
            inode: None,
            recorded_start: None,
        }
    }

    /// Key of an ELF file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(ImageSource::File(path.into()))
    }

    /// Key of the kernel.
    #[must_use]
    pub fn kernel() -> Self {
        Self::new(ImageSource::Kernel)
    }

    /// Key of a kernel module. `name` may have the form of `/proc/modules`, perf.data (`[name]`) or
    /// the file system (`.../name.ko.xz`): dashes count as underscores.
    #[must_use]
    pub fn kernel_module(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = name.split_once(".ko").map_or(name, |(stem, _)| stem);
        Self::new(ImageSource::KernelModule(name.replace('-', "_").into()))
    }

    /// Key of the vdso.
    #[must_use]
    pub fn vdso() -> Self {
        Self::new(ImageSource::Vdso)
    }

    /// Sets the recorded build-id. Symbols of an image with another build-id, or with none, are
    /// then never shown.
    #[must_use]
    pub fn with_build_id(mut self, build_id: Option<BuildId>) -> Self {
        self.build_id = build_id;
        self
    }

    /// Sets the recorded inode number. It is compared only where no build-id is expected; leave it
    /// out for recordings from another machine.
    #[must_use]
    pub fn with_inode(mut self, inode: Option<u64>) -> Self {
        self.inode = inode;
        self
    }

    /// Sets the AVMA at which the kernel (`_text`, or `_stext` if there is none) or the module
    /// started when it was recorded. With it, addresses from before a reboot are moved to where the
    /// same kernel runs today (KASLR). Without it they are taken unchanged.
    #[must_use]
    pub fn with_recorded_start(mut self, avma: Option<u64>) -> Self {
        self.recorded_start = avma;
        self
    }

    /// Returns the kind of image.
    #[must_use]
    pub fn source(&self) -> &ImageSource {
        &self.source
    }

    /// Returns the path, for an ELF file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            ImageSource::File(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the expected build-id.
    #[must_use]
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Returns the expected inode number.
    #[must_use]
    pub fn inode(&self) -> Option<u64> {
        self.inode
    }

    /// Returns the start set by [`ImageKey::with_recorded_start`], as AVMA.
    #[must_use]
    pub fn recorded_start(&self) -> Option<u64> {
        self.recorded_start
    }
}

/// Identity of a mapped file, as far as the record of its mapping has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileIdentity {
    /// Build-id.
    BuildId(BuildId),
    /// Number of the file.
    Inode {
        /// Major and minor number of the device.
        device: (u32, u32),
        /// Inode number.
        inode: u64,
    },
    /// No mark but the path.
    Unknown,
}

impl FileIdentity {
    /// Returns true if `file` may be the one that was mapped, as far as is known. Device numbers are not
    /// compared, as they differ on overlay file systems and btrfs; so this is good enough to unwind by, and
    /// not to copy the file.
    #[must_use]
    pub fn may_be(&self, file: &RegularFile) -> bool {
        match self {
            Self::Inode { inode, .. } => file.metadata().ino() == *inode,
            Self::Unknown => true,
            Self::BuildId(_) => self.is(file),
        }
    }

    /// Returns true if `file` is the one that was mapped, or has its build-id.
    #[must_use]
    pub fn is(&self, file: &RegularFile) -> bool {
        match self {
            Self::BuildId(wanted) => {
                build_id_of(&FileReader::new(file)).is_some_and(|found| found.matches(wanted))
            }
            Self::Inode { device, inode } => {
                let device = rustix::fs::makedev(device.0, device.1);
                (file.metadata().dev(), file.metadata().ino()) == (device, *inode)
            }
            Self::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names() {
        for name in [
            "snd_hda",
            "[snd_hda]",
            "snd-hda.ko",
            "/lib/modules/6.1/snd-hda.ko.xz",
        ] {
            assert_eq!(
                *ImageKey::kernel_module(name).source(),
                ImageSource::KernelModule("snd_hda".into())
            );
        }
    }
}
