//! [`Sources`]: reads the source files that debug information names, if that is safe.
//!
//! These names are untrusted: a hostile program may name `/etc/shadow`. Files below a folder that
//! the user named ([`Sources::add_root`], [`Sources::add_mapping`]) are readable. Any other file
//! must
//!
//! - have a source code suffix (`SUFFIXES`), or be in a system source folder ([`SYSTEM`]);
//! - have no hidden path component, except in package registries (`REGISTRIES`);
//! - be readable for the user who runs this program, without capabilities;
//! - belong to that user or to root, and not be world-writable.
//!
//! Such a file is searched at its path, and below the current folder by the end of its path. Every
//! file must be a regular file with at most 8 MiB of text. Its last path component must not be a
//! symbolic link. [`RemoteSources`] may provide missing files. The rule applies to terminal, page
//! and TUI.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rprof_image::{FileView, OpenError, RegularFile};
use rprof_records::BuildId;
use rustc_hash::FxHashMap;

const MAX_BYTES: u64 = 8 << 20;

const MAX_FILES: usize = 1_000;

/// System folders of source files. Any file there is public.
pub const SYSTEM: [&str; 4] = [
    "/usr/include",
    "/usr/src",
    "/usr/lib/gcc",
    "/usr/local/include",
];

/// Folders of package managers with a hidden component.
const REGISTRIES: [&str; 8] = [
    ".cargo/registry",
    ".cargo/git",
    ".rustup/toolchains",
    ".pyenv/versions",
    ".nvm/versions",
    ".opam",
    ".local/lib",
    ".julia/packages",
];

const SUFFIXES: &[&str] = &[
    "c", "h", "cc", "hh", "cpp", "hpp", "cxx", "hxx", "c++", "h++", "ipp", "inl", "inc", "tcc",
    "tpp", "def", "cu", "cuh", "m", "mm", "s", "asm", "rs", "go", "f", "for", "f77", "f90", "f95",
    "f03", "f08", "d", "zig", "nim", "adb", "ads", "pas", "swift", "java", "kt", "scala", "js",
    "mjs", "ts", "py", "rb", "ml", "hs", "y",
];

/// Text of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// Lines, without line ends, NUL and line feeds. Otherwise unsanitized.
    pub lines: Vec<String>,
    /// Path of the file; `None` if it came from a server.
    pub path: Option<PathBuf>,
}

/// Reason why a source file is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceRefusal {
    /// No file exists at the path that the debug information names.
    #[error("no such file here; --source-path DIR names the folder of the sources")]
    NoSuchFile,
    /// The file has no source code suffix.
    #[error("its name does not look like source code; --source-path DIR allows it")]
    NotNamedLikeSource,
    /// A path component begins with a dot, outside of package registries.
    #[error("it is in a hidden folder; --source-path DIR allows it")]
    Hidden,
    /// The owner is neither root nor the user, or the file is world-writable.
    #[error("it belongs to another user; --source-path DIR allows it")]
    NotOurs,
    /// Opening failed.
    #[error("{0}")]
    NotOpened(OpenError),
    /// The file exceeds 8 MiB.
    #[error("it is larger than 8 MiB")]
    TooLong,
    /// The file contains a NUL.
    #[error("it is not text")]
    NotText,
    /// The limit on the number of files is reached.
    #[error("too many files")]
    TooMany,
}

/// Provider of missing files, by build ID and path in the debug information.
pub trait RemoteSources {
    /// Returns a file, or `None` if it is unavailable.
    fn source(&self, build_id: &BuildId, path: &str) -> Option<Vec<u8>>;
}

type Found = Result<Arc<SourceText>, SourceRefusal>;

/// Cache of source files.
#[derive(Default)]
pub struct Sources<'a> {
    /// Path prefixes, each with its replacement folder.
    mappings: Vec<(String, PathBuf)>,
    roots: Vec<PathBuf>,
    current: Option<PathBuf>,
    remote: Option<&'a dyn RemoteSources>,
    known: FxHashMap<(String, Option<BuildId>), Found>,
}

impl<'a> Sources<'a> {
    /// Creates a cache that also searches below the current folder.
    pub fn new() -> Sources<'a> {
        Sources {
            current: std::env::current_dir().ok(),
            ..Sources::default()
        }
    }

    /// Adds a folder with readable files, which match by whole path or by the end of the path.
    pub fn add_root(&mut self, folder: impl Into<PathBuf>) {
        self.roots.push(folder.into());
    }

    /// Replaces a prefix of paths in debug information with a folder.
    pub fn add_mapping(&mut self, prefix: &str, folder: impl Into<PathBuf>) {
        let prefix = prefix.trim_end_matches('/').to_owned();
        self.mappings.push((prefix, folder.into()));
    }

    /// Sets the provider of files that are missing on this machine.
    pub fn set_remote(&mut self, remote: &'a dyn RemoteSources) {
        self.remote = Some(remote);
    }

    /// Finds the text of a file that the debug information of a program names.
    ///
    /// # Errors
    /// Fails with [`SourceRefusal`].
    pub fn find(&mut self, path: &str, build_id: Option<&BuildId>) -> Found {
        let key = (path.to_owned(), build_id.copied());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        if self.known.len() >= MAX_FILES {
            return Err(SourceRefusal::TooMany);
        }
        let found = self.read(path, build_id);
        self.known.insert(key, found.clone());
        found
    }

    fn read(&self, path: &str, build_id: Option<&BuildId>) -> Found {
        let why = match self.read_here(path) {
            Ok(text) => return Ok(text),
            Err(why) => why,
        };
        let fetched = self.remote.zip(build_id);
        match fetched.and_then(|(remote, id)| remote.source(id, path)) {
            Some(bytes) => text(&bytes, None),
            None => Err(why),
        }
    }

    fn read_here(&self, stated: &str) -> Found {
        let path = without_dots(Path::new(stated));
        for (prefix, folder) in &self.mappings {
            let without_dots = path.to_string_lossy();
            let mut spellings = [stated, &without_dots].into_iter();
            let rest = spellings.find_map(|stated| {
                let rest = stated.strip_prefix(prefix.as_str())?;
                rest.starts_with('/').then_some(rest)
            });
            if let Some(rest) = rest
                && let Some(found) = if_there(below(folder, Path::new(rest)))
            {
                return found;
            }
        }
        for root in &self.roots {
            if let Some(found) = ends(&path, 1).find_map(|end| if_there(below(root, &end))) {
                return found;
            }
        }
        let mut why = SourceRefusal::NoSuchFile;
        // The base of a relative path is unknown.
        if path.is_absolute() {
            match named_by_program(&path, self.current.as_deref()) {
                Err(refusal) => why = refusal,
                found => return found,
            }
        }
        // The build may come from another copy of this tree. A file name alone is too weak a match.
        if let Some(current) = &self.current {
            let here = ends(&path, 2).map(|end| current.join(end));
            let mut found = here.map(|path| named_by_program(&path, Some(current)));
            if let Some(Ok(text)) = found.find(Result::is_ok) {
                return Ok(text);
            }
        }
        Err(why)
    }
}

fn if_there(found: Found) -> Option<Found> {
    (found != Err(SourceRefusal::NoSuchFile)).then_some(found)
}

/// Reads a file that only the program names. Components of the current folder may be hidden.
fn named_by_program(path: &Path, current: Option<&Path>) -> Found {
    let is_system = SYSTEM.iter().any(|folder| path.starts_with(folder));
    let suffix = path
        .extension()
        .and_then(OsStr::to_str)
        .map(str::to_ascii_lowercase);
    let is_source = suffix.is_some_and(|suffix| SUFFIXES.contains(&&*suffix));
    let inside = current.and_then(|current| path.strip_prefix(current).ok());
    let refusal = match () {
        () if !is_system && !is_source => Some(SourceRefusal::NotNamedLikeSource),
        () if is_hidden(inside.unwrap_or(path)) => Some(SourceRefusal::Hidden),
        () => None,
    };
    if let Some(refusal) = refusal {
        // Reports a missing file as missing, whatever its name.
        return Err(match path.symlink_metadata() {
            Ok(_) => refusal,
            Err(_) => SourceRefusal::NoSuchFile,
        });
    }
    let user = std::iter::once(FileView::of_user());
    let mut result = Err(SourceRefusal::NoSuchFile);
    for view in user.chain(FileView::of_sudo_user()) {
        let view = view.map_err(|error| SourceRefusal::NotOpened(error.into()))?;
        result = opened(&view, path).and_then(|file| match file.is_ours() {
            true => read(&file, path),
            false => Err(SourceRefusal::NotOurs),
        });
        if result != Err(SourceRefusal::NotOpened(OpenError::PermissionDenied)) {
            break;
        }
    }
    result
}

/// Returns true if a component is hidden, outside of package registries.
fn is_hidden(path: &Path) -> bool {
    let starts_with_dot = |part: &OsStr| part.as_encoded_bytes().starts_with(b".");
    let parts: Vec<&OsStr> = path.iter().collect();
    let mut at = 0;
    while let Some(part) = parts.get(at) {
        if starts_with_dot(part) {
            let registry = REGISTRIES.iter().map(|registry| Path::new(registry).iter());
            let mut lengths = registry.filter_map(|registry| {
                let registry: Vec<&OsStr> = registry.collect();
                parts[at..].starts_with(&registry).then_some(registry.len())
            });
            match lengths.next() {
                Some(length) => at += length,
                None => return true,
            }
        } else {
            at += 1;
        }
    }
    false
}

/// Reads a file below a folder. The path cannot leave the folder.
fn below(folder: &Path, path: &Path) -> Found {
    let view = FileView::beneath(folder);
    let view = view.map_err(|error| SourceRefusal::NotOpened(error.into()))?;
    let inside = Path::new("/").join(path.strip_prefix("/").unwrap_or(path));
    let shown = folder.join(inside.strip_prefix("/").unwrap_or(&inside));
    read(&opened(&view, &inside)?, &shown)
}

fn opened(view: &FileView, path: &Path) -> Result<RegularFile, SourceRefusal> {
    let refused = |error| match error {
        OpenError::NoSuchFile => SourceRefusal::NoSuchFile,
        error => SourceRefusal::NotOpened(error),
    };
    let located = view.locate(path).map_err(refused)?;
    view.open(&located).map_err(refused)
}

fn read(file: &RegularFile, shown: &Path) -> Found {
    let read = file.read_all(MAX_BYTES);
    let bytes = read.map_err(|error| match error.raw_os_error() {
        // EFBIG.
        Some(27) => SourceRefusal::TooLong,
        _ => SourceRefusal::NotOpened(error.into()),
    })?;
    text(&bytes, Some(shown.to_owned()))
}

fn text(bytes: &[u8], path: Option<PathBuf>) -> Found {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SourceRefusal::TooLong);
    }
    if bytes.contains(&0) {
        return Err(SourceRefusal::NotText);
    }
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::to_owned).collect();
    Ok(Arc::new(SourceText { lines, path }))
}

fn ends(path: &Path, least: usize) -> impl Iterator<Item = PathBuf> + '_ {
    let parts: Vec<&OsStr> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(part) => Some(part),
            _ => None,
        })
        .collect();
    let count = parts.len().saturating_sub(least - 1);
    (0..count).map(move |from| parts[from..].iter().collect())
}

/// Resolves `.` and `..` lexically, as compilers do.
fn without_dots(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn visible_folder() -> tempfile::TempDir {
        let mut builder = tempfile::Builder::new();
        builder.prefix("sources").tempdir().unwrap()
    }

    fn folder() -> tempfile::TempDir {
        let folder = visible_folder();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(folder.path(), private).unwrap();
        std::fs::create_dir_all(folder.path().join("src/a")).unwrap();
        std::fs::write(folder.path().join("src/a/main.c"), "int main;\nreturn\n").unwrap();
        std::fs::write(folder.path().join("src/secret"), "x").unwrap();
        std::fs::write(folder.path().join("src/a/nul.c"), "a\0b").unwrap();
        symlink("/etc/passwd", folder.path().join("src/a/link.c")).unwrap();
        folder
    }

    fn find(sources: &mut Sources<'_>, path: &str) -> Result<usize, SourceRefusal> {
        sources.find(path, None).map(|text| text.lines.len())
    }

    #[test]
    fn files_are_found_by_mapping_by_root_and_by_the_end_of_their_path() {
        let folder = folder();
        let mut mapped = Sources::default();
        mapped.add_mapping("/build/x/", folder.path().join("src"));
        assert_eq!(find(&mut mapped, "/build/x/a/main.c"), Ok(2));
        assert_eq!(
            find(&mut mapped, "/build/xy/a/main.c"),
            Err(SourceRefusal::NoSuchFile)
        );
        let mut root = Sources::default();
        root.add_root(folder.path());
        assert_eq!(
            find(&mut root, "/somewhere/else/src/./b/../a/main.c"),
            Ok(2)
        );
        let mut current = Sources {
            current: Some(folder.path().join("src")),
            ..Sources::default()
        };
        assert_eq!(find(&mut current, "/elsewhere/a/main.c"), Ok(2));
        assert_eq!(find(&mut current, "main.c"), Err(SourceRefusal::NoSuchFile));
    }

    #[test]
    fn what_a_program_names_is_read_only_where_it_may_be_source() {
        let mut sources = Sources::default();
        for path in ["/etc/passwd", "/proc/self/environ", "/dev/zero"] {
            let refusal = find(&mut sources, path).unwrap_err();
            assert_eq!(refusal, SourceRefusal::NotNamedLikeSource, "{path}");
        }
        let folder = folder();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let link = find(&mut sources, &path("src/a/link.c")).unwrap_err();
        assert!(matches!(link, SourceRefusal::NotOpened(_)), "{link:?}");
        let secret = find(&mut sources, &path("src/secret")).unwrap_err();
        assert_eq!(secret, SourceRefusal::NotNamedLikeSource);
        assert_eq!(find(&mut sources, &path("src/a/main.c")), Ok(2));
        let mut named = Sources::default();
        named.add_root(folder.path().join("src"));
        assert_eq!(find(&mut named, &path("src/secret")), Ok(1));
        assert_eq!(
            find(&mut named, &path("src/a/nul.c")),
            Err(SourceRefusal::NotText)
        );
    }

    #[test]
    fn files_below_the_current_folder_are_held_to_the_same_rule() {
        let folder = folder();
        for (name, text) in [
            (".git/config", "token"),
            (".ssh/key.c", "key"),
            ("etc/shadow", "x"),
        ] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut sources = Sources {
            current: Some(folder.path().to_owned()),
            ..Sources::default()
        };
        let here = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for name in [".git/config", ".ssh/key.c", "etc/shadow"] {
            for path in [here(name), format!("/build/{name}"), name.to_owned()] {
                assert!(find(&mut sources, &path).is_err(), "{path}");
            }
        }
        assert_eq!(
            find(&mut sources, &here(".ssh/key.c")),
            Err(SourceRefusal::Hidden)
        );
        assert_eq!(find(&mut sources, "/build/src/a/main.c"), Ok(2));
    }

    #[test]
    fn hidden_components_are_allowed_in_registries_only() {
        for (path, hidden) in [
            ("/root/.cargo/registry/src/index/a-1.0/src/lib.rs", false),
            ("/root/.rustup/toolchains/stable/lib/core.rs", false),
            ("/root/.cargo/credentials.rs", true),
            ("/root/.cargo/registry/.hidden/lib.rs", true),
            ("/home/x/.ssh/key.c", true),
            ("/home/x/src/.main.c", true),
            ("/home/x/src/main.c", false),
        ] {
            assert_eq!(is_hidden(Path::new(path)), hidden, "{path}");
        }
    }

    #[test]
    fn files_of_other_users_need_to_be_named() {
        rprof_testing::needs!(Root);
        let folder = visible_folder();
        let path = folder.path().join("main.c");
        std::fs::write(&path, "int main;\n").unwrap();
        for (owner, mode, expected) in [
            (65534, 0o644, Err(SourceRefusal::NotOurs)),
            (
                65534,
                0o600,
                Err(SourceRefusal::NotOpened(OpenError::PermissionDenied)),
            ),
            (0, 0o666, Err(SourceRefusal::NotOurs)),
            (0, 0o600, Ok(1)),
        ] {
            std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = find(&mut Sources::default(), path.to_str().unwrap());
            assert_eq!(found, expected, "{owner} {mode:o}");
        }
        let mut named = Sources::default();
        named.add_root(folder.path());
        assert_eq!(find(&mut named, path.to_str().unwrap()), Ok(1));
    }

    #[test]
    fn nothing_leads_out_of_a_folder() {
        let folder = folder();
        let mut sources = Sources::default();
        sources.add_mapping("/x", folder.path().join("src/a"));
        for path in ["/x/../secret", "/x/../../src/secret"] {
            assert!(find(&mut sources, path).is_err(), "{path}");
        }
        symlink("/etc", folder.path().join("src/a/out")).unwrap();
        assert!(find(&mut sources, "/x/out/passwd").is_err());
    }
}
