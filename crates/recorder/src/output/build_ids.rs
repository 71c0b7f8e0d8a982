//! The build-ids of what was mapped, for the file's table.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rprof_image::{ImageKey, loaded_modules, module_build_id, running_kernel_build_id};
use rprof_perfdata::BuildIdEntry;
use rprof_records::{BuildId, Misc, MmapIdentity, ProcessEvent};
use rprof_symbols::Symbolizer;

/// Most paths of a file's table, each of which is looked up and takes room in the file.
const MOST_PATHS: usize = 1 << 15;

/// Most bytes of these.
const MOST_BYTES: usize = 8 << 20;

/// Paths that were mapped since the file began, with their build-ids.
#[derive(Debug, Default)]
pub(crate) struct BuildIds {
    /// Build-id by path, where a record had one.
    user: BTreeMap<Vec<u8>, Option<BuildId>>,
    /// Bytes of the paths.
    bytes: usize,
    /// Mappings whose path is left out.
    left_out: u64,
}

impl BuildIds {
    /// Takes note of a mapping.
    pub(crate) fn handle(&mut self, event: &ProcessEvent<'_>) {
        let ProcessEvent::Mapped(m) = event else {
            return;
        };
        let build_id = match m.identity {
            Some(MmapIdentity::BuildId(id)) => Some(id),
            Some(MmapIdentity::Inode { .. }) | None => None,
        };
        if let Some(known) = self.user.get_mut(&m.path[..]) {
            *known = known.or(build_id);
        } else if self.user.len() >= MOST_PATHS || self.bytes + m.path.len() > MOST_BYTES {
            self.left_out += 1;
        } else {
            self.bytes += m.path.len();
            self.user.insert(m.path.to_vec(), build_id);
        }
    }

    /// Returns the number of mappings whose path is left out, as there are too many.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Makes the entries of kernel, modules, vdso, and every file mapped. Files whose build-id no
    /// record had are opened.
    pub(crate) fn entries(&self) -> Vec<BuildIdEntry> {
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
        let symbolizer = Symbolizer::builder().build();
        for (path, known) in &self.user {
            let key = match &path[..] {
                b"[vdso]" => ImageKey::vdso(),
                path if path.starts_with(b"/") => ImageKey::file(OsStr::from_bytes(path)),
                _ => continue,
            };
            let id = known.map(|id| id.as_bytes().to_vec());
            // A file that is gone, or was never one, has none.
            let id = id.or_else(|| Some(symbolizer.build_id(&key)?.as_bytes().to_vec()));
            if let Some(id) = id {
                entries.push(entry(Misc::USER, path, &id));
            }
        }
        entries
    }
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
        assert!(ids.bytes <= MOST_BYTES);
        assert_eq!(ids.user.len() as u64 + ids.left_out(), 10_000);
    }
}
