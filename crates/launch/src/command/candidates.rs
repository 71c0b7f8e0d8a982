//! Files that a program name may refer to (execvp(3)).

use rustix::fs::{Access, access};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// `_CS_PATH`, confstr(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Returns the files to try. A name with a slash refers to itself; an empty name to no file.
pub(super) fn for_program(program: &OsStr, path: Option<&OsStr>) -> Vec<OsString> {
    let name = program.as_bytes();
    if name.is_empty() {
        return Vec::new();
    }
    if name.contains(&b'/') {
        return vec![program.to_owned()];
    }
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes();
    path.split(|byte| *byte == b':')
        .map(|folder| {
            // An empty part is the current folder.
            let mut file = folder.to_vec();
            if !file.is_empty() && !file.ends_with(b"/") {
                file.push(b'/');
            }
            file.extend_from_slice(name);
            OsString::from_vec(file)
        })
        .collect()
}

/// Returns the file that a [`Launcher`](super::Launcher) would execute now: a name with a slash as
/// it is, or else the first executable file of that name in PATH.
pub fn find_program(program: &OsStr) -> Option<PathBuf> {
    let files = for_program(program, std::env::var_os("PATH").as_deref());
    let is_searched = !program.as_bytes().contains(&b'/');
    let may_run = |file: &Path| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    let mut files = files.into_iter().map(PathBuf::from);
    files.find(|file| !is_searched || may_run(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(program: &str, path: Option<&str>) -> Vec<OsString> {
        for_program(OsStr::new(program), path.map(OsStr::new))
    }

    #[test]
    fn names_are_searched_in_path_as_by_execvp() {
        assert_eq!(files("ls", Some("/a:/b/")), ["/a/ls", "/b/ls"]);
        assert_eq!(files("ls", Some(":/a:")), ["ls", "/a/ls", "ls"]);
        assert_eq!(files("ls", None), ["/bin/ls", "/usr/bin/ls"]);
        assert_eq!(files("./ls", Some("/a")), ["./ls"]);
        assert!(files("", Some("/a")).is_empty());
    }

    #[test]
    fn a_program_is_found_where_it_may_be_executed() {
        let find = |name| find_program(OsStr::new(name));
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("./sh"), Some(PathBuf::from("./sh")));
        assert_eq!((find("no-such-program-here"), find("")), (None, None));
    }
}
