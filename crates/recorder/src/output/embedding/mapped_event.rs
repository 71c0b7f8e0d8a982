//! [`MappedEvent`]: an executable mapping, as those who look at its file need it.

use std::ops::Range;

use rprof_processes::{Image, ImageIdentity, ImageKind, Pid};
use rprof_records::{Mapped, MmapIdentity};

/// An executable mapping.
#[derive(Debug)]
pub(super) struct MappedEvent {
    pub(super) pid: Pid,
    pub(super) range: Range<u64>,
    pub(super) image: Image,
    /// Device and inode, as the record names them; 0 where it has none.
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
    /// Identity as the record has it.
    pub(super) identity: Option<MmapIdentity>,
}

impl MappedEvent {
    pub(super) fn new(map: &Mapped<'_>) -> MappedEvent {
        let (device, inode) = match map.identity {
            Some(MmapIdentity::BuildId(_)) | None => ((0, 0), 0),
            Some(MmapIdentity::Inode {
                major,
                minor,
                inode,
                ..
            }) => ((major, minor), inode),
        };
        MappedEvent {
            pid: Pid(map.pid),
            range: map.start..map.end(),
            image: Image {
                path: (*map.path).into(),
                identity: map.identity.map_or(ImageIdentity::PathOnly, Into::into),
                kind: ImageKind::of_user(&map.path),
            },
            device,
            inode,
            identity: map.identity,
        }
    }
}
