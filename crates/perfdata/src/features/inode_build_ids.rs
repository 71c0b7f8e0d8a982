//! Build-ids of files that records identify by device and inode.
//!
//! A recorder that does not set `attr.build_id` (which breaks perf 6.1 as a reader) reads build-ids
//! itself, often after the mapping record was written. It stores them as [embedded
//! files](super::embedded) without contents. `HEADER_BUILD_ID` identifies files by path alone, so
//! it cannot separate files of several containers, or successive files of one name.

use std::borrow::Cow;

use rprof_records::{BuildId, MmapIdentity};

use super::{EmbeddedFile, EmbeddedKind, FeatureSections};

impl EmbeddedFile<'static> {
    /// Creates an entry with a file's build-id. `None` if `identity` is a build-id, or has no
    /// inode.
    #[must_use]
    pub fn of_build_id(
        identity: &MmapIdentity,
        build_id: &BuildId,
    ) -> Option<EmbeddedFile<'static>> {
        match *identity {
            MmapIdentity::Inode {
                major,
                minor,
                inode,
                generation,
            } if inode != 0 => Some(EmbeddedFile {
                kind: EmbeddedKind::BUILD_ID,
                pid: -1,
                since: generation,
                device: (major, minor),
                inode,
                build_id: Cow::Owned(build_id.as_bytes().to_vec()),
                path: Cow::Borrowed(&[]),
                len: 0,
                compressed: Cow::Borrowed(&[]),
            }),
            MmapIdentity::Inode { .. } | MmapIdentity::BuildId(_) => None,
        }
    }
}

impl FeatureSections {
    /// Returns the build-ids of files identified by device and inode. Only rprof writes them.
    #[must_use]
    pub fn inode_build_ids(&self) -> Vec<(MmapIdentity, BuildId)> {
        let entries = self.embedded_files().unwrap_or_default();
        (entries.iter())
            .filter(|entry| entry.kind == EmbeddedKind::BUILD_ID && entry.inode != 0)
            .filter_map(|entry| {
                let identity = MmapIdentity::Inode {
                    major: entry.device.0,
                    minor: entry.device.1,
                    inode: entry.inode,
                    generation: entry.since,
                };
                Some((identity, BuildId::new(&entry.build_id)?))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    fn identity(inode: u64) -> MmapIdentity {
        MmapIdentity::Inode {
            major: 8,
            minor: 1,
            inode,
            generation: 1 << 40,
        }
    }

    #[test]
    fn build_ids_come_back_by_device_inode_and_generation() {
        let (one, other) = (
            BuildId::new(&[1; 20]).unwrap(),
            BuildId::new(&[2; 8]).unwrap(),
        );
        let entry = |identity: MmapIdentity, id| EmbeddedFile::of_build_id(&identity, &id);
        in_both_orders(|f| {
            assert_eq!(f.inode_build_ids(), []);
            let files = [entry(identity(5), one), entry(identity(6), other)];
            f.insert_embedded_files(&files.map(Option::unwrap));
            let expected = [(identity(5), one), (identity(6), other)];
            assert_eq!(f.inode_build_ids(), expected);
        });
        assert_eq!(entry(identity(0), one), None);
        assert_eq!(entry(MmapIdentity::BuildId(one), one), None);
    }
}
