//! Options and errors of a recording.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rprof_events::Event;
use rprof_jit::InterpretedNames;
use rprof_output::{OutputError, RecordingFile};
use rprof_perfdata::{EventDescription, FeatureSections, RecordWriter, WriteOptions};
use rprof_sampler::SessionError;

use crate::allocations::AllocationSource;
use crate::output::{Embedding, RotationPolicy, Sink, WriterFactory};

/// Error that prevented or ended a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The events could not be opened or started, or the command could not be prepared or executed.
    /// No file was written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The output file could not be created.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing failed.
    #[error("cannot write {}: {source}{}{}", path.display(), size_limit(source), remains.clause())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
        /// What remains of the recording.
        remains: Remains,
    },
    /// The formats of the tracepoints could not be read.
    #[error("cannot read the format of the tracepoints: {0}")]
    TracingData(#[source] io::Error),
    /// The additional counters could not be opened. No file was written.
    #[error("cannot count events while recording: {0}")]
    Counts(#[source] rprof_counting::CountError),
    /// Waiting for the command failed.
    #[error("cannot wait for the command: {0}")]
    Wait(#[source] io::Error),
    /// The writer thread could not be started, or panicked.
    #[error("the writer thread failed: {0}")]
    Thread(#[source] io::Error),
}

/// What remains of a recording that could not be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Nothing: the recording had not begun, and its file was deleted.
    Nothing,
    /// A readable file with the records so far.
    File,
    /// The records that the reader of the stream, or the caller's writer, already received.
    Handed,
}

/// Returns the limit that the error of a write(2) comes from.
fn size_limit(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => " (`ulimit -f`)",
        _ => "",
    }
}

impl Remains {
    /// Returns a constructor of write errors for a path.
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
    /// A file with this name; an existing file is renamed.
    File(PathBuf),
    /// An open file without a name, which the caller reads through another handle.
    Unnamed(File),
    /// A stream in perf's pipe mode. The caller must write nothing else to it.
    Stream {
        /// Open for writing.
        file: File,
        /// Name, for messages.
        path: PathBuf,
    },
    /// A writer of the caller: see [`Output::writer`].
    Writer(WriterFactory),
}

impl Output {
    /// Passes the records to a writer instead of a file: sorted by time and unwound, as in a file.
    /// So the caller can analyse a running recording.
    ///
    /// `create` is called once, before the first record, with the events of the records (attr,
    /// name, ids) and the header features. The writer runs on its own thread. It gets each record
    /// once no CPU can send an earlier one, and about every 100 ms a
    /// [checkpoint](RecordWriter::checkpoint) after a FINISHED_ROUND record.
    /// [`Recording::finish`](crate::Recording::finish) finishes it. It returns results through
    /// shared state such as a channel. Its errors end the recording.
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

    /// Returns the path, or a name for error messages.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Output::File(path) => path.clone(),
            Output::Unnamed(_) => "the temporary file".into(),
            Output::Stream { path, .. } => path.clone(),
            Output::Writer(_) => "the writer".into(),
        }
    }

    /// Returns the remains of a recording that fails after its start.
    pub(crate) fn remains(&self) -> Remains {
        match self {
            Output::File(_) | Output::Unnamed(_) => Remains::File,
            Output::Stream { .. } | Output::Writer(_) => Remains::Handed,
        }
    }

    /// Opens the writer of the records. A named output writes to `created`.
    pub(crate) fn open(
        self,
        created: Option<&RecordingFile>,
        events: Vec<EventDescription>,
        features: &FeatureSections,
        options: WriteOptions,
    ) -> io::Result<Sink> {
        let file = match (self, created) {
            (Output::File(_), Some(created)) => created.file.try_clone()?,
            (Output::File(_), None) => return Err(io::Error::other("nowhere to write to")),
            (Output::Unnamed(file), _) => file,
            (Output::Stream { file, .. }, _) => {
                return Sink::stream(file, events, features, options);
            }
            (Output::Writer(factory), _) => {
                return factory.create(&events, features).map(Sink::Custom);
            }
        };
        Sink::file(file, events, features, options)
    }
}

/// Default memory for unwind tables, in bytes. Tables of a browser and a desktop need some 60 MiB.
pub(crate) const UNWIND_MEMORY: usize = 96 << 20;

/// Options of a recording.
#[derive(Debug)]
pub struct RecordOptions {
    /// Destination.
    pub output: Output,
    /// Compression level of zstd, 1 to 22; `None` for no compression.
    pub compression: Option<i32>,
    /// Command line of the recorder, for the file's header.
    pub command_line: Vec<String>,
    /// When to switch to a new file; `None` for never. Only [`Output::File`] is rotated.
    pub rotation: Option<RotationPolicy>,
    /// Maximum bytes of records, over all files; further records are dropped.
    pub max_bytes: Option<u64>,
    /// Unwind user registers and stack bytes to callchains before writing.
    pub unwind: bool,
    /// Memory for the unwind tables of all images, in bytes. The least recently used ones are
    /// dropped and built again on demand. Default: 96 MiB.
    pub unwind_memory: usize,
    /// Names of interpreted functions. Share them with readers of live records; files have copies.
    pub names: InterpretedNames,
    /// Files to embed in the recording for reports.
    pub embedding: Embedding,
    /// Events to count in addition to sampling, for the file's notes; `None` for none.
    pub counted: Option<Vec<Event>>,
    /// Shortest wait with its own sample, if switches are recorded. Shorter waits with the same
    /// thread and stack are summed. Default: 1 ms.
    pub least_wait: Duration,
    /// Maximum delay of samples in buffers; `None` to handle each batch at once. It saves wake-ups,
    /// which cost more CPU time than the samples of a quiet system. Keep it short: a CPU's buffers
    /// hold 2 MiB.
    pub pause: Option<Duration>,
    /// Maximum share of CPU time for recording switches, from 0 to 1. Beyond it, rprof records them
    /// only in time windows. From 1 on it records all. Default: 0.02.
    pub switch_budget: f64,
    /// Show resident memory instead of single page faults: the session's event must be
    /// `page-faults` with period 1 and the data address, and record data mappings. Default: no.
    pub memory: bool,
    /// Show requested memory. Default: none.
    pub allocations: Option<AllocationSource>,
    /// Receives a byte when [`Recording::writer`](crate::Recording::writer) changes.
    pub notify: Option<UnixStream>,
}

impl RecordOptions {
    /// Creates options for one uncompressed file, stream or writer, with stacks unwound.
    pub fn new(output: Output, command_line: Vec<String>) -> RecordOptions {
        RecordOptions {
            output,
            compression: None,
            command_line,
            rotation: None,
            max_bytes: None,
            unwind: true,
            unwind_memory: UNWIND_MEMORY,
            names: InterpretedNames::default(),
            embedding: Embedding::Unreachable,
            counted: None,
            least_wait: Duration::from_millis(1),
            pause: None,
            switch_budget: 0.02,
            memory: false,
            allocations: None,
            notify: None,
        }
    }
}
