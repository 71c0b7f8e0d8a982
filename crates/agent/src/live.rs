//! [`Live`]: recording without a file.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rprof_events::Event;
use rprof_launch::Target;
use rprof_perfdata::{FeatureSections, RecordWriter};
use rprof_recorder::{
    Embedding, Output, RecentRecords, RecentSnapshot, RecentWriter, RecordError, RecordOptions,
    Recording, WriterState,
};
use rprof_records::{AttrFlags, SampleType};
use rprof_sampler::{Degradation, Session, SessionBuilder};

use crate::watch::{ProcessWatch, Seen, WatchWriter};

/// Event that is sampled: CPU time, which every machine has.
const EVENT: &str = "cpu-clock";

/// Most bytes of records of a window, whatever the budget, of which they may take a quarter.
const MOST_RECORDS: usize = 64 << 20;

/// Most bytes of unwinding tables, which may take another quarter.
const MOST_TABLES: usize = 64 << 20;

/// Longest times between two looks at the rings, and of the writer. At some samples a second their buffers are far from full, and waking up
/// costs more than what there is to do.
const IDLE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(500);

/// Bytes of samples that may wait beyond the usual, on a machine so busy that the agent does not get a CPU.
const RESERVE: usize = 32 << 20;

/// Bytes of user stack in a sample, as `rprof record` takes them.
const USER_STACK: u32 = 60 << 10;

/// Bytes of a record, with its stack as large as it can be.
const RECORD: usize = 64 << 10;

/// Returns the bytes of a ring: what comes in half a second if all stacks are as large as they can be. Larger ones, as recordings have
/// them, would take the whole budget on a machine of many CPUs.
fn ring_bytes(rate: u32) -> usize {
    let half_a_second = rate as usize * RECORD / 2;
    half_a_second.next_power_of_two().clamp(1 << 20, 8 << 20)
}

/// A recording of the whole system into memory.
pub struct Live {
    recording: Recording,
    recent: RecentRecords,
    watch: ProcessWatch,
}

/// Records of a window.
#[derive(Debug)]
pub struct Records {
    /// All of them, with what they stand on.
    pub snapshot: RecentSnapshot,
    /// Processes and samples.
    pub seen: Seen,
}

impl Live {
    /// Begins to record at a rate in samples a second of each CPU, where the agent may take so many bytes of memory.
    ///
    /// # Errors
    /// [`RecordError`]: most likely the kernel does not let this user.
    pub fn begin(rate: u32, memory: u64, watch: &ProcessWatch) -> Result<Live, RecordError> {
        let quarter = usize::try_from(memory / 4).unwrap_or(usize::MAX);
        let start = |with_groups| Live::begin_with(rate, quarter, watch, with_groups);
        // Kernels before 5.7 do not tell control groups.
        start(true).or_else(|_| start(false))
    }

    fn begin_with(
        rate: u32,
        quarter: usize,
        watch: &ProcessWatch,
        groups: bool,
    ) -> Result<Live, RecordError> {
        let recent = RecentRecords::new(quarter.min(MOST_RECORDS));
        let (to, watcher) = (recent.clone(), watch.clone());
        let output = Output::writer(move |events, features| {
            Ok(Tee {
                recent: to.writer(events, features),
                watch: watcher.writer(events),
            })
        });
        let options = RecordOptions {
            embedding: Embedding::Nothing,
            pause: Some(PAUSE),
            unwind_memory: quarter.min(MOST_TABLES),
            ..RecordOptions::new(output, vec!["rprof".into(), "agent".into()])
        };
        let recording = Recording::attach(session(rate, groups), options)?;
        Ok(Live {
            recording,
            recent,
            watch: watch.clone(),
        })
    }

    /// Returns the bytes of the window's records so far.
    pub fn bytes(&self) -> u64 {
        self.recent.bytes() as u64
    }

    /// Returns the steps down that were taken.
    pub fn degradations(&self) -> &[Degradation] {
        self.recording.degradations()
    }

    /// Returns true as long as records are taken.
    pub fn is_alive(&self) -> bool {
        self.recording.writer() == WriterState::Writing
    }

    /// Waits for so long, or until `stop` is readable.
    ///
    /// # Errors
    /// [`RecordError::Wait`].
    pub fn wait(&mut self, stop: BorrowedFd<'_>, timeout: Duration) -> Result<(), RecordError> {
        self.recording.wait(Some(stop), Some(timeout)).map(drop)
    }

    /// Ends a window, and begins the next.
    pub fn end_window(&self) -> Records {
        let records = Records {
            snapshot: self.recent.snapshot(),
            seen: self.watch.end_window(),
        };
        self.recent.clear();
        records
    }

    /// Ends the recording. Returns the records of its last window, and how it ended.
    pub fn finish(mut self) -> (Records, Result<(), RecordError>) {
        let ended = self.recording.finish().map(drop);
        (self.end_window(), ended)
    }
}

/// Returns the session of an agent: all CPUs, but not while they are idle.
pub(crate) fn session(rate: u32, groups: bool) -> SessionBuilder {
    let event: Result<Event, _> = EVENT.parse();
    Session::builder()
        .events(event)
        .frequency(rate.into())
        .ring_bytes(ring_bytes(rate))
        .callchains(true)
        .user_stack(Some(USER_STACK))
        .fit_user_stack(true)
        .target(Target::System)
        .exclude_idle(true)
        .extras(|extras| {
            if groups {
                extras.fields |= SampleType::CGROUP;
                extras.records |= AttrFlags::CGROUP;
            }
        })
        .configure(|options| {
            options.drain.idle = IDLE;
            options.drain.fast = Duration::from_millis(10);
            options.drain.reserve_bytes = Some(RESERVE);
        })
}

struct Tee {
    recent: RecentWriter,
    watch: WatchWriter,
}

impl RecordWriter for Tee {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.watch.write_records(records)?;
        self.recent.write_records(records)
    }

    fn bytes_written(&self) -> u64 {
        self.recent.bytes_written()
    }

    fn finish(self, features: FeatureSections) -> io::Result<u64> {
        self.watch.finish(features.clone())?;
        self.recent.finish(features)
    }
}
