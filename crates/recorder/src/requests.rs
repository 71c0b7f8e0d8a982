//! [`Requests`]: the places of thread contexts in processes, for `--requests`.
//!
//! ```text
//!   mapping --> Resolver: has the file `otel_thread_ctx_v1`? --> place, relative to the thread pointer
//!                  |                                                 |
//!                  |  process context (OTEP 4719)                    v
//!                  v                                          ContextProgram, at each sample
//!               PROCESS records                                      |
//!                                                                    v
//!                                                              THREAD records
//! ```
//!
//! The resolver is a thread of its own, because reads of files and of process memory may hang. It
//! is then left behind, and later processes have no context.

mod variable;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use rprof_perf_event::{ContextPlace, ContextPlaces};
use rprof_processes::{ImageIdentity, ImageKind};
use rprof_records::request_context::{MAX_PROCESS_BYTES, RequestContext};
use rprof_records::{Endian, Misc, ProcessEvent, RecordType, Sample, SampleLayout, put_record};
use rprof_sampler::{Role, Session, Stream};
use rustc_hash::FxHashMap;

use crate::mapped_files::MappedImage;
use crate::pipeline::merge::Released;
use variable::{Access, Variable, is_mapped, maps, place_of, read_variable, words};

/// Maximum number of messages that wait for the resolver. It ignores further mappings.
const MAX_MESSAGES: usize = 1 << 16;

/// Maximum number of files with a known result.
const MAX_FILES: usize = 4096;

/// Maximum number of processes with a context.
const MAX_PROCESSES: usize = 1024;

/// Time between two looks at a process that the dynamic linker has not relocated yet.
const SOON: Duration = Duration::from_millis(5);

/// Time between two looks at a process context.
const LATER: Duration = Duration::from_millis(200);

/// Maximum number of looks for the place in a process.
const MAX_LOOKS: u32 = 2000;

/// Bit of generations whose variable belongs to a library. Another library may take its place.
const OF_LIBRARY: u64 = 1 << 63;

/// Follows processes on the writer thread, and filters the records of contexts.
#[derive(Debug)]
pub(crate) struct Requests {
    ids: Vec<u64>,
    layout: SampleLayout,
    resolver: Sender<Message>,
    found: Receiver<ProcessContext>,
    /// Number of the last message.
    generation: u64,
    /// Last generation before an exec, by process.
    ended: FxHashMap<i32, u64>,
    /// Generation of the last mapped file, by process.
    mapped: FxHashMap<i32, u64>,
}

/// Change of a process, for the resolver.
#[derive(Debug)]
enum Message {
    Mapped {
        image: Box<MappedImage>,
        file_offset: u64,
        generation: u64,
    },
    Forked {
        pid: i32,
        parent: i32,
        generation: u64,
    },
    Ended {
        pid: i32,
    },
}

#[derive(Debug)]
struct ProcessContext {
    pid: i32,
    generation: u64,
    resource: Vec<u8>,
}

impl Requests {
    /// Starts the resolver, if the session records requests.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn of(session: &Session) -> io::Result<Option<Requests>> {
        let event = (session.events().iter()).find(|event| event.role == Role::Contexts);
        let Some((event, places)) = event.zip(session.context_places()) else {
            return Ok(None);
        };
        let (resolver, messages) = bounded(MAX_MESSAGES);
        let (sender, found) = bounded(MAX_PROCESSES);
        let resolver_thread = Resolver {
            messages,
            found: sender,
            places: Arc::clone(places),
            files: FxHashMap::default(),
            processes: FxHashMap::default(),
        };
        let thread = std::thread::Builder::new().name("rprof-requests".into());
        thread.spawn(move || resolver_thread.run())?;
        Ok(Some(Requests {
            ids: event.ids.clone(),
            layout: SampleLayout::new(&event.attr, Endian::NATIVE),
            resolver,
            found,
            generation: 0,
            ended: FxHashMap::default(),
            mapped: FxHashMap::default(),
        }))
    }

    /// Returns the ids of the event for the records of contexts.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.ids.clone()
    }

    /// Follows a process.
    pub(crate) fn handle(&mut self, event: &ProcessEvent<'_>) {
        let generation = self.generation + 1;
        let message = match event {
            ProcessEvent::Mapped(mapped) if mapped.executable && !mapped.kernel => {
                let image = MappedImage::new(mapped);
                if matches!(image.image.kind, ImageKind::File | ImageKind::Deleted) {
                    self.mapped.insert(mapped.pid, generation);
                }
                Message::Mapped {
                    image: Box::new(image),
                    file_offset: mapped.file_offset,
                    generation,
                }
            }
            ProcessEvent::Forked {
                pid,
                tid,
                parent_pid,
                ..
            } if pid == tid => {
                self.ended.remove(pid);
                self.mapped.remove(pid);
                Message::Forked {
                    pid: *pid,
                    parent: *parent_pid,
                    generation,
                }
            }
            ProcessEvent::Executed { pid, .. } => {
                self.ended.insert(*pid, self.generation);
                Message::Ended { pid: *pid }
            }
            ProcessEvent::Ended { pid, tid } if pid == tid => {
                self.ended.remove(pid);
                self.mapped.remove(pid);
                Message::Ended { pid: *pid }
            }
            _ => return,
        };
        self.generation = generation;
        self.resolver.try_send(message).ok();
    }

    /// Returns true for a record of a context.
    pub(crate) fn is_context(&self, released: &Released<'_>) -> bool {
        is_of(&self.ids, released)
    }

    /// Returns true unless the process has executed another program meanwhile, or mapped another
    /// library than that with the variable: the place may be that of the earlier one.
    pub(crate) fn accepts(&self, released: &Released<'_>) -> bool {
        let accepts = || {
            let sample = Sample::parse(released.raw()?.body, &self.layout).ok()?;
            let payload = sample.raw()?;
            let payload = payload.to_cow();
            match RequestContext::parse(&payload, Endian::NATIVE)? {
                RequestContext::Thread { generation, .. } => {
                    let pid = sample.pid()?;
                    let is_of_library = generation & OF_LIBRARY != 0;
                    let generation = generation & !OF_LIBRARY;
                    let ended = self.ended.get(&pid);
                    let mapped = self.mapped.get(&pid).filter(|_| is_of_library);
                    Some(
                        ended.is_none_or(|ended| generation > *ended)
                            && mapped.is_none_or(|mapped| generation >= *mapped),
                    )
                }
                RequestContext::Process { .. } => None,
            }
        };
        accepts().unwrap_or(false)
    }

    /// Returns a process and a record for its process context, the next that was found, as of `time`.
    pub(crate) fn take_process(&self, time: u64) -> Option<(i32, Vec<u8>)> {
        let found = self.found.try_recv().ok()?;
        let payload = RequestContext::encode_process(found.generation, &found.resource);
        let mut record = Vec::new();
        let put = put_record(
            &mut record,
            RecordType::SAMPLE,
            Misc::USER,
            Endian::NATIVE,
            |body| {
                let pid = u64::from(found.pid.cast_unsigned());
                let id = self.ids.first().copied().unwrap_or(0);
                for word in [id, 0, pid << 32 | pid, time, 0] {
                    body.extend_from_slice(&word.to_ne_bytes());
                }
                // The size and the data together fill whole words.
                let padded = (payload.len() + 4).next_multiple_of(8) - 4;
                body.extend_from_slice(&(padded as u32).to_ne_bytes());
                body.extend_from_slice(&payload);
                body.resize(body.len() + padded - payload.len(), 0);
            },
        );
        put.is_ok().then_some((found.pid, record))
    }
}

/// Returns true for a sample of an event with one of these ids.
pub(crate) fn is_of(ids: &[u64], released: &Released<'_>) -> bool {
    if released.stream != Stream::Samples {
        return false;
    }
    let raw = released.raw().filter(|raw| raw.kind == RecordType::SAMPLE);
    let id = raw.and_then(|raw| raw.body.u64(0, Endian::NATIVE));
    id.is_some_and(|id| ids.contains(&id))
}

/// The resolver thread.
#[derive(Debug)]
struct Resolver {
    messages: Receiver<Message>,
    found: Sender<ProcessContext>,
    places: Arc<ContextPlaces>,
    /// Variables of files; `None` without one.
    files: FxHashMap<ImageIdentity, Option<Variable>>,
    processes: FxHashMap<i32, Process>,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    variable: Variable,
    bias: u64,
    /// Start of the mapping of its code.
    start: u64,
    generation: u64,
    place: Option<ContextPlace>,
    looks: u32,
    next_look: Instant,
    /// Time of the last process context that was read.
    published: u64,
}

impl Process {
    /// Returns the generation in records.
    fn stamp(&self) -> u64 {
        match self.variable.is_program {
            true => self.generation,
            false => self.generation | OF_LIBRARY,
        }
    }
}

impl Resolver {
    fn run(mut self) {
        loop {
            let now = Instant::now();
            let next = self
                .processes
                .values()
                .map(|process| process.next_look)
                .min();
            let wait = next.map_or(Duration::from_secs(1), |next| {
                next.saturating_duration_since(now)
            });
            match self.messages.recv_timeout(wait) {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Mapped {
                image,
                file_offset,
                generation,
            } => self.handle_mapped(&image, file_offset, generation),
            Message::Forked {
                pid,
                parent,
                generation,
            } => {
                self.forget(pid);
                if let Some(process) = self.processes.get(&parent).copied() {
                    self.insert(
                        pid,
                        Process {
                            generation,
                            next_look: Instant::now(),
                            published: 0,
                            ..process
                        },
                    );
                }
            }
            Message::Ended { pid } => self.forget(pid),
        }
    }

    fn forget(&mut self, pid: i32) {
        if self
            .processes
            .remove(&pid)
            .is_some_and(|process| process.place.is_some())
        {
            self.places.remove(pid.cast_unsigned());
        }
    }

    fn handle_mapped(&mut self, image: &MappedImage, file_offset: u64, generation: u64) {
        let pid = image.pid.0;
        let identity = image.image.identity;
        if let Some(mut known) = self.processes.get(&pid).copied()
            && !known.variable.is_program
        {
            let is_loaded = || maps(pid).is_some_and(|maps| is_mapped(&maps, known.start));
            self.forget(pid);
            if !image.range.contains(&known.start) && is_loaded() {
                known.generation = generation;
                known.published = 0;
                self.insert(pid, known);
            }
        }
        if matches!(self.files.get(&identity), Some(None)) {
            return;
        }
        let Some((variable, bias)) = read_variable(image, file_offset) else {
            if self.files.len() < MAX_FILES && identity != ImageIdentity::PathOnly {
                self.files.insert(identity, None);
            }
            return;
        };
        let is_earlier = (self.processes.get(&pid))
            .is_some_and(|known| known.variable.is_program || !variable.is_program);
        if !is_earlier {
            self.forget(pid);
            self.insert(
                pid,
                Process {
                    variable,
                    bias,
                    start: image.range.start,
                    generation,
                    place: None,
                    looks: 0,
                    next_look: Instant::now(),
                    published: 0,
                },
            );
        }
    }

    fn insert(&mut self, pid: i32, mut process: Process) {
        if self.processes.len() >= MAX_PROCESSES {
            return;
        }
        if let Some(place) = process.place {
            self.places
                .set(pid.cast_unsigned(), process.stamp(), place)
                .ok();
        } else if let Access::Static(distance) = process.variable.access {
            process.place = Some(ContextPlace::Static(distance));
            self.places
                .set(
                    pid.cast_unsigned(),
                    process.stamp(),
                    ContextPlace::Static(distance),
                )
                .ok();
        }
        self.processes.insert(pid, process);
    }

    /// Looks at the processes that are due.
    fn look(&mut self) {
        let now = Instant::now();
        let mut gone = Vec::new();
        for (pid, process) in &mut self.processes {
            if process.next_look > now {
                continue;
            }
            process.looks += 1;
            let is_due = process.place.is_some() || process.looks < MAX_LOOKS;
            let maps = maps(*pid).filter(|maps| is_due && is_mapped(maps, process.start));
            let memory = File::open(format!("/proc/{pid}/mem"));
            let (Ok(memory), Some(maps)) = (memory, maps) else {
                gone.push(*pid);
                continue;
            };
            if process.place.is_none() {
                process.place = place_of(&memory, *pid, process.variable, process.bias);
                if let Some(place) = process.place {
                    self.places
                        .set(pid.cast_unsigned(), process.stamp(), place)
                        .ok();
                }
            }
            process.next_look = now
                + match (process.place.is_some(), process.published > 0) {
                    (true, true) => LATER,
                    (true, false) => SOON.saturating_mul(process.looks).min(LATER),
                    (false, _) => SOON,
                };
            if let Some((published, resource)) = process_context(&memory, &maps, process.published)
                && self
                    .found
                    .try_send(ProcessContext {
                        pid: *pid,
                        generation: process.stamp(),
                        resource,
                    })
                    .is_ok()
            {
                process.published = published;
            }
        }
        for pid in gone {
            self.forget(pid);
        }
    }
}

/// Reads the process context (OTEP 4719) if it is newer than `published`. Returns its time and its
/// payload.
fn process_context(memory: &File, maps: &str, published: u64) -> Option<(u64, Vec<u8>)> {
    let is_context = |line: &&str| {
        line.contains("/memfd:OTEL_CTX")
            || line.contains("[anon_shmem:OTEL_CTX]")
            || line.contains("[anon:OTEL_CTX]")
    };
    let start = maps.lines().find(is_context)?.split('-').next()?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let header = || -> Option<(u64, u64, usize)> {
        let [signature, sizes, time, payload] = words(memory, start)?;
        let (version, size) = (sizes as u32, (sizes >> 32) as usize);
        let is_valid = signature.to_ne_bytes() == *b"OTEL_CTX"
            && (1..=2).contains(&version)
            && time != 0
            && size <= MAX_PROCESS_BYTES;
        is_valid.then_some((time, payload, size))
    };
    let before = header()?;
    let (time, payload, size) = before;
    if time == published {
        return None;
    }
    let mut bytes = vec![0; size];
    memory.read_exact_at(&mut bytes, payload).ok()?;
    // An update meanwhile changes the time.
    (header()? == before).then_some((time, bytes))
}
