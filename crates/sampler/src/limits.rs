//! What the system administrator allows: `/proc/sys/kernel/perf_event_*`.

use std::path::Path;

/// The kernel's settings for perf events (perf_event_open(2), "perf_event related
/// configuration files"). `None` where the file is missing, as it is when the
/// kernel was built without perf events or /proc is not mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `perf_event_paranoid`: what users without CAP_PERFMON may do. From -1 (all)
    /// over 1 (own processes), 2 (own processes, user side) to distributions' 3 or 4 (nothing).
    pub paranoid: Option<i32>,
    /// `perf_event_max_sample_rate`: samples a second and CPU that an event may ask for. It binds root
    /// as well, and the kernel lowers it by itself when sampling takes too much time.
    pub max_sample_rate: Option<u64>,
    /// `perf_event_mlock_kb`: KiB of ring buffer for each CPU and user.
    pub mlock_kib: Option<u64>,
    /// `perf_event_max_stack`: most addresses in a callchain.
    pub max_stack: Option<u16>,
}

impl Limits {
    /// Reads the settings as they are now.
    pub fn read() -> Limits {
        Limits::read_from(Path::new("/proc/sys/kernel"))
    }

    fn read_from(folder: &Path) -> Limits {
        fn value<T: std::str::FromStr>(folder: &Path, name: &str) -> Option<T> {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            text.trim().parse().ok()
        }
        Limits {
            paranoid: value(folder, "perf_event_paranoid"),
            max_sample_rate: value(folder, "perf_event_max_sample_rate"),
            mlock_kib: value(folder, "perf_event_mlock_kb"),
            max_stack: value(folder, "perf_event_max_stack"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_odd_files_are_no_value() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("perf_event_paranoid"), "-1\n").unwrap();
        std::fs::write(folder.path().join("perf_event_max_stack"), "many\n").unwrap();
        let limits = Limits::read_from(folder.path());
        assert_eq!(limits.paranoid, Some(-1));
        assert_eq!((limits.max_stack, limits.mlock_kib), (None, None));
    }
}
