//! Images: what mappings are backed by, each once, by identity.

use std::collections::HashMap;

use rprof_records::{BuildId, MmapIdentity};

use crate::ids::ImageId;

/// Identity by which an image is told from others: the best that was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageIdentity {
    /// MMAP2 with `PERF_RECORD_MISC_MMAP_BUILD_ID`. The path then does not
    /// matter: the same build at two paths is one image.
    BuildId(BuildId),
    /// MMAP2 without it. A file replaced under its name is another image; so is
    /// one under two names, since not every recorder's inodes can be trusted.
    Inode {
        /// Device, upper half.
        major: u32,
        /// Device, lower half.
        minor: u32,
        /// Inode number. Where it is 0, so that nothing is identified, the image
        /// is kept as [`PathOnly`](Self::PathOnly).
        inode: u64,
        /// Told apart from earlier files by the same number. 0 where it is not
        /// known, as from `/proc/PID/maps`.
        generation: u64,
    },
    /// MMAP, memory without a file, or the kernel.
    PathOnly,
}

impl ImageIdentity {
    /// Returns what is left of it for an image of this kind: an inode of 0, or that of memory, says
    /// nothing.
    pub(crate) fn of_kind(self, kind: ImageKind) -> Self {
        match self {
            Self::Inode { inode, .. } if inode == 0 || !kind.has_file() => Self::PathOnly,
            known => known,
        }
    }
}

/// Takes over the identity of a record. A build-id of zeros, which recorders write where they could not
/// read the note, is none.
impl From<MmapIdentity> for ImageIdentity {
    fn from(identity: MmapIdentity) -> Self {
        match identity {
            MmapIdentity::BuildId(id) if id.is_zero() => Self::PathOnly,
            MmapIdentity::BuildId(id) => Self::BuildId(id),
            MmapIdentity::Inode {
                major,
                minor,
                inode,
                generation,
            } => Self::Inode {
                major,
                minor,
                inode,
                generation,
            },
        }
    }
}

/// Kind of an image, judged by its name alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageKind {
    /// A file.
    File,
    /// A file whose name was already gone: ` (deleted)`.
    Deleted,
    /// The kernel itself, `[kernel.kallsyms]_text` and the like.
    Kernel,
    /// A kernel module, `[name]` or the path of a `.ko`, in the kernel's space.
    KernelModule,
    /// A function that the kernel made at run time, such as a BPF program; its name
    /// is that of the image.
    KernelSymbol,
    /// `[vdso]`.
    Vdso,
    /// `[vsyscall]`.
    Vsyscall,
    /// `[heap]`.
    Heap,
    /// `[stack]`.
    Stack,
    /// Memory without a file: `//anon`, `[anon:...]`, `/anon_hugepage`,
    /// `/dev/zero`, `/SYSV...`, or no name.
    Anonymous,
    /// `/memfd:...`: memory with a file descriptor, often code made at run time.
    Memfd,
    /// Other special names: `[uprobes]`, `anon_inode:...`.
    Other,
}

const DELETED: &[u8] = b" (deleted)";

impl ImageKind {
    /// Returns the kind of what a process has mapped under a name.
    pub fn of_user(path: &[u8]) -> Self {
        let deleted = path.strip_suffix(DELETED);
        let name = deleted.unwrap_or(path);
        match name {
            b"" | b"//anon" | b"/dev/zero" => Self::Anonymous,
            b"[vsyscall]" => Self::Vsyscall,
            b"[heap]" => Self::Heap,
            _ if name.starts_with(b"[vdso") => Self::Vdso,
            _ if name.starts_with(b"[stack") => Self::Stack,
            _ if name.starts_with(b"[anon")
                || name.starts_with(b"/anon_hugepage")
                || name.starts_with(b"/SYSV") =>
            {
                Self::Anonymous
            }
            _ if name.starts_with(b"/memfd:") => Self::Memfd,
            _ if name.starts_with(b"[") || name.starts_with(b"anon_inode:") => Self::Other,
            _ if deleted.is_some() => Self::Deleted,
            _ => Self::File,
        }
    }

    fn of_kernel(path: &[u8]) -> Self {
        let kernel = [&b"[kernel."[..], b"[guest.kernel."];
        if kernel.iter().any(|prefix| path.starts_with(prefix)) {
            return Self::Kernel;
        }
        let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        if path.starts_with(b"[") || file.windows(3).any(|part| part == b".ko") {
            return Self::KernelModule;
        }
        Self::Kernel
    }

    /// Returns true if a file stands behind it, so that a device and inode mean
    /// something lasting.
    pub fn has_file(self) -> bool {
        matches!(
            self,
            Self::File | Self::Deleted | Self::Memfd | Self::Kernel | Self::KernelModule
        )
    }
}

/// One ELF file, or the kernel, a module, the vdso, some memory: by identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The name as first recorded, in the process's own mount namespace; bytes
    /// of no certain encoding, chosen by whoever was recorded.
    pub path: Box<[u8]>,
    /// Identity by which it is told from other images.
    pub identity: ImageIdentity,
    /// Kind, judged by the name.
    pub kind: ImageKind,
}

impl Image {
    /// Returns the path without the ` (deleted)` that the kernel appends.
    pub fn path_without_deleted(&self) -> &[u8] {
        self.path.strip_suffix(DELETED).unwrap_or(&self.path)
    }
}

/// Address space that an image is mapped into. Names mean different
/// things there, and a process must not be able to pose as the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    User = 0,
    Kernel = 1,
    KernelSymbol = 2,
}

/// Each distinct image once. See [`NameTable`](crate::names::NameTable) on hashing.
#[derive(Debug, Default)]
pub(crate) struct ImageTable {
    images: Vec<Image>,
    /// Numbers of paths. Build-ids need none.
    paths: HashMap<Box<[u8]>, u32>,
    by_identity: HashMap<(Side, Option<u32>, ImageIdentity), ImageId>,
    /// Build-ids of files that records name by device and inode.
    build_ids: HashMap<ImageIdentity, BuildId>,
}

impl ImageTable {
    /// Adds the build-id of files that are named by device and inode from now on.
    pub(crate) fn identify(&mut self, identity: ImageIdentity, build_id: BuildId) {
        if !build_id.is_zero() {
            self.build_ids.insert(identity, build_id);
        }
    }

    pub(crate) fn intern(&mut self, side: Side, path: &[u8], identity: ImageIdentity) -> ImageId {
        let (kind, identity) = self.described(side, path, identity);
        let path_number = match speaks_for_itself(identity) {
            true => None,
            false => Some(self.path_number(path)),
        };
        let key = (side, path_number, identity);
        if let Some(&id) = self.by_identity.get(&key) {
            return id;
        }
        let id = ImageId(self.images.len() as u32);
        self.images.push(Image {
            path: path.into(),
            identity,
            kind,
        });
        self.by_identity.insert(key, id);
        id
    }

    /// Returns an image that was interned before.
    pub(crate) fn find(&self, side: Side, path: &[u8], identity: ImageIdentity) -> Option<ImageId> {
        let (_, identity) = self.described(side, path, identity);
        let path_number = match speaks_for_itself(identity) {
            true => None,
            false => Some(*self.paths.get(path)?),
        };
        let key = (side, path_number, identity);
        self.by_identity.get(&key).copied()
    }

    /// Returns the kind of an image, and the identity by which it is told apart.
    fn described(
        &self,
        side: Side,
        path: &[u8],
        identity: ImageIdentity,
    ) -> (ImageKind, ImageIdentity) {
        let kind = match side {
            Side::User => ImageKind::of_user(path),
            Side::Kernel => ImageKind::of_kernel(path),
            Side::KernelSymbol => ImageKind::KernelSymbol,
        };
        let identity = identity.of_kind(kind);
        if let ImageIdentity::Inode { .. } = identity
            && let Some(build_id) = self.build_ids.get(&identity)
        {
            return (kind, ImageIdentity::BuildId(*build_id));
        }
        (kind, identity)
    }

    fn path_number(&mut self, path: &[u8]) -> u32 {
        if let Some(&number) = self.paths.get(path) {
            return number;
        }
        let number = self.paths.len() as u32;
        self.paths.insert(path.into(), number);
        number
    }

    pub(crate) fn kind(&self, id: ImageId) -> ImageKind {
        self.images
            .get(id.0 as usize)
            .map_or(ImageKind::Other, |image| image.kind)
    }

    pub(crate) fn as_slice(&self) -> &[Image] {
        &self.images
    }

    pub(crate) fn finish(self) -> Box<[Image]> {
        self.images.into_boxed_slice()
    }
}

/// Returns whether an identity needs no path beside it. Seen in files of simpleperf: one and the same device and
/// inode, of memory that was never set, for mappings of different files. So an inode does need one, and a file
/// under two names is two images.
fn speaks_for_itself(identity: ImageIdentity) -> bool {
    matches!(identity, ImageIdentity::BuildId(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(inode: u64, generation: u64) -> ImageIdentity {
        ImageIdentity::Inode {
            major: 8,
            minor: 1,
            inode,
            generation,
        }
    }

    #[test]
    fn kinds_by_name() {
        for (path, kind) in [
            (&b"/usr/bin/cat"[..], ImageKind::File),
            (b"/tmp/a (deleted)", ImageKind::Deleted),
            (b"[vdso]", ImageKind::Vdso),
            (b"[vsyscall]", ImageKind::Vsyscall),
            (b"[heap]", ImageKind::Heap),
            (b"[stack]", ImageKind::Stack),
            (b"[stack:17]", ImageKind::Stack),
            (b"", ImageKind::Anonymous),
            (b"//anon", ImageKind::Anonymous),
            (b"[anon:scudo:primary]", ImageKind::Anonymous),
            (b"/anon_hugepage (deleted)", ImageKind::Anonymous),
            (b"/dev/zero (deleted)", ImageKind::Anonymous),
            (b"/SYSV00000000 (deleted)", ImageKind::Anonymous),
            (b"/memfd:doublemapper (deleted)", ImageKind::Memfd),
            (b"[uprobes]", ImageKind::Other),
            (b"anon_inode:[perf_event]", ImageKind::Other),
            // Not the kernel: a process does not get to say so.
            (b"[kernel.kallsyms]_text", ImageKind::Other),
        ] {
            assert_eq!(ImageKind::of_user(path), kind, "{}", path.escape_ascii());
        }
        for (path, kind) in [
            (&b"[kernel.kallsyms]_text"[..], ImageKind::Kernel),
            (b"[guest.kernel.kallsyms]", ImageKind::Kernel),
            (b"/usr/lib/debug/boot/vmlinux-6.1", ImageKind::Kernel),
            (b"[nf_tables]", ImageKind::KernelModule),
            (
                b"/lib/modules/6.1/kernel/fs/xfs.ko.zst",
                ImageKind::KernelModule,
            ),
        ] {
            assert_eq!(ImageKind::of_kernel(path), kind, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn identity_and_path_tell_images_apart() {
        let mut table = ImageTable::default();
        let a = table.intern(Side::User, b"/a", inode(1, 0));
        assert_eq!(a, table.intern(Side::User, b"/a", inode(1, 0)));
        assert_ne!(a, table.intern(Side::User, b"/other", inode(1, 0)));
        assert_ne!(a, table.intern(Side::User, b"/a", inode(2, 0)));
        assert_ne!(a, table.intern(Side::User, b"/a", inode(1, 1)));
        assert_ne!(a, table.intern(Side::User, b"/a", ImageIdentity::PathOnly));
        assert_eq!(&*table.as_slice()[0].path, b"/a");

        let id = BuildId::new(&[1, 2, 3]).map(ImageIdentity::BuildId);
        let id = id.unwrap_or(ImageIdentity::PathOnly);
        let b = table.intern(Side::User, b"/b", id);
        assert_eq!(b, table.intern(Side::User, b"/c", id));
    }

    /// As where one record has the build-id, and another was written before it was known.
    #[test]
    fn a_file_whose_build_id_is_known_is_one_image() {
        let mut table = ImageTable::default();
        let id = BuildId::new(&[1, 2, 3]).unwrap();
        table.identify(inode(1, 5), id);
        let by_id = table.intern(Side::User, b"/a", ImageIdentity::BuildId(id));
        assert_eq!(by_id, table.intern(Side::User, b"/a", inode(1, 5)));
        assert_eq!(
            by_id,
            table.intern(Side::User, b"/elsewhere/a", inode(1, 5))
        );
        let other = table.intern(Side::User, b"/a", inode(1, 6));
        assert_ne!(by_id, other);
        assert_eq!(table.as_slice()[other.0 as usize].identity, inode(1, 6));
    }

    #[test]
    fn an_inode_that_says_nothing_is_dropped() {
        let mut table = ImageTable::default();
        let a = table.intern(Side::User, b"/a", inode(0, 0));
        assert_eq!(a, table.intern(Side::User, b"/a", ImageIdentity::PathOnly));
        let zero = table.intern(Side::User, b"/dev/zero (deleted)", inode(7, 0));
        assert_eq!(
            zero,
            table.intern(Side::User, b"/dev/zero (deleted)", inode(8, 0))
        );
    }

    #[test]
    fn a_process_cannot_pose_as_the_kernel() {
        let mut table = ImageTable::default();
        let name = b"[kernel.kallsyms]_text";
        assert_ne!(
            table.intern(Side::User, name, ImageIdentity::PathOnly),
            table.intern(Side::Kernel, name, ImageIdentity::PathOnly)
        );
    }

    #[test]
    fn a_build_id_of_zeros_says_nothing() {
        for id in [&[0; 20][..], &[0]] {
            let id = BuildId::new(id).map(MmapIdentity::BuildId).unwrap();
            assert_eq!(ImageIdentity::from(id), ImageIdentity::PathOnly);
        }
        let id = BuildId::new(&[0xab, 0]).unwrap();
        let identity = ImageIdentity::from(MmapIdentity::BuildId(id));
        assert_eq!(identity, ImageIdentity::BuildId(id));
    }
}
