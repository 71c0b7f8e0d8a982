//! Packages that files were installed by, from the package manager's own database.

use std::path::Path;

/// Package manager that owns a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Owner {
    /// Debian's and its relatives', with the name of the package.
    Dpkg(String),
    /// That of Fedora, SUSE and their relatives, whose database is not ours to read.
    Rpm,
}

/// Returns who owns an object, if it is a file of a package.
pub(crate) fn owner_of(object: &str) -> Option<Owner> {
    if !object.starts_with('/') {
        return None;
    }
    let dpkg = Path::new("/var/lib/dpkg/info");
    if dpkg.is_dir() {
        return package_of(dpkg, object).map(Owner::Dpkg);
    }
    let is_installed = object.starts_with("/usr/") || object.starts_with("/lib");
    let has_rpm = ["/usr/lib/sysimage/rpm", "/var/lib/rpm"]
        .iter()
        .any(|p| Path::new(p).is_dir());
    (is_installed && has_rpm).then_some(Owner::Rpm)
}

/// Returns the package whose list of files has a path; `folder` is dpkg's `info`.
///
/// Packages may have the path from before `/lib` became a link to `/usr/lib`.
fn package_of(folder: &Path, object: &str) -> Option<String> {
    let real = std::fs::canonicalize(object).ok();
    let real = real.as_deref().and_then(Path::to_str).unwrap_or(object);
    let mut paths = vec![object, real];
    for path in [object, real] {
        paths.extend(
            path.strip_prefix("/usr")
                .filter(|rest| rest.starts_with('/')),
        );
    }
    let file_name = real.rsplit('/').next().unwrap_or(real);
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let name = entry.file_name();
        let Some(list) = name.to_str().and_then(|name| name.strip_suffix(".list")) else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(entry.path()) else {
            continue;
        };
        // Most lists do not even have a file of this name.
        if text.contains(file_name) && text.lines().any(|line| paths.contains(&line)) {
            // `zlib1g:amd64.list`
            let package = list.split(':').next().unwrap_or(list);
            return Some(package.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("other.list", "/.\n/usr\n/usr/lib/libzz.so.1\n");
        write("zlib1g:amd64.list", "/.\n/lib/nowhere/libz.so.1\n");
        write("zlib1g:amd64.md5sums", "/usr/lib/libq.so.1\n");
        let of = |object| package_of(folder.path(), object);
        assert_eq!(of("/usr/lib/nowhere/libz.so.1"), Some("zlib1g".into()));
        assert_eq!(of("/lib/nowhere/libz.so.1"), Some("zlib1g".into()));
        assert_eq!(of("/usr/lib/libq.so.1"), None);
        assert_eq!(owner_of("[kernel.kallsyms]"), None);
    }
}
