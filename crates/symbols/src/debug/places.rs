//! Candidate paths of debug files. This module opens nothing: the caller checks each file.

use rprof_image::BuildId;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Lists `DIR/.build-id/xx/yyyy.debug` for each folder, the layout of distributions and `gdb` (GDB
/// manual, "Debugging Information in Separate Files").
pub(super) fn by_build_id(dirs: &[PathBuf], build_id: &BuildId) -> Vec<PathBuf> {
    let Some((first, rest)) = split_hex(build_id) else {
        return Vec::new();
    };
    let name = format!("{first}/{rest}.debug");
    dirs.iter()
        .map(|dir| dir.join(".build-id").join(&name))
        .collect()
}

/// Lists `debug` and `elf` in `.build-id/xx/yyyy/`, as cached by `perf record` or `perf
/// buildid-cache --add`.
pub(super) fn in_perf_cache(cache: Option<&Path>, build_id: &BuildId) -> Vec<PathBuf> {
    match cache.and_then(|cache| image_in_perf_cache(cache, build_id)) {
        Some(image) => vec![image.with_file_name("debug"), image],
        None => Vec::new(),
    }
}

pub(super) fn image_in_perf_cache(cache: &Path, build_id: &BuildId) -> Option<PathBuf> {
    let (first, rest) = split_hex(build_id)?;
    Some(cache.join(".build-id").join(first).join(rest).join("elf"))
}

/// Lists the paths of `gdb` for the `.gnu_debuglink` file: beside the image, in `.debug`, and in
/// the debug folders.
pub(super) fn by_name(
    dirs: &[PathBuf],
    image: &Path,
    root: Option<&Path>,
    name: &[u8],
) -> Vec<PathBuf> {
    let name = OsStr::from_bytes(name);
    let mut folders: Vec<PathBuf> = image.parent().map(Path::to_path_buf).into_iter().collect();
    // /bin/x is often /usr/bin/x.
    if let Ok(real) = image.canonicalize()
        && let Some(folder) = real.parent()
        && !folders.iter().any(|known| known == folder)
    {
        folders.push(folder.to_path_buf());
    }
    let mut places = Vec::new();
    for folder in &folders {
        places.push(folder.join(name));
        places.push(folder.join(".debug").join(name));
    }
    for dir in dirs {
        for folder in &folders {
            let inside = root.and_then(|root| folder.strip_prefix(root).ok());
            let inside = inside.or_else(|| folder.strip_prefix("/").ok());
            places.extend(inside.map(|inside| dir.join(inside).join(name)));
        }
    }
    places
}

/// Returns the path in `.gnu_debugaltlink` of the file at `from`. `None` outside of its folder and
/// the debug folders: a file must not name arbitrary files.
pub(super) fn stated(
    dirs: &[PathBuf],
    from: &Path,
    root: Option<&Path>,
    path: &[u8],
) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    let real = from.canonicalize().ok()?;
    let folder = real.parent()?;
    let whole = match (root, path.strip_prefix("/")) {
        (Some(root), Ok(inside)) => root.join(inside),
        _ => folder.join(path),
    };
    let whole = without_dots(&whole)?;
    let is_inside = |dir: &Path| whole.starts_with(dir);
    (is_inside(folder) || dirs.iter().any(|dir| is_inside(dir))).then_some(whole)
}

/// Resolves `.` and `..` in an absolute path textually. `None` for a relative path.
pub(crate) fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Normal(_) => plain.push(component),
            Component::Prefix(_) => return None,
        }
    }
    plain.is_absolute().then_some(plain)
}

/// Splits a build-id in hexadecimal into folder (first byte) and rest. `None` for a one-byte
/// build-id.
fn split_hex(build_id: &BuildId) -> Option<(String, String)> {
    let mut first = build_id.to_string();
    let rest = first.split_off(2);
    (!rest.is_empty()).then_some((first, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(paths: &[PathBuf]) -> Vec<String> {
        paths
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    #[test]
    fn places() {
        let dirs = ["/usr/lib/debug".into(), "/d".into()];
        let id = BuildId::new(&[0xab, 0x01, 0xff]).unwrap();
        assert_eq!(
            shown(&by_build_id(&dirs, &id)),
            [
                "/usr/lib/debug/.build-id/ab/01ff.debug",
                "/d/.build-id/ab/01ff.debug"
            ]
        );
        assert_eq!(
            shown(&in_perf_cache(Some(Path::new("/c")), &id)),
            ["/c/.build-id/ab/01ff/debug", "/c/.build-id/ab/01ff/elf"]
        );
        assert!(in_perf_cache(None, &id).is_empty());
        let short = BuildId::new(&[0xab]).unwrap();
        assert!(by_build_id(&dirs, &short).is_empty());
        let image = Path::new("/nowhere/bin/x");
        assert_eq!(
            shown(&by_name(&dirs[..1], image, None, b"x.debug")),
            [
                "/nowhere/bin/x.debug",
                "/nowhere/bin/.debug/x.debug",
                "/usr/lib/debug/nowhere/bin/x.debug"
            ]
        );
    }

    #[test]
    fn stated_paths_stay_inside() {
        let dirs = ["/usr/lib/debug".into()];
        let from = Path::new("/proc/version");
        let ask = |path: &str| stated(&dirs, from, None, path.as_bytes());
        assert_eq!(ask("x"), Some("/proc/x".into()));
        assert_eq!(
            ask("/usr/lib/debug/.dwz/x"),
            Some("/usr/lib/debug/.dwz/x".into())
        );
        assert_eq!(ask("../usr/lib/debug/x"), Some("/usr/lib/debug/x".into()));
        for path in [
            "../etc/passwd",
            "/etc/passwd",
            "/usr/lib/debug/../x",
            "a/../../x",
        ] {
            assert_eq!(ask(path), None, "{path}");
        }
    }
}
