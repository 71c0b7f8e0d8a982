//! Requested memory: the preload library, recording options and the summary.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rprof_export::clean::brief;
use rprof_export::verdict::Finding;
use rprof_preload::{FILE_NAME, LIBRARY, REGISTERS};
use rprof_profile::unit::counted;
use rprof_recorder::{Allocated, AllocationSource};
use rprof_records::SampleType;
use rprof_sampler::SessionBuilder;
use rustix::fs::{FlockOperation, Mode, OFlags, StatVfsMountFlags, flock, statvfs};
use tempfile::TempDir;

use crate::cli::{CallGraph, RecordArgs};
use crate::recording::alloc_probes::{OwnProbes, Unusable, files_of_command, files_of_processes};
use crate::recording::event_list;
use crate::wording::messages::{Failure, say};
use crate::wording::remedies;

/// Prefix of the folders of libraries.
const FOLDER: &str = "rprof-alloc-";

/// Age of a folder that may be removed. A new one is not locked yet.
const NEW: Duration = Duration::from_secs(60);

/// Preload library for the command, in a folder of its own. The folder is removed on drop.
#[derive(Debug)]
pub(crate) struct Preload {
    folder: TempDir,
    /// Locked, as long as this process lives.
    _lock: File,
    page: u64,
    /// Mean distance of two points in bytes.
    mean: u64,
}

impl Preload {
    /// Writes the library where a program may map it for execution.
    fn new(mean: u64) -> Result<Preload, Failure> {
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
        remove_left(place);
        let cannot = || format!("cannot write a library to {}", place.display());
        let folder = write(place).with_context(cannot)?;
        let lock = File::open(folder.path()).with_context(cannot)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(cannot)?;
        Ok(Preload {
            folder,
            _lock: lock,
            page: rprof_preload::page(std::process::id()),
            mean,
        })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(FILE_NAME)
    }

    fn variables(&self) -> [(&'static str, OsString); 2] {
        let preloaded = std::env::var_os("LD_PRELOAD");
        let path = self.path();
        rprof_preload::variables(path.as_os_str(), preloaded.as_deref(), self.page, self.mean)
    }

    /// Adds the breakpoint that the library hits.
    fn add_to(&self, builder: SessionBuilder) -> Result<SessionBuilder, Failure> {
        let events = event_list::parse(&[format!("mem:{:#x}/8:w:u", self.page)])?;
        let builder = builder.events(events).period(1);
        Ok(builder.extras(|extras| {
            extras.user_registers |= REGISTERS;
            // Time of the snapshot, for memory over time.
            extras.fields |= SampleType::ADDR;
        }))
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

/// Removes the folders that killed recorders of this user left. The lock of a folder ends with its
/// recorder.
fn remove_left(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(FOLDER.as_bytes())
        {
            continue;
        }
        let path = entry.path();
        // Other users may place links there.
        let Ok(folder) = rustix::fs::open(
            &path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) else {
            continue;
        };
        let folder = File::from(folder);
        let is_old = folder.metadata().is_ok_and(|meta| {
            let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
            meta.uid() == rustix::process::geteuid().as_raw() && age.is_some_and(|age| age > NEW)
        });
        if is_old && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Only this user may write to the folder.
            std::fs::remove_file(path.join(FILE_NAME)).ok();
            std::fs::remove_dir(&path).ok();
        }
    }
}

fn write(place: &Path) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix(FOLDER).tempdir_in(place)?;
    // Children of the command may run as other users.
    let is_public = |mode| PermissionsExt::from_mode(mode);
    std::fs::set_permissions(folder.path(), is_public(0o755))?;
    let path = folder.path().join(FILE_NAME);
    std::fs::write(&path, LIBRARY)?;
    std::fs::set_permissions(&path, is_public(0o755))?;
    Ok(folder)
}

/// Part of the programs that reports allocations.
#[derive(Debug)]
pub(crate) enum Source {
    Library(Preload),
    Probes(OwnProbes),
}

impl Source {
    /// Chooses the programs' own probes if they have some, or else the library.
    pub(crate) fn of(args: &RecordArgs, mean: u64) -> Result<Source, Failure> {
        let pids = &args.target.processes;
        let files = match pids.is_empty() {
            true => files_of_command(&args.command),
            false => files_of_processes(pids),
        };
        let why = match OwnProbes::new(&files) {
            Ok(probes) => {
                if !args.sampling.quiet {
                    say(format_args!(
                        "--alloc uses the probes of {}, which samples its allocations itself; \
                         programs without such probes are not recorded",
                        brief(&probes.file.to_string_lossy())
                    ));
                }
                return Ok(Source::Probes(probes));
            }
            Err(why) => why,
        };
        match (why, pids.is_empty()) {
            (Unusable::Missing, true) => {}
            (Unusable::Missing, false) => {
                return Err(usage(
                    "--alloc -p needs a program with probes of its own (otel_memory:alloc): the \
                     library of rprof is loaded only when a program starts; use --memory -p, or \
                     start the program with `rprof record --alloc -- COMMAND`"
                        .to_owned(),
                ));
            }
            (Unusable::Refused(why), true) => {
                if !args.sampling.quiet {
                    say(format_args!(
                        "cannot use the program's own probes of allocations: {why}; --alloc loads \
                         its library instead"
                    ));
                }
            }
            (Unusable::Refused(why), false) => {
                let message = format!("cannot use the program's own probes of allocations: {why}");
                return Err(anyhow::anyhow!(message).into());
            }
        }
        Ok(Source::Library(Preload::new(mean)?))
    }

    /// Adds the events that report allocations.
    pub(crate) fn add_to(&self, builder: SessionBuilder) -> Result<SessionBuilder, Failure> {
        match self {
            Source::Library(preload) => preload.add_to(builder),
            Source::Probes(probes) => {
                let events = event_list::parse(&probes.events())?;
                Ok(builder.events(events).period(1))
            }
        }
    }

    /// Returns the environment variables of the command.
    pub(crate) fn variables(&self) -> Vec<(&'static str, OsString)> {
        match self {
            Source::Library(preload) => preload.variables().into(),
            Source::Probes(_) => Vec::new(),
        }
    }

    pub(crate) fn for_recorder(&self) -> AllocationSource {
        match self {
            Source::Library(preload) => AllocationSource::Library { mean: preload.mean },
            Source::Probes(probes) => AllocationSource::Probes(probes.probes.clone()),
        }
    }
}

fn usage(message: String) -> Failure {
    Failure::with_status(2, anyhow::anyhow!(message))
}

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
    let is_other = args.target.is_given() && args.target.processes.is_empty();
    if is_other || args.target.cpus.is_some() {
        return Err(usage(
            "--alloc records a COMMAND, or processes with probes of their own (-p PID); for others \
             use --memory"
                .to_owned(),
        ));
    }
    Ok(())
}

pub(crate) fn lines(made: &Allocated) -> Vec<String> {
    let all = &made.requests;
    let mut lines = Vec::new();
    if all.programs > 0 || all.probes > 0 || all.unloaded > 0 {
        lines.push(remedies::of_finding(&Finding::Requests(*all)));
    }
    if let Some(program) = &made.unloaded {
        lines.push(format!(
            "{} did not load the library of rprof (the first is {}): static programs, set-user-ID \
             programs and an empty environment ignore LD_PRELOAD; --memory records them",
            counted(all.unloaded, "program"),
            brief(program)
        ));
    }
    if let Some(program) = &made.own_malloc {
        lines.push(format!(
            "{} brought its own malloc (the first is {}), whose calls are not seen: build it with \
             the malloc of the system (Rust: without #[global_allocator]), or use --memory",
            counted(all.own_malloc, "program"),
            brief(program)
        ));
    }
    if made.unloaded.is_none() && made.own_malloc.is_none() && all.lacks_most() {
        lines.push(
            "most resident memory did not come from malloc: an allocator with other names (such as \
             mi_malloc), mmap(2), mapped files or a garbage-collected heap made it; --memory records \
             it"
                .to_owned(),
        );
    }
    if made.further_stacks > 0 {
        lines.push(format!(
            "{} without a stack: there were too many distinct stacks",
            counted(made.further_stacks, "sample")
        ));
    }
    lines
}

/// Explains missing samples; `None` if [`lines`] names programs or memory that were not seen.
pub(crate) fn without_samples(made: &Allocated) -> Option<String> {
    let all = &made.requests;
    let is_seen = all.probes == 0 && all.unloaded == 0 && all.own_malloc == 0 && !all.lacks_most();
    is_seen.then(|| {
        "the program requested too little memory from malloc; --alloc=4K samples more, and \
         --memory records memory of any allocator"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use rprof_profile::memory::Requests;

    use super::*;

    #[test]
    fn memory_of_another_allocator_is_no_small_request() {
        let made = |resident| {
            let mut made = Allocated::default();
            made.requests = Requests {
                programs: 1,
                resident,
                ..Requests::default()
            };
            made
        };
        let little = made(4 << 20);
        assert!(without_samples(&little).is_some_and(|why| why.contains("--alloc=4K")));
        assert!(!lines(&little).concat().contains("--memory"));
        let other = made(43 << 20);
        assert_eq!(without_samples(&other), None);
        assert!(lines(&other).concat().contains("mi_malloc"));
    }

    #[test]
    fn folders_of_killed_recorders_are_removed_and_others_stay() {
        let place = tempfile::tempdir().expect("a folder");
        let [left, used, new] = [(); 3].map(|()| write(place.path()).expect("a library").keep());
        let other = place.path().join(format!("{FOLDER}link"));
        std::os::unix::fs::symlink(&left, &other).expect("a link");
        let lock = File::open(&used).expect("a folder");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("a lock");
        let long_ago = SystemTime::now() - 2 * NEW;
        for folder in [&left, &used] {
            let folder = File::open(folder).expect("a folder");
            folder.set_modified(long_ago).expect("own folder");
        }
        remove_left(place.path());
        assert!(!left.exists());
        assert!(used.join(FILE_NAME).exists() && new.join(FILE_NAME).exists());
        assert!(other.is_symlink());
    }
}
