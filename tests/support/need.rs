//! What a machine may lack. A test that needs it is skipped, and says so; with
//! `RPROF_REQUIRE_TOOLS=1` it fails instead, so that a CI job cannot pass by skipping.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::fixtures;

/// Something that not every machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Permission to sample one's own programs.
    PerfEvents,
    /// Permission to sample the kernel, and to see its addresses.
    Kernel,
    /// The `perf` tool.
    Perf,
    /// A C++ compiler.
    Cxx,
    /// Node.js.
    Node,
    /// A Java compiler and machine, from 17 on, which can write a perf map.
    Java,
    /// GCC: the program, as something to record.
    Gcc,
    /// tracefs, mounted and readable.
    Tracepoints,
    /// Permission to put probes into programs.
    Uprobes,
    /// To be root, with the rights of root over mounts and settings.
    Root,
    /// To be root, and overlay file systems.
    Overlay,
    /// `script`, which makes a terminal.
    Terminal,
    /// Debian's `debuginfod` server and its client, and `objcopy`.
    Debuginfod,
    /// An assembler for x86-64.
    X86Assembler,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::PerfEvents => "permission for perf_event_open (kernel.perf_event_paranoid <= 2)",
            Need::Kernel => {
                "permission to sample the kernel (kernel.perf_event_paranoid <= 1) \
                 and to see its addresses (kernel.kptr_restrict)"
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
            Need::X86Assembler => "x86-64, and as",
            Need::Tracepoints => {
                "tracefs, mounted and readable (mount -t tracefs tracefs /sys/kernel/tracing)"
            }
            Need::Uprobes => "uprobes (CONFIG_UPROBE_EVENTS) and CAP_PERFMON",
        })
    }
}

/// Returns from the test unless the machine has all of it.
macro_rules! needs {
    ($($need:ident),+) => {
        $(if !$crate::support::has($crate::support::Need::$need) { return; })+
    };
}

/// Whether the machine has it. Says so if not.
pub(crate) fn has(need: Need) -> bool {
    let has = match need {
        Need::PerfEvents => may_sample(false),
        Need::Kernel => may_sample(true) && kernel_addresses(),
        Need::Perf => runs("perf"),
        Need::Cxx => runs(&fixtures::cxx_compiler()),
        Need::Gcc => runs("gcc"),
        Need::Node => runs("node"),
        Need::Java => runs("javac") && java_maps(),
        Need::Root => is_root(),
        Need::Overlay => is_root() && overlays(),
        Need::Terminal => runs("script"),
        Need::Debuginfod => runs("debuginfod") && runs("debuginfod-find") && runs("objcopy"),
        Need::X86Assembler => cfg!(target_arch = "x86_64") && runs("as"),
        Need::Tracepoints => {
            std::fs::read("/sys/kernel/tracing/events/sched/sched_switch/format").is_ok()
        }
        Need::Uprobes => {
            Path::new("/sys/bus/event_source/devices/uprobe").exists()
                && rustix::process::geteuid().is_root()
        }
    };
    if !has {
        let required = std::env::var_os("RPROF_REQUIRE_TOOLS").is_some_and(|v| v == "1");
        assert!(!required, "RPROF_REQUIRE_TOOLS=1, and this needs {need}");
        // Not through `eprintln!`, which the test harness keeps from those whose tests pass.
        let test = std::thread::current();
        let test = test.name().unwrap_or_default();
        writeln!(std::io::stderr(), "{test} skipped: needs {need}").ok();
    }
    has
}

/// Whether the Java machine can write a perf map at its end.
fn java_maps() -> bool {
    let mut command = Command::new("java");
    command.args(["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"]);
    command.arg("-version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

/// A Python with trampolines of this kind: that of the path, or one beside it. `perf` is there
/// from 3.12 on, `perf_jit`, with a jitdump, from 3.13 on.
pub(crate) fn python_with_trampolines(kind: &str) -> Option<PathBuf> {
    let names = ["python3", "python3.14", "python3.13", "python3.12"];
    // Where versions are switched by a wrapper, one may stand there without being in force.
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = pyenv.and_then(|pyenv| std::fs::read_dir(pyenv.join("versions")).ok());
    let versions = versions.into_iter().flatten().flatten();
    let others = versions.map(|version| version.path().join("bin/python3"));
    let candidates = names.map(PathBuf::from).into_iter().chain(others);
    candidates.into_iter().find_map(|name| {
        let mut command = Command::new(name);
        let ask = "import sys; print(sys.is_stack_trampoline_active() and sys.executable or '')";
        let output = command
            .args(["-X", kind, "-c", ask])
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let path = String::from_utf8(output.stdout).ok()?;
        let is_one = output.status.success() && !path.trim().is_empty();
        is_one.then(|| PathBuf::from(path.trim()))
    })
}

/// Whether an overlay file system can be mounted, in a namespace of its own.
fn overlays() -> bool {
    let script = "mount -t tmpfs none /mnt && cd /mnt && mkdir l u w m && \
        mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m";
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script])
        .stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

/// Whether this is root, and not one whom a container took the rights from.
fn is_root() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-m", "true"]).stdin(Stdio::null());
    rustix::process::geteuid().is_root()
        && command.output().is_ok_and(|output| output.status.success())
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

/// Whether the kernel lets this process sample itself. Asked of the kernel and not of
/// rprof, whose failure is to fail a test.
fn may_sample(kernel: bool) -> bool {
    static USER: OnceLock<bool> = OnceLock::new();
    static KERNEL: OnceLock<bool> = OnceLock::new();
    let known = if kernel { &KERNEL } else { &USER };
    *known.get_or_init(|| open_event(kernel))
}

fn open_event(kernel: bool) -> bool {
    use perf_event_open_sys::bindings;
    use std::os::fd::{FromRawFd, OwnedFd};

    let mut attr = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        size: bindings::PERF_ATTR_SIZE_VER5,
        config: u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_kernel(u64::from(!kernel));
    attr.set_exclude_hv(1);
    // SAFETY: the attributes are valid for their stated size, and live for the call.
    let fd = unsafe { perf_event_open_sys::perf_event_open(&mut attr, 0, -1, -1, 8) };
    if fd < 0 {
        return false;
    }
    // SAFETY: the kernel just gave us this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}

/// Whether /proc/kallsyms has addresses and not just zeros.
fn kernel_addresses() -> bool {
    std::fs::read_to_string(Path::new("/proc/kallsyms")).is_ok_and(|symbols| {
        let addresses = symbols.lines().filter_map(|line| line.split(' ').next());
        addresses.take(100).any(|a| a.bytes().any(|b| b != b'0'))
    })
}
