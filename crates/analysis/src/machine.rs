//! Compares the recording machine with this one.

use std::path::Path;

use rprof_perfdata::{Feature, PerfData};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedMachine {
    /// True if host name and kernel release are equal.
    pub(crate) is_here: bool,
    pub(crate) is_from_before_boot: bool,
}

impl RecordedMachine {
    pub(crate) fn of(data: &PerfData) -> RecordedMachine {
        RecordedMachine {
            is_here: is_of_this_machine(data),
            is_from_before_boot: is_from_before_boot(data.path()),
        }
    }
}

/// Returns true if a file is older than this machine's boot. The kernel may have another address
/// since (KASLR).
fn is_from_before_boot(path: &Path) -> bool {
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

fn is_of_this_machine(data: &PerfData) -> bool {
    let same = |feature, file| {
        let here = std::fs::read_to_string(file).unwrap_or_default();
        let there = data.features().string(feature);
        there.is_some_and(|there| there == here.trim_end() && !there.is_empty())
    };
    same(Feature::HOSTNAME, "/proc/sys/kernel/hostname")
        && same(Feature::OSRELEASE, "/proc/sys/kernel/osrelease")
}
