//! Profiles of records that are in no file: see [`LiveAnalysis`].
//!
//! ```text
//!   records --> LiveWriter --> Counter: sideband, locations; Counts: stacks, since the start and by interval
//!                                 |  what is new since the last profile
//!                                 v
//!       look_up (any thread) <--> Namer: names of locations, each looked up once --> Profile, LiveView
//! ```

mod counter;
mod counts;
mod jit;
mod namer;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rprof_perfdata::{EventDescription, Events, FeatureSections, RecordWriter};
use rprof_profile::{Profile, TopFunctions};
use rprof_records::{Endian, RawBytes, RawRecord};
use rprof_symbols::Symbolizer;

use crate::stack_end::marks_truncation;
use counter::Counter;
use jit::JitFiles;
use namer::{BatchSource, Namer, Progress};

/// Analysis of records as they come, for profiles at any time and without a file. Clones share
/// everything.
///
/// Records come through the [writer](Self::writer), in the order of time, and are of processes
/// of this machine. All other functions may be called from any thread meanwhile: looking
/// up names does not keep the writer waiting.
///
/// Samples are counted since the start, and in a window of the last [intervals](Self::next_interval). Memory is bounded:
/// of 200,000 distinct stacks the half that was not seen for longest is forgotten, and
/// [its samples are counted](LiveView::forgotten); of processes only those that live are kept.
///
/// Threads are told apart by name. Code that was made at run time has the names of the perf maps and jitdumps of processes that
/// live when names are looked up; where code moves, an address keeps the name that it had first. Samples
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
    symbolizer: Symbolizer,
    /// Files of runtimes. Locked while names are looked up, before all others.
    look_up: Mutex<JitFiles>,
    /// Locked by the writer, and briefly by profiles.
    counter: Mutex<Counter>,
    /// Locked by profiles alone, before the counter, and never while names are looked up.
    namer: Mutex<Namer>,
}

/// Time whose samples are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last intervals: see [`LiveAnalysis::next_interval`].
    Window,
    /// Everything since the start, or since [zero](LiveAnalysis::zero).
    SinceStart,
}

/// Counts of a moment: see [`LiveAnalysis::moment`].
#[derive(Debug)]
pub struct Moment(Progress);

/// Profile of the samples of a span, and sums of all.
#[derive(Debug)]
pub struct LiveView {
    /// Profile of the span.
    pub profile: Profile,
    /// Sums since the start by function, one for each event; rows are in no order. Ids are those of `profile`.
    pub since_start: Vec<TopFunctions>,
    /// Samples of stacks that were forgotten, as there were too many: they are in no count.
    pub forgotten: u64,
    /// Number of locations whose names are still to be [looked up](LiveAnalysis::look_up).
    pub awaited: usize,
    /// Number of times that all ids were given anew; otherwise functions and names of threads keep theirs.
    pub generation: u64,
}

impl LiveAnalysis {
    /// Creates an analysis without records, which asks `symbolizer` for names.
    pub fn new(symbolizer: Symbolizer) -> LiveAnalysis {
        LiveAnalysis(Arc::new(Shared {
            look_up: Mutex::default(),
            counter: Mutex::default(),
            namer: Mutex::new(Namer::new(symbolizer.has_root())),
            symbolizer,
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
        self.look_up();
        self.view(Span::SinceStart).profile
    }

    /// Returns the profile of a span, with the names that are known by now. Functions whose names are still to be looked up
    /// are one function of their object.
    pub fn view(&self, span: Span) -> LiveView {
        let mut namer = lock(&self.0.namer);
        let progress = namer.progress(&lock(&self.0.counter));
        namer.view(&progress, span)
    }

    /// Returns what [`view`](Self::view) does, with all names, and begins another interval as
    /// [`next_interval`](Self::next_interval) does: no record comes in between. Names that are not known yet are looked up,
    /// which may take a while; records that come meanwhile are of the interval that begins.
    pub fn end_interval(&self, span: Span, most: usize) -> LiveView {
        let moment = {
            let mut namer = lock(&self.0.namer);
            let mut counter = lock(&self.0.counter);
            let progress = namer.progress(&counter);
            counter.counts.next_interval(most);
            Moment(progress)
        };
        self.view_of(&moment, span)
    }

    /// Returns the counts of now, of which there may be several views.
    pub fn moment(&self) -> Moment {
        let mut namer = lock(&self.0.namer);
        let progress = namer.progress(&lock(&self.0.counter));
        Moment(progress)
    }

    /// Returns what [`view`](Self::view) did return at a moment, with all names. Names that are not known yet are looked up,
    /// which may take a while. Where there was no room meanwhile for all stacks of the moment, it is a view of now.
    pub fn view_of(&self, moment: &Moment, span: Span) -> LiveView {
        self.look_up_copied();
        let mut namer = lock(&self.0.namer);
        if namer.has_ids_of(&moment.0) {
            return namer.view(&moment.0, span);
        }
        let progress = namer.progress(&lock(&self.0.counter));
        namer.view(&progress, span)
    }

    /// Looks up the names of all locations so far, those of an image together. This may take seconds, and nothing else
    /// waits for it; what was found of an image is in the next [view](Self::view).
    pub fn look_up(&self) {
        lock(&self.0.namer).copy_new(&lock(&self.0.counter));
        self.look_up_copied();
    }

    fn look_up_copied(&self) {
        // What another thread is looking up is known afterwards, too.
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
                    files.resolve(&owners, &batch.addresses)
                }
            };
            lock(&self.0.namer).take_in(&batch, &found, may_come);
        }
    }

    /// Begins another interval of the window, which has the last `most` of them, with the one that begins.
    pub fn next_interval(&self, most: usize) {
        self.0.symbolizer.forget_removed();
        lock(&self.0.counter).counts.next_interval(most);
    }

    /// Leaves out the samples of idle CPUs from now on, which a clock takes as well where whole CPUs are recorded.
    pub fn skip_idle(&self) {
        lock(&self.0.counter).skips_idle = true;
    }

    /// Counts from zero again. Lost samples stay counted.
    pub fn zero(&self) {
        lock(&self.0.counter).counts.zero();
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
