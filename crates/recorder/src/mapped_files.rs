//! Images of executable mappings, and how to open their files.

use std::ops::Range;

use rprof_image::{FileIdentity, MappedFile};
use rprof_processes::{Image, ImageIdentity, ImageKind, LiveMap, LiveMapping, Pid, image_name};
use rprof_records::Mapped;

#[derive(Clone, Debug)]
pub(crate) struct MappedImage {
    pub(crate) pid: Pid,
    pub(crate) range: Range<u64>,
    pub(crate) image: Image,
}

impl MappedImage {
    pub(crate) fn new(map: &Mapped<'_>) -> MappedImage {
        let path = image_name(&map.path, map.end());
        MappedImage {
            pid: Pid(map.pid),
            range: map.start..map.end(),
            image: Image {
                path: path.into(),
                identity: map.identity.map_or(ImageIdentity::PathOnly, Into::into),
                kind: ImageKind::of_user(path),
                first_mapped: 0,
            },
        }
    }

    /// Returns the image of a present mapping.
    pub(crate) fn mapped(map: &LiveMap, mapping: &LiveMapping, pid: Pid) -> Option<MappedImage> {
        Some(MappedImage {
            pid,
            range: mapping.start..mapping.end,
            image: map.image(mapping.backing)?.clone(),
        })
    }

    pub(crate) fn file(&self) -> MappedFile<'_> {
        let image = &self.image;
        MappedFile {
            pid: self.pid.0,
            range: self.range.clone(),
            path: (image.kind != ImageKind::Memfd).then(|| image.path_without_deleted()),
            identity: match image.identity {
                ImageIdentity::BuildId(id) => FileIdentity::BuildId(id),
                ImageIdentity::Inode {
                    major,
                    minor,
                    inode,
                    ..
                } => FileIdentity::Inode {
                    device: (major, minor),
                    inode,
                },
                ImageIdentity::PathOnly => FileIdentity::Unknown,
            },
        }
    }

    /// Returns device and inode of the mapping's record; 0 if it has none.
    pub(crate) fn device_and_inode(&self) -> ((u32, u32), u64) {
        match self.image.identity {
            ImageIdentity::Inode {
                major,
                minor,
                inode,
                ..
            } => ((major, minor), inode),
            ImageIdentity::BuildId(_) | ImageIdentity::PathOnly => ((0, 0), 0),
        }
    }
}

/// Returns the last part of a mapped path.
pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}
