//! A recording, from start to summary.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rprof_perfdata::output::{OutputError, OutputFile};
use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, WriteOptions};
use rprof_records::{Endian, SampleLayout};
use rprof_sampler::{
    Degradation, ExecError, Launcher, Role, Session, SessionBuilder, SessionError, Waited,
};

use crate::merge::Merge;
use crate::sink::Sink;
use crate::summary::{Live, Progress, Summary};
use crate::writing::{Writing, Written, start_features};

/// Nanoseconds by which a watermark may run ahead where drain threads are not
/// bound to their CPUs.
const SLACK: u64 = 1_000_000;

/// What keeps a recording from being made, or from being finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The events could not be opened, or the command not be prepared.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The command could not be executed. No file was written.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The output file could not be made.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing failed. The records before are in the file and can be read.
    #[error("cannot write {}: {source}; what was recorded before is in the file and can be read", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Waiting for the command failed.
    #[error("cannot wait for the command: {0}")]
    Wait(#[source] io::Error),
    /// The thread that writes could not be started, or ended early.
    #[error("the thread that writes the file failed: {0}")]
    Thread(#[source] io::Error),
}

/// Where a recording goes.
#[derive(Debug)]
pub enum Output {
    /// A file of this name; one that exists makes room.
    File(PathBuf),
    /// A stream in pipe mode. Nothing else must be written to it.
    Stream(File),
}

/// Where to record to, and how.
#[derive(Debug)]
pub struct RecordOptions {
    /// Where.
    pub output: Output,
    /// Level at which zstd compresses the records, 1 to 22; `None` for not at all.
    pub compression: Option<i32>,
    /// The recorder's own command line, for the file's header.
    pub command_line: Vec<String>,
}

/// Why [`Recording::wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The command ended.
    Exited(ExitStatus),
    /// A stop was asked for; the command may still run.
    Asked,
}

/// A command under watch.
#[derive(Debug)]
pub struct Recording {
    session: Session,
    writer: Option<JoinHandle<Written>>,
    live: Arc<Live>,
    features: FeatureSections,
    path: PathBuf,
    started: Instant,
}

impl Recording {
    /// Starts the command and records it.
    ///
    /// # Errors
    /// [`RecordError`]. When the command cannot be executed no file is left, and
    /// one that had to make room is back.
    pub fn start(
        builder: SessionBuilder,
        command: &Launcher,
        options: RecordOptions,
    ) -> Result<Recording, RecordError> {
        let mut session = builder.launch(command)?;
        let (output, stream, path) = match options.output {
            Output::File(path) => {
                let output = OutputFile::create(&path)?;
                (Some(output), None, path)
            }
            Output::Stream(file) => (None, Some(file), PathBuf::from("standard output")),
        };
        let write = |source| RecordError::Write {
            path: path.clone(),
            source,
        };
        let events: Vec<_> = (session.events().iter())
            .map(|e| EventDescription {
                attr: e.attr.clone(),
                name: e.name.clone(),
                ids: e.ids.clone(),
            })
            .collect();
        let layout = |role| {
            let event = session.events().iter().find(|e| e.role == role);
            let attr = event.map(|e| e.attr.clone()).unwrap_or_default();
            SampleLayout::new(&attr, Endian::NATIVE)
        };
        let (samples, sideband) = (layout(Role::Samples), layout(Role::Sideband));
        let slack = if session.has_exact_watermarks() {
            0
        } else {
            SLACK
        };
        let live = Arc::new(Live::default());
        let features = start_features(&options.command_line, session.cpus().len() as u32);
        let how = WriteOptions {
            compression: options.compression,
            ..WriteOptions::default()
        };
        let sink = match (&output, stream) {
            (Some(output), _) => (output.file.try_clone())
                .and_then(|file| FileWriter::create_with(file, events, how))
                .map(Sink::File),
            (None, Some(stream)) => Sink::stream(stream, events, &features, how),
            (None, None) => Err(io::Error::other("nowhere to write to")),
        }
        .map_err(write)?;
        let writing = Writing {
            batches: session.batches().clone(),
            recycler: session.recycler(),
            merge: Merge::new(session.cpus(), samples.clone(), sideband.clone(), slack),
            sink,
            live: Arc::clone(&live),
            samples,
            sideband,
        };
        let writer = std::thread::Builder::new()
            .name("rprof-writer".into())
            .spawn(move || writing.run())
            .map_err(RecordError::Thread)?;
        let started = Instant::now();
        if let Err(e) = session.start() {
            drop(session);
            // With the session gone no more batches come, and the thread ends.
            drop(writer.join());
            if let Some(output) = output {
                output.discard();
            }
            return Err(e.into());
        }
        Ok(Recording {
            session,
            writer: Some(writer),
            live,
            path,
            features,
            started,
        })
    }

    /// Steps down that were taken.
    pub fn degradations(&self) -> &[Degradation] {
        self.session.degradations()
    }

    /// Waits until the command ends, or `stop` becomes readable, or the time is
    /// over; `None` then.
    ///
    /// # Errors
    /// [`RecordError::Wait`].
    pub fn wait(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> Result<Option<Stopped>, RecordError> {
        let child = self.session.child_mut();
        Ok(
            match child.wait_or(stop, timeout).map_err(RecordError::Wait)? {
                Waited::Exited(status) => Some(Stopped::Exited(status)),
                Waited::Other => Some(Stopped::Asked),
                Waited::Timeout => None,
            },
        )
    }

    /// Counts so far.
    pub fn progress(&self) -> Progress {
        self.live.progress(self.started.elapsed())
    }

    /// Sends the command a signal. One that has ended is left alone.
    pub fn signal_command(&self, signal: i32) {
        self.session.child().signal(signal).ok();
    }

    /// Ends the recording and finishes the file. The command, if it still runs,
    /// goes on unwatched and can be [waited](Self::wait) for.
    ///
    /// # Errors
    /// [`RecordError::Write`]; the summary tells what was recorded, with a file of
    /// 0 bytes, only when there is no error.
    pub fn finish(&mut self) -> Result<Summary, RecordError> {
        let counts = self.session.stop();
        let duration = self.started.elapsed();
        let Some(writer) = self.writer.take() else {
            return Err(RecordError::Thread(io::Error::other("finished already")));
        };
        let mut written = writer.join().map_err(|_| {
            RecordError::Thread(io::Error::other("it panicked; please report this"))
        })?;
        let write = |source| RecordError::Write {
            path: self.path.clone(),
            source,
        };
        if let Some(source) = written.failure.take() {
            return Err(write(source));
        }
        let events = self.session.events();
        let sampled: Vec<_> = events.iter().filter(|e| e.role == Role::Samples).collect();
        for (place, cpu) in counts.cpus.iter().enumerate() {
            // All events of a CPU share its ring; the first one's id stands for them.
            let lost = cpu.events.iter().filter_map(|count| count.lost).sum();
            let id = sampled.first().and_then(|e| e.ids.get(place));
            written
                .settle_lost(cpu.cpu, id.copied().unwrap_or(0), lost)
                .map_err(write)?;
        }
        let mut summary = Summary {
            path: self.path.clone(),
            events: sampled.iter().map(|e| e.name.clone()).collect(),
            samples: written.tally.samples,
            duration,
            lost: std::mem::take(&mut written.tally.lost),
            lost_sideband: counts.lost_sideband().unwrap_or(0),
            throttled: written.tally.throttled,
            late: written.late,
            damaged_bytes: written.damaged_bytes
                + counts
                    .cpus
                    .iter()
                    .map(|c| c.drain.damaged_bytes)
                    .sum::<u64>(),
            degradations: self.session.degradations().to_vec(),
            file_bytes: 0,
        };
        summary.lost.sort_unstable();
        let features = std::mem::take(&mut self.features);
        summary.file_bytes = written.finish(features, &summary.notes()).map_err(write)?;
        Ok(summary)
    }
}
