use std::fs;
use std::path::Path;

/// Returns the machine's memory in bytes, or a lower limit of the control group.
pub(crate) fn memory_limit() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    limit_by(&read)
}

fn limit_by(read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| {
        let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
        let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    });
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| group_limits(line, read));
    limits.chain(machine).min()
}

/// Returns the limits of a control group and its ancestors, from a line of `/proc/self/cgroup`:
/// `ID:CONTROLLERS:PATH`.
fn group_limits(line: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        names if names.split(',').any(|name| name == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    // A container may see its own group as the root, with any path.
    let path = Path::new(path.trim_start_matches('/'));
    let groups = path.ancestors().map(|group| Path::new(root).join(group));
    let number = |group: std::path::PathBuf| read(&group.join(file))?.trim().parse().ok();
    groups.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        limit_by(&|path| Some((*files.get(path.to_str()?)?).to_owned()))
    }

    const MACHINE: (&str, &str) = ("/proc/meminfo", "MemTotal:       1024 kB\nMemFree: 5 kB\n");

    #[test]
    fn the_lowest_limit_of_machine_and_groups_counts() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[MACHINE]), Some(1 << 20));
        let unified = ("/proc/self/cgroup", "0::/a/b\n");
        let files = [MACHINE, unified];
        assert_eq!(limit(&files), Some(1 << 20));
        let inner = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        let outer = ("/sys/fs/cgroup/a/memory.max", "4096\n");
        assert_eq!(limit(&[MACHINE, unified, inner, outer]), Some(4096));
        let own = ("/sys/fs/cgroup/memory.max", "512\n");
        assert_eq!(
            limit(&[MACHINE, ("/proc/self/cgroup", "0::/\n"), own]),
            Some(512)
        );
        let v1 = ("/proc/self/cgroup", "9:cpu:/x\n4:memory:/x\n0::/\n");
        let x = ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "8192");
        let cpu = ("/sys/fs/cgroup/cpu/x/memory.limit_in_bytes", "1");
        assert_eq!(limit(&[MACHINE, v1, x, cpu]), Some(8192));
    }

    #[test]
    fn this_process_may_have_some() {
        assert!(memory_limit().unwrap() > 16 << 20);
    }
}
