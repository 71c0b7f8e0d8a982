//! [`BuildIds`]: build-ids of mapped files, for the file's table.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rprof_image::{
    FileIdentity, FileReader, RegularFile, build_id_of, loaded_modules, module_build_id,
    running_kernel_build_id, vdso_image,
};
use rprof_perfdata::BuildIdEntry;
use rprof_records::{BuildId, Misc, MmapIdentity, ProcessEvent};

use super::identified::IdentifiedFiles;

/// Maximum number of paths in a file's table, because each costs a lookup and space.
const MAX_PATHS: usize = 1 << 15;

const MAX_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct BuildIds {
    /// By path, the first identity in its records, if any.
    user: BTreeMap<Vec<u8>, Option<MmapIdentity>>,
    bytes: usize,
    left_out: u64,
}

impl BuildIds {
    pub(crate) fn handle(&mut self, event: &ProcessEvent<'_>) {
        let ProcessEvent::Mapped(m) = event else {
            return;
        };
        if let Some(known) = self.user.get_mut(&m.path[..]) {
            *known = known.or(m.identity);
        } else if self.user.len() >= MAX_PATHS || self.bytes + m.path.len() > MAX_BYTES {
            self.left_out += 1;
        } else {
            self.bytes += m.path.len();
            self.user.insert(m.path.to_vec(), m.identity);
        }
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Returns entries for the kernel, its modules, the vdso and all mapped files. Opens unchanged
    /// files that are not in `identified`.
    pub(super) fn entries(&self, identified: &IdentifiedFiles) -> Vec<BuildIdEntry> {
        let entry = |misc, path: &[u8], build_id: &[u8]| BuildIdEntry {
            misc,
            pid: -1,
            build_id: build_id.to_vec(),
            path: path.to_vec(),
        };
        let mut entries = Vec::new();
        if let Some(id) = running_kernel_build_id() {
            entries.push(entry(Misc::KERNEL, b"[kernel.kallsyms]", id.as_bytes()));
        }
        for module in loaded_modules() {
            if let Some(id) = module_build_id(&module.name) {
                let name = format!("[{}]", module.name);
                entries.push(entry(Misc::KERNEL, name.as_bytes(), id.as_bytes()));
            }
        }
        for (path, identity) in &self.user {
            let known = identity.and_then(|identity| identified.get(&identity));
            // Missing files and anonymous mappings have no build-id.
            let id = known.or_else(|| match &path[..] {
                b"[vdso]" => build_id_of(&vdso_image()?[..]),
                path if path.starts_with(b"/") => of_file(path, identity.as_ref()),
                _ => None,
            });
            let id = id.map(|id| id.as_bytes().to_vec());
            if let Some(id) = id {
                entries.push(entry(Misc::USER, path, &id));
            }
        }
        entries
    }
}

/// Reads the build-id of the file at a path, if it is still the mapped file.
fn of_file(path: &[u8], identity: Option<&MmapIdentity>) -> Option<BuildId> {
    let identity = match identity {
        Some(MmapIdentity::Inode {
            major,
            minor,
            inode: inode @ 1..,
            ..
        }) => FileIdentity::Inode {
            device: (*major, *minor),
            inode: *inode,
        },
        _ => FileIdentity::Unknown,
    };
    let file = RegularFile::open(Path::new(OsStr::from_bytes(path))).ok()?;
    identity
        .may_be(&file)
        .then(|| build_id_of(&FileReader::new(&file)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::Mapped;

    #[test]
    fn paths_are_bounded() {
        let mut ids = BuildIds::default();
        for n in 0..10_000 {
            let path = format!("/{n}/{}", "x".repeat(3500)).into_bytes();
            ids.handle(&ProcessEvent::Mapped(Mapped {
                pid: 1,
                tid: 1,
                start: 0,
                len: 1,
                file_offset: 0,
                path: path.into(),
                identity: None,
                executable: true,
                kernel: false,
                prot_and_flags: None,
                misc: Misc::USER,
            }));
        }
        assert!(ids.bytes <= MAX_BYTES);
        assert_eq!(ids.user.len() as u64 + ids.left_out(), 10_000);
    }
}
