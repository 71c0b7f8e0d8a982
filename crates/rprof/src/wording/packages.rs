//! Finds the package of a file in the package manager's database.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Package manager and package of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Owner {
    /// Debian and derivatives, with the package name.
    Dpkg(String),
    /// Fedora, SUSE and derivatives, with the package name if `rpm` returns it.
    Rpm(Option<String>),
}

/// Cache of owners: a lookup is slow, and live views repeat it every two seconds.
static KNOWN: Mutex<BTreeMap<String, Option<Owner>>> = Mutex::new(BTreeMap::new());

const MAX_KNOWN: usize = 1000;

/// Returns the owner of an object, if any. Without `in_all`, searches only packages with a similar
/// name: all take some 30 ms.
pub(crate) fn owner_of(object: &str, in_all: bool) -> Option<Owner> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(owner) = known.get(object) {
        return owner.clone();
    }
    let owner = look_up(object, in_all);
    if known.len() < MAX_KNOWN && (in_all || owner.is_some()) {
        known.insert(object.to_owned(), owner.clone());
    }
    owner
}

fn look_up(object: &str, in_all: bool) -> Option<Owner> {
    if !object.starts_with('/') {
        return None;
    }
    let dpkg = Path::new("/var/lib/dpkg/info");
    if dpkg.is_dir() {
        return package_of(dpkg, object, in_all).map(Owner::Dpkg);
    }
    let is_installed = object.starts_with("/usr/") || object.starts_with("/lib");
    let has_rpm = ["/usr/lib/sysimage/rpm", "/var/lib/rpm"]
        .iter()
        .any(|p| Path::new(p).is_dir());
    (in_all && is_installed && has_rpm)
        .then(|| Owner::Rpm(asked(Path::new("/usr/bin/rpm"), object)))
}

/// Time limit for an answer of rpm.
const MAX_RPM_TIME: Duration = Duration::from_secs(5);

/// Asks rpm, as its database has had several formats. Runs /usr/bin/rpm, because PATH may name
/// another program.
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
            None if begin.elapsed() > MAX_RPM_TIME => {
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
        .take(MAX_ANSWER)
        .read_to_string(&mut text);
    answer.ok().filter(|_| status.success())?;
    let name = text.lines().next()?.trim();
    // Not "file /x is not owned by any package".
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+-._~".contains(c);
    (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
}

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: u64 = 4096;

/// Folders without package files: the Debian policy (section 9.1) reserves them for the
/// administrator.
const WITHOUT_PACKAGES: [&str; 9] = [
    "/home/",
    "/root/",
    "/tmp/",
    "/var/tmp/",
    "/usr/local/",
    "/dev/",
    "/proc/",
    "/run/",
    "/sys/",
];

/// Number of lists read before the others are searched in parallel.
const LIKELY: usize = 12;

/// Returns the package that lists a path; `folder` is dpkg's `info`.
///
/// Lists may hold the path from before `/lib` became a link to `/usr/lib`. A thousand lists have
/// some 10 MB, so packages with similar names come first, and others only if `in_all`.
fn package_of(folder: &Path, object: &str, in_all: bool) -> Option<String> {
    let real = std::fs::canonicalize(object).ok();
    let real = real.as_deref().and_then(Path::to_str).unwrap_or(object);
    let may_be = |path: &str| {
        !WITHOUT_PACKAGES
            .iter()
            .any(|folder| path.starts_with(folder))
    };
    if ![object, real].into_iter().any(may_be) {
        return None;
    }
    let mut paths = vec![object, real];
    for path in [object, real] {
        paths.extend(
            path.strip_prefix("/usr")
                .filter(|rest| rest.starts_with('/')),
        );
    }
    let file_name = |path: &str| format!("/{}\n", path.rsplit('/').next().unwrap_or(path));
    let mut line_ends = [object, real].map(file_name).to_vec();
    line_ends.dedup();
    let wanted = Wanted { paths, line_ends };
    let mut lists: Vec<String> = (std::fs::read_dir(folder).ok()?.flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".list"))
        .collect();
    let wanted_name = letters_of_file(real);
    lists.sort_by_cached_key(|list| {
        let package = letters(package_name(list));
        let same = (package.iter().zip(&wanted_name)).take_while(|(a, b)| a == b);
        (Reverse(same.count()), package.len(), list.clone())
    });
    let (likely, others) = lists.split_at(LIKELY.min(lists.len()));
    let mut text = Vec::new();
    let mut has = |list: &&String| wanted.is_in(&folder.join(list), &mut text);
    if let Some(list) = likely.iter().find(&mut has) {
        return Some(package_name(list).to_owned());
    }
    if !in_all {
        return None;
    }
    // Several packages may list a path (a packaging error): always return the same one.
    let first = AtomicUsize::new(usize::MAX);
    rprof_parallel::run(rprof_parallel::available(), others.len(), |queue| {
        let mut text = Vec::new();
        while let Some(number) = queue.next() {
            if first.load(Ordering::Relaxed) < number {
                break;
            }
            if wanted.is_in(&folder.join(&others[number]), &mut text) {
                first.fetch_min(number, Ordering::Relaxed);
            }
        }
    });
    let list = others.get(first.into_inner())?;
    Some(package_name(list).to_owned())
}

struct Wanted<'a> {
    paths: Vec<&'a str>,
    line_ends: Vec<String>,
}

impl Wanted<'_> {
    /// Returns true if a list holds one of the paths. `text` is a buffer.
    fn is_in(&self, list: &Path, text: &mut Vec<u8>) -> bool {
        text.clear();
        let read = File::open(list).and_then(|mut file| file.read_to_end(text));
        // Most lists lack the file name.
        let has = |end: &String| memchr::memmem::find(text, end.as_bytes()).is_some();
        if read.is_err() || !self.line_ends.iter().any(has) {
            return false;
        }
        let mut lines = text.split(|byte| *byte == b'\n');
        lines.any(|line| self.paths.iter().any(|path| path.as_bytes() == line))
    }
}

/// Returns the package of a list: `zlib1g` for `zlib1g:amd64.list`.
fn package_name(list: &str) -> &str {
    let name = list.strip_suffix(".list").unwrap_or(list);
    name.split(':').next().unwrap_or(name)
}

/// Returns the letters that a library shares with its package name, as `libgcc_s.so.1` and
/// `libgcc-s1`.
fn letters_of_file(path: &str) -> Vec<u8> {
    let name = path.rsplit('/').next().unwrap_or(path);
    letters(&name.replacen(".so", "", 1))
}

fn letters(name: &str) -> Vec<u8> {
    let name = name.strip_prefix("lib").unwrap_or(name);
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'+';
    let name = name.bytes().filter(is_letter);
    name.map(|byte| byte.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rpm_is_asked_for_the_package_of_a_path() {
        let folder = tempfile::tempdir().unwrap();
        // A freshly written script may still be open elsewhere.
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
        let of = |object| package_of(folder.path(), object, true);
        assert_eq!(of("/usr/lib/nowhere/libz.so.1"), Some("zlib1g".into()));
        assert_eq!(of("/lib/nowhere/libz.so.1"), Some("zlib1g".into()));
        assert_eq!(of("/usr/lib/libq.so.1"), None);
        assert_eq!(owner_of("[kernel.kallsyms]", true), None);
    }

    #[test]
    fn a_file_is_found_in_the_last_of_many_packages() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..100 {
            let text = format!("/.\n/usr/bin/tool{number}\n/opt/odd\nno path \u{fffd}\n");
            std::fs::write(folder.path().join(format!("p{number:02}.list")), text).unwrap();
        }
        std::fs::write(
            folder.path().join("tool.list"),
            b"/usr/bin/\xff\n/usr/bin/x\n",
        )
        .unwrap();
        let of = |object: &str| package_of(folder.path(), object, true);
        for number in 0..100 {
            let package = Some(format!("p{number:02}"));
            assert_eq!(of(&format!("/usr/bin/tool{number}")), package);
        }
        assert_eq!(
            of("/usr/bin/x"),
            Some("tool".into()),
            "not all of it is text"
        );
        assert_eq!(of("/usr/bin/tool"), None);
        assert_eq!(of("/opt/odd"), Some("p00".into()), "the first of several");
        assert_eq!(of("/usr/local/bin/tool1"), None);
    }

    #[test]
    fn packages_of_similar_names_are_looked_at_first() {
        let same = |path: &str, list: &str| {
            let package = letters(package_name(list));
            letters_of_file(path).starts_with(&package)
        };
        for (path, list) in [
            (
                "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
                "libgcc-s1:amd64.list",
            ),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc6:amd64.list"),
            (
                "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30",
                "libstdc++6:amd64.list",
            ),
            (
                "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
                "libllvm14:amd64.list",
            ),
            ("/usr/bin/python3.11", "python3.11.list"),
        ] {
            assert!(same(path, list), "{path} {list}");
        }
    }
}
