//! Requested memory: the preload library, recording options and the summary.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::HumanCount;
use rprof_export::clean::brief;
use rprof_export::verdict::Finding;
use rprof_preload::{FILE_NAME, LIBRARY, REGISTERS};
use rprof_recorder::Allocated;
use rprof_sampler::SessionBuilder;
use rustix::fs::{StatVfsMountFlags, statvfs};
use tempfile::TempDir;

use crate::cli::{CallGraph, RecordArgs};
use crate::recording::event_list;
use crate::wording::messages::Failure;
use crate::wording::remedies;

/// Preload library for the command, in a folder of its own. The folder is removed on drop.
#[derive(Debug)]
pub(crate) struct Preload {
    folder: TempDir,
    page: u64,
    /// Mean distance of two points in bytes.
    pub(crate) mean: u64,
}

impl Preload {
    /// Writes the library where a program may map it for execution.
    pub(crate) fn new(mean: u64) -> Result<Preload, Failure> {
        if LIBRARY.is_empty() {
            return Err(anyhow::anyhow!("--alloc does not support this architecture").into());
        }
        let places = [std::env::temp_dir(), "/dev/shm".into(), "/var/tmp".into()];
        let mut fit = places.iter().filter(|place| is_preloadable(place));
        let place = fit.find(|place| allows_execution(place));
        let Some(place) = place else {
            return Err(anyhow::anyhow!(
                "no folder for the library that --alloc preloads: /tmp, /dev/shm and /var/tmp are \
                 mounted with noexec; name another one with TMPDIR"
            )
            .into());
        };
        let folder = write(place)
            .with_context(|| format!("cannot write a library to {}", place.display()))?;
        Ok(Preload {
            folder,
            page: rprof_preload::page(std::process::id()),
            mean,
        })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(FILE_NAME)
    }

    /// Returns the environment variables for the command.
    pub(crate) fn variables(&self) -> [(&'static str, OsString); 2] {
        let preloaded = std::env::var_os("LD_PRELOAD");
        let path = self.path();
        rprof_preload::variables(path.as_os_str(), preloaded.as_deref(), self.page, self.mean)
    }

    /// Adds the breakpoint that the library hits.
    pub(crate) fn add_to(&self, builder: SessionBuilder) -> Result<SessionBuilder, Failure> {
        let events = event_list::parse(&[format!("mem:{:#x}/8:w:u", self.page)])?;
        let builder = builder.events(events).period(1);
        Ok(builder.extras(|extras| extras.user_registers |= REGISTERS))
    }
}

/// Returns true for a path that LD_PRELOAD can hold: ld.so(8) splits it at spaces and colons, and
/// expands `$`. A command may change its folder.
fn is_preloadable(folder: &Path) -> bool {
    let bytes = folder.as_os_str().as_encoded_bytes();
    folder.is_absolute() && !bytes.iter().any(|byte| b" :$".contains(byte))
}

/// Returns true for a folder whose files may be mapped for execution.
fn allows_execution(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|there| !there.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

fn write(place: &Path) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("rprof-")
        .tempdir_in(place)?;
    // Children of the command may run as other users.
    let is_public = |mode| PermissionsExt::from_mode(mode);
    std::fs::set_permissions(folder.path(), is_public(0o755))?;
    let path = folder.path().join(FILE_NAME);
    std::fs::write(&path, LIBRARY)?;
    std::fs::set_permissions(&path, is_public(0o755))?;
    Ok(folder)
}

fn usage(message: String) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

/// Rejects flags that `--alloc` cannot be combined with.
pub(crate) fn check(args: &RecordArgs) -> Result<(), Failure> {
    let (sampling, output) = (&args.sampling, &args.output);
    let call_graph = matches!(
        sampling.call_graph,
        Some(CallGraph::Dwarf(_) | CallGraph::Lbr)
    );
    let refused = [
        (args.memory, "--memory", "make two recordings"),
        (!sampling.event.is_empty(), "-e", "it samples allocations"),
        (sampling.freq.is_some(), "-F", "--alloc=BYTES sets the rate"),
        (
            sampling.count.is_some(),
            "-c",
            "--alloc=BYTES sets the rate",
        ),
        (
            call_graph,
            "--call-graph dwarf or lbr",
            "it adds up stacks while recording",
        ),
        (
            sampling.all_kernel,
            "--all-kernel",
            "allocators run in user mode",
        ),
        (
            sampling.delay.is_some(),
            "-D",
            "it needs the first allocations",
        ),
        (
            sampling.no_inherit,
            "--no-inherit",
            "threads release memory of each other",
        ),
        (
            args.waits.off_cpu.is_some(),
            "--off-cpu",
            "bytes and times cannot be added",
        ),
        (
            args.extras.overwrite,
            "--overwrite",
            "it needs every release",
        ),
        (
            output.switch_output.is_some(),
            "--switch-output",
            "it writes at the end",
        ),
    ];
    if let Some((_, flag, cause)) = refused.into_iter().find(|(is_given, ..)| *is_given) {
        return Err(usage(format!(
            "--alloc and {flag} cannot be combined: {cause}"
        )));
    }
    if args.target.is_given() || args.command.is_empty() {
        return Err(usage(
            "--alloc records a COMMAND, because its library must be loaded when a program starts; \
             for a running process use --memory -p PID"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Returns the lines of the summary.
pub(crate) fn lines(made: &Allocated) -> Vec<String> {
    let all = &made.requests;
    let mut lines = Vec::new();
    if all.programs > 0 {
        lines.push(remedies::of_finding(&Finding::Requests(*all)));
    }
    if let Some(program) = &made.unloaded {
        lines.push(format!(
            "{} did not load the library of rprof (the first is {}): static programs, set-user-ID \
             programs and an empty environment ignore LD_PRELOAD; --memory records them",
            programs(all.unloaded),
            brief(program)
        ));
    }
    if let Some(program) = &made.own_malloc {
        lines.push(format!(
            "{} brought its own malloc (the first is {}), whose calls are not seen; --memory \
             records it",
            programs(all.own_malloc),
            brief(program)
        ));
    }
    if made.further_stacks > 0 {
        lines.push(format!(
            "{} samples have no stack: there were too many distinct stacks",
            HumanCount(made.further_stacks)
        ));
    }
    lines
}

fn programs(number: u64) -> String {
    match number {
        1 => "1 program".to_owned(),
        n => format!("{} programs", HumanCount(n)),
    }
}
