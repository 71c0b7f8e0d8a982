//! Identity of the running kernel and its modules, from `/sys` and `/proc`.

use crate::notes::build_id_in_notes;
use rprof_records::BuildId;

/// Loaded module, as listed in `/proc/modules`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelModule {
    /// Name, with underscores.
    pub name: Box<str>,
    /// Load AVMA; 0 if the kernel hides addresses.
    pub start: u64,
    /// Length in bytes. Since Linux 6.4, the sum of several ranges, while `start` belongs to the
    /// code.
    pub size: u64,
    /// False while the module is being loaded or unloaded.
    pub is_live: bool,
}

/// Returns the build-id of the running kernel, from `/sys/kernel/notes`.
#[must_use]
pub fn running_kernel_build_id() -> Option<BuildId> {
    native_notes("/sys/kernel/notes")
}

/// Returns the build-id of a loaded module, from `/sys/module/NAME/notes/.note.gnu.build-id`.
#[must_use]
pub fn module_build_id(name: &str) -> Option<BuildId> {
    // The name may come from a file.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || !name.bytes().all(plain) {
        return None;
    }
    native_notes(&format!("/sys/module/{name}/notes/.note.gnu.build-id"))
}

fn native_notes(path: &str) -> Option<BuildId> {
    build_id_in_notes(&std::fs::read(path).ok()?, cfg!(target_endian = "big"), 4)
}

/// Returns the loaded modules; none if `/proc/modules` is unreadable.
#[must_use]
pub fn loaded_modules() -> Vec<KernelModule> {
    std::fs::read_to_string("/proc/modules")
        .map(|list| parse_modules(&list))
        .unwrap_or_default()
}

/// Parses lines `name size users dependencies state address [taints]`: see proc(5).
fn parse_modules(list: &str) -> Vec<KernelModule> {
    let module = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.into();
        let size = words.next()?.parse().ok()?;
        let is_live = words.nth(2)? == "Live";
        let address = words.next()?;
        let start = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        Some(KernelModule {
            name,
            start,
            size,
            is_live,
        })
    };
    list.lines().filter_map(module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules() {
        let list = "nf_tables 372736 0 - Live 0xffffffffc0a31000\n\
                    veth 45056 1 a,b, Loading 0x0000000000000000 (OE)\nbroken\n";
        let modules = parse_modules(list);
        assert_eq!(modules.len(), 2);
        assert_eq!(
            (&*modules[0].name, modules[0].start, modules[0].size),
            ("nf_tables", 0xffff_ffff_c0a3_1000, 372_736)
        );
        assert_eq!(modules[1].start, 0);
        assert!(modules[0].is_live && !modules[1].is_live);
    }

    #[test]
    fn module_names_stay_in_their_folder() {
        assert_eq!(module_build_id("../kernel"), None);
        assert_eq!(module_build_id(""), None);
    }
}
