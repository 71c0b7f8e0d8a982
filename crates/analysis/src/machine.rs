//! Whether a recording is of the machine that reads it.

use std::path::Path;

use rprof_perfdata::{Feature, PerfData};

/// Whether a file is older than what this machine runs since: the kernel may have been put
/// elsewhere then (KASLR), also where it is the same build.
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

/// Whether host and kernel release of a recording are those of this machine.
pub(crate) fn is_of_this_machine(data: &PerfData) -> bool {
    let same = |feature, file| {
        let here = std::fs::read_to_string(file).unwrap_or_default();
        let there = data.features().string(feature);
        there.is_some_and(|there| there == here.trim_end() && !there.is_empty())
    };
    same(Feature::HOSTNAME, "/proc/sys/kernel/hostname")
        && same(Feature::OSRELEASE, "/proc/sys/kernel/osrelease")
}
