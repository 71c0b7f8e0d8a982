//! [`MachineRecording`]: recording without a file.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rprof_events::Event;
use rprof_jit::InterpretedNames;
use rprof_launch::Target;
use rprof_perfdata::{FeatureSections, RecordWriter};
use rprof_recorder::{
    Embedding, Output, RecentRecords, RecentSnapshot, RecentWriter, RecordError, RecordOptions,
    Recording, WriterState,
};
use rprof_records::{AttrFlags, SampleType};
use rprof_sampler::{Degradation, Session, SessionBuilder};

use crate::watch::{ProcessWatch, Seen, WatchWriter};

/// Sampled event, which every machine has.
const EVENT: &str = "cpu-clock";

/// Maximum bytes of a window's records, also at most a quarter of the memory budget.
const MAX_RECORDS: usize = 64 << 20;

/// Maximum bytes of unwinding tables, also at most another quarter.
const MAX_TABLES: usize = 64 << 20;

/// Maximum sleep of the drain threads and of the writer. At such low rates, a wake-up costs more
/// than the work.
const IDLE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(500);

/// Bytes of samples for a machine so busy that the agent gets no CPU.
const RESERVE: usize = 32 << 20;

/// Bytes of a stack copy, as in `rprof record`.
const USER_STACK: u32 = 60 << 10;

/// Maximum bytes of a sample record.
const RECORD: usize = 64 << 10;

/// Returns the size of a ring buffer in bytes: half a second of maximum-size samples. The ring
/// buffers of `rprof record` would use the whole memory budget on many CPUs.
fn ring_bytes(rate: u32) -> usize {
    let half_a_second = rate as usize * RECORD / 2;
    half_a_second.next_power_of_two().clamp(1 << 20, 8 << 20)
}

/// A recording of the whole machine into memory.
pub struct MachineRecording {
    recording: Recording,
    recent: RecentRecords,
    watch: ProcessWatch,
}

/// Perf records of one completed window, and the processes that were sampled in it.
#[derive(Debug)]
pub struct WindowRecords {
    /// Samples of the window, and the sideband records that they depend on, also older ones.
    pub snapshot: RecentSnapshot,
    /// Observed processes and number of samples.
    pub seen: Seen,
}

impl MachineRecording {
    /// Starts a recording. `rate` is in samples a second per CPU, `memory` is the agent's budget in
    /// bytes.
    ///
    /// # Errors
    /// [`RecordError`], usually because the user lacks permission.
    pub fn begin(
        rate: u32,
        memory: u64,
        watch: &ProcessWatch,
    ) -> Result<MachineRecording, RecordError> {
        let quarter = usize::try_from(memory / 4).unwrap_or(usize::MAX);
        let start = |with_groups| MachineRecording::begin_with(rate, quarter, watch, with_groups);
        // Kernels before 5.7 cannot record cgroups.
        start(true).or_else(|_| start(false))
    }

    fn begin_with(
        rate: u32,
        quarter: usize,
        watch: &ProcessWatch,
        groups: bool,
    ) -> Result<MachineRecording, RecordError> {
        let names = InterpretedNames::default();
        let recent = RecentRecords::new(quarter.min(MAX_RECORDS), names.clone());
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
            unwind_memory: quarter.min(MAX_TABLES),
            names,
            ..RecordOptions::new(output, vec!["rprof".into(), "agent".into()])
        };
        let recording = Recording::attach(session(rate, groups), options)?;
        Ok(MachineRecording {
            recording,
            recent,
            watch: watch.clone(),
        })
    }

    /// Returns the size of the current window's records in bytes.
    pub fn bytes(&self) -> u64 {
        self.recent.bytes() as u64
    }

    /// Returns the fallbacks that the recording needed.
    pub fn degradations(&self) -> &[Degradation] {
        self.recording.degradations()
    }

    /// Returns true while the writer accepts records.
    pub fn is_alive(&self) -> bool {
        self.recording.writer() == WriterState::Writing
    }

    /// Waits for a duration, or until `stop` is readable.
    ///
    /// # Errors
    /// [`RecordError::Wait`].
    pub fn wait(&mut self, stop: BorrowedFd<'_>, timeout: Duration) -> Result<(), RecordError> {
        self.recording.wait(Some(stop), Some(timeout)).map(drop)
    }

    /// Ends a window, and starts the next one.
    pub fn end_window(&self) -> WindowRecords {
        let records = WindowRecords {
            snapshot: self.recent.snapshot(),
            seen: self.watch.end_window(),
        };
        self.recent.clear();
        records
    }

    /// Stops the recording. Returns the records of the last window, and the result of the
    /// recording.
    pub fn finish(mut self) -> (WindowRecords, Result<(), RecordError>) {
        let ended = self.recording.finish().map(drop);
        (self.end_window(), ended)
    }
}

/// Returns the session settings of an agent: all CPUs, idle time excluded.
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
