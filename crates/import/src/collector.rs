//! [`Collector`]: samples of any format, filtered and interned.

use std::path::Path;

use rprof_profile::filter::Origin;
use rprof_profile::pattern::{matches_name, matches_object};
use rprof_profile::{
    FileId, Frame, FrameId, Function, FunctionId, Object, ObjectId, ObjectKind, Profile,
    ProfileBuilder, Quality, Sample, StackId, StackPosition, Thread, WeightUnit,
};
use rprof_records::BuildId;
use rustc_hash::FxHashMap;

use crate::ImportOptions;

/// Most frames of a stack; of a longer one the callers are left out.
pub(crate) const MOST_FRAMES: usize = 4096;

/// Most frames of all stacks together, where callers that stacks share count once.
const MOST_LISTED_FRAMES: usize = 1 << 27;

/// Most bytes that names and frames may take: a few bytes of an input may name a long string many times.
const MOST_HELD: u64 = 1 << 31;

/// Bytes that a frame takes in the tables, about.
const FRAME_BYTES: usize = 128;

/// Samples under way to a profile.
pub(crate) struct Collector<'o> {
    builder: ProfileBuilder,
    options: &'o ImportOptions,
    /// Names of the events, and whether the filter wants them.
    events: Vec<bool>,
    objects: Vec<Box<str>>,
    functions: FxHashMap<FunctionId, (Box<str>, ObjectId)>,
    frames: FxHashMap<FrameId, (FunctionId, bool)>,
    /// Bytes that names and frames have taken.
    held: u64,
    cut: u64,
    is_deep: bool,
    warnings: Vec<String>,
}

/// Samples of one stack, as a format has them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row<'a> {
    pub(crate) event: usize,
    pub(crate) pid: Option<i32>,
    pub(crate) tid: Option<i32>,
    pub(crate) comm: &'a str,
    pub(crate) process: Option<&'a str>,
    pub(crate) cpu: Option<u32>,
    /// Nanoseconds.
    pub(crate) time: Option<u64>,
    /// The stack, as [`Collector::stack`] has it; `None` for one that the filter does not want.
    pub(crate) stack: Option<StackId>,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

impl<'o> Collector<'o> {
    /// Begins. `has_times`: samples come one by one, with times.
    pub(crate) fn new(source: &Path, options: &'o ImportOptions, has_times: bool) -> Collector<'o> {
        let builder = ProfileBuilder::with_addresses().source(source);
        let builder = match options.streams && has_times {
            true => builder.streams(true),
            false => builder.columns(options.columns && has_times),
        };
        Collector {
            builder,
            options,
            events: Vec::new(),
            objects: Vec::new(),
            functions: FxHashMap::default(),
            frames: FxHashMap::default(),
            held: 0,
            cut: 0,
            is_deep: false,
            warnings: Vec::new(),
        }
    }

    /// Counts bytes that the profile will hold.
    fn hold(&mut self, bytes: usize) -> Result<(), String> {
        self.held = self.held.saturating_add(bytes as u64);
        match self.held > MOST_HELD {
            true => Err(format!(
                "its names and frames would take more than {} MiB; export less of it",
                MOST_HELD >> 20
            )),
            false => Ok(()),
        }
    }

    /// Adds a warning: what the format cannot say, or what was left out.
    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Sets the times at which the profile begins and ends, in nanoseconds since 1970.
    pub(crate) fn wall_time(&mut self, first: u64, last: u64) {
        self.builder.set_wall_time(Some((first, last)));
        self.builder.set_time(Some((0, last.saturating_sub(first))));
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, name: &str, unit: WeightUnit) -> usize {
        self.events.push(self.options.filter.wants_event(name));
        self.builder.add_event(name, unit)
    }

    /// Returns the id of an object by its name and build-id.
    ///
    /// # Errors
    /// Names take too much room, here and below.
    pub(crate) fn object(
        &mut self,
        name: &str,
        build_id: Option<BuildId>,
    ) -> Result<ObjectId, String> {
        self.hold(name.len())?;
        let is_perf_map = name
            .strip_prefix("/tmp/perf-")
            .is_some_and(|rest| rest.ends_with(".map"));
        let kind = match name {
            _ if name.starts_with("[kernel") || name.starts_with("[guest.kernel") => {
                ObjectKind::Kernel
            }
            "[jit]" => ObjectKind::Jit,
            _ if is_perf_map => ObjectKind::Jit,
            _ => ObjectKind::File,
        };
        let id = self.builder.add_object(Object {
            name: name.into(),
            kind,
            build_id,
            runtime: None,
        });
        if id.0 as usize == self.objects.len() {
            self.objects.push(name.into());
        }
        Ok(id)
    }

    /// Returns the id of a function.
    pub(crate) fn function(&mut self, name: &str, object: ObjectId) -> Result<FunctionId, String> {
        self.hold(name.len())?;
        let id = self.builder.add_function(Function {
            name: Ok(name.into()),
            object,
            position: StackPosition::Inner,
            line: None,
            located: None,
        });
        let known = self.functions.entry(id);
        known.or_insert_with(|| (name.into(), object));
        Ok(id)
    }

    /// Returns the id of a source file.
    pub(crate) fn file(&mut self, path: &str) -> Result<FileId, String> {
        self.hold(path.len())?;
        Ok(self.builder.intern_file(path))
    }

    /// Returns the id of a frame.
    pub(crate) fn frame(&mut self, frame: Frame) -> Result<FrameId, String> {
        let id = self.builder.intern_frame(frame);
        let of_id = (frame.function, frame.inline_depth > 0);
        if self.frames.insert(id, of_id).is_none() {
            self.hold(FRAME_BYTES)?;
        }
        Ok(id)
    }

    /// Returns the id of a stack, root first; `None` if the filter does not want it.
    ///
    /// # Errors
    /// All stacks together have too many frames.
    pub(crate) fn stack(&mut self, frames: &[FrameId]) -> Result<Option<StackId>, String> {
        if !self.wants_stack(frames) {
            return Ok(None);
        }
        let surplus = frames.len().saturating_sub(MOST_FRAMES);
        self.cut += u64::from(surplus > 0);
        let frames = &frames[surplus..];
        self.is_deep |= frames.len() > 1;
        let id = self.builder.intern_stack(frames);
        match self.builder.listed_frames() > MOST_LISTED_FRAMES {
            true => Err(format!(
                "its stacks have more than {MOST_LISTED_FRAMES} frames together; export less of it"
            )),
            false => Ok(Some(id)),
        }
    }

    /// Adds samples, if the filter wants them.
    pub(crate) fn add(&mut self, row: &Row<'_>) {
        let is_wanted = self.events.get(row.event).copied().unwrap_or(false);
        let Some(stack) = row.stack.filter(|_| is_wanted && self.wants_origin(row)) else {
            return;
        };
        let comm = self.builder.intern_comm(row.comm);
        let by_number = self.options.by_thread.then_some(());
        let process_comm = row.process.map(|name| self.builder.intern_comm(name));
        let thread = self.builder.intern_thread(Thread {
            pid: by_number.and(row.pid),
            tid: by_number.and(row.tid),
            comm,
            process_comm: by_number.and(process_comm),
        });
        match row.time {
            Some(time) if row.samples == 1 => self.builder.add_sample(Sample {
                time,
                cpu: row.cpu,
                thread,
                stack,
                event: row.event,
                weight: row.weight,
            }),
            _ => {
                let builder = &mut self.builder;
                builder.add_samples(row.event, thread, stack, row.samples, row.weight);
            }
        }
    }

    fn wants_origin(&self, row: &Row<'_>) -> bool {
        self.options.filter.wants_origin(&Origin {
            pid: row.pid,
            tid: row.tid,
            cpu: row.cpu,
            time: row.time,
            comm: Some(row.comm.as_bytes()),
        })
    }

    fn wants_stack(&self, frames: &[FrameId]) -> bool {
        let filter = &self.options.filter;
        let of = |frame: &FrameId| {
            let (function, is_inlined) = self.frames.get(frame)?;
            let (name, object) = self.functions.get(function)?;
            Some((&**name, *object, *is_inlined))
        };
        let is_any =
            |patterns: &[String], name: &str| patterns.iter().any(|p| matches_name(p, name));
        if !filter.focus.is_empty() {
            let mut names = frames.iter().filter_map(of).map(|(name, ..)| name);
            if !names.any(|name| is_any(&filter.focus, name)) {
                return false;
            }
        }
        if !filter.symbols.is_empty() {
            // The leaf, and the functions that it was inlined into.
            let mut goes_on = true;
            let mut leaves = frames
                .iter()
                .rev()
                .filter_map(of)
                .take_while(|(.., inlined)| std::mem::replace(&mut goes_on, *inlined));
            if !leaves.any(|(name, ..)| is_any(&filter.symbols, name)) {
                return false;
            }
        }
        if !filter.reasons.is_empty() {
            let leaf = frames.last().and_then(of).map_or("", |(name, ..)| name);
            if !filter.wants_leaf(leaf) {
                return false;
            }
        }
        if !filter.objects.is_empty() {
            let object = frames.last().and_then(of).map(|(_, object, _)| object);
            let name = object.and_then(|object| self.objects.get(object.0 as usize));
            let is_wanted = |name: &str| filter.objects.iter().any(|p| matches_object(p, name));
            if !name.is_some_and(|name| is_wanted(name)) {
                return false;
            }
        }
        true
    }

    /// Returns the profile. Of complete stacks, and of reasons for names that lack, no format says anything.
    pub(crate) fn finish(mut self) -> Profile {
        if self.cut > 0 {
            let (cut, most) = (self.cut, MOST_FRAMES);
            self.warnings.push(match cut {
                1 => format!("a stack has more than {most} frames, and its callers are left out"),
                _ => format!(
                    "{cut} stacks have more than {most} frames, and their callers are left out"
                ),
            });
        }
        self.builder.set_callchains(self.is_deep);
        self.builder.finish_with_quality(Quality {
            warnings: self.warnings,
            ..Quality::default()
        })
    }
}
