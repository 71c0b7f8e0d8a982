//! Packages that files were installed by, from the package manager's own database.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Package manager that owns a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owner {
    /// Debian's and its relatives', with the name of the package.
    Dpkg(String),
    /// That of Fedora, SUSE and their relatives, with the name of the package where `rpm` tells it.
    Rpm(Option<String>),
}

/// Owners of objects that were asked for. Finding one reads thousands of lists, or runs a program, and views that are made anew every
/// two seconds ask for the same ones again and again.
static KNOWN: Mutex<BTreeMap<String, Option<Owner>>> = Mutex::new(BTreeMap::new());

/// Most objects whose owners are kept.
const MOST_KNOWN: usize = 1000;

/// Returns who owns an object, if it is a file of a package.
pub(crate) fn owner_of(object: &str) -> Option<Owner> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(owner) = known.get(object) {
        return owner.clone();
    }
    let owner = look_up(object);
    if known.len() < MOST_KNOWN {
        known.insert(object.to_owned(), owner.clone());
    }
    owner
}

fn look_up(object: &str) -> Option<Owner> {
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
    (is_installed && has_rpm).then(|| Owner::Rpm(asked(Path::new("/usr/bin/rpm"), object)))
}

/// Longest that `rpm` may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks rpm for the package that has a path. Its database has had several forms, so the program is asked, and not the
/// one that PATH names, where others may put theirs.
fn asked(rpm: &Path, object: &str) -> Option<String> {
    asked_with(rpm, &[], object)
}

fn asked_with(program: &Path, first: &[&str], object: &str) -> Option<String> {
    let mut child = (Command::new(program).env_clear())
        .args(first)
        .args(["-qf", "--qf", "%{NAME}\\n", "--", object])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if begin.elapsed() > PATIENCE => {
                child.kill().ok();
                child.wait().ok();
                return None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut text = String::new();
    let answer = child
        .stdout
        .take()?
        .take(MOST_ANSWER)
        .read_to_string(&mut text);
    answer.ok().filter(|_| status.success())?;
    let name = text.lines().next()?.trim();
    // Not "file /x is not owned by any package".
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+-._~".contains(c);
    (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
}

/// Bytes of an answer that are read.
const MOST_ANSWER: u64 = 4096;

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
    fn rpm_is_asked_for_the_package_of_a_path() {
        let folder = tempfile::tempdir().unwrap();
        // Scripts, run by a shell that is named: a file that was just written may still be open elsewhere.
        let asked_of = |script: &str| {
            let path = folder.path().join("rpm");
            std::fs::write(&path, script).unwrap();
            let shell = folder.path().join("sh");
            std::os::unix::fs::symlink("/bin/sh", &shell).ok();
            asked_with(&shell, &[path.to_str().unwrap()], "/usr/lib64/libz.so.1")
        };
        let echo =
            "[ \"$*\" = '-qf --qf %{NAME}\\n -- /usr/lib64/libz.so.1' ] && echo zlib-ng-compat";
        assert_eq!(asked_of(echo), Some("zlib-ng-compat".into()));
        assert_eq!(
            asked_of("echo 'file /x is not owned by any package'; exit 1"),
            None
        );
        assert_eq!(asked_of("echo 'file /x is not owned by any package'"), None);
        assert_eq!(asked_of("printf '\\033[2J\\n'"), None);
        assert_eq!(asked_of("exit 0"), None);
        assert_eq!(asked(&folder.path().join("missing"), "/x"), None);
    }

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
