//! [`Mount`]: `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::path::PathBuf;

/// Mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// Mount point, as seen by this process.
    pub path: PathBuf,
    /// File system type, such as `cgroup2`.
    pub kind: String,
    /// Options of the file system itself, such as a cgroup hierarchy's controllers.
    pub options: Vec<String>,
}

impl Mount {
    /// Lists the file systems visible to this process; none without /proc.
    pub fn all() -> Vec<Mount> {
        let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        Mount::parse_all(&String::from_utf8_lossy(&text))
    }

    /// Parses a mountinfo. Skips invalid lines.
    pub(crate) fn parse_all(mountinfo: &str) -> Vec<Mount> {
        mountinfo.lines().filter_map(Mount::parse).collect()
    }

    fn parse(line: &str) -> Option<Mount> {
        // The number of fields before ` - ` varies.
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let kind = after.next()?.to_owned();
        let options = after.nth(1).unwrap_or_default();
        Some(Mount {
            path: PathBuf::from(unescape(before.split(' ').nth(4)?)),
            kind,
            options: options.split(',').map(str::to_owned).collect(),
        })
    }
}

/// Decodes octal escapes.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, sign)| {
        text.replace(code, sign)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_and_escapes_are_understood() {
        let text = "30 25 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n\
            nonsense\n1 2 3 - \n\
            32 25 0:27 / /cg\\040v1 rw - cgroup cgroup rw,perf_event\n";
        let mounts = Mount::parse_all(text);
        let shown: Vec<_> = (mounts.iter())
            .map(|m| (m.path.to_str().unwrap(), m.kind.as_str(), m.options.len()))
            .collect();
        assert_eq!(
            shown,
            [
                ("/sys/fs/cgroup/unified", "cgroup2", 1),
                ("/cg v1", "cgroup", 2)
            ]
        );
        assert!(Mount::all().iter().any(|mount| mount.kind == "proc"));
    }
}
