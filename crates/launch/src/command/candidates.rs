//! Files that a program's name may mean (execvp(3)).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// PATH where the environment has none (`_CS_PATH`, confstr(3)).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Returns the files to try, in order. A name with a slash means just itself; an empty
/// name means no file.
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
}
