//! Privileges, settings and limits, read from files.

use rprof_events::cpus;
use rprof_events::tracefs::{Tracefs, TracefsError};
use rprof_launch::procfs::Procfs;
use rprof_perf_event::{Capability, Limits};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Capability numbers (capabilities(7)).
pub(super) const SYS_ADMIN: u32 = 21;
pub(super) const IPC_LOCK: u32 = 14;
pub(super) const SYS_PTRACE: u32 = 19;
pub(super) const SYS_NICE: u32 = 23;
pub(super) const SYSLOG: u32 = 34;
pub(super) const PERFMON: u32 = 38;

/// Facts read without opening an event; `None` if unreadable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Release of the running kernel (`uname -r`).
    pub(super) kernel: Option<String>,
    pub(super) user: Option<u32>,
    /// Effective capabilities, one bit each.
    pub(super) capabilities: u64,
    /// Capability that lifts the limits on this kernel.
    pub(super) lifts_limits: Capability,
    /// Mode of rprof's file if it has capabilities (`setcap`), for everyone who may execute it.
    pub(super) capable_file: Option<u32>,
    /// Seccomp mode: 0 none, 1 strict, 2 filter.
    pub(super) seccomp: Option<u32>,
    /// True in a user namespace. Its capabilities do not apply to perf events.
    pub(super) in_user_namespace: bool,
    /// True in a pid namespace. The kernel reports other thread ids there.
    pub(super) in_pid_namespace: bool,
    /// Kind of container, if one was detected.
    pub(super) container: Option<String>,
    pub(super) limits: Limits,
    /// `perf_cpu_time_max_percent`: CPU time that sampling may take.
    pub(super) cpu_time_percent: Option<u32>,
    /// Limit of locked memory in bytes; `u64::MAX` for unlimited.
    pub(super) locked_memory: Option<u64>,
    pub(super) open_files: Option<(u64, u64)>,
    pub(super) kptr_restrict: Option<i32>,
    /// True if /proc/kallsyms shows addresses to this user.
    pub(super) kernel_addresses: bool,
    /// Root of tracefs, or the error of reading it; `None` if not checked.
    pub(super) tracefs: Option<Result<PathBuf, TracefsError>>,
    /// Yama's `ptrace_scope`; `None` without Yama.
    pub(super) ptrace_scope: Option<i32>,
    /// True if the NMI watchdog uses a hardware counter.
    pub(super) nmi_watchdog: bool,
    /// PMUs of the processor, by their names in sysfs.
    pub(super) pmus: Vec<String>,
    pub(super) cpus: usize,
    pub(super) debuginfod: Option<String>,
}

impl Facts {
    pub(super) fn read() -> Facts {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        Facts {
            kernel: line("/proc/sys/kernel/osrelease"),
            user: (field(&status, "Uid:")).and_then(|ids| ids.get(1)?.parse().ok()),
            capabilities: (field(&status, "CapEff:"))
                .and_then(|caps| u64::from_str_radix(caps.first()?, 16).ok())
                .unwrap_or(0),
            lifts_limits: Capability::of_this_kernel(),
            capable_file: capable_file(Path::new("/proc/self/exe")),
            seccomp: field(&status, "Seccomp:").and_then(|mode| mode.first()?.parse().ok()),
            in_user_namespace: line("/proc/self/uid_map").is_some_and(|map| !is_whole(&map)),
            in_pid_namespace: !Procfs::default().is_in_first_pid_namespace(),
            container: container(),
            limits: Limits::read(),
            cpu_time_percent: number("/proc/sys/kernel/perf_cpu_time_max_percent"),
            locked_memory: limit(&limits, "Max locked memory").map(|(soft, _)| soft),
            open_files: limit(&limits, "Max open files"),
            kptr_restrict: number("/proc/sys/kernel/kptr_restrict"),
            kernel_addresses: kernel_addresses(),
            tracefs: Some(Tracefs::find().map(|found| found.root().to_owned())),
            ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope"),
            nmi_watchdog: number::<i32>("/proc/sys/kernel/nmi_watchdog") == Some(1),
            pmus: cpu_pmus(Path::new("/sys/bus/event_source/devices")),
            cpus: cpus::online().map_or(0, |cpus| cpus.len()),
            debuginfod: (std::env::var("DEBUGINFOD_URLS").ok())
                .filter(|urls| !urls.trim().is_empty()),
        }
    }

    pub(super) fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    pub(super) fn may_all(&self) -> bool {
        !self.in_user_namespace && (self.has(PERFMON) || self.has(SYS_ADMIN))
    }
}

/// Returns the mode of a program if it has file capabilities.
fn capable_file(program: &Path) -> Option<u32> {
    let mut room = [0_u8; 64];
    rustix::fs::getxattr(program, "security.capability", &mut room).ok()?;
    Some(fs::metadata(program).ok()?.permissions().mode())
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: &str) -> Option<T> {
    line(path)?.parse().ok()
}

fn field<'a>(status: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().collect())
}

/// Returns the soft and hard limit in /proc/PID/limits.
fn limit(limits: &str, name: &str) -> Option<(u64, u64)> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = line.split_whitespace();
    let mut next = || match words.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some((next()?, next()?))
}

/// Returns true for the uid_map of the initial user namespace (user_namespaces(7)).
fn is_whole(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Detects the container manager by the files and variables that it leaves.
fn container() -> Option<String> {
    if Path::new("/.dockerenv").exists() {
        return Some("Docker".to_owned());
    }
    if Path::new("/run/.containerenv").exists() {
        return Some("Podman".to_owned());
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("Kubernetes".to_owned());
    }
    std::env::var("container")
        .ok()
        .filter(|name| !name.is_empty())
}

/// Returns true if /proc/kallsyms has addresses and not only zeros.
fn kernel_addresses() -> bool {
    use std::io::{BufRead, BufReader};
    let Ok(file) = fs::File::open("/proc/kallsyms") else {
        return false;
    };
    let lines = BufReader::with_capacity(4096, file).lines();
    (lines.take(20).map_while(Result::ok)).any(|line| {
        let address = line.split(' ').next().unwrap_or_default();
        address.bytes().any(|digit| digit != b'0')
    })
}

/// Returns the PMUs of the processor: `cpu` on x86; elsewhere all that list their CPUs.
fn cpu_pmus(devices: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(devices) else {
        return Vec::new();
    };
    let mut names: Vec<String> = (entries.flatten())
        .filter(|entry| entry.file_name() == "cpu" || entry.path().join("cpus").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read() {
        let status = "Name:\trprof\nUid:\t1000\t1001\t0\t0\nCapEff:\t0000004000000000\n";
        assert_eq!(field(status, "Uid:").unwrap()[1], "1001");
        assert_eq!(field(status, "Seccomp:"), None);
        let limits = "Max open files            1024                 unlimited            files \n";
        assert_eq!(limit(limits, "Max open files"), Some((1024, u64::MAX)));
        assert_eq!(limit(limits, "Max locked memory"), None);
        assert!(is_whole("         0          0 4294967295"));
        assert!(!is_whole("         0       1000          1"));
        let facts = Facts {
            capabilities: 1 << PERFMON,
            ..Facts::default()
        };
        assert!(facts.may_all() && !facts.has(SYS_ADMIN));
    }

    #[test]
    fn this_machine_tells_something() {
        let facts = Facts::read();
        assert!(facts.cpus > 0 && facts.kernel.is_some() && facts.user.is_some());
        assert!(facts.open_files.is_some() && facts.locked_memory.is_some());
    }
}
