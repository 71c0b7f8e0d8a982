//! Compares the recording machine with this one.

use std::path::Path;
use std::time::Duration;

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
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    let after = written
        .ok()
        .and_then(|time| time.checked_add(Duration::from_secs(5)));
    matches!((after, rprof_jit::boot_time()), (Some(after), Some(boot)) if after < boot)
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
