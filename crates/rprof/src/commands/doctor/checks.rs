//! Checks and remedies: pure functions of facts and tries, tested without a kernel.

use super::diagnosis::{Check, State};
use super::facts::{Facts, IPC_LOCK, PERFMON, SYS_ADMIN, SYS_NICE, SYS_PTRACE, SYSLOG};
use super::tries::Tries;
use rprof_perf_event::errno::{is_missing_event, is_refusal};
use rprof_perf_event::{Errno, ErrnoText};
use rprof_sampler::open::ring_sizes::{SMALLEST, UNPRIVILEGED};

/// Default frequency in Hz.
const USUAL_RATE: u64 = 999;

/// Runs all checks: first the tries, then the facts that explain them.
pub(super) fn all(facts: &Facts, tries: &Tries) -> Vec<Check> {
    let checks = [
        Some(own_user(facts, tries)),
        Some(stacks(facts, tries)),
        Some(ring(facts, tries)),
        Some(own_kernel(facts, tries)),
        waits(facts, tries),
        Some(system(facts, tries)),
        Some(counters(facts, tries)),
        kernel_version(facts, tries),
        Some(paranoid(facts, tries)),
        Some(capabilities(facts, tries)),
        Some(seccomp(facts, tries)),
        namespace(facts, tries),
        Some(open_files(facts)),
        Some(kernel_names(facts)),
        Some(tracefs(facts)),
        Some(rate(facts)),
        Some(depth(facts)),
        ptrace(facts),
        watchdog(facts),
        Some(debuginfod(facts)),
    ];
    checks.into_iter().flatten().collect()
}

fn check(id: &'static str, what: &'static str, state: State, found: impl Into<String>) -> Check {
    Check {
        id,
        what,
        state,
        found: found.into(),
        fix: None,
    }
}

/// Returns the command that gives rprof alone the right to record everything.
fn setcap(facts: &Facts) -> String {
    let name = facts.lifts_limits.for_setcap();
    format!("sudo setcap {name}=ep \"$(command -v rprof)\"")
}

impl Check {
    fn fix(self, fix: impl Into<String>) -> Check {
        Check {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// Explains why the kernel refused an event, and names the remedy with the least privilege. `level`
/// is the highest `perf_event_paranoid` that needs no privilege.
fn refusal(facts: &Facts, errno: Errno, level: i32) -> String {
    let paranoid = facts.limits.paranoid;
    let added = facts.lifts_limits.for_containers();
    if !is_refusal(errno) {
        return match errno {
            Errno::NOSYS => format!(
                "the kernel was built without perf events (CONFIG_PERF_EVENTS), or a sandbox hides \
                 them; in a container: --cap-add {added}"
            ),
            Errno::MFILE => "raise `ulimit -n`".to_owned(),
            _ => "see perf_event_open(2), section ERRORS".to_owned(),
        };
    }
    if paranoid.is_some_and(|set| set > level) && !facts.may_all() {
        let container = match facts.container {
            Some(_) => format!("in the container: --cap-add {added}; else "),
            None => String::new(),
        };
        let setcap = setcap(facts);
        return format!("{container}{setcap}; or sudo sysctl kernel.perf_event_paranoid={level}");
    }
    if facts.seccomp.is_some_and(|mode| mode != 0) {
        return format!(
            "a seccomp filter blocks it, no setting does; in a container: --cap-add {added}, or a \
             seccomp profile that allows perf_event_open"
        );
    }
    "no setting explains it: perhaps a security module blocks it (SELinux, Landlock, a BPF LSM); ask \
     the administrator of this machine"
        .to_owned()
}

fn failed(errno: Errno) -> String {
    format!("perf_event_open: {}", ErrnoText(errno))
}

fn own_user(facts: &Facts, tries: &Tries) -> Check {
    let what = "own programs";
    match tries.own_user {
        Ok(()) => check("own-user", what, State::Ok, "user-mode code can be sampled"),
        Err(errno) => {
            check("own-user", what, State::Blocked, failed(errno)).fix(refusal(facts, errno, 2))
        }
    }
}

fn stacks(facts: &Facts, tries: &Tries) -> Check {
    let what = "call stacks";
    match tries.stacks {
        Ok(()) => check("stacks", what, State::Ok, "can be recorded"),
        Err(errno) => {
            check("stacks", what, State::Blocked, failed(errno)).fix(refusal(facts, errno, 2))
        }
    }
}

fn ring(facts: &Facts, tries: &Tries) -> Check {
    let what = "ring buffers";
    let setting = match (facts.limits.mlock_kib, facts.locked_memory) {
        (Some(kib), Some(u64::MAX)) => format!("perf_event_mlock_kb is {kib}, ulimit -l unlimited"),
        (Some(kib), Some(bytes)) => {
            format!(
                "perf_event_mlock_kb is {kib}, ulimit -l {} KiB",
                bytes >> 10
            )
        }
        _ => "limits unknown".to_owned(),
    };
    let usual = UNPRIVILEGED.samples + UNPRIVILEGED.sideband;
    let check = match tries.rings {
        Ok(bytes) if bytes >= usual => return check("ring", what, State::Ok, setting),
        Ok(bytes) => {
            let found = format!(
                "{} KiB per CPU, not {}; {setting}",
                bytes >> 10,
                usual >> 10
            );
            check("ring", what, State::Limited, found)
        }
        // An earlier check reports that no event opens.
        Err(errno) if tries.own_user.and(tries.stacks).is_err() => {
            return check("ring", what, State::Blocked, failed(errno));
        }
        Err(errno) => {
            let found = format!("none can be mapped: {}; {setting}", ErrnoText(errno));
            check("ring", what, State::Blocked, found)
        }
    };
    let wanted = (usual + 2 * SMALLEST) >> 10;
    check.fix(match facts.has(IPC_LOCK) {
        true => "stop other recordings".to_owned(),
        false => format!(
            "stop your other recordings, or sudo sysctl kernel.perf_event_mlock_kb={wanted}, or \
             setcap cap_ipc_lock ({} does not lift this limit)",
            facts.lifts_limits
        ),
    })
}

fn own_kernel(facts: &Facts, tries: &Tries) -> Check {
    let what = "kernel code";
    match tries.own_kernel {
        Ok(()) => check("own-kernel", what, State::Ok, "can be sampled"),
        Err(errno) => {
            check("own-kernel", what, State::Limited, failed(errno)).fix(refusal(facts, errno, 1))
        }
    }
}

/// Checks off-CPU recording. Stacks of waits need kernel sampling; without it only times remain.
/// Wakers need a tracepoint on whole CPUs.
fn waits(facts: &Facts, tries: &Tries) -> Option<Check> {
    tries.own_user.ok()?;
    let what = "waits (--off-cpu)";
    Some(match tries.own_kernel {
        Ok(()) => {
            let lists = !matches!(facts.tracefs, Some(Err(_))) && !facts.in_pid_namespace;
            let may = facts.may_all() || facts.limits.paranoid.is_some_and(|level| level < 0);
            let found = match lists && may {
                true => "can be recorded with stacks and with wakers (--wakers)",
                false => "can be recorded with stacks, but without wakers (--wakers)",
            };
            check("waits", what, State::Ok, found)
        }
        Err(errno) => {
            let found = "only their times can be recorded, without stacks";
            check("waits", what, State::Limited, found).fix(refusal(facts, errno, 1))
        }
    })
}

fn system(facts: &Facts, tries: &Tries) -> Check {
    let what = "the whole system";
    match tries.system {
        Ok(()) => check("system", what, State::Ok, "can be sampled (-a, -C, -G)"),
        Err(errno) => {
            check("system", what, State::Limited, failed(errno)).fix(refusal(facts, errno, 0))
        }
    }
}

fn counters(facts: &Facts, tries: &Tries) -> Check {
    let what = "hardware counters";
    match tries.cycles {
        Ok(()) => check("counters", what, State::Ok, "CPU cycles can be sampled"),
        Err(errno) if is_missing_event(errno) => {
            let found = match facts.pmus.is_empty() {
                true => "no PMU: the CPU clock is sampled instead",
                false => "the PMU has no cycles event: the CPU clock is sampled instead",
            };
            check("counters", what, State::Limited, found)
                .fix("in a virtual machine: enable a virtual PMU; the CPU clock works everywhere")
        }
        Err(errno) => check("counters", what, State::Limited, failed(errno)),
    }
}

/// Lists the features that the kernel lacks. `rprof record` mentions them only with `-v`.
fn kernel_version(facts: &Facts, tries: &Tries) -> Option<Check> {
    let newest = tries.lacks.first()?;
    let lacks: Vec<&str> = tries
        .lacks
        .iter()
        .map(|feature| feature.without())
        .collect();
    let release = facts.kernel.as_deref().unwrap_or("this kernel");
    let found = format!("{release}: {}", lacks.join("; "));
    let check = check("kernel", "kernel version", State::Limited, found);
    Some(check.fix(format!("Linux {} or newer has this", newest.since())))
}

fn paranoid(facts: &Facts, tries: &Tries) -> Check {
    let what = "kernel.perf_event_paranoid";
    let Some(level) = facts.limits.paranoid else {
        let found = "missing: this kernel has no perf events, or /proc is not mounted";
        return check("paranoid", what, State::Limited, found);
    };
    let meaning = match level {
        ..=-1 => "all users may sample everything",
        0 => "all users may sample the whole system, but no raw tracepoints",
        1 => "all users may sample their own programs, with kernel code",
        2 => "all users may sample user-mode code of their own programs",
        _ => "on distribution kernels, sampling needs privileges",
    };
    let state = match level {
        _ if facts.may_all() => State::Ok,
        ..=1 => State::Ok,
        _ if tries.own_user.is_ok() => State::Limited,
        _ => State::Blocked,
    };
    let found = match facts.may_all() {
        true => format!("{level}, which does not limit this process"),
        false => format!("{level}: {meaning}"),
    };
    let check = check("paranoid", what, state, found);
    match state {
        State::Ok => check,
        _ => check.fix(format!(
            "{}; or, for all users, sudo sysctl kernel.perf_event_paranoid=1",
            setcap(facts)
        )),
    }
}

fn capabilities(facts: &Facts, tries: &Tries) -> Check {
    let what = "capabilities";
    let names = [
        ("CAP_PERFMON (samples of all users and the kernel)", PERFMON),
        ("CAP_SYS_ADMIN (everything)", SYS_ADMIN),
        (
            "CAP_SYS_PTRACE (names and mappings of all users' processes)",
            SYS_PTRACE,
        ),
        ("CAP_IPC_LOCK (large rings)", IPC_LOCK),
        ("CAP_SYS_NICE (priority)", SYS_NICE),
        ("CAP_SYSLOG (kernel symbols)", SYSLOG),
    ];
    let held: Vec<&str> = (names.iter())
        .filter(|(_, number)| facts.has(*number))
        .map(|(name, _)| *name)
        .collect();
    let found = match held.is_empty() {
        true => "none that profiling uses".to_owned(),
        false => held.join(", "),
    };
    let found = match facts.capable_file.filter(|_| !held.is_empty()) {
        None => found,
        Some(mode) => {
            let who = match mode & 0o001 != 0 {
                true => "all users",
                false => "its group",
            };
            format!("{found}; set on this program by setcap, for {who}")
        }
    };
    let enough = facts.may_all() || tries.system.is_ok();
    let state = if enough { State::Ok } else { State::Limited };
    let check = check("capabilities", what, state, found);
    match (enough, facts.in_user_namespace && !held.is_empty()) {
        (true, _) => check,
        (false, true) => {
            check.fix("they belong to a user namespace and do not apply to perf events")
        }
        (false, false) => check.fix(setcap(facts)),
    }
}

fn seccomp(facts: &Facts, tries: &Tries) -> Check {
    let what = "seccomp";
    match facts.seccomp {
        Some(0) => check("seccomp", what, State::Ok, "no filter"),
        None => check("seccomp", what, State::Ok, "not supported by this kernel"),
        Some(_) if tries.own_user.is_ok() => check(
            "seccomp",
            what,
            State::Ok,
            "a filter that allows perf_event_open",
        ),
        Some(_) => {
            let found = "a filter that may block perf_event_open";
            check("seccomp", what, State::Blocked, found).fix(format!(
                "in a container: --cap-add {}, or --security-opt seccomp=PROFILE with \
                 perf_event_open allowed",
                facts.lifts_limits.for_containers()
            ))
        }
    }
}

fn namespace(facts: &Facts, tries: &Tries) -> Option<Check> {
    let found = match (facts.in_user_namespace, &facts.container) {
        (false, None) => return None,
        (true, None) => {
            "in a user namespace: its root user has no privileges in the kernel".to_owned()
        }
        (false, Some(name)) => format!("in a container ({name})"),
        (true, Some(name)) => format!("in a container ({name}) with a user namespace"),
    };
    let state = match tries.system {
        Ok(()) => State::Ok,
        Err(_) => State::Limited,
    };
    let check = check("container", "container", state, found);
    Some(match state {
        State::Ok => check,
        _ => check.fix(format!(
            "profile from outside, or give the container {}",
            facts.lifts_limits
        )),
    })
}

fn open_files(facts: &Facts) -> Check {
    let what = "open files";
    let Some((soft, hard)) = facts.open_files else {
        return check("open-files", what, State::Ok, "unknown");
    };
    // Two events per CPU, and other files.
    let needed = facts.cpus as u64 * 2 + 40;
    let found = format!("ulimit -n is {soft} (at most {hard}); one command needs {needed}");
    match needed <= hard {
        true => check("open-files", what, State::Ok, found),
        false => check("open-files", what, State::Blocked, found).fix(format!(
            "raise the hard limit: ulimit -Hn {needed}, as root"
        )),
    }
}

fn kernel_names(facts: &Facts) -> Check {
    let what = "kernel names";
    if facts.kernel_addresses {
        return check(
            "kernel-names",
            what,
            State::Ok,
            "/proc/kallsyms shows addresses",
        );
    }
    let setting = match facts.kptr_restrict {
        Some(set) => format!("kernel.kptr_restrict is {set}"),
        None => "no kernel.kptr_restrict".to_owned(),
    };
    let found = format!("/proc/kallsyms hides addresses ({setting}): kernel frames have no names");
    let fix = match facts.kptr_restrict {
        Some(2..) => "sudo sysctl kernel.kptr_restrict=1, and CAP_SYSLOG",
        _ => "CAP_SYSLOG, or sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
    };
    check("kernel-names", what, State::Limited, found).fix(fix)
}

fn tracefs(facts: &Facts) -> Check {
    let what = "tracepoints";
    match &facts.tracefs {
        None => check("tracefs", what, State::Ok, "not checked"),
        Some(Ok(root)) => {
            let found = format!("listed in {}", root.display());
            check("tracefs", what, State::Ok, found)
        }
        Some(Err(error)) => {
            let text = error.to_string();
            match text.split_once("; ") {
                Some((found, fix)) => check("tracefs", what, State::Limited, found).fix(fix),
                None => check("tracefs", what, State::Limited, text),
            }
        }
    }
}

fn rate(facts: &Facts) -> Check {
    let what = "sampling rate";
    let share = match facts.cpu_time_percent {
        Some(percent @ 1..=99) => {
            format!("; the kernel lowers it when sampling takes over {percent} % of a CPU")
        }
        _ => String::new(),
    };
    match facts.limits.max_sample_rate {
        None => check("rate", what, State::Ok, "limit unknown"),
        Some(limit) => {
            let found = format!("at most {limit} samples per second and CPU{share}");
            match limit >= USUAL_RATE {
                true => check("rate", what, State::Ok, found),
                false => check("rate", what, State::Limited, found)
                    .fix("sudo sysctl kernel.perf_event_max_sample_rate=100000"),
            }
        }
    }
}

fn depth(facts: &Facts) -> Check {
    let what = "stack depth";
    match facts.limits.max_stack {
        None => check("depth", what, State::Ok, "limit unknown"),
        Some(limit @ 127..) => check(
            "depth",
            what,
            State::Ok,
            format!("at most {limit} frames by frame pointers"),
        ),
        Some(limit) => {
            let found = format!("at most {limit} frames by frame pointers");
            check("depth", what, State::Limited, found)
                .fix("sudo sysctl kernel.perf_event_max_stack=127, while nothing is recorded")
        }
    }
}

fn ptrace(facts: &Facts) -> Option<Check> {
    let scope = facts.ptrace_scope?;
    // perf_event_open checks PTRACE_MODE_READ, and Yama only restricts attaching.
    let found = format!("kernel.yama.ptrace_scope is {scope}, which does not limit profiling");
    Some(check("ptrace", "attaching", State::Ok, found))
}

fn watchdog(facts: &Facts) -> Option<Check> {
    if !facts.nmi_watchdog || facts.pmus.is_empty() {
        return None;
    }
    let found = "uses one hardware counter of each CPU";
    Some(check("watchdog", "NMI watchdog", State::Ok, found))
}

fn debuginfod(facts: &Facts) -> Check {
    let found = match &facts.debuginfod {
        Some(urls) => format!("DEBUGINFOD_URLS is {urls}; used only with --debuginfod"),
        None => "DEBUGINFOD_URLS is not set: only debug files on this machine are used".to_owned(),
    };
    check("debuginfod", "debuginfod", State::Ok, found)
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
