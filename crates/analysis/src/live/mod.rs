//! Profiles of live records, without a file: see [`LiveAnalysis`].
//!
//! ```text
//!   records --> LiveWriter --> Counter: sideband, locations; Counts: stacks, since the start and by interval
//!                                 |  locations new since the last profile
//!                                 v
//!       look_up (any thread) <--> Namer: names of locations, each looked up once --> Profile, LiveView
//! ```

mod by_language;
mod counter;
mod counts;
mod jit;
mod namer;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rprof_jit::InterpretedNames;
use rprof_perfdata::{EventDescription, Events, FeatureSections, RecordWriter};
use rprof_profile::{Profile, TopFunctions};
use rprof_records::{Endian, RawBytes, RawRecord};
use rprof_symbols::Symbolizer;

use crate::stack_end::marks_truncation;
use counter::Counter;
use jit::JitFiles;
use namer::{BatchSource, Namer, Progress};

/// Analysis of live records, with profiles at any time and without a file. Clones share all data.
///
/// The [writer](Self::writer) takes records of this machine's processes, in time order. Other
/// functions may be called from any thread. Name lookups do not block the writer.
///
/// Samples are counted since the start, and in a window of the last
/// [intervals](Self::next_interval). Above 200,000 distinct stacks, the least recently seen half is
/// dropped, and [its samples are counted](LiveView::forgotten). Processes are dropped when they
/// exit.
///
/// Limits, compared with the [analysis](crate::analyse) of a file:
///
/// - Threads are grouped by name.
/// - JIT names come from files of processes still running at lookup. If code moves, an address
///   keeps its first name.
/// - Samples that read counters of a group count only for their own event.
/// - Branch stacks are ignored.
/// - If the kernel defers the user part of callchains, stacks end in the kernel.
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
    symbolizer: Symbolizer,
    names: InterpretedNames,
    /// Runtime files. Locked during name lookups, before all other locks.
    look_up: Mutex<JitFiles>,
    /// Locked by the writer, and briefly by profiles.
    counter: Mutex<Counter>,
    /// Locked only by profiles, before the counter, and never during name lookups.
    namer: Mutex<Namer>,
}

/// Time range of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last intervals: see [`LiveAnalysis::next_interval`].
    Window,
    /// Since the start, or since the last [zero](LiveAnalysis::zero).
    SinceStart,
}

/// Snapshot of the counts: see [`LiveAnalysis::moment`].
#[derive(Debug)]
pub struct LiveMoment(Progress);

/// Profile of the samples of a span, and totals since the start.
#[derive(Debug)]
pub struct LiveView {
    /// Profile of the span.
    pub profile: Profile,
    /// Totals by function since the start, one for each event, unsorted. Ids refer to
    /// `profile`.
    pub since_start: Vec<TopFunctions>,
    /// Samples of stacks dropped for lack of memory. No count includes them.
    pub forgotten: u64,
    /// Number of locations that still need a [lookup](LiveAnalysis::look_up).
    pub awaited: usize,
    /// Version of all ids. Within one generation, functions and thread names keep their ids.
    pub generation: u64,
}

impl LiveAnalysis {
    /// Creates an analysis without records. `symbolizer` supplies the names.
    pub fn new(symbolizer: Symbolizer) -> LiveAnalysis {
        LiveAnalysis(Arc::new(Shared {
            names: InterpretedNames::default(),
            look_up: Mutex::default(),
            counter: Mutex::default(),
            namer: Mutex::new(Namer::new(symbolizer.has_root())),
            symbolizer,
        }))
    }

    /// Returns the names of interpreted functions, to share with the recorder.
    pub fn interpreted_names(&self) -> &InterpretedNames {
        &self.0.names
    }

    /// Creates a writer for records of these events. `features` are the sections at the start of
    /// the recording, which show whether the recorder marks truncated stacks.
    ///
    /// Several writers' events and records are counted side by side.
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

    /// Returns the profile of all records so far. Looks up new names, which may take a while.
    pub fn profile(&self) -> Profile {
        self.look_up();
        self.view(Span::SinceStart).profile
    }

    /// Returns the profile of a span, with the names found so far. Functions before their lookup
    /// appear as one function for each object.
    pub fn view(&self, span: Span) -> LiveView {
        let mut namer = lock(&self.0.namer);
        let progress = namer.progress(&lock(&self.0.counter));
        namer.view(&progress, span)
    }

    /// Returns a [`view`](Self::view) with all names, and starts another interval, with no record
    /// between the two. Name lookups may take a while. Records that arrive meanwhile belong to the
    /// new interval.
    pub fn end_interval(&self, span: Span, most: usize) -> LiveView {
        let moment = {
            let mut namer = lock(&self.0.namer);
            let mut counter = lock(&self.0.counter);
            let progress = namer.progress(&counter);
            counter.counts.next_interval(most);
            LiveMoment(progress)
        };
        self.view_of(&moment, span)
    }

    /// Returns a snapshot of the counts, for one or more views.
    pub fn moment(&self) -> LiveMoment {
        let mut namer = lock(&self.0.namer);
        let progress = namer.progress(&lock(&self.0.counter));
        LiveMoment(progress)
    }

    /// Returns a [`view`](Self::view) of a snapshot, with all names, which may take a while. If its
    /// stacks were dropped meanwhile, the view shows the current counts.
    pub fn view_of(&self, moment: &LiveMoment, span: Span) -> LiveView {
        self.look_up_copied();
        let mut namer = lock(&self.0.namer);
        if namer.has_ids_of(&moment.0) {
            return namer.view(&moment.0, span);
        }
        let progress = namer.progress(&lock(&self.0.counter));
        namer.view(&progress, span)
    }

    /// Looks up the names of all locations so far, by image. This may take seconds, and blocks no
    /// other call. Each image's names appear in the next [view](Self::view).
    pub fn look_up(&self) {
        lock(&self.0.namer).copy_new(&lock(&self.0.counter));
        self.look_up_copied();
    }

    fn look_up_copied(&self) {
        let mut files = lock(&self.0.look_up);
        lock(&self.0.namer).try_again();
        loop {
            let batch = lock(&self.0.namer).next_batch();
            let Some(batch) = batch else {
                return;
            };
            let (found, may_come) = match &batch.source {
                BatchSource::Image(key) => {
                    let found = (self.0.symbolizer).resolve_image(key, &batch.addresses);
                    (found, false)
                }
                BatchSource::Jit(pid) => {
                    let owners = lock(&self.0.counter).owners_of_jit_code(*pid);
                    let (mut found, may_come) = files.resolve(&owners, &batch.addresses);
                    jit::name_interpreted(&self.0.names, &batch.addresses, &mut found);
                    (found, may_come)
                }
            };
            lock(&self.0.namer).take_in(&batch, &found, may_come);
        }
    }

    /// Starts another interval. The window has the last `most` intervals, including the new one.
    pub fn next_interval(&self, most: usize) {
        self.0.symbolizer.forget_removed();
        lock(&self.0.counter).counts.next_interval(most);
    }

    /// Skips samples of idle CPUs from now on. Clock events take them if whole CPUs are recorded.
    pub fn skip_idle(&self) {
        lock(&self.0.counter).skips_idle = true;
    }

    /// Folds the code of interpreters in all views from now on: see [`Profile::fold_languages`].
    pub fn fold_languages(&self) {
        let folding = &mut lock(&self.0.namer).by_language;
        folding.get_or_insert_default();
    }

    /// Resets the counts to zero. Lost samples stay counted.
    pub fn zero(&self) {
        lock(&self.0.counter).counts.zero();
    }
}

/// Locks a mutex, even if poisoned: the counts are consistent after each record.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writer of live records: see [`LiveAnalysis::writer`].
#[derive(Debug)]
pub struct LiveWriter {
    shared: Arc<Shared>,
    events: Events,
    /// Index of the writer's first event.
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
                "the last record is truncated, or its length is wrong",
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
