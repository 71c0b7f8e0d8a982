//! The files behind mappings, found while they are mapped.

use std::ops::Range;

use rprof_image::{FileIdentity, MappedFile};
use rprof_processes::{Image, ImageIdentity, ImageKind, Pid};

/// Returns the description by which the file that `pid` has mapped there is found.
pub(crate) fn mapped_file(image: &Image, range: Range<u64>, pid: Pid) -> MappedFile<'_> {
    MappedFile {
        pid: pid.0,
        range,
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
