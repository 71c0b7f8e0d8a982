//! Profiles of records that are in no file: see [`LiveAnalysis`].
//!
//! ```text
//!   records --> LiveWriter --> Counter: sideband, locations, stacks, counts
//!                                 |  what is new since the last profile
//!                                 v
//!                              Namer: names of locations, each looked up once --> Profile
//! ```

mod counter;
mod namer;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rprof_perfdata::{EventDescription, Events, FeatureSections, RecordWriter};
use rprof_profile::Profile;
use rprof_records::{Endian, RawBytes, RawRecord};
use rprof_symbols::Symbolizer;

use crate::stack_end::marks_truncation;
use counter::Counter;
use namer::Namer;

/// Analysis of records as they come, for profiles at any time and without a file. Clones share
/// everything.
///
/// Records come through the [writer](Self::writer), in the order of time, and are of processes
/// of this machine. [`profile`](Self::profile) may be called from any thread meanwhile: looking
/// up names does not keep the writer waiting. Memory is linear in distinct stacks, locations and
/// images; of processes only those that live are kept.
///
/// Threads are told apart by name. No map or jitdump is read: code that was made at run time has no names,
/// for the reason [`JitWithoutMap`](rprof_symbols::Reason::JitWithoutMap) even where there is one. Samples
/// of groups that read counters count for their own event alone, branch stacks are not used, and stacks
/// end in the kernel where it writes their user part apart: an [analysis](crate::analyse) of a file
/// does more.
///
/// # Examples
/// ```
/// use rprof_analysis::LiveAnalysis;
/// use rprof_perfdata::{EventDescription, FeatureSections, RecordWriter};
/// use rprof_records::{Attr, Endian, Misc, Record, SampleFields, SampleId, SampleLayout};
/// use rprof_records::{RecordType, SampleType};
/// use rprof_symbols::Symbolizer;
///
/// let live = LiveAnalysis::new(Symbolizer::builder().build());
/// let attr = Attr { sample_type: SampleType::IP | SampleType::PERIOD, ..Attr::default() };
/// let event = EventDescription { attr, name: "cycles".into(), ids: vec![] };
/// // A recorder does this: `Output::writer(move |events, features| Ok(live.writer(events, features)))`.
/// let mut writer = live.writer(&[event], &FeatureSections::default());
///
/// let mut sample = Vec::new();
/// sample.extend(RecordType::SAMPLE.0.to_ne_bytes());
/// sample.extend(Misc::USER.0.to_ne_bytes());
/// sample.extend(24u16.to_ne_bytes());
/// sample.extend(0x1234u64.to_ne_bytes()); // IP
/// sample.extend(100u64.to_ne_bytes()); // PERIOD
/// writer.write_records(&sample)?;
///
/// let profile = live.profile();
/// assert_eq!((profile.events[0].samples, profile.events[0].weight), (1, 100));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LiveAnalysis(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Locked by the writer, and briefly by profiles.
    counter: Mutex<Counter>,
    /// Locked by profiles alone, before the counter.
    namer: Mutex<Namer>,
}

impl LiveAnalysis {
    /// Creates an analysis without records, which asks `symbolizer` for names.
    pub fn new(symbolizer: Symbolizer) -> LiveAnalysis {
        LiveAnalysis(Arc::new(Shared {
            counter: Mutex::default(),
            namer: Mutex::new(Namer::new(symbolizer)),
        }))
    }

    /// Returns the destination for records of these events. `features` are those at the start of
    /// the recording, which tell whether the recorder has marked stacks that end early.
    ///
    /// Another writer's events and records are counted beside those of the first.
    pub fn writer(&self, events: &[EventDescription], features: &FeatureSections) -> LiveWriter {
        let list = events.iter().cloned();
        let list = list.map(|event| (event.attr, event.name, event.ids));
        let events = Events::new(list.collect(), Endian::NATIVE);
        let notes = features.rprof_notes().unwrap_or_default();
        let first_event = lock(&self.0.counter).add_events(&events);
        LiveWriter {
            shared: Arc::clone(&self.0),
            events,
            first_event,
            marks_truncation: marks_truncation(&notes),
            bytes: 0,
        }
    }

    /// Returns the profile of all records so far. Names of locations that are new since the last
    /// call are looked up; this may take a while the first time.
    pub fn profile(&self) -> Profile {
        let mut namer = lock(&self.0.namer);
        let progress = namer.copy_new(&lock(&self.0.counter));
        namer.look_up();
        namer.profile(&progress)
    }
}

/// Locks, also where another holder panicked: counts are whole after each record.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Destination of records that are analysed at once: see [`LiveAnalysis::writer`].
#[derive(Debug)]
pub struct LiveWriter {
    shared: Arc<Shared>,
    events: Events,
    /// Index of the first of these events in the analysis.
    first_event: u32,
    marks_truncation: bool,
    bytes: u64,
}

impl RecordWriter for LiveWriter {
    fn write_records(&mut self, mut records: &[u8]) -> io::Result<()> {
        self.bytes += records.len() as u64;
        let mut counter = lock(&self.shared.counter);
        while let Some(raw) = RawRecord::parse(RawBytes::from(records), Endian::NATIVE) {
            counter.handle(&self.events, self.first_event, &raw, self.marks_truncation);
            records = &records[raw.size()..];
        }
        match records.is_empty() {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the last record is cut off, or its length is wrong",
            )),
        }
    }

    fn bytes_written(&self) -> u64 {
        self.bytes
    }

    fn finish(self, _: FeatureSections) -> io::Result<u64> {
        Ok(self.bytes)
    }
}
