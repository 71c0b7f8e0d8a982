//! [`Profile`]: the model that all exports read.

use std::path::PathBuf;

use crate::frame::{Frame, FrameId, Function, FunctionId, Object, ObjectId};
use crate::quality::Quality;
use crate::samples::{AggregatedStack, Gap, SampleColumns, Thread, ThreadId};
use crate::selection::FunctionSet;
use crate::stacks::{FrameListId, FrameStacks, StackId};
use crate::streams::SampleStreams;
use crate::unit::WeightUnit;

/// Totals of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSummary {
    /// Name, with modifiers, as recorded.
    pub name: String,
    /// Unit of the weights.
    pub unit: WeightUnit,
    /// Number of samples that count.
    pub samples: u64,
    /// Sum of their weights, in `unit`.
    pub weight: u64,
    /// Records lost: in the whole recording, or on the CPUs, in the time and in the threads that a filter wants.
    pub lost: u64,
}

/// A profile: samples summed up by thread and stack of frames.
///
/// Made by a [`ProfileBuilder`](crate::ProfileBuilder).
#[derive(Debug, Default)]
pub struct Profile {
    /// Path of the file that it was read from; empty if there is none.
    pub source: PathBuf,
    /// Events, in the file's order; those without samples too.
    pub events: Vec<EventSummary>,
    /// Names of threads. Bytes that are no UTF-8 are replaced.
    pub comms: Vec<String>,
    /// Threads, or names of threads where these are not told apart.
    pub threads: Vec<Thread>,
    /// Distinct functions.
    pub functions: Vec<Function>,
    /// Distinct objects.
    pub objects: Vec<Object>,
    /// Distinct source files, by path, of the lines of functions and frames. May hold any
    /// character.
    pub files: Vec<Box<str>>,
    /// The samples, summed up by event, thread and stack; in no order.
    pub aggregated: Vec<AggregatedStack>,
    /// The samples one by one, where the profile was made with columns.
    pub samples: Option<SampleColumns>,
    /// The samples one by one in a tenth of the memory, where the profile was made with streams.
    pub streams: Option<SampleStreams>,
    /// Shares of complete stacks and named frames, with reasons for the rest.
    pub quality: Quality,
    /// Times of the first and the last sample that counts, in nanoseconds. Samples of waits begin by their weight earlier.
    pub time: Option<(u64, u64)>,
    /// Same two times by the clock on the wall: nanoseconds since 1970, UTC. `None` where the recording does not tell.
    pub wall_time: Option<(u64, u64)>,
    /// Moments at which samples are missing, in order of time, where the profile was made with columns or streams; the
    /// first 100,000 of each kind and event at most.
    pub gaps: Vec<Gap>,
    /// True if samples have callchains, false if they have an address only.
    pub has_callchains: bool,
    /// True if callers were left out on request: stacks are leaves alone, whatever was recorded.
    pub leaves_only: bool,
    /// True if it was read from folded text: a function's name is a whole frame, which folded text
    /// has as it stands, and no thread is known.
    pub is_folded: bool,
    /// Frames by id, where the profile keeps addresses; else frames are functions.
    pub(crate) frames: Option<Vec<Frame>>,
    /// True if a frame's id is twice that of its function, plus 1 for an inlined call. Only without
    /// `frames`.
    pub(crate) tells_inlined: bool,
    pub(crate) stacks: FrameStacks,
}

impl Profile {
    /// Iterates over the functions of a stack, root first, leaf last. Inlined calls are among
    /// them.
    ///
    /// # Panics
    /// If the stack is one of another profile.
    #[inline]
    pub fn stack(&self, id: StackId) -> impl DoubleEndedIterator<Item = FunctionId> + '_ {
        let frames = self.frames.as_deref();
        let shift = u32::from(self.tells_inlined);
        (self.stacks.get(id)).map(move |frame| match frames {
            None => FunctionId(frame.0 >> shift),
            Some(frames) => frames[frame.0 as usize].function,
        })
    }

    /// Returns the number of frames of a stack.
    ///
    /// # Panics
    /// If the stack is one of another profile.
    pub fn depth(&self, id: StackId) -> usize {
        let (outer, inner) = self.stacks.lists(id);
        self.stacks.list(outer).len() + self.stacks.list(inner).len()
    }

    /// Returns the function of a stack at an index from the root, if the stack is that deep.
    ///
    /// # Panics
    /// If the stack is one of another profile.
    pub fn function_at(&self, id: StackId, index: usize) -> Option<FunctionId> {
        let (outer, inner) = self.stacks.lists(id);
        let outer = self.stacks.list(outer);
        let frame = match index.checked_sub(outer.len()) {
            None => outer.get(index)?,
            Some(index) => self.stacks.list(inner).get(index)?,
        };
        Some(self.function_of_frame(*frame))
    }

    /// Returns the profile without the frames of some functions: what they used is their callers'. All ids mean what they
    /// mean in this profile; a stack of these functions alone has no frame.
    ///
    /// # Examples
    /// ```
    /// use rprof_profile::selection::functions_where;
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
            is_folded: self.is_folded,
            frames: self.frames.clone(),
            tells_inlined: self.tells_inlined,
        }
    }

    /// Returns the two lists that a stack is made of: its callers, which many stacks have in common, and the frames at its
    /// leaf.
    ///
    /// # Panics
    /// If the stack is one of another profile.
    pub fn lists(&self, id: StackId) -> (FrameListId, FrameListId) {
        self.stacks.lists(id)
    }

    /// Iterates over the frames of a list, root first.
    ///
    /// # Panics
    /// If the list is one of another profile.
    pub fn list(&self, id: FrameListId) -> impl DoubleEndedIterator<Item = FrameId> + '_ {
        self.stacks.list(id).iter().map(|frame| FrameId(*frame))
    }

    /// Iterates over the functions of a list of frames, root first.
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

    /// Iterates over the frames of a stack, root first, leaf last.
    ///
    /// # Panics
    /// If the stack is one of another profile.
    pub fn frames(&self, id: StackId) -> impl DoubleEndedIterator<Item = FrameId> + '_ {
        self.stacks.get(id)
    }

    /// Returns a frame by its id.
    ///
    /// # Panics
    /// If the frame is one of another profile.
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

    /// Returns whether frames keep their addresses.
    pub fn has_addresses(&self) -> bool {
        self.frames.is_some()
    }

    /// Returns whether frames tell inlined calls apart.
    pub fn tells_inlined(&self) -> bool {
        self.tells_inlined || self.frames.is_some()
    }

    /// Returns a function by its id.
    ///
    /// # Panics
    /// If the function is one of another profile.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }

    /// Returns an object by its id.
    ///
    /// # Panics
    /// If the object is one of another profile.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0 as usize]
    }

    /// Returns a thread by its id.
    ///
    /// # Panics
    /// If the thread is one of another profile.
    pub fn thread(&self, id: ThreadId) -> &Thread {
        &self.threads[id.0 as usize]
    }

    /// Returns the name of a thread.
    ///
    /// # Panics
    /// If the thread is one of another profile.
    pub fn comm(&self, id: ThreadId) -> &str {
        &self.comms[self.thread(id).comm as usize]
    }

    /// Returns the index of the first event that has samples: what a report of one event shows.
    pub fn main_event(&self) -> Option<usize> {
        self.events.iter().position(|e| e.samples > 0)
    }
}
