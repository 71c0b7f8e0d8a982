//! Options of a recording, and its errors.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rprof_events::Event;
use rprof_output::OutputError;
use rprof_perfdata::{EventDescription, FeatureSections, RecordWriter};
use rprof_sampler::SessionError;

use crate::output::{Embedding, RotationPolicy, WriterFactory};

/// Cause for which a recording could not be made, or not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The events could not be opened or started, or the command could not be prepared or executed.
    /// No file was written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The output file could not be made.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing failed.
    #[error("cannot write {}: {source}{}", path.display(), remains.clause())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// Remains of the recording.
        remains: Remains,
    },
    /// The descriptions of tracepoints could not be read.
    #[error("cannot read the format of the tracepoints: {0}")]
    TracingData(#[source] io::Error),
    /// Events that are counted beside the samples could not be opened. No file was written.
    #[error("cannot count events while recording: {0}")]
    Counts(#[source] rprof_counting::CountError),
    /// Waiting for the command failed.
    #[error("cannot wait for the command: {0}")]
    Wait(#[source] io::Error),
    /// The thread that writes could not be started, or ended early.
    #[error("the writer thread failed: {0}")]
    Thread(#[source] io::Error),
}

/// Remains of a recording that could not be written to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing: it had not begun, and its file was taken away again.
    Nothing,
    /// A file that can be read, with the records before.
    File,
    /// Whatever the reader of the stream, or the writer of the caller's, made of the records before.
    Handed,
}

impl Remains {
    /// Makes errors of writing to this file.
    pub(crate) fn write_error(self, path: &Path) -> impl Fn(io::Error) -> RecordError {
        let path = path.to_owned();
        move |source| RecordError::Write {
            path: path.clone(),
            source,
            remains: self,
        }
    }

    fn clause(self) -> &'static str {
        match self {
            Remains::Nothing => "; nothing was recorded",
            Remains::File => "; the file holds the data up to then and can be read",
            Remains::Handed => "",
        }
    }
}

/// Destination of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// A file of this name; one that exists makes room.
    File(PathBuf),
    /// An open file that has no name; the caller reads it by a handle of its own.
    Unnamed(File),
    /// A stream in pipe mode. Nothing else must be written to it.
    Stream(File),
    /// A writer of the caller's: see [`Output::writer`].
    Writer(WriterFactory),
}

impl Output {
    /// Hands the records to a writer instead of a file: in the order of time, with stacks unwound,
    /// as they would stand in the file. So a recording can be analysed while it goes on.
    ///
    /// `create` is called once, before the first record, with the events as the records have them
    /// (attr, name and ids) and the features that are known from the start. The writer then
    /// lives on a thread of its own: it gets each record as soon as no CPU can send an earlier one,
    /// a [checkpoint](RecordWriter::checkpoint) about every 100 ms behind a FINISHED_ROUND record, and is
    /// finished within [`Recording::finish`](crate::Recording::finish). Results leave it by what it shares
    /// with the caller, such as a channel. An error of it ends the recording.
    ///
    /// # Examples
    /// ```no_run
    /// use std::io;
    /// use std::sync::mpsc;
    ///
    /// use rprof_launch::Launcher;
    /// use rprof_perfdata::{FeatureSections, RecordWriter};
    /// use rprof_recorder::{Output, RecordOptions, Recording};
    /// use rprof_sampler::Session;
    ///
    /// /// Sends on whole records.
    /// struct Forward(mpsc::Sender<Vec<u8>>, u64);
    ///
    /// impl RecordWriter for Forward {
    ///     fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
    ///         self.1 += records.len() as u64;
    ///         self.0.send(records.to_vec()).map_err(io::Error::other)
    ///     }
    ///     fn bytes_written(&self) -> u64 {
    ///         self.1
    ///     }
    ///     fn finish(self, _: FeatureSections) -> io::Result<u64> {
    ///         Ok(self.1)
    ///     }
    /// }
    ///
    /// let (sender, records) = mpsc::channel();
    /// let output = Output::writer(|_events, _features| Ok(Forward(sender, 0)));
    /// let options = RecordOptions::new(output, vec!["example".into()]);
    /// let command = Launcher::new("sleep").args(["1"]);
    /// let mut recording = Recording::start(Session::builder(), &command, options)?;
    /// recording.wait(None, None)?;
    /// let summary = recording.finish()?;
    /// println!("{} samples, {} records", summary.samples, records.iter().count());
    /// # Ok::<(), rprof_recorder::RecordError>(())
    /// ```
    pub fn writer<W, F>(create: F) -> Output
    where
        W: RecordWriter + Send + 'static,
        F: FnOnce(&[EventDescription], &FeatureSections) -> io::Result<W> + Send + 'static,
    {
        Output::Writer(WriterFactory::new(create))
    }
}

/// Bytes of unwinding tables by default. Those of a browser and a desktop have some 60 MiB.
pub(crate) const UNWIND_MEMORY: usize = 96 << 20;

/// Options of a recording.
#[derive(Debug)]
pub struct RecordOptions {
    /// Destination.
    pub output: Output,
    /// Level at which zstd compresses the records, 1 to 22; `None` for not at all.
    pub compression: Option<i32>,
    /// The recorder's own command line, for the file's header.
    pub command_line: Vec<String>,
    /// When to go on in another file; `None` for never. Only a file is followed by others.
    pub rotation: Option<RotationPolicy>,
    /// Bytes of records, of all files together, at which nothing more is written.
    pub max_bytes: Option<u64>,
    /// Turn registers and stack bytes of samples into callchains, rather than write them.
    pub unwind: bool,
    /// Bytes of memory that unwinding tables may take, of all images together; those that were not used for longest are dropped, and
    /// made again when they are needed. Default: 96 MiB.
    pub unwind_memory: usize,
    /// Which files that reports need are embedded in the recording.
    pub embedding: Embedding,
    /// Events that are counted beside the samples, for the file's notes; `None` for none.
    pub counted: Option<Vec<Event>>,
    /// Waits of one thread and stack are written once they add up to this, where switches are recorded: a longer one is a
    /// sample of its own. Default: 1 ms.
    pub least_wait: Duration,
    /// Longest time for which samples may lie before the writer thread takes them in; `None` to take each batch as it comes. A
    /// pause saves the wake-ups, which cost more CPU time than the samples of a quiet system. Keep it short: the buffers hold
    /// 2 MiB of each CPU.
    pub pause: Option<Duration>,
    /// Part of a CPU's time, from 0 to 1, that the recording of switches may take, where they are recorded: if there are too many, they
    /// are recorded in windows. From 1 on all are recorded. Default: 0.02.
    pub switch_budget: f64,
    /// Gets a byte when [`Recording::writer`](crate::Recording::writer) has something to tell.
    pub notify: Option<UnixStream>,
}

impl RecordOptions {
    /// Options for one file, stream or writer, not compressed, with stacks unwound.
    pub fn new(output: Output, command_line: Vec<String>) -> RecordOptions {
        RecordOptions {
            output,
            compression: None,
            command_line,
            rotation: None,
            max_bytes: None,
            unwind: true,
            unwind_memory: UNWIND_MEMORY,
            embedding: Embedding::Unreachable,
            counted: None,
            least_wait: Duration::from_millis(1),
            pause: None,
            switch_budget: 0.02,
            notify: None,
        }
    }
}
