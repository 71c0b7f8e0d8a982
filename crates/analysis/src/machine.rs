//! Comparison of a recording's machine with the one that reads it.

use std::path::Path;

use rprof_perfdata::{Feature, PerfData};

/// Returns true if a file is older than this machine's boot: then the kernel, even of the same
/// build, may lie at another address (KASLR).
pub(crate) fn is_from_before_boot(path: &Path) -> bool {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let boot = stat.lines().find_map(|line| line.strip_prefix("btime "));
    let boot: Option<u64> = boot.and_then(|seconds| seconds.trim().parse().ok());
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    let written = written.ok().and_then(|time| {
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(since.as_secs())
    });
    matches!((boot, written), (Some(boot), Some(written)) if written + 5 < boot)
}

/// Returns true if host and kernel release of a recording are this machine's.
pub(crate) fn is_of_this_machine(data: &PerfData) -> bool {
    let same = |feature, file| {
        let here = std::fs::read_to_string(file).unwrap_or_default();
        let there = data.features().string(feature);
        there.is_some_and(|there| there == here.trim_end() && !there.is_empty())
    };
    same(Feature::HOSTNAME, "/proc/sys/kernel/hostname")
        && same(Feature::OSRELEASE, "/proc/sys/kernel/osrelease")
}
