//! [`Profile`]: data model of all exports.

use std::path::PathBuf;

use crate::frame::{Frame, FrameId, Function, FunctionId, FunctionSet, Object, ObjectId};
use crate::language::Language;
use crate::quality::Quality;
use crate::samples::{AggregatedStack, Gap, SampleColumns, Thread, ThreadId};
use crate::stacks::{FrameListId, FrameStacks, StackId};
use crate::streams::SampleStreams;
use crate::unit::WeightUnit;

/// Totals of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSummary {
    /// Recorded name with modifiers.
    pub name: String,
    /// Unit of the weights.
    pub unit: WeightUnit,
    /// Number of accepted samples.
    pub samples: u64,
    /// Total weight, in `unit`.
    pub weight: u64,
    /// Lost records: of the recording, or of the CPUs, times and threads that a filter selects.
    pub lost: u64,
}

/// A profile: samples aggregated by thread and stack.
///
/// Built by a [`ProfileBuilder`](crate::ProfileBuilder).
#[derive(Debug, Default)]
pub struct Profile {
    /// Input file; empty if there is none.
    pub source: PathBuf,
    /// Events in file order, also without samples.
    pub events: Vec<EventSummary>,
    /// Thread names. Invalid UTF-8 is replaced.
    pub comms: Vec<String>,
    /// Threads, or thread names without ids.
    pub threads: Vec<Thread>,
    /// Distinct functions.
    pub functions: Vec<Function>,
    /// Distinct objects.
    pub objects: Vec<Object>,
    /// Distinct source files of functions and frames. May contain any character.
    pub files: Vec<Box<str>>,
    /// Samples by event, thread and stack, unsorted.
    pub aggregated: Vec<AggregatedStack>,
    /// Single samples in columns, if requested.
    pub samples: Option<SampleColumns>,
    /// Single samples in streams, if requested: a tenth of the memory of columns.
    pub streams: Option<SampleStreams>,
    /// Complete stacks and named frames, and reasons for the rest.
    pub quality: Quality,
    /// First and last time of accepted samples, in nanoseconds. Off-CPU samples start earlier, by
    /// their weight.
    pub time: Option<(u64, u64)>,
    /// First and last time as wall-clock time: nanoseconds since 1970, UTC. `None` if not recorded.
    pub wall_time: Option<(u64, u64)>,
    /// Times of missing samples, sorted. Only with columns or streams; at most 100,000 per kind and
    /// event.
    pub gaps: Vec<Gap>,
    /// True if samples have callchains, not just an address.
    pub has_callchains: bool,
    /// True if callers were dropped on request: stacks are leaves.
    pub leaves_only: bool,
    /// Part of requests whose values take the place of thread names: `trace`, `span`, or an attribute
    /// such as `http.route`. May contain any character.
    pub request_key: Option<String>,
    /// True for a profile of folded text: function names are whole frames as written, threads are
    /// unknown.
    pub is_folded: bool,
    /// Frames by id. `None` without addresses: frames are functions.
    pub(crate) frames: Option<Vec<Frame>>,
    /// True if frame ids are `2 * function + is_inlined`. Requires that `frames` is `None`.
    pub(crate) tells_inlined: bool,
    pub(crate) stacks: FrameStacks,
}

impl Profile {
    /// Iterates over a stack's functions, root first, including inlined calls.
    ///
    /// # Panics
    /// If the stack belongs to another profile.
    #[inline]
    pub fn stack(&self, id: StackId) -> impl DoubleEndedIterator<Item = FunctionId> + '_ {
        let frames = self.frames.as_deref();
        let shift = u32::from(self.tells_inlined);
        (self.stacks.get(id)).map(move |frame| match frames {
            None => FunctionId(frame.0 >> shift),
            Some(frames) => frames[frame.0 as usize].function,
        })
    }

    /// Returns a stack's number of frames.
    ///
    /// # Panics
    /// If the stack belongs to another profile.
    pub fn depth(&self, id: StackId) -> usize {
        let (outer, inner) = self.stacks.lists(id);
        self.stacks.list(outer).len() + self.stacks.list(inner).len()
    }

    /// Returns a stack's function by index from the root.
    ///
    /// # Panics
    /// If the stack belongs to another profile.
    pub(crate) fn function_at(&self, id: StackId, index: usize) -> Option<FunctionId> {
        let (outer, inner) = self.stacks.lists(id);
        let outer = self.stacks.list(outer);
        let frame = match index.checked_sub(outer.len()) {
            None => outer.get(index)?,
            Some(index) => self.stacks.list(inner).get(index)?,
        };
        Some(self.function_of_frame(*frame))
    }

    /// Returns the profile without some functions. Their callers take over their weight. All ids
    /// stay valid.
    ///
    /// # Examples
    /// ```
    /// use rprof_profile::views::selection::functions_where;
    /// use rprof_profile::{Filter, folded};
    ///
    /// let text = "main;wrapper;work 3";
    /// let profile = folded::read(text.as_bytes(), "x".as_ref(), &Filter::default())?;
    /// let wrapper = functions_where(&profile, |id| profile.function(id).name.as_deref() == Ok("wrapper"));
    /// let without = profile.without_functions(&wrapper);
    /// assert_eq!(without.depth(without.aggregated[0].stack), 2);
    /// # Ok::<(), folded::FoldedError>(())
    /// ```
    pub fn without_functions(&self, functions: &FunctionSet) -> Profile {
        let is_removed = |id: FunctionId| functions.get(id.0 as usize) == Some(&true);
        let is_wanted = |frame: u32| !is_removed(self.function_of_frame(frame));
        Profile {
            stacks: self.stacks.with_frames_where(is_wanted),
            source: self.source.clone(),
            events: self.events.clone(),
            comms: self.comms.clone(),
            threads: self.threads.clone(),
            functions: self.functions.clone(),
            objects: self.objects.clone(),
            files: self.files.clone(),
            aggregated: self.aggregated.clone(),
            samples: self.samples.clone(),
            streams: self.streams.clone(),
            quality: self.quality.clone(),
            time: self.time,
            wall_time: self.wall_time,
            gaps: self.gaps.clone(),
            has_callchains: self.has_callchains,
            leaves_only: self.leaves_only,
            request_key: self.request_key.clone(),
            is_folded: self.is_folded,
            frames: self.frames.clone(),
            tells_inlined: self.tells_inlined,
        }
    }

    /// Returns a stack's frame lists: callers, which stacks share, and leaf frames.
    ///
    /// # Panics
    /// If the stack belongs to another profile.
    pub fn lists(&self, id: StackId) -> (FrameListId, FrameListId) {
        self.stacks.lists(id)
    }

    /// Iterates over a list's frames, root first.
    ///
    /// # Panics
    /// If the list belongs to another profile.
    pub fn list(&self, id: FrameListId) -> impl DoubleEndedIterator<Item = FrameId> + '_ {
        self.stacks.list(id).iter().map(|frame| FrameId(*frame))
    }

    pub(crate) fn functions_of(&self, list: FrameListId) -> impl Iterator<Item = FunctionId> + '_ {
        let frames = self.stacks.list(list).iter();
        frames.map(|frame| self.function_of_frame(*frame))
    }

    pub(crate) fn function_of_frame(&self, frame: u32) -> FunctionId {
        match self.frames.as_deref() {
            None => FunctionId(frame >> u32::from(self.tells_inlined)),
            Some(frames) => frames[frame as usize].function,
        }
    }

    /// Iterates over a stack's frames, root first.
    ///
    /// # Panics
    /// If the stack belongs to another profile.
    pub fn frames(&self, id: StackId) -> impl DoubleEndedIterator<Item = FrameId> + '_ {
        self.stacks.get(id)
    }

    /// Returns a frame by its id.
    ///
    /// # Panics
    /// If the frame belongs to another profile.
    pub fn frame(&self, id: FrameId) -> Frame {
        match &self.frames {
            None if self.tells_inlined => Frame {
                inline_depth: id.0 & 1,
                ..Frame::of(FunctionId(id.0 >> 1))
            },
            None => Frame::of(FunctionId(id.0)),
            Some(frames) => frames[id.0 as usize],
        }
    }

    /// Returns true if frames have addresses.
    pub fn has_addresses(&self) -> bool {
        self.frames.is_some()
    }

    /// Returns true if frames distinguish inlined calls.
    pub fn tells_inlined(&self) -> bool {
        self.tells_inlined || self.frames.is_some()
    }

    /// Returns a function by its id.
    ///
    /// # Panics
    /// If the function belongs to another profile.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// Returns the language of a function.
    ///
    /// # Panics
    /// If the function belongs to another profile.
    pub fn language(&self, id: FunctionId) -> Language {
        let function = self.function(id);
        Language::of(function, self.object(function.object))
    }

    /// Returns an object by its id.
    ///
    /// # Panics
    /// If the object belongs to another profile.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0 as usize]
    }

    /// Returns a thread by its id.
    ///
    /// # Panics
    /// If the thread belongs to another profile.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.0 as usize]
    }

    /// Returns the name of a thread.
    ///
    /// # Panics
    /// If the thread belongs to another profile.
    pub fn comm(&self, id: ThreadId) -> &str {
        &self.comms[self.thread(id).comm as usize]
    }

    /// Returns the first event with samples, the default of reports.
    pub fn main_event(&self) -> Option<usize> {
        self.events.iter().position(|e| e.samples > 0)
    }
}
