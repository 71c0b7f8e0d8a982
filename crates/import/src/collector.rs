//! [`Collector`]: samples of any format, filtered and interned.

use std::io::{BufRead, Read};
use std::path::Path;

use rprof_profile::filter::Origin;
use rprof_profile::folded::cut_stacks;
use rprof_profile::limits::{MAX_EVENTS, MAX_FRAMES, MemoryReservation};
use rprof_profile::pattern::{matches_name, matches_object};
use rprof_profile::unit::counted_were;
use rprof_profile::waits::WAIT_OBJECT;
use rprof_profile::{
    FileId, Filter, Frame, FrameId, Function, FunctionId, Language, Object, ObjectId, ObjectKind,
    Profile, ProfileBuilder, ProfileSample, Quality, Reason, StackId, StackPosition, Thread,
    ThreadId, WeightUnit,
};
use rprof_records::BuildId;

use crate::{Failed, ImportOptions};

/// Samples under way to a profile.
pub(crate) struct Collector<'o> {
    builder: ProfileBuilder,
    options: &'o ImportOptions,
    memory: MemoryReservation,
    /// Conditions of the filter on threads, and those on CPU and time.
    of_thread: Filter,
    of_moment: Filter,
    /// Flag of each event: true if its samples pass the event filter.
    events: Vec<bool>,
    /// Number of samples of events beyond the limit.
    surplus: u64,
    /// True after the first sample, even if the filter drops it.
    has_samples: bool,
    cut: u64,
    is_deep: bool,
    warnings: Vec<String>,
}

/// Number of bytes read at once from an input.
const CHUNK: usize = 64 << 10;

/// Name of an unnamed function, and of an unknown object.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// Samples of one stack, as decoded from a format.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) event: usize,
    /// Thread from [`Collector::thread`]; `None` if the filter drops it.
    pub(crate) thread: Option<ThreadId>,
    pub(crate) cpu: Option<u32>,
    /// Nanoseconds.
    pub(crate) time: Option<u64>,
    /// Stack from [`Collector::stack`]; `None` if the filter drops it.
    pub(crate) stack: Option<StackId>,
    pub(crate) samples: u64,
    pub(crate) weight: u64,
}

impl<'o> Collector<'o> {
    /// Creates a collector. `has_times`: every sample has its own timestamp.
    pub(crate) fn new(source: &Path, options: &'o ImportOptions, has_times: bool) -> Collector<'o> {
        let builder = ProfileBuilder::with_addresses().source(source);
        let builder = match options.streams && has_times {
            true => builder.streams(true),
            false => builder.columns(options.columns && has_times),
        };
        let filter = &options.filter;
        Collector {
            builder,
            options,
            memory: MemoryReservation::new(&options.budget),
            of_thread: Filter {
                comms: filter.comms.clone(),
                pids: filter.pids.clone(),
                tids: filter.tids.clone(),
                ..Filter::default()
            },
            of_moment: Filter {
                cpus: filter.cpus.clone(),
                time: filter.time,
                ..Filter::default()
            },
            events: Vec::new(),
            surplus: 0,
            has_samples: false,
            cut: 0,
            is_deep: false,
            warnings: Vec::new(),
        }
    }

    /// Reserves memory from the budget for data that a reader holds.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), String> {
        (self.memory.hold(bytes as u64)).map_err(|error| error.to_string())
    }

    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.memory.give_back(bytes as u64);
    }

    /// Charges the work budget for repeated work that few input bytes can cause. `bytes` is the
    /// amount of data read again.
    ///
    /// # Errors
    /// The work budget is exhausted.
    pub(crate) fn work(&mut self, bytes: usize) -> Result<(), String> {
        self.memory.pay(bytes).map_err(|error| error.to_string())
    }

    /// Charges for a name, and reserves the memory of the profile's growth.
    fn pay(&mut self, name: &str) -> Result<(), String> {
        let paid = self.memory.pay(name.len());
        paid.and_then(|()| self.memory.hold_profile(&self.builder))
            .map_err(|error| error.to_string())
    }

    /// Reads a whole input. Its memory is reserved from the budget.
    pub(crate) fn read_whole(&mut self, input: &mut dyn BufRead) -> Result<Vec<u8>, Failed> {
        let mut bytes = Vec::new();
        loop {
            // A full vector doubles its size.
            self.hold(2 * CHUNK)?;
            if (&mut *input).take(CHUNK as u64).read_to_end(&mut bytes)? < CHUNK {
                return Ok(bytes);
            }
        }
    }

    /// Declares that samples have no timestamps. Call it before adding samples.
    pub(crate) fn without_times(&mut self) {
        self.builder = std::mem::take(&mut self.builder).columns(false);
    }

    /// Adds a warning: a limit of the format, or a part of the input that was skipped.
    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Sets start and end of the profile, in nanoseconds since 1970.
    pub(crate) fn wall_time(&mut self, first: u64, last: u64) {
        self.builder.set_wall_time(Some((first, last)));
        self.builder.set_time(Some((0, last.saturating_sub(first))));
    }

    /// Adds an event and returns its number. Samples of events beyond the limit are dropped.
    pub(crate) fn event(&mut self, name: &str, unit: WeightUnit) -> usize {
        if self.events.len() == MAX_EVENTS {
            return MAX_EVENTS;
        }
        self.events.push(self.options.filter.wants_event(name));
        self.builder.add_event(name, unit)
    }

    /// Returns the id of an object by its name and build-id.
    ///
    /// # Errors
    /// The memory or work budget is exhausted. This also applies to the functions below.
    pub(crate) fn object(
        &mut self,
        name: &str,
        build_id: Option<BuildId>,
    ) -> Result<ObjectId, String> {
        self.pay(name)?;
        let base = name.rsplit('/').next().unwrap_or(name);
        let is_jitdump = base.starts_with("jit-") && base.ends_with(".dump");
        let is_perf_map = name
            .strip_prefix("/tmp/perf-")
            .is_some_and(|rest| rest.ends_with(".map"));
        let kind = match name {
            _ if name.starts_with("[kernel") || name.starts_with("[guest.kernel") => {
                ObjectKind::Kernel
            }
            "[jit]" => ObjectKind::Jit,
            WAIT_OBJECT => ObjectKind::Waiting,
            _ if is_perf_map || is_jitdump => ObjectKind::Jit,
            _ => ObjectKind::File,
        };
        Ok(self.builder.add_object(Object {
            name: name.into(),
            kind,
            build_id,
            runtime: None,
        }))
    }

    /// Returns the id of a function. Exports write `[unknown]` or the object's name in brackets for
    /// unnamed functions, so those names give an unnamed function.
    pub(crate) fn function(&mut self, name: &str, object: ObjectId) -> Result<FunctionId, String> {
        self.pay(name)?;
        Ok(self.builder.add_function(Function {
            name: match name.is_empty() || name == UNKNOWN || self.is_object(name, object) {
                true => Err(Reason::NotInInput),
                false => Ok(name.into()),
            },
            object,
            position: StackPosition::Inner,
            line: None,
            located: None,
            source: None,
        }))
    }

    /// Returns whether a name is the object's name in brackets.
    fn is_object(&self, name: &str, object: ObjectId) -> bool {
        let object = self.builder.object(object).base_name();
        let inside = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        inside.is_some_and(|inside| inside == object || name == object)
    }

    pub(crate) fn file(&mut self, path: &str) -> Result<FileId, String> {
        self.pay(path)?;
        Ok(self.builder.intern_file(path))
    }

    pub(crate) fn frame(&mut self, frame: Frame) -> Result<FrameId, String> {
        let id = self.builder.intern_frame(frame);
        self.check()?;
        Ok(id)
    }

    /// Returns the id of a stack, root first; `None` if the filter does not want it.
    ///
    /// # Errors
    /// The memory budget is exhausted.
    pub(crate) fn stack(&mut self, frames: &[FrameId]) -> Result<Option<StackId>, String> {
        if !self.wants_stack(frames) {
            return Ok(None);
        }
        let surplus = frames.len().saturating_sub(MAX_FRAMES);
        self.cut += u64::from(surplus > 0);
        let frames = &frames[surplus..];
        self.is_deep |= frames.len() > 1;
        let id = self.builder.intern_stack(frames);
        self.check()?;
        Ok(Some(id))
    }

    /// Returns a thread; `None` if the filter drops it. `process` is the name of its process.
    ///
    /// # Errors
    /// The memory budget is exhausted.
    pub(crate) fn thread(
        &mut self,
        pid: Option<i32>,
        tid: Option<i32>,
        comm: &str,
        process: Option<&str>,
    ) -> Result<Option<ThreadId>, String> {
        let origin = Origin {
            pid,
            tid,
            comm: Some(comm.as_bytes()),
            ..Origin::default()
        };
        if !self.of_thread.wants_origin(&origin) {
            return Ok(None);
        }
        let comm = self.builder.intern_comm(comm);
        let by_number = self.options.by_thread.then_some(());
        let process_comm = process.map(|name| self.builder.intern_comm(name));
        let thread = self.builder.intern_thread(Thread {
            pid: by_number.and(pid),
            tid: by_number.and(tid),
            comm,
            process_comm: by_number.and(process_comm),
            request: None,
        });
        self.check()?;
        Ok(Some(thread))
    }

    /// Adds samples that pass the filter.
    ///
    /// # Errors
    /// The memory budget is exhausted.
    pub(crate) fn add(&mut self, row: &Row) -> Result<(), String> {
        self.has_samples = true;
        let Some(is_wanted) = self.events.get(row.event).copied() else {
            self.surplus = self.surplus.saturating_add(row.samples);
            return Ok(());
        };
        let moment = Origin {
            cpu: row.cpu,
            time: row.time,
            ..Origin::default()
        };
        if !is_wanted || !self.of_moment.wants_origin(&moment) {
            return Ok(());
        }
        let (Some(stack), Some(thread)) = (row.stack, row.thread) else {
            return Ok(());
        };
        match row.time {
            Some(time) if row.samples == 1 => self.builder.add_sample(ProfileSample {
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
        self.check()
    }

    /// Reserves the memory of the profile's growth.
    fn check(&mut self) -> Result<(), String> {
        (self.memory.hold_profile(&self.builder)).map_err(|error| error.to_string())
    }

    fn wants_stack(&self, frames: &[FrameId]) -> bool {
        let filter = &self.options.filter;
        let of = |frame: &FrameId| {
            let frame = self.builder.frame(*frame)?;
            let function = self.builder.function(frame.function);
            let name = function.name.as_deref().unwrap_or(UNKNOWN);
            Some((name, function.object, frame.inline_depth > 0))
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
            // The leaf, and the functions it was inlined into.
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
        if !filter.languages.is_empty() {
            let leaf = frames.last().and_then(|frame| self.builder.frame(*frame));
            let language = leaf.map(|frame| {
                let function = self.builder.function(frame.function);
                Language::of(function, self.builder.object(function.object))
            });
            if !language.is_some_and(|language| language.is_in(&filter.languages)) {
                return false;
            }
        }
        if !filter.objects.is_empty() {
            let object = frames.last().and_then(of).map(|(_, object, _)| object);
            let name = object.map(|object| &*self.builder.object(object).name);
            let is_wanted = |name: &str| filter.objects.iter().any(|p| matches_object(p, name));
            if !name.is_some_and(is_wanted) {
                return false;
            }
        }
        true
    }

    /// Returns the profile. No format reports whether stacks are complete, or why names are
    /// missing.
    ///
    /// # Errors
    /// The input has no samples, not even filtered ones.
    pub(crate) fn finish(mut self) -> Result<Profile, String> {
        if !self.has_samples {
            return Err("it has no sample".to_owned());
        }
        if self.cut > 0 {
            self.warnings.push(cut_stacks(self.cut));
        }
        if self.surplus > 0 {
            self.warnings.push(format!(
                "{} dropped: the input has more than {MAX_EVENTS} events",
                counted_were(self.surplus, "sample")
            ));
        }
        self.memory.keep(&self.builder);
        self.builder.set_callchains(self.is_deep);
        Ok(self.builder.finish_with_quality(Quality {
            warnings: self.warnings,
            ..Quality::default()
        }))
    }
}
