//! Identity of images ([`ImageKey`]) and of mapped files ([`FileIdentity`]).

use crate::file_reader::FileReader;
use crate::notes::build_id_of;
use crate::regular_file::RegularFile;
use rprof_records::BuildId;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Kind of an image, which determines the meaning of offsets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ImageSource {
    /// ELF file at this path (callers prepend `/proc/PID/root` or a sysroot). Offsets are file
    /// offsets.
    File(PathBuf),
    /// The running kernel without its modules. Offsets are AVMAs.
    Kernel,
    /// Kernel module, named as in `/proc/modules`, without brackets or `.ko`. Offsets are AVMAs.
    KernelModule(Box<str>),
    /// The vdso. Offsets count from the start of its mapping.
    Vdso,
}

/// Kind and recorded identity of an image. A file may have been replaced, so its path is not
/// enough.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageKey {
    source: ImageSource,
    build_id: Option<BuildId>,
    inode: Option<u64>,
    recorded_start: Option<u64>,
    mapped_at: Option<SystemTime>,
}

impl ImageKey {
    fn new(source: ImageSource) -> Self {
        Self {
            source,
            build_id: None,
            inode: None,
            recorded_start: None,
            mapped_at: None,
        }
    }

    /// Creates the key of an ELF file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(ImageSource::File(path.into()))
    }

    /// Creates the key of the kernel.
    #[must_use]
    pub fn kernel() -> Self {
        Self::new(ImageSource::Kernel)
    }

    /// Creates the key of a kernel module, from a name of `/proc/modules`, perf.data (`[name]`) or
    /// the file system (`.../name.ko.xz`). Dashes count as underscores.
    #[must_use]
    pub fn kernel_module(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = name.split_once(".ko").map_or(name, |(stem, _)| stem);
        Self::new(ImageSource::KernelModule(name.replace('-', "_").into()))
    }

    /// Creates the key of the vdso.
    #[must_use]
    pub fn vdso() -> Self {
        Self::new(ImageSource::Vdso)
    }

    /// Sets the recorded build-id. Images with another one, or none, then yield no symbols.
    #[must_use]
    pub fn with_build_id(mut self, build_id: Option<BuildId>) -> Self {
        self.build_id = build_id;
        self
    }

    /// Sets the recorded inode number, compared only without a build-id. Omit it for recordings
    /// from another machine.
    #[must_use]
    pub fn with_inode(mut self, inode: Option<u64>) -> Self {
        self.inode = inode;
        self
    }

    /// Sets the recorded start AVMA of the kernel (`_text`, or else `_stext`) or module. With it,
    /// addresses from before a reboot are moved to the current start (KASLR).
    #[must_use]
    pub fn with_recorded_start(mut self, avma: Option<u64>) -> Self {
        self.recorded_start = avma;
        self
    }

    /// Sets the time of day of the first mapping, or a later one. A file that was written after it
    /// yields no symbols, unless its build-id is the recorded one.
    #[must_use]
    pub fn with_mapped_at(mut self, time: Option<SystemTime>) -> Self {
        self.mapped_at = time;
        self
    }

    /// Returns the kind of image.
    #[must_use]
    pub fn source(&self) -> &ImageSource {
        &self.source
    }

    /// Returns the path of an ELF file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            ImageSource::File(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the recorded build-id.
    #[must_use]
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Returns the recorded inode number.
    #[must_use]
    pub fn inode(&self) -> Option<u64> {
        self.inode
    }

    /// Returns the time of day of the first mapping, or a later one.
    #[must_use]
    pub fn mapped_at(&self) -> Option<SystemTime> {
        self.mapped_at
    }

    /// Returns the recorded start AVMA.
    #[must_use]
    pub fn recorded_start(&self) -> Option<u64> {
        self.recorded_start
    }
}

/// Identity of a mapped file, from its mapping record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileIdentity {
    /// GNU build id, from the notes of the file.
    BuildId(BuildId),
    /// Device and inode number.
    Inode {
        /// Major and minor device number.
        device: (u32, u32),
        /// Inode number.
        inode: u64,
    },
    /// No identity besides the path.
    Unknown,
}

impl FileIdentity {
    /// Returns true if `file` may be the mapped file: good enough for unwinding, not for copying.
    /// Ignores device numbers, which differ on overlay file systems and btrfs.
    #[must_use]
    pub fn may_be(&self, file: &RegularFile) -> bool {
        match self {
            Self::Inode { inode, .. } => file.metadata().ino() == *inode,
            Self::Unknown => true,
            Self::BuildId(_) => self.is(file),
        }
    }

    /// Returns true if `file` has the same build-id, or device and inode.
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
