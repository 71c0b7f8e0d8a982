//! System limits on perf events: `/proc/sys/kernel/perf_event_*`, capabilities, seccomp and the
//! limit on open files.

use rprof_records::{Attr, AttrFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

/// Returns a clause with the value of `perf_event_paranoid`.
pub fn paranoid_text(paranoid: Option<i32>) -> String {
    match paranoid {
        Some(level) => format!("kernel.perf_event_paranoid is {level}"),
        None => "the kernel's setting is unknown".to_owned(),
    }
}

/// Settings for perf events (perf_event_open(2), "perf_event related configuration files"), and
/// rights of this process. `None` if a file is missing: the kernel lacks perf events, or /proc is
/// not mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `perf_event_paranoid`: rights of users without CAP_PERFMON, from -1 (all) over 1 (own
    /// processes) and 2 (own processes in user mode) to 3 or 4 of some distributions (none).
    pub paranoid: Option<i32>,
    /// `perf_event_max_sample_rate`: maximum samples per second and CPU of an event, even for root.
    /// The kernel lowers it if sampling takes too much time.
    pub max_sample_rate: Option<u64>,
    /// `perf_event_mlock_kb`: KiB of ring buffers for each CPU and user.
    pub mlock_kib: Option<u64>,
    /// `perf_event_max_stack`: maximum number of addresses in a callchain.
    pub max_stack: Option<u16>,
    /// True if a seccomp filter applies to this process (`Seccomp: 2` in proc_pid_status(5)), as in
    /// most containers.
    pub seccomp: bool,
    /// True if this process has CAP_PERFMON or CAP_SYS_ADMIN, and so is exempt.
    pub privileged: bool,
    /// Maximum number of open descriptors of this process (soft RLIMIT_NOFILE); `None` for no
    /// limit.
    pub open_files: Option<u64>,
    /// Maximum number of bytes of locked memory (soft RLIMIT_MEMLOCK); `None` for no limit.
    pub locked_memory: Option<u64>,
    /// Version of the running kernel, such as (6, 1); `None` if unknown (`osrelease`).
    pub kernel: Option<(u16, u16)>,
}

/// Bits of the effective capabilities that lift the limits (linux/capability.h).
const CAP_PERFMON: u64 = 1 << 38;
const CAP_SYS_ADMIN: u64 = 1 << 21;

impl Limits {
    /// Reads the current settings.
    pub fn read() -> Limits {
        let status = std::fs::read("/proc/self/status").unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        Limits {
            seccomp: has_filter(&status),
            privileged: is_privileged(&status),
            open_files: open_file_limit(),
            locked_memory: getrlimit(Resource::Memlock).current,
            ..Limits::read_from(Path::new("/proc/sys/kernel"))
        }
    }

    /// Returns whether `perf_event_paranoid` alone explains the refusal of this event, for the
    /// user's own processes or, with `by_cpu`, for whole CPUs. Sources: `perf_allow_cpu` and
    /// `perf_allow_kernel` in linux/perf_event.h, and level 3 of Debian and others.
    pub fn explains(&self, attr: &Attr, by_cpu: bool) -> bool {
        let most = match attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) {
            _ if by_cpu => 0,
            false => 1,
            true => 2,
        };
        !self.privileged && self.paranoid.is_some_and(|level| level > most)
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
            seccomp: false,
            privileged: false,
            open_files: None,
            locked_memory: None,
            kernel: (std::fs::read_to_string(folder.join("osrelease")).ok())
                .and_then(|release| version(&release)),
        }
    }
}

/// Parses the version in a release such as `6.1.0-18-amd64`.
fn version(release: &str) -> Option<(u16, u16)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn has_filter(status: &str) -> bool {
    field(status, "Seccomp:") == Some("2")
}

fn is_privileged(status: &str) -> bool {
    let bits = field(status, "CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok());
    bits.is_some_and(|bits| bits & (CAP_PERFMON | CAP_SYS_ADMIN) != 0)
}

/// Returns the soft limit on open files; `None` for no limit.
pub fn open_file_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the soft limit on open files to the hard limit. Returns whether it changed.
///
/// A command forked before keeps its own limit.
pub fn raise_open_file_limit() -> bool {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let is_lower = match (current, maximum) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(current), Some(maximum)) => current < maximum,
    };
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    is_lower && setrlimit(Resource::Nofile, raised).is_ok()
}

/// Lifts the limit on locked memory of this process until it is dropped.
#[derive(Debug)]
pub(crate) struct LiftedLockLimit(Rlimit);

impl LiftedLockLimit {
    /// Lifts the limit, or raises the soft limit to the hard limit without CAP_SYS_RESOURCE. `None`
    /// if nothing changed.
    pub(crate) fn lift() -> Option<LiftedLockLimit> {
        let before = getrlimit(Resource::Memlock);
        let to = |limit| {
            let raised = Rlimit {
                current: limit,
                maximum: limit,
            };
            before.current.is_some()
                && before.current != limit
                && setrlimit(Resource::Memlock, raised).is_ok()
        };
        (to(None) || to(before.maximum)).then(|| LiftedLockLimit(before))
    }
}

impl Drop for LiftedLockLimit {
    fn drop(&mut self) {
        setrlimit(Resource::Memlock, self.0).ok();
    }
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_seen() {
        assert!(is_privileged("CapEff:\t000001ffffffffff\n"));
        assert!(is_privileged("CapEff:\t0000004000000000\n"));
        assert!(!is_privileged(
            "CapPrm:\t000001ffffffffff\nCapEff:\t00000000a80425fb\n"
        ));
    }

    #[test]
    fn releases_have_a_version() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("5.15+"), Some((5, 15)));
        assert_eq!(version("next"), None);
        assert!(Limits::read().kernel.is_some());
    }

    #[test]
    fn the_limit_on_locked_memory_is_lifted_and_restored() {
        let before = getrlimit(Resource::Memlock);
        let low = Rlimit {
            current: Some(1 << 12),
            ..before
        };
        setrlimit(Resource::Memlock, low).expect("any process may lower its limit");
        let lifted = LiftedLockLimit::lift().expect("the hard limit is higher");
        assert_ne!(Limits::read().locked_memory, Some(1 << 12));
        drop(lifted);
        assert_eq!(getrlimit(Resource::Memlock), low);
        setrlimit(Resource::Memlock, before).expect("it was the limit before");
    }

    #[test]
    fn a_filter_is_seen() {
        assert!(has_filter("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!has_filter("Name:\tSeccomp: 2\nSeccomp:\t0\n"));
    }

    #[test]
    fn the_kernels_side_needs_a_lower_level() {
        let user = Attr {
            flags: AttrFlags::EXCLUDE_KERNEL,
            ..Attr::default()
        };
        let both = Attr::default();
        for (level, explained) in [
            (0, (false, false, false)),
            (1, (false, false, true)),
            (2, (false, true, true)),
            (3, (true, true, true)),
        ] {
            let limits = Limits {
                paranoid: Some(level),
                ..Limits::default()
            };
            let found = (
                limits.explains(&user, false),
                limits.explains(&both, false),
                limits.explains(&user, true),
            );
            assert_eq!(found, explained, "{level}");
        }
    }

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
