//! The build-ids of what was mapped.

use std::collections::BTreeMap;

use rprof_image::{ImageKey, loaded_modules, module_build_id, running_kernel_build_id};
use rprof_perfdata::BuildIdEntry;
use rprof_records::{Misc, MmapIdentity, Record};
use rprof_symbols::Symbolizer;

/// Images mapped while recording, by path.
#[derive(Debug, Default)]
pub struct Images {
    /// Path to build-id, as far as the kernel told it.
    user: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Images {
    /// Notes what a sideband record maps.
    pub fn take(&mut self, record: &Record<'_>) {
        let Record::Mmap2(m) = record else { return };
        let build_id = match m.identity {
            MmapIdentity::BuildId(id) => Some(id.as_bytes().to_vec()),
            MmapIdentity::Inode { .. } => None,
        };
        match self.user.get_mut(&m.path[..]) {
            Some(known) => *known = known.take().or(build_id),
            None => {
                self.user.insert(m.path.to_vec(), build_id);
            }
        }
    }

    /// Entries for the file's table: kernel, modules, vdso, and every file mapped.
    /// Files of which the kernel did not tell the build-id are opened and asked.
    pub fn build_ids(&self) -> Vec<BuildIdEntry> {
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
                path if path.starts_with(b"/") => {
                    use std::os::unix::ffi::OsStrExt;
                    ImageKey::file(std::ffi::OsStr::from_bytes(path))
                }
                _ => continue,
            };
            let asked = match known {
                Some(_) => None,
                // A file that is gone, or was never one, has none to tell.
                None => symbolizer.build_id(&key).map(|id| id.as_bytes().to_vec()),
            };
            if let Some(id) = known.as_ref().or(asked.as_ref()) {
                entries.push(entry(Misc::USER, path, id));
            }
        }
        entries
    }
}
