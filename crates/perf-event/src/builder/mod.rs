//! [`Builder`]: configures and opens an event.

mod fields;
mod flags;

use crate::counter::Counter;
use crate::error::OpenEventError;
use crate::event::{Breakpoint, CacheOp, CacheResult, GenericCache, Hardware, Software};
use crate::fd::{OpenOptions, PerfFd, Subject};
use crate::open_flags::OpenFlags;
use rprof_events::{Event, EventError};
use rprof_records::{Attr, AttrFlags, EventKind, ReadFormat};
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Event to open: its attr, its target, and its name in messages.
///
/// By default it counts the calling thread on any CPU, and starts disabled. Its read format has
/// [`TOTAL_TIME_ENABLED`](ReadFormat::TOTAL_TIME_ENABLED) and
/// [`TOTAL_TIME_RUNNING`](ReadFormat::TOTAL_TIME_RUNNING), for scaling. All other attr fields are
/// zero.
///
/// By default (`kernel.perf_event_paranoid` = 2), users without CAP_PERFMON may count only their
/// own user-mode code, and must set [`exclude_kernel`](Self::exclude_kernel).
///
/// ```no_run
/// use rprof_perf_event::{Builder, Software};
///
/// let faults = Builder::software(Software::PAGE_FAULTS).exclude_kernel(true).open()?;
/// let (bytes, counted) = faults.measure(|| vec![1_u8; 1 << 20])?;
/// println!("{} page faults for {} bytes", counted.value, bytes.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    attr: Attr,
    subject: OwnedSubject,
    cpu: Option<u32>,
    flags: OpenFlags,
    probe_path: Option<CString>,
}

#[derive(Clone, Debug)]
enum OwnedSubject {
    Thread(i32),
    All,
    Cgroup(Arc<OwnedFd>),
}

impl Builder {
    /// Starts from an existing attr, for example of `rprof_events::Event::apply`. `name` is the
    /// event's name in messages.
    pub fn from_attr(name: impl Into<String>, attr: Attr) -> Builder {
        Builder {
            name: name.into(),
            attr,
            subject: OwnedSubject::Thread(0),
            cpu: None,
            flags: OpenFlags::default(),
            probe_path: None,
        }
    }

    fn of(name: impl Into<String>, kind: EventKind, config: u64) -> Builder {
        let attr = Attr {
            kind,
            config,
            read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
            flags: AttrFlags::DISABLED,
            ..Attr::default()
        };
        Builder::from_attr(name, attr)
    }

    /// Counts a generic hardware event (`PERF_TYPE_HARDWARE`).
    pub fn hardware(event: Hardware) -> Builder {
        let name = format!("hardware event {}", event.0);
        Builder::of(name, EventKind::HARDWARE, event.0)
    }

    /// Counts a software event of the kernel (`PERF_TYPE_SOFTWARE`).
    pub fn software(event: Software) -> Builder {
        let name = format!("software event {}", event.0);
        Builder::of(name, EventKind::SOFTWARE, event.0)
    }

    /// Counts a generic cache event (`PERF_TYPE_HW_CACHE`).
    pub fn cache(cache: GenericCache, op: CacheOp, result: CacheResult) -> Builder {
        let config = cache.0 | op.0 << 8 | result.0 << 16;
        Builder::of(
            format!("cache event {config:#x}"),
            EventKind::HW_CACHE,
            config,
        )
    }

    /// Counts an event of the CPU's own PMU by its raw code (`PERF_TYPE_RAW`).
    pub fn raw(config: u64) -> Builder {
        Builder::of(format!("r{config:x}"), EventKind::RAW, config)
    }

    /// Counts a tracepoint, by the number in its tracefs file `id` (`PERF_TYPE_TRACEPOINT`).
    /// [`exclude_kernel`](Self::exclude_kernel) leaves only system calls.
    pub fn tracepoint(id: u64) -> Builder {
        Builder::of(format!("tracepoint {id}"), EventKind::TRACEPOINT, id)
    }

    /// Counts hits of a breakpoint (`PERF_TYPE_BREAKPOINT`).
    pub fn breakpoint(breakpoint: Breakpoint) -> Builder {
        let name = format!("breakpoint at {:#x}", breakpoint.address);
        let mut builder = Builder::of(name, EventKind::BREAKPOINT, 0);
        breakpoint.apply(&mut builder.attr);
        builder
    }

    /// Counts an event of another PMU. `kind` is the number in the file `type` of its folder in
    /// `/sys/bus/event_source/devices`.
    pub fn pmu(kind: EventKind, config: u64) -> Builder {
        Builder::of(format!("{}:{config:#x}", kind.0), kind, config)
    }

    /// Counts hits of a probe on a file's code (`uprobe`: path and file offset in bytes) or on the
    /// kernel's (`kprobe`: function and offset). `kind` is the number in that PMU's file `type`.
    /// Bit 0 of [`config`](Self::config) counts returns instead of calls.
    pub fn probe(kind: EventKind, path: &CStr, offset: u64) -> Builder {
        let name = format!("probe on {}", path.to_string_lossy());
        let mut builder = Builder::of(name, kind, 0);
        builder.attr.config2 = offset;
        builder.probe_path = Some(path.to_owned());
        builder
    }

    /// Sets the text that `config1` points to, like [`probe`](Self::probe): the path of a uprobe's
    /// file, or the function of a kprobe (perf_event_open(2), `uprobe_path`, `kprobe_func`).
    #[must_use]
    pub fn probe_path(self, path: &CStr) -> Builder {
        Builder {
            probe_path: Some(path.to_owned()),
            ..self
        }
    }

    /// Counts an event by name, in the syntax of perf-list(1): `instructions:u`,
    /// `sched:sched_switch`, `mem:0x601040/8:w`, `uprobe:/bin/x:main`.
    ///
    /// # Errors
    /// Returns [`EventError`] if the name is invalid or unknown on this machine.
    pub fn named(event: &str) -> Result<Builder, EventError> {
        let event = Event::parse(event)?;
        let mut builder = Builder::of(event.describe(), event.kind(), event.config());
        event.apply(&mut builder.attr);
        builder.attr.flags.insert(AttrFlags::DISABLED);
        builder.probe_path = event.probe_path().map(CStr::to_owned);
        Ok(builder)
    }

    /// Sets the event's name in messages.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            ..self
        }
    }

    /// Counts one thread by its id. The default is 0, the thread that opens the event.
    #[must_use]
    pub fn thread(self, tid: i32) -> Builder {
        Builder {
            subject: OwnedSubject::Thread(tid),
            ..self
        }
    }

    /// Counts all tasks on this CPU.
    #[must_use]
    pub fn everything_on(self, cpu: u32) -> Builder {
        Builder {
            subject: OwnedSubject::All,
            cpu: Some(cpu),
            ..self
        }
    }

    /// Counts the processes of a control group and its descendants on this CPU. `folder` is its
    /// directory in the `perf_event` or cgroup v2 hierarchy.
    #[must_use]
    pub fn cgroup(self, folder: impl Into<Arc<OwnedFd>>, cpu: u32) -> Builder {
        Builder {
            subject: OwnedSubject::Cgroup(folder.into()),
            cpu: Some(cpu),
            ..self
        }
    }

    /// Counts the thread only on this CPU.
    #[must_use]
    pub fn cpu(self, cpu: u32) -> Builder {
        Builder {
            cpu: Some(cpu),
            ..self
        }
    }

    /// Sets the flags of the call. The default is [`OpenFlags::CLOEXEC`] alone.
    #[must_use]
    pub fn open_flags(self, flags: OpenFlags) -> Builder {
        Builder { flags, ..self }
    }

    /// Returns the current attr.
    pub fn attr(&self) -> &Attr {
        &self.attr
    }

    /// Returns the attr for direct changes.
    pub fn attr_mut(&mut self) -> &mut Attr {
        &mut self.attr
    }

    /// Returns the event's name in messages.
    pub fn event_name(&self) -> &str {
        &self.name
    }

    /// Opens the event as a counter.
    ///
    /// # Errors
    /// Returns [`OpenEventError`], with a remedy based on this system's settings.
    pub fn open(&self) -> Result<Counter, OpenEventError> {
        Ok(Counter::new(self.open_fd(None)?))
    }

    /// Opens the event's descriptor, as a member of `leader`'s group if given.
    ///
    /// # Errors
    /// Returns [`OpenEventError`], with a remedy based on this system's settings.
    pub fn open_fd(&self, leader: Option<&PerfFd>) -> Result<PerfFd, OpenEventError> {
        let subject = match &self.subject {
            OwnedSubject::Thread(tid) => Subject::Thread(*tid),
            OwnedSubject::All => Subject::All,
            OwnedSubject::Cgroup(folder) => Subject::Cgroup(folder.as_fd()),
        };
        let mut options = OpenOptions::new(&self.attr)
            .subject(subject)
            .flags(self.flags);
        if let Some(cpu) = self.cpu {
            options = options.cpu(cpu);
        }
        if let Some(leader) = leader {
            options = options.leader(leader);
        }
        if let Some(path) = &self.probe_path {
            options = options.probe_path(path);
        }
        options.open_named(&self.name)
    }
}
