//! Tools, permissions and kernel features that a test may need.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::{inapplicable, skip};

/// A tool, permission or feature that some machines lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// Permission to sample own programs.
    PerfEvents,
    /// Permission to sample the kernel and whole CPUs, and to read kernel addresses.
    Kernel,
    /// The `perf` tool.
    Perf,
    /// A C++ compiler: `$CXX`, or `c++`.
    Cxx,
    /// Node.js.
    Node,
    /// Java compiler and JVM, version 17 or later, with support for perf maps.
    Java,
    /// GCC, as a program to record.
    Gcc,
    /// tracefs, mounted and readable.
    Tracepoints,
    /// Permission for uprobes.
    Uprobes,
    /// Root rights over mounts and settings.
    Root,
    /// Root, and overlayfs.
    Overlay,
    /// `script`, which provides a terminal.
    Terminal,
    /// Debian's `debuginfod` server and client, and `objcopy`.
    Debuginfod,
    /// Go's pprof, from the Go distribution.
    Pprof,
    /// Go compiler.
    Go,
    /// Oracles: readers of other tools, which `.ci/oracles` installs. If it could not download
    /// them, the skip is no failure.
    Oracles,
    /// GNU assembler that accepts x86-64 code.
    X86Assembler,
    /// 32-bit programs for x86, and a C compiler for them.
    I386,
    /// An x86-64 processor. Its absence is never a failure: see [`inapplicable`].
    X86_64,
    /// A program on `PATH` whose `--version` succeeds.
    Tool(&'static str),
    /// A system file, by path.
    File(&'static str),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::PerfEvents => "permission for perf_event_open (kernel.perf_event_paranoid <= 2)",
            Need::Kernel => {
                "permission to sample the kernel and whole CPUs (kernel.perf_event_paranoid <= 0) \
                 and to see the kernel's addresses (kernel.kptr_restrict)"
            }
            Need::Perf => "perf",
            Need::Cxx => "a C++ compiler",
            Need::Gcc => "gcc",
            Need::Node => "node",
            Need::Java => "java and javac, from 17 on",
            Need::Root => "root",
            Need::Overlay => "root, and overlay file systems (CONFIG_OVERLAY_FS)",
            Need::Terminal => "script (of util-linux)",
            Need::Debuginfod => "debuginfod, debuginfod-find and objcopy",
            Need::Pprof => "Go's pprof (golang-1.19-go, or another version below /usr/lib/go-*)",
            Need::Oracles => "what .ci/oracles installs",
            Need::Go => "go, in PATH or below /usr/lib/go-*",
            Need::X86Assembler => "x86-64, and as",
            Need::I386 => "32-bit programs, and a C compiler for them (gcc-multilib)",
            Need::X86_64 => "x86-64",
            Need::Tracepoints => {
                "tracefs, mounted and readable (mount -t tracefs tracefs /sys/kernel/tracing)"
            }
            Need::Uprobes => "uprobes (CONFIG_UPROBE_EVENTS) and CAP_PERFMON",
            Need::Tool(name) | Need::File(name) => name,
        })
    }
}

/// Returns whether the machine has a need. If not, the calling test counts as skipped.
///
/// # Panics
/// If the machine lacks it, with `RPROF_REQUIRE_TOOLS=1`.
#[track_caller]
pub fn has(need: Need) -> bool {
    static KNOWN: Mutex<Option<HashMap<Need, bool>>> = Mutex::new(None);
    let has = {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        *known.entry(need).or_insert_with(|| look(need))
    };
    let why = format!("needs {need}");
    match need {
        _ if has => {}
        Need::X86_64 => inapplicable(why),
        Need::I386 if !cfg!(target_arch = "x86_64") => inapplicable(why),
        Need::Oracles if oracles_folder().join("unreachable").is_file() => inapplicable(why),
        _ => skip(why),
    }
    has
}

fn look(need: Need) -> bool {
    match need {
        Need::PerfEvents => may_sample(Scope::Program),
        Need::Kernel => may_sample(Scope::Machine) && kernel_addresses(),
        Need::Perf => runs("perf"),
        Need::Cxx => {
            let cxx = std::env::var("CXX").unwrap_or_default();
            runs(if cxx.is_empty() { "c++" } else { &cxx })
        }
        Need::Gcc => runs("gcc"),
        Need::Node => runs("node"),
        Need::Java => runs("javac") && java_maps(),
        Need::Root => is_root(),
        Need::Overlay => is_root() && overlays(),
        Need::Terminal => runs("script"),
        Need::Debuginfod => runs("debuginfod") && runs("debuginfod-find") && runs("objcopy"),
        Need::Pprof => pprof().is_some(),
        Need::Go => go().is_some(),
        Need::Oracles => oracles().is_some(),
        Need::X86Assembler => cfg!(target_arch = "x86_64") && runs("as"),
        Need::I386 => compiles_for_i386() && succeeds("/lib/ld-linux.so.2", &["--version"]),
        Need::X86_64 => cfg!(target_arch = "x86_64"),
        Need::Tracepoints => {
            std::fs::read("/sys/kernel/tracing/events/sched/sched_switch/format").is_ok()
        }
        Need::Uprobes => {
            Path::new("/sys/bus/event_source/devices/uprobe").exists()
                && rustix::process::geteuid().is_root()
        }
        Need::Tool(name) => runs(name),
        Need::File(path) => Path::new(path).exists(),
    }
}

/// Returns the path of Go's pprof. Debian installs it beside the compiler, not in PATH.
pub fn pprof() -> Option<PathBuf> {
    of_debians_go("pkg/tool/linux_amd64/pprof")
}

/// Returns the path of the Go compiler. Debian's versioned packages do not put it in PATH.
pub fn go() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join("go"));
    (in_path.into_iter().find(|path| path.is_file())).or_else(|| of_debians_go("bin/go"))
}

/// Returns the path of a file in one of Debian's Go packages.
fn of_debians_go(file: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let go = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("go-"));
    go.map(|entry| entry.path().join(file))
        .find(|path| path.is_file())
}

/// Returns the folder where `.ci/oracles` installs oracles, if it is complete.
pub fn oracles() -> Option<PathBuf> {
    let folder = oracles_folder().canonicalize().ok()?;
    folder.join("ready").is_file().then_some(folder)
}

fn oracles_folder() -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracles");
    std::env::var_os("RPROF_ORACLES").map_or(usual, PathBuf::from)
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

fn runs(program: &str) -> bool {
    succeeds(program, &["--version"])
}

/// Returns true if the C compiler has the start files of 32-bit programs.
fn compiles_for_i386() -> bool {
    let mut cc = Command::new(match std::env::var("CC") {
        Ok(cc) if !cc.is_empty() => cc,
        _ => "cc".into(),
    });
    let found = cc.args(["-m32", "-print-file-name=Scrt1.o"]).output();
    found.is_ok_and(|found| found.stdout.contains(&b'/'))
}

/// Returns true if the JVM can write a perf map at exit.
fn java_maps() -> bool {
    let options = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"];
    succeeds("java", &[options[0], options[1], "-version"])
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root() && succeeds("unshare", &["-m", "true"])
}

fn overlays() -> bool {
    let script = "mount -t tmpfs none /mnt && cd /mnt && mkdir l u w m && \
        mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m";
    succeeds("unshare", &["-m", "sh", "-c", script])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// User-space code of this process.
    Program,
    /// Sampling of every process on a CPU.
    Machine,
}

/// Returns true if the kernel allows this process to sample. Calls perf_event_open(2) directly: if
/// rprof refused, a test must fail and not be skipped.
fn may_sample(scope: Scope) -> bool {
    use perf_event_open_sys::bindings;
    use std::os::fd::{FromRawFd, OwnedFd};

    let mut attr = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        size: bindings::PERF_ATTR_SIZE_VER5,
        config: u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_kernel(u64::from(scope == Scope::Program));
    attr.set_exclude_hv(1);
    let (pid, cpu) = match scope {
        Scope::Program => (0, -1),
        // The CPU of this thread is online.
        // SAFETY: the call has no conditions.
        Scope::Machine => (-1, unsafe { libc::sched_getcpu() }),
    };
    // SAFETY: the attributes are valid for their stated size, and live for the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&mut attr, pid, cpu, -1, 8) };
    if fd < 0 {
        return false;
    }
    // SAFETY: the kernel returned this descriptor, and nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}

fn kernel_addresses() -> bool {
    std::fs::read_to_string("/proc/kallsyms").is_ok_and(|symbols| {
        let addresses = symbols.lines().filter_map(|line| line.split(' ').next());
        addresses.take(100).any(|a| a.bytes().any(|b| b != b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_running_them() {
        assert!(look(Need::Tool("cargo")) || look(Need::Tool("ls")));
        assert!(!look(Need::Tool("no-such-tool-here")));
        assert!(look(Need::File("/proc/self/status")));
        assert!(!look(Need::File("/no/such/file")));
    }
}
