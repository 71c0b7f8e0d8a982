//! [`EmbeddingThread`]: opens and reads files on a separate thread.
//!
//! All samples wait for the writer thread, and files may be long, many, or slow. So the writer only
//! sends events, and requests the files at the end of an output file with a time limit. Calls that
//! may hang run on [abandonable threads](rprof_image::PatientCalls), so that a hanging file does
//! not delay others. The thread also reads build-ids for the writer.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender};
use rprof_image::{Allowance, Rate};
use rprof_perfdata::EmbeddedFile;
use rprof_records::{BuildId, MmapIdentity, ProcessEvent};

use super::file_embedder::{FileEmbedder, Identified};
use super::images::Identification;
use super::notices::Notice;
use super::seen::SeenMappings;
use super::selection::Embedding;
use crate::backlog::Backlog;
use crate::limits::{Limit, ReachedLimits};
use crate::mapped_files::MappedImage;

/// Maximum number of queued events. Each has a path of up to 4 KiB.
const MAX_WAITING: usize = 1024;

/// Nanoseconds for which the writer waits for a full queue: a system-wide recording starts with
/// thousands of mappings.
const WAITING: Rate = Rate {
    most: 1_000_000_000,
    a_second: 20_000_000,
};

const FOR_ONE: Duration = Duration::from_millis(20);

/// Maximum wait for embedded files at the end of an output file.
const FOR_ALL: Duration = Duration::from_secs(20);

/// Maximum number of abandoned threads. A slow disk may recover; a dead file server keeps a thread
/// for each attempt.
const MAX_LATE: u64 = 3;

/// The thread of a [`FileEmbedder`]; started with the first event.
#[derive(Debug)]
pub(crate) struct EmbeddingThread {
    embedding: Embedding,
    backlog: Backlog,
    seen: SeenMappings,
    jobs: Option<Sender<Job>>,
    /// Build-ids from the thread. The channel is unbounded, so that the thread never blocks on it.
    identified: Option<Receiver<Identified>>,
    begin: Instant,
    waiting: Allowance,
    missed: u64,
    /// Number of output files without embedded files because of a timeout.
    late: u64,
}

#[derive(Debug)]
enum Job {
    Event(Box<ProcessEvent<'static>>, u64),
    Sampled(Box<MappedImage>),
    Round,
    Files(u64, Sender<Vec<EmbeddedFile<'static>>>),
    Notices(Sender<(Vec<Notice>, u64)>),
}

impl EmbeddingThread {
    pub(crate) fn new(embedding: Embedding, backlog: Backlog) -> EmbeddingThread {
        EmbeddingThread {
            embedding,
            backlog,
            seen: SeenMappings::default(),
            jobs: None,
            identified: None,
            begin: Instant::now(),
            waiting: Allowance::new(WAITING, 0),
            missed: 0,
            late: 0,
        }
    }

    /// Queues the files of an event for inspection.
    pub(crate) fn handle(&mut self, event: &ProcessEvent<'_>, time: u64) {
        if self.late >= MAX_LATE {
            return;
        }
        let is_wanted = match event {
            ProcessEvent::Mapped(m) => {
                m.pid > 0 && m.executable && !m.kernel && self.seen.is_new(m)
            }
            // Without a runtime there is nothing to finish.
            ProcessEvent::Executed { pid, .. } => self.seen.forget(*pid),
            ProcessEvent::Ended { pid, .. } => self.seen.has_runtime(*pid),
            _ => false,
        };
        if !is_wanted {
            return;
        }
        let is_sent = self.send(Job::Event(Box::new(event.clone().into_owned()), time));
        if let (ProcessEvent::Mapped(mapped), false) = (event, is_sent) {
            self.seen.retry(&mapped.path, mapped.identity);
        }
    }

    pub(crate) fn handle_sampled(&mut self, map: MappedImage) {
        if self.late < MAX_LATE && self.embedding == Embedding::Unreachable {
            self.send(Job::Sampled(Box::new(map)));
        }
    }

    fn send(&mut self, job: Job) -> bool {
        let (embedding, identified) = (self.embedding, &mut self.identified);
        let jobs = self.jobs.get_or_insert_with(|| {
            let (sender, receiver) = crossbeam_channel::unbounded();
            *identified = Some(receiver);
            start(embedding, sender)
        });
        let is_sent = match jobs.try_send(job) {
            Ok(()) => true,
            Err(full) => self.wait(full.into_inner()),
        };
        self.missed += u64::from(!is_sent);
        is_sent
    }

    /// Takes the next available build-id. Unopened files are tried again when another process maps
    /// them.
    pub(crate) fn next_identified(&mut self) -> Option<(MmapIdentity, BuildId)> {
        while let Ok(answer) = self.identified.as_ref()?.try_recv() {
            match answer.identification {
                Identification::Known(Some(build_id)) => return Some((answer.identity, build_id)),
                Identification::Known(None) => {}
                Identification::NotOpened => self.seen.retry(&answer.path, Some(answer.identity)),
            }
        }
        None
    }

    fn wait(&mut self, job: Job) -> bool {
        if self.backlog.is_long() {
            return false;
        }
        let began = self.begin.elapsed();
        let now = began.as_nanos() as u64;
        let most = Duration::from_nanos(self.waiting.at(WAITING, now)).min(FOR_ONE);
        let Some(jobs) = self.jobs.as_ref().filter(|_| !most.is_zero()) else {
            return false;
        };
        let sent = jobs.send_timeout(job, most);
        let spent = self.begin.elapsed().saturating_sub(began).as_nanos() as u64;
        self.waiting.spend(WAITING, spent, now);
        !matches!(
            sent,
            Err(SendTimeoutError::Timeout(_) | SendTimeoutError::Disconnected(_))
        )
    }

    pub(crate) fn round(&mut self) {
        if let Some(jobs) = &self.jobs {
            // If the queue is full, the check waits for the next round.
            let _ = jobs.try_send(Job::Round);
        }
    }

    /// Returns the files to embed in the current output file, which has `samples` samples.
    pub(crate) fn files(&mut self, samples: u64) -> Vec<EmbeddedFile<'static>> {
        self.ask(|answer| Job::Files(samples, answer))
    }

    pub(crate) fn into_notices(mut self) -> (Vec<Notice>, ReachedLimits) {
        let (notices, unanswered) = self.ask(Job::Notices);
        let mut limits = ReachedLimits::default();
        limits.add(Limit::EmbeddingEvents, self.missed + self.seen.left_out());
        limits.add(Limit::EmbeddingTime, self.late);
        limits.add(Limit::SilentFiles, unanswered);
        (notices, limits)
    }

    fn ask<T: Default>(&mut self, job: impl FnOnce(Sender<T>) -> Job) -> T {
        let Some(jobs) = &self.jobs else {
            return T::default();
        };
        let until = Instant::now() + FOR_ALL;
        let (sender, answer) = crossbeam_channel::bounded(1);
        let sent = jobs.send_deadline(job(sender), until).is_ok();
        let answer = sent.then(|| answer.recv_deadline(until).ok()).flatten();
        answer.unwrap_or_else(|| {
            // Abandons the hanging thread. The next event starts another, which knows no files yet.
            (self.jobs, self.identified) = (None, None);
            self.missed += std::mem::take(&mut self.seen).left_out();
            self.late += 1;
            T::default()
        })
    }
}

fn start(embedding: Embedding, identified: Sender<Identified>) -> Sender<Job> {
    let (sender, receiver) = crossbeam_channel::bounded(MAX_WAITING);
    let thread = std::thread::Builder::new().name("rprof-files".into());
    // Without a thread no files are embedded, which counts as dropped events.
    drop(thread.spawn(move || work(embedding, &receiver, &identified)));
    sender
}

fn work(embedding: Embedding, jobs: &Receiver<Job>, identified: &Sender<Identified>) {
    rprof_sampler::take_no_precedence();
    let mut embedder = FileEmbedder::new(embedding);
    for job in jobs {
        match job {
            Job::Event(event, time) => {
                if let Some(answer) = embedder.handle(&event, time) {
                    // Fails only after the receiver has ended.
                    let _ = identified.send(answer);
                }
            }
            Job::Sampled(map) => embedder.handle_sampled(*map),
            Job::Round => embedder.round(),
            // The receiver may have timed out.
            Job::Files(samples, answer) => drop(answer.send(embedder.files(samples))),
            Job::Notices(answer) => {
                drop(answer.send(embedder.into_notices()));
                return;
            }
        }
    }
}
