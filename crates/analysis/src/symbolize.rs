//! Symbolization: locations to functions, lines and objects.

use std::path::PathBuf;

use std::os::unix::ffi::OsStringExt;

use rprof_processes::{Image, ImageKind, Pid, SpaceId, Time, Timeline};
use rprof_profile::intern::Values;
use rprof_profile::language::fold::NamedSource;
use rprof_profile::memory::{FRAME_PREFIX, MEMORY_OBJECT};
use rprof_profile::pattern::matches_object;
use rprof_profile::{
    FileId, Function, FunctionId, Line, Object, ObjectId, ObjectKind, Runtime, StackPosition,
    SymbolTables,
};
use rprof_records::BuildId;
use rprof_symbols::{Lookup, Reason, SourceLine, Symbolizer};
use rustc_hash::FxHashMap;

use crate::image_lookup::{ImageLookup, Target, image_of, recorded_kernel_start};
use crate::location::{CodeRegion, Location};
use crate::options::SymbolOptions;
use crate::sideband_pass::Index;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) function: FunctionId,
    /// Line of the location in the innermost frame; elsewhere of the inlined call.
    pub(crate) line: Option<Line>,
    /// First line of the function; 0 if unknown.
    pub(crate) start_line: u32,
    /// True if inlined into the previous frame.
    pub(crate) inlined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbolized {
    first: u32,
    count: u32,
    /// Distance in bytes of the lookup address from the outermost function's start; 0 without a
    /// name.
    pub(crate) offset: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Symbols {
    pub(crate) functions: Vec<Function>,
    pub(crate) objects: Vec<Object>,
    /// Paths of source files. May contain any character.
    pub(crate) files: Vec<Box<str>>,
    /// Objects without inlined calls that a debug build would show.
    pub(crate) hides_inlined: Vec<ObjectId>,
    /// Symbols by location id.
    pub(crate) symbolized: Vec<Symbolized>,
    frames: Vec<Frame>,
}

impl Symbols {
    /// Returns the frames at a location, outermost first. Never empty.
    pub(crate) fn frames(&self, location: u32) -> &[Frame] {
        let found = &self.symbolized[location as usize];
        &self.frames[found.first as usize..][..found.count as usize]
    }

    /// Returns the index of a location's outermost frame. Its inlined frames follow.
    pub(crate) fn first_frame(&self, location: u32) -> u32 {
        self.symbolized[location as usize].first
    }

    pub(crate) fn frame_count(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn outermost(&self, location: u32) -> FunctionId {
        self.frames(location)[0].function
    }
}

/// Symbolizes all locations, with images in parallel. `samples` returns each location's samples.
/// Only objects that match a pattern of `detailed` get inlined calls and lines, or all if it is
/// empty.
pub(crate) fn symbolize(
    index: &Index<'_>,
    locations: &[Location],
    samples: impl FnOnce() -> Vec<u64>,
    symbolizer: &Symbolizer,
    options: SymbolOptions,
    detailed: &[String],
) -> Symbols {
    let origin = ImageLookup::of(index.data, index.machine, symbolizer.has_root());
    let mut by_region: FxHashMap<CodeRegion, Vec<u32>> = FxHashMap::default();
    for (i, location) in locations.iter().enumerate() {
        by_region.entry(location.region).or_default().push(i as u32);
    }
    let kernel_start = recorded_kernel_start(&index.timeline);
    let mut work: Vec<(CodeRegion, Target, Vec<u32>)> = (by_region.into_iter())
        .map(|(region, mut list)| {
            list.sort_unstable_by_key(|i| locations[*i as usize].lookup);
            let target = origin.target(region, index.timeline.images(), kernel_start);
            (region, target, list)
        })
        .collect();
    // Largest first, so that no long task runs alone at the end. Equal sizes have a fixed order.
    work.sort_by_key(|(_, _, list)| (usize::MAX - list.len(), list[0]));
    if symbolizer.has_remote() {
        // Hottest image first: downloads are slow and limited in time.
        let samples = samples();
        let heat = |list: &[u32]| list.iter().map(|i| samples[*i as usize]).sum::<u64>();
        work.sort_by_cached_key(|(_, _, list)| u64::MAX - heat(list));
    }
    let results = rprof_parallel::run(options.threads, work.len(), |queue| {
        let mut done = Vec::new();
        while let Some(piece) = queue.next() {
            let (_, target, list) = &work[piece];
            let lookups: Vec<u64> = list.iter().map(|i| locations[*i as usize].lookup).collect();
            let region = work[piece].0;
            let is_detailed = detailed.is_empty() || {
                let name = own_object_name(index, region);
                detailed
                    .iter()
                    .any(|pattern| matches_object(pattern, &name))
            };
            let found = match (target, is_detailed) {
                (Ok(key), false) => symbolizer.resolve_by_symbols(key, &lookups),
                _ => resolve(index, symbolizer, region, target, &lookups),
            };
            let hides_inlined = is_detailed
                && found.iter().any(Result::is_ok)
                && matches!(region, CodeRegion::Image(_))
                && (target.as_ref()).is_ok_and(|key| symbolizer.hides_inlined_calls(key));
            done.push((piece, found, hides_inlined));
        }
        done
    });
    let mut results: Vec<_> = results.into_iter().flatten().collect();
    results.sort_unstable_by_key(|(piece, ..)| *piece);

    let nothing = Symbolized {
        first: 0,
        count: 0,
        offset: 0,
    };
    let mut building = SymbolsBuilder {
        options,
        symbolized: vec![nothing; locations.len()],
        ..SymbolsBuilder::default()
    };
    let mut hides_inlined = Vec::new();
    let mut runtimes = ProcessRuntimes::new(&index.timeline);
    for (piece, found, hides) in results {
        let (region, _, list) = &work[piece];
        let object = Object {
            name: own_object_name(index, *region).into(),
            kind: object_kind(*region),
            build_id: origin.build_id_of(*region, index.timeline.images()),
            runtime: runtimes.of_region(*region),
        };
        for (i, lookup) in list.iter().zip(found) {
            let made = made_name(*region, locations[*i as usize].lookup, &index.timeline);
            building.location(*i, *region, &object, &lookup, made);
        }
        hides_inlined.extend((building.last_object.filter(|_| hides)).map(|(_, id)| id));
    }
    let objects = building.objects();
    Symbols {
        functions: building.functions.into_vec(),
        objects,
        hides_inlined,
        files: building.files.into_vec(),
        symbolized: building.symbolized,
        frames: building.frames,
    }
}

/// Returns a region's object name. JIT code from a jitdump has its path.
fn own_object_name(index: &Index<'_>, region: CodeRegion) -> String {
    match region {
        CodeRegion::Jit(code) => index.runtimes.dump_path(code).map(str::to_owned),
        _ => None,
    }
    .unwrap_or_else(|| object_name(region, index.timeline.images()))
}

struct ProcessRuntimes<'a> {
    timeline: &'a Timeline,
    known: FxHashMap<i32, Option<Runtime>>,
}

impl<'a> ProcessRuntimes<'a> {
    fn new(timeline: &'a Timeline) -> Self {
        ProcessRuntimes {
            timeline,
            known: FxHashMap::default(),
        }
    }

    fn of_region(&mut self, region: CodeRegion) -> Option<Runtime> {
        let pid = match region {
            CodeRegion::Anonymous { pid, .. } => pid,
            CodeRegion::Jit(code) => code.pid,
            _ => return None,
        };
        let timeline = self.timeline;
        *(self.known.entry(pid)).or_insert_with(|| mapped_runtime(timeline, pid))
    }
}

/// Returns the runtime that a process has mapped at the end; `None` for none or several.
fn mapped_runtime(timeline: &Timeline, pid: i32) -> Option<Runtime> {
    let space = timeline.space(Pid(pid), Time::MAX)?;
    let mappings = timeline.view(space, Time::MAX).mappings();
    let mut runtimes = mappings.filter_map(|mapping| {
        let path = timeline.image(mapping.image)?.path_without_deleted();
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        Runtime::of_file(std::str::from_utf8(name).ok()?)
    });
    let first = runtimes.next()?;
    runtimes.all(|other| other == first).then_some(first)
}

fn resolve(
    index: &Index<'_>,
    symbolizer: &Symbolizer,
    region: CodeRegion,
    target: &Target,
    lookups: &[u64],
) -> Vec<Lookup> {
    let runtimes = &index.runtimes;
    match (region, target) {
        (CodeRegion::Jit(code), _) => (lookups.iter())
            .map(|avma| (runtimes.frames(code, *avma)).ok_or(Reason::JitWithoutMap))
            .collect(),
        (CodeRegion::Image(id), target) => {
            let image = index.timeline.image(id);
            // Only images that were not found by their path are embedded.
            let kept = image.and_then(|image| runtimes.contents(runtimes.image(image)?));
            match (kept, image, target) {
                (Some((bytes, _lease)), Some(image), _) => {
                    let path = image.path_without_deleted().to_vec();
                    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
                    symbolizer.resolve_copy(bytes, &path, lookups)
                }
                (_, _, Ok(key)) => symbolizer.resolve_image(key, lookups),
                (_, _, Err(reason)) => vec![Err(*reason); lookups.len()],
            }
        }
        (_, Ok(key)) => symbolizer.resolve_image(key, lookups),
        (_, Err(reason)) => vec![Err(*reason); lookups.len()],
    }
}

#[derive(Debug, Default)]
pub(crate) struct SymbolsBuilder {
    options: SymbolOptions,
    last_object: Option<(CodeRegion, ObjectId)>,
    functions: Values<Function>,
    objects: Values<Object>,
    build_ids: Vec<Option<BuildId>>,
    files: Values<Box<str>>,
    symbolized: Vec<Symbolized>,
    frames: Vec<Frame>,
}

impl SymbolsBuilder {
    pub(crate) fn extend_to(&mut self, count: usize) {
        let nothing = Symbolized {
            first: 0,
            count: 0,
            offset: 0,
        };
        self.symbolized.resize(count, nothing);
    }

    /// Returns the functions at a location, outermost first; none before its lookup.
    pub(crate) fn functions_at(&self, location: u32) -> impl Iterator<Item = FunctionId> + '_ {
        let found = &self.symbolized[location as usize];
        let frames = &self.frames[found.first as usize..][..found.count as usize];
        frames.iter().map(|frame| frame.function)
    }

    pub(crate) fn function(&self, id: FunctionId) -> &Function {
        self.functions.get(id.0)
    }

    pub(crate) fn functions_and_objects(&self) -> (&[Function], &[Object]) {
        (self.functions.as_slice(), self.objects.as_slice())
    }

    pub(crate) fn add_source(&mut self, source: NamedSource) -> FunctionId {
        let object = self.object(source.object.clone());
        let file = source
            .file
            .as_ref()
            .map(|path| FileId(self.files.intern(path.clone())));
        let function = source.into_function(object, file, None);
        FunctionId(self.functions.intern(function))
    }

    pub(crate) fn tables(&self) -> SymbolTables {
        let mut objects = self.objects.as_slice().to_vec();
        set_build_ids(&mut objects, &self.build_ids);
        SymbolTables {
            functions: self.functions.as_slice().to_vec(),
            objects,
            files: self.files.as_slice().to_vec(),
            ..SymbolTables::default()
        }
    }

    /// Adds a location's lookup result. `made` is a name and offset that replaces it.
    pub(crate) fn location(
        &mut self,
        location: u32,
        region: CodeRegion,
        whole: &Object,
        lookup: &Lookup,
        made: Option<(Box<str>, u64)>,
    ) {
        let generated = match (region, lookup, &made) {
            (CodeRegion::Jit(_), _, Some((name, _))) => Some(&**name),
            (CodeRegion::Jit(_), Ok(frames), None) => frames.iter().next().map(|frame| frame.name),
            _ => None,
        };
        if let Some(name) = generated.and_then(|name| name.strip_prefix(FRAME_PREFIX)) {
            let object = self.object(Object {
                name: MEMORY_OBJECT.into(),
                kind: ObjectKind::File,
                build_id: None,
                ..*whole
            });
            let first = self.frames.len() as u32;
            self.frame(
                object,
                Ok(name.into()),
                StackPosition::Inner,
                (None, 0),
                false,
            );
            self.symbolized[location as usize] = Symbolized {
                first,
                count: 1,
                offset: 0,
            };
            return;
        }
        let module = match lookup {
            Ok(frames) if made.is_none() => frames.symbol().module.as_deref(),
            _ => None,
        };
        let object = match (module, self.last_object) {
            (None, Some((last, object))) if last == region => object,
            (Some(module), _) => self.object(Object {
                name: format!("[{module}]").into(),
                build_id: None,
                ..*whole
            }),
            (None, _) => self.object(whole.clone()),
        };
        if module.is_none() {
            self.last_object = Some((region, object));
        }
        let first = self.frames.len() as u32;
        let offset = match (lookup, made) {
            (_, Some((name, offset))) => {
                self.frame(object, Ok(name), StackPosition::Inner, (None, 0), false);
                offset
            }
            (Ok(frames), None) => {
                let located = frames.symbol().located;
                // With another build-id, the address means another function.
                let known = self.build_ids.get(object.0 as usize).copied().flatten();
                let is_of_other = known != whole.build_id;
                for frame in frames.iter() {
                    if let Some(reason) = located {
                        let name = match is_of_other {
                            true => Err(reason),
                            false => Ok(frame.name.into()),
                        };
                        self.located_frame(object, name, reason);
                        continue;
                    }
                    let line = frame.line.map(|line| self.line(line));
                    let (name, start) = (Ok(frame.name.into()), start_of(frame.raw));
                    self.frame(object, name, start, (line, frame.start_line), frame.inlined);
                }
                frames.offset()
            }
            (Err(reason), None) => {
                self.frame(object, Err(*reason), StackPosition::Inner, (None, 0), false);
                0
            }
        };
        self.symbolized[location as usize] = Symbolized {
            first,
            count: self.frames.len() as u32 - first,
            offset,
        };
    }

    fn object(&mut self, object: Object) -> ObjectId {
        let build_id = object.build_id;
        let key = Object {
            build_id: build_id.filter(|_| self.options.by_build_id),
            ..object
        };
        let id = self.objects.intern(key);
        let known = id as usize + 1;
        if self.build_ids.len() < known {
            self.build_ids.resize(known, None);
        }
        let slot = &mut self.build_ids[id as usize];
        *slot = slot.or(build_id);
        ObjectId(id)
    }

    /// Returns the objects, each with its first build-id.
    fn objects(&mut self) -> Vec<Object> {
        let mut objects = std::mem::take(&mut self.objects).into_vec();
        set_build_ids(&mut objects, &self.build_ids);
        objects
    }

    fn located_frame(&mut self, object: ObjectId, name: Result<Box<str>, Reason>, reason: Reason) {
        let located = name.is_ok().then_some(reason);
        let function = Function {
            name,
            object,
            position: StackPosition::Inner,
            line: None,
            located,
            source: None,
        };
        self.frames.push(Frame {
            function: FunctionId(self.functions.intern(function)),
            line: None,
            start_line: 0,
            inlined: false,
        });
    }

    fn frame(
        &mut self,
        object: ObjectId,
        name: Result<Box<str>, Reason>,
        start: StackPosition,
        (line, start_line): (Option<Line>, u32),
        inlined: bool,
    ) {
        let function = FunctionId(
            self.functions.intern(Function {
                name,
                object,
                position: start,
                line: line
                    .filter(|_| self.options.by_line)
                    .map(|line| Line { column: 0, ..line }),
                located: None,
                source: None,
            }),
        );
        self.frames.push(Frame {
            function,
            line,
            start_line,
            inlined,
        });
    }

    fn line(&mut self, line: &SourceLine) -> Line {
        Line {
            file: FileId(self.files.intern((*line.file).into())),
            line: line.line,
            column: line.column,
        }
    }
}

fn set_build_ids(objects: &mut [Object], build_ids: &[Option<BuildId>]) {
    for (object, build_id) in objects.iter_mut().zip(build_ids) {
        object.build_id = *build_id;
    }
}

/// Returns name and offset in a function without a file: in KSYMBOL records, or the vsyscall page.
fn made_name(region: CodeRegion, lookup: u64, timeline: &Timeline) -> Option<(Box<str>, u64)> {
    if region == CodeRegion::Vsyscall {
        return vsyscall_name(region, lookup);
    }
    let CodeRegion::Kernel(Some(id)) = region else {
        return None;
    };
    let image = timeline.image(id)?;
    if image.kind != ImageKind::KernelSymbol {
        return None;
    }
    let kernel = timeline.view(SpaceId::KERNEL, u64::MAX);
    let start = kernel.mapping_at(lookup).map_or(lookup, |m| m.start);
    let name = String::from_utf8_lossy(&image.path).into_owned();
    Some((name.into(), lookup - start))
}

pub(crate) fn vsyscall_name(region: CodeRegion, lookup: u64) -> Option<(Box<str>, u64)> {
    let (name, offset) =
        rprof_image::vsyscall(lookup).filter(|_| region == CodeRegion::Vsyscall)?;
    Some((name.into(), offset))
}

fn start_of(raw: &str) -> StackPosition {
    match raw {
        "_start"
        | "__start"
        | "_dl_start_user"
        | "clone"
        | "__clone"
        | "clone3"
        | "__clone3"
        | "start_thread"
        | "__libc_start_main"
        | "__libc_start_main_impl"
        | "__libc_start_call_main" => StackPosition::Root,
        "main" => StackPosition::Entry,
        // Rust's standard library passes it to pthread_create.
        _ if raw.contains("thread_start") && raw.contains("std") => StackPosition::Entry,
        _ => StackPosition::Inner,
    }
}

pub(crate) fn object_kind(region: CodeRegion) -> ObjectKind {
    match region {
        CodeRegion::Kernel(_) | CodeRegion::GuestKernel => ObjectKind::Kernel,
        CodeRegion::Jit(_) => ObjectKind::Jit,
        _ => ObjectKind::File,
    }
}

/// Returns the name of the object at a region, as perf shows it.
pub(crate) fn object_name(region: CodeRegion, images: &[Image]) -> String {
    let path = |image| {
        (image_of(images, image)).map_or_else(String::new, |i: &Image| {
            String::from_utf8_lossy(&i.path).into_owned()
        })
    };
    match region {
        CodeRegion::Kernel(image) => match image.and_then(|i| image_of(images, i)) {
            Some(image)
                if matches!(
                    image.kind,
                    ImageKind::KernelModule | ImageKind::KernelSymbol
                ) =>
            {
                String::from_utf8_lossy(&image.path).into_owned()
            }
            _ => "[kernel.kallsyms]".into(),
        },
        CodeRegion::Image(image) => path(image),
        // perf names such memory after the perf map that the runtime would have written.
        CodeRegion::Anonymous { pid, image } => match image_of(images, image).map(|i| i.kind) {
            Some(ImageKind::Anonymous) => format!("/tmp/perf-{pid}.map"),
            _ => path(image),
        },
        CodeRegion::Jit(code) => format!("/tmp/perf-{}.map", code.pid),
        CodeRegion::Vsyscall => "[vsyscall]".into(),
        CodeRegion::Unmapped => "[unknown]".into(),
        CodeRegion::Hypervisor => "[hypervisor]".into(),
        CodeRegion::GuestKernel => "[guest.kernel]".into(),
        CodeRegion::GuestUser => "[guest]".into(),
    }
}
