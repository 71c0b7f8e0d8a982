//! [`ProfileBuilder`]: builds profiles.

use std::hash::Hash;
use std::path::PathBuf;

use rprof_image::Reason;
use rustc_hash::FxHashMap;

use crate::frame::{
    FileId, Frame, FrameId, Function, FunctionId, Object, ObjectId, ObjectKind, StackPosition,
};
use crate::intern::{Lists, Values};
use crate::model::{EventSummary, Profile};
use crate::quality::Quality;
use crate::samples::{AggregatedStack, Gap, ProfileSample, SampleColumns, Thread, ThreadId};
use crate::stacks::{FrameListId, FrameStacks, StackId};
use crate::streams::{SampleStreams, StreamedSample};
use crate::unit::WeightUnit;
use crate::waits::is_of_waits;

/// Builds a [`Profile`] from samples of any source.
///
/// Equal names, functions, threads and stacks share an id. Samples are summed by event, thread and
/// stack. Single samples are stored only with [columns](Self::columns) or [streams](Self::streams).
///
/// # Examples
///
/// ```
/// use rprof_profile::{Keys, ProfileBuilder, TopFunctions, WeighBy, WeightUnit};
///
/// let mut builder = ProfileBuilder::new();
/// let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
/// let program = builder.intern_object("/usr/bin/sort");
/// let [main, merge, compare] = ["main", "merge", "compare"]
///     .map(|name| builder.intern_function(Ok(name), program));
/// let thread = builder.intern_thread_name("sort");
///
/// // Root first.
/// let merging = builder.intern_stack(&[main, merge]);
/// let comparing = builder.intern_stack(&[main, merge, compare]);
/// builder.add_samples(event, thread, merging, 3, 3_000_000);
/// builder.add_samples(event, thread, comparing, 1, 1_000_000);
/// let profile = builder.finish();
///
/// let mut top = TopFunctions::of(&profile, event, WeighBy::Period, Keys::FUNCTIONS);
/// top.sort(false);
/// let hottest = top.rows[0];
/// assert_eq!(hottest.key.function, Some(merge));
/// assert_eq!((hottest.self_weight, hottest.total_weight), (3_000_000, 4_000_000));
/// assert_eq!(profile.events[event].unit.as_str(), "ns");
/// ```
#[derive(Debug, Default)]
pub struct ProfileBuilder {
    profile: Profile,
    functions: Values<Function>,
    objects: Values<Object>,
    files: Values<Box<str>>,
    comms: Values<String>,
    threads: Values<Thread>,
    frames: Option<Values<Frame>>,
    stack_ids: FxHashMap<(FrameListId, FrameListId), StackId>,
    aggregated: FxHashMap<(usize, ThreadId, StackId), usize>,
    samples: Option<Vec<ProfileSample>>,
    as_streams: bool,
    has_callchains: Option<bool>,
    /// Index of the off-CPU event.
    waits: Option<usize>,
    text_bytes: TextBytes,
}

/// Size of interned names and paths.
#[derive(Clone, Copy, Debug, Default)]
struct TextBytes(u64);

impl TextBytes {
    /// Interns a value, and counts the `len` bytes of its text if it is new.
    fn interned<T: Eq + Hash>(&mut self, values: &mut Values<T>, value: T, len: usize) -> u32 {
        let before = values.as_slice().len();
        let id = values.intern(value);
        if values.as_slice().len() > before {
            self.0 += len as u64;
        }
        id
    }
}

/// Tables that replace a builder's own, for interning on several threads.
#[derive(Debug, Default)]
pub struct SymbolTables {
    /// Functions, by id.
    pub functions: Vec<Function>,
    /// Objects, by id.
    pub objects: Vec<Object>,
    /// Source files, by id.
    pub files: Vec<Box<str>>,
    /// Frames, by id. `None` if frames are functions.
    pub frames: Option<Vec<Frame>>,
    /// True if frame ids encode inlining: see [`ProfileBuilder::inlined_frame_number`]. Requires
    /// that `frames` is `None`.
    pub tells_inlined: bool,
    /// Frame lists, root first: see [`ProfileBuilder::push_stack`].
    pub lists: Lists<u32>,
}

/// An element of [`ProfileBuilder::intern_stack`]: a frame, or a function that is not inlined and
/// has no address.
pub trait IntoFrame: Copy {
    /// Returns the frame, interned if it is a function.
    fn into_frame(self, builder: &mut ProfileBuilder) -> FrameId;
}

impl IntoFrame for FrameId {
    fn into_frame(self, _: &mut ProfileBuilder) -> FrameId {
        self
    }
}

impl IntoFrame for FunctionId {
    fn into_frame(self, builder: &mut ProfileBuilder) -> FrameId {
        builder.intern_frame(Frame::of(self))
    }
}

impl ProfileBuilder {
    /// Starts a profile with functions as frames.
    pub fn new() -> ProfileBuilder {
        ProfileBuilder::default()
    }

    /// Starts a profile with addresses, lines and inline depths.
    pub fn with_addresses() -> ProfileBuilder {
        ProfileBuilder {
            frames: Some(Values::default()),
            ..ProfileBuilder::default()
        }
    }

    /// Starts a profile with functions, inlined or not, as frames: see [`Frame::inline_depth`].
    pub fn with_inlined() -> ProfileBuilder {
        let mut builder = ProfileBuilder::default();
        builder.profile.tells_inlined = true;
        builder
    }

    /// Returns a function's frame number if the profile distinguishes inlined calls.
    pub fn inlined_frame_number(function: FunctionId, is_inlined: bool) -> u32 {
        function.0 << 1 | u32::from(is_inlined)
    }

    /// Sets the path of the input file.
    #[must_use]
    pub fn source(mut self, path: impl Into<PathBuf>) -> ProfileBuilder {
        self.profile.source = path.into();
        self
    }

    /// Marks the input as folded text: see [`Profile::is_folded`].
    #[must_use]
    pub fn folded(mut self) -> ProfileBuilder {
        self.profile.is_folded = true;
        self
    }

    /// Stores single samples in columns: see [`Profile::samples`].
    #[must_use]
    pub fn columns(mut self, keep: bool) -> ProfileBuilder {
        self.samples = keep.then(Vec::new);
        self.as_streams = false;
        self
    }

    /// Stores single samples in streams: see [`Profile::streams`].
    #[must_use]
    pub fn streams(mut self, keep: bool) -> ProfileBuilder {
        self.samples = keep.then(Vec::new);
        self.as_streams = keep;
        self
    }

    /// Adds an event. Returns its index in [`Profile::events`].
    pub fn add_event(&mut self, name: &str, unit: WeightUnit) -> usize {
        if is_of_waits(name) {
            self.waits.get_or_insert(self.profile.events.len());
        }
        self.profile.events.push(EventSummary {
            name: name.to_owned(),
            unit,
            ..EventSummary::default()
        });
        self.profile.events.len() - 1
    }

    /// Adds lost records to the event at an index.
    pub fn add_lost(&mut self, event: usize, lost: u64) {
        if let Some(event) = self.profile.events.get_mut(event) {
            event.lost = event.lost.saturating_add(lost);
        }
    }

    /// Interns a user-space object without build-id.
    pub fn intern_object(&mut self, name: &str) -> ObjectId {
        self.add_object(Object {
            name: name.into(),
            kind: ObjectKind::File,
            build_id: None,
            runtime: None,
        })
    }

    /// Interns an object.
    pub fn add_object(&mut self, object: Object) -> ObjectId {
        let len = object.name.len();
        ObjectId(self.text_bytes.interned(&mut self.objects, object, len))
    }

    /// Returns an interned object.
    ///
    /// # Panics
    /// If the id is unknown.
    pub fn object(&self, id: ObjectId) -> &Object {
        self.objects.get(id.0)
    }

    /// Returns an interned function.
    ///
    /// # Panics
    /// If the id is unknown.
    pub fn function(&self, id: FunctionId) -> &Function {
        self.functions.get(id.0)
    }

    /// Returns an interned frame, only [with addresses](Self::with_addresses).
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.as_ref()?.as_slice().get(id.0 as usize)
    }

    /// Interns a function, or an object's unnamed code (`Err`).
    pub fn intern_function(&mut self, name: Result<&str, Reason>, object: ObjectId) -> FunctionId {
        self.add_function(Function {
            name: name.map(Into::into),
            object,
            position: StackPosition::Inner,
            line: None,
            located: None,
            source: None,
        })
    }

    /// Interns a function with all its fields.
    pub fn add_function(&mut self, function: Function) -> FunctionId {
        let len = function.name.as_ref().map_or(0, |name| name.len());
        FunctionId(self.text_bytes.interned(&mut self.functions, function, len))
    }

    /// Interns a source file.
    pub fn intern_file(&mut self, path: &str) -> FileId {
        let text = &mut self.text_bytes;
        FileId(text.interned(&mut self.files, path.into(), path.len()))
    }

    /// Interns a frame. Without [addresses](Self::with_addresses), the id only encodes the function
    /// and [inlining](Self::with_inlined).
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        let inlined = self.profile.tells_inlined;
        match &mut self.frames {
            None if inlined => FrameId(Self::inlined_frame_number(
                frame.function,
                frame.inline_depth > 0,
            )),
            None => FrameId(frame.function.0),
            Some(frames) => FrameId(frames.intern(frame)),
        }
    }

    /// Interns a thread without ids.
    pub fn intern_thread_name(&mut self, name: &str) -> ThreadId {
        let comm = self.intern_comm(name);
        self.intern_thread(Thread {
            pid: None,
            tid: None,
            comm,
            process_comm: None,
            request: None,
        })
    }

    /// Interns a thread name. Returns its index in [`Profile::comms`].
    pub fn intern_comm(&mut self, name: &str) -> u32 {
        let text = &mut self.text_bytes;
        text.interned(&mut self.comms, name.to_owned(), name.len())
    }

    /// Returns the id of a thread, which is added at its first use.
    pub fn intern_thread(&mut self, thread: Thread) -> ThreadId {
        ThreadId(self.threads.intern(thread))
    }

    /// Interns a stack, root first, of frames or of functions.
    pub fn intern_stack(&mut self, frames: &[impl IntoFrame]) -> StackId {
        let numbers = frames.iter().map(|frame| frame.into_frame(self).0);
        let numbers: Vec<u32> = numbers.collect();
        let (callers, leaf) = numbers.split_at(numbers.len().saturating_sub(1));
        let outer = self.profile.stacks.intern_list(callers);
        let inner = self.profile.stacks.intern_list(leaf);
        let stacks = &mut self.profile.stacks;
        *(self.stack_ids.entry((outer, inner))).or_insert_with(|| stacks.push(outer, inner))
    }

    /// Estimates the profile's memory in bytes, including hash tables. Entries count twice, because
    /// full tables double.
    pub(crate) fn held_bytes(&self) -> u64 {
        fn entries<T>(count: usize) -> u64 {
            (count as u64).saturating_mul(2 * (size_of::<T>() as u64 + 5))
        }
        let stacks = &self.profile.stacks;
        let tables = [
            entries::<Function>(self.functions.as_slice().len()),
            entries::<Object>(self.objects.as_slice().len()),
            entries::<Box<str>>(self.files.as_slice().len()),
            entries::<String>(self.comms.as_slice().len()),
            entries::<Thread>(self.threads.as_slice().len()),
            (self.frames.as_ref()).map_or(0, |all| entries::<Frame>(all.as_slice().len())),
            (stacks.frame_count() as u64).saturating_mul(8),
            entries::<usize>(stacks.list_count()),
            entries::<((u32, u32), (u32, u32), StackId)>(self.stack_ids.len()),
            entries::<AggregatedStack>(self.profile.aggregated.len()),
            entries::<((usize, ThreadId, StackId), usize)>(self.aggregated.len()),
            (self.samples.as_ref()).map_or(0, |all| 2 * entries::<ProfileSample>(all.len())),
        ];
        (tables.into_iter()).fold(self.text_bytes.0, u64::saturating_add)
    }

    pub(crate) fn scale(&mut self, event: usize, by: u64) {
        for entry in &mut self.profile.aggregated {
            if entry.event == event {
                entry.samples = entry.samples.saturating_mul(by);
                entry.weight = entry.weight.saturating_mul(by);
            }
        }
        if let Some(event) = self.profile.events.get_mut(event) {
            event.samples = event.samples.saturating_mul(by);
            event.weight = event.weight.saturating_mul(by);
        }
    }

    /// Adds a sample to its aggregated stack, and keeps it singly if the builder keeps samples.
    pub fn add_sample(&mut self, sample: ProfileSample) {
        let from = match self.waits == Some(sample.event) {
            true => sample.time.saturating_sub(sample.weight),
            false => sample.time,
        };
        let (first, last) = self.profile.time.unwrap_or((from, sample.time));
        self.profile.time = Some((first.min(from), last.max(sample.time)));
        self.add_samples(sample.event, sample.thread, sample.stack, 1, sample.weight);
        if let Some(samples) = &mut self.samples {
            samples.push(sample);
        }
    }

    /// Adds samples without time or CPU. Columns and streams lack them.
    pub fn add_samples(
        &mut self,
        event: usize,
        thread: ThreadId,
        stack: StackId,
        samples: u64,
        weight: u64,
    ) {
        let all = &mut self.profile.aggregated;
        let at = *(self.aggregated.entry((event, thread, stack))).or_insert_with(|| {
            all.push(AggregatedStack {
                event,
                thread,
                stack,
                samples: 0,
                weight: 0,
            });
            all.len() - 1
        });
        let entry = &mut all[at];
        entry.samples = entry.samples.saturating_add(samples);
        entry.weight = entry.weight.saturating_add(weight);
        if let Some(event) = self.profile.events.get_mut(event) {
            event.samples = event.samples.saturating_add(samples);
            event.weight = event.weight.saturating_add(weight);
        }
    }

    /// Replaces the tables of functions, objects, files, frames and lists. Call it first, because
    /// it invalidates all ids.
    pub fn set_tables(&mut self, tables: SymbolTables) {
        self.functions = tables.functions.into();
        self.objects = tables.objects.into();
        self.files = tables.files.into();
        self.frames = tables.frames.map(Into::into);
        self.profile.tells_inlined = tables.tells_inlined;
        self.profile.stacks = FrameStacks::with_lists(tables.lists);
    }

    /// Interns a list of [`FrameId`] numbers, root first.
    pub fn intern_frame_list(&mut self, frames: &[u32]) -> FrameListId {
        self.profile.stacks.intern_list(frames)
    }

    /// Adds a stack of callers and leaf frames without checking for duplicates.
    pub fn push_stack(&mut self, outer: FrameListId, inner: FrameListId) -> StackId {
        self.profile.stacks.push(outer, inner)
    }

    /// Replaces aggregated stacks and event summaries by computed ones.
    pub fn set_aggregated(&mut self, aggregated: Vec<AggregatedStack>, events: Vec<EventSummary>) {
        self.aggregated.clear();
        self.profile.aggregated = aggregated;
        self.profile.events = events;
    }

    /// Sets the columns: see [`Profile::samples`].
    pub fn set_columns(&mut self, columns: SampleColumns) {
        self.profile.samples = Some(columns);
    }

    /// Sets the streams: see [`Profile::streams`]. Entries refer to
    /// [`set_aggregated`](Self::set_aggregated).
    pub fn set_streams(&mut self, streams: SampleStreams) {
        self.profile.streams = Some(streams);
    }

    /// Sets the times of the first and last sample, in nanoseconds.
    pub fn set_time(&mut self, time: Option<(u64, u64)>) {
        self.profile.time = time;
    }

    /// Sets the first and last sample's wall-clock time: see [`Profile::wall_time`].
    pub fn set_wall_time(&mut self, time: Option<(u64, u64)>) {
        self.profile.wall_time = time;
    }

    /// Sets the times of missing samples: see [`Profile::gaps`].
    pub fn set_gaps(&mut self, mut gaps: Vec<Gap>) {
        gaps.sort_unstable();
        self.profile.gaps = gaps;
    }

    /// Declares whether samples have callchains. By default, any stack of two frames implies them.
    /// One address with an inlined call also has two.
    pub fn set_callchains(&mut self, has_callchains: bool) {
        self.has_callchains = Some(has_callchains);
    }

    /// Sets the part of requests that names threads: see [`Profile::request_key`].
    pub fn set_request_key(&mut self, key: Option<&str>) {
        self.profile.request_key = key.map(str::to_owned);
    }

    /// Declares that callers were dropped: see [`Profile::leaves_only`].
    pub fn set_leaves_only(&mut self, leaves_only: bool) {
        self.profile.leaves_only = leaves_only;
    }

    /// Returns the profile with counts of named and unnamed frames.
    pub fn finish(self) -> Profile {
        let mut profile = self.into_profile();
        let mut of_function = vec![0u64; profile.functions.len()];
        for entry in &profile.aggregated {
            for function in profile.stack(entry.stack) {
                if let Some(count) = of_function.get_mut(function.0 as usize) {
                    *count = count.saturating_add(entry.samples);
                }
            }
        }
        profile.quality = Quality::of_frames(&profile.functions, &profile.objects, &of_function);
        profile
    }

    /// Returns the profile with this quality.
    pub fn finish_with_quality(self, quality: Quality) -> Profile {
        let mut profile = self.into_profile();
        profile.quality = quality;
        profile
    }

    fn keep_samples(&mut self) {
        let Some(mut samples) = self.samples.take() else {
            return;
        };
        samples.sort_by_key(|sample| sample.time);
        if !self.as_streams {
            self.profile.samples = Some(SampleColumns::from_samples(&samples));
            return;
        }
        let mut streams = SampleStreams::default();
        for sample in &samples {
            let key = (sample.event, sample.thread, sample.stack);
            if let Some(entry) = self.aggregated.get(&key) {
                let entry = *entry as u32;
                let ProfileSample {
                    time, cpu, weight, ..
                } = *sample;
                let sample = StreamedSample {
                    time,
                    cpu,
                    entry,
                    weight,
                };
                streams.push(self.profile.aggregated[entry as usize].thread, sample);
            }
        }
        self.profile.streams = Some(streams);
    }

    fn into_profile(mut self) -> Profile {
        self.keep_samples();
        let mut profile = self.profile;
        profile.functions = self.functions.into_vec();
        profile.objects = self.objects.into_vec();
        profile.files = self.files.into_vec();
        profile.comms = self.comms.into_vec();
        profile.threads = self.threads.into_vec();
        profile.frames = self.frames.map(Values::into_vec);
        let is_deep = |entry: &AggregatedStack| profile.frames(entry.stack).nth(1).is_some();
        profile.has_callchains =
            (self.has_callchains).unwrap_or_else(|| profile.aggregated.iter().any(is_deep));
        profile
    }
}

#[cfg(test)]
mod tests;
