//! Locations to functions.

use std::path::PathBuf;

use std::os::unix::ffi::OsStringExt;

use rprof_perfdata::{Feature, PerfData};
use rprof_processes::{Image, ImageIdentity, ImageKind, SpaceId, Timeline};
use rprof_symbols::{BuildId, ImageKey, Reason, Symbolizer};
use rustc_hash::FxHashMap;

use crate::index::Index;
use crate::intern::Values;
use crate::location::{Location, Place};
use crate::model::{Function, FunctionId, Object, ObjectId, Start};
use crate::threads;

/// What a location turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbolized {
    /// The function.
    pub function: FunctionId,
    /// Distance of the lookup address from the function's start, in bytes; 0
    /// where the function has no name.
    pub offset: u64,
}

/// Functions and objects of a profile.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Distinct functions.
    pub functions: Vec<Function>,
    /// Distinct objects.
    pub objects: Vec<Object>,
    /// For each location what it is, in the order they were given.
    pub symbolized: Vec<Symbolized>,
}

/// Which image to ask about a location, or why none.
type Target = Result<ImageKey, Reason>;

/// Looks up all locations, the images in parallel.
pub(crate) fn symbolize(
    index: &Index<'_>,
    locations: &[Location],
    symbolizer: &Symbolizer,
    threads: usize,
) -> Symbols {
    let origin = Origin::of(index.data);
    let mut by_place: FxHashMap<Place, Vec<u32>> = FxHashMap::default();
    for (i, location) in locations.iter().enumerate() {
        by_place.entry(location.place).or_default().push(i as u32);
    }
    let kernel_start = recorded_kernel_start(&index.timeline);
    let mut work: Vec<(Place, Target, Vec<u32>)> = (by_place.into_iter())
        .map(|(place, mut list)| {
            list.sort_unstable_by_key(|i| locations[*i as usize].lookup);
            let target = origin.target(place, &index.timeline, kernel_start);
            (place, target, list)
        })
        .collect();
    // The largest first, so that none is left running alone at the end; places
    // of the same size in a fixed order, so that numbers are the same each time.
    work.sort_by_key(|(_, _, list)| (usize::MAX - list.len(), list[0]));
    let results = threads::run(threads, work.len(), |queue| {
        let mut done = Vec::new();
        while let Some(piece) = queue.next() {
            let (_, target, list) = &work[piece];
            let lookups: Vec<u64> = list.iter().map(|i| locations[*i as usize].lookup).collect();
            let found = match target {
                Ok(key) => symbolizer.resolve_image(key, &lookups),
                Err(reason) => vec![Err(*reason); lookups.len()],
            };
            done.push((piece, found));
        }
        done
    });
    let mut results: Vec<_> = results.into_iter().flatten().collect();
    results.sort_unstable_by_key(|(piece, _)| *piece);

    let (mut functions, mut objects) = (Values::default(), Values::default());
    let nothing = Symbolized {
        function: FunctionId(0),
        offset: 0,
    };
    let mut symbolized = vec![nothing; locations.len()];
    for (piece, found) in results {
        let (place, _, list) = &work[piece];
        let object_name = object_name(*place, &index.timeline);
        for (i, lookup) in list.iter().zip(found) {
            let made = kernel_symbol(*place, locations[*i as usize].lookup, &index.timeline);
            let (object, name, offset, start) = match (&lookup, made) {
                (_, Some((name, offset))) => (object_name.clone(), Ok(name), offset, Start::Inner),
                (Ok(frames), None) => {
                    let symbol = frames.symbol();
                    let object = match &symbol.module {
                        Some(module) => format!("[{module}]"),
                        None => object_name.clone(),
                    };
                    (
                        object,
                        Ok(symbol.name.clone()),
                        frames.offset(),
                        start_of(&symbol.raw),
                    )
                }
                (Err(reason), None) => (object_name.clone(), Err(*reason), 0, Start::Inner),
            };
            let is_kernel = matches!(place, Place::Kernel(_));
            let object = objects.intern(Object {
                name: object.into(),
                is_kernel,
            });
            let function = functions.intern(Function {
                name,
                object: ObjectId(object),
                start,
            });
            symbolized[*i as usize] = Symbolized {
                function: FunctionId(function),
                offset,
            };
        }
    }
    Symbols {
        functions: functions.into_vec(),
        objects: objects.into_vec(),
        symbolized,
    }
}

/// Name and offset in a function that the kernel made at run time: the recording
/// itself tells them.
fn kernel_symbol(place: Place, lookup: u64, timeline: &Timeline) -> Option<(Box<str>, u64)> {
    let Place::Kernel(Some(id)) = place else {
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

/// Where a function stands in the life of a thread, by its name.
fn start_of(raw: &str) -> Start {
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
        | "__libc_start_call_main" => Start::Root,
        "main" => Start::Entry,
        // What Rust's standard library hands to pthread_create.
        _ if raw.contains("thread_start") && raw.contains("std") => Start::Entry,
        _ => Start::Inner,
    }
}

/// Name of the object at a place, as perf has it.
fn object_name(place: Place, timeline: &Timeline) -> String {
    let path = |image| {
        (timeline.image(image)).map_or_else(String::new, |i: &Image| {
            String::from_utf8_lossy(&i.path).into_owned()
        })
    };
    match place {
        Place::Kernel(image) => match image.and_then(|i| timeline.image(i)) {
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
        Place::Image(image) => path(image),
        // Where the code's runtime would have left its names.
        Place::Anonymous { pid, image } => match timeline.image(image).map(|i| i.kind) {
            Some(ImageKind::Anonymous) => format!("/tmp/perf-{pid}.map"),
            _ => path(image),
        },
        Place::Unmapped => "[unknown]".into(),
        Place::Hypervisor => "[hypervisor]".into(),
        Place::GuestKernel => "[guest.kernel]".into(),
        Place::GuestUser => "[guest]".into(),
    }
}

/// Where `_text` was when the recording was made, if the recording tells.
fn recorded_kernel_start(timeline: &Timeline) -> Option<u64> {
    let end = timeline.view(SpaceId::KERNEL, u64::MAX);
    end.mappings().find_map(|m| {
        let path = &timeline.image(m.image)?.path;
        (path.ends_with(b"]_text") && m.file_offset != 0).then_some(m.file_offset)
    })
}

/// What is known of where a recording was made.
struct Origin {
    /// Build-ids by path.
    build_ids: FxHashMap<Vec<u8>, BuildId>,
    /// Whether host and kernel release are those of this machine.
    is_here: bool,
}

impl Origin {
    fn of(data: &PerfData) -> Origin {
        let features = data.features();
        let build_ids = (features.build_ids().unwrap_or_default().into_iter())
            .filter_map(|e| Some((e.path, BuildId::new(&e.build_id)?)))
            .collect();
        let same = |feature, file| {
            let here = std::fs::read_to_string(file).unwrap_or_default();
            let there = features.string(feature);
            there.is_some_and(|there| there == here.trim_end() && !there.is_empty())
        };
        Origin {
            build_ids,
            is_here: same(Feature::HOSTNAME, "/proc/sys/kernel/hostname")
                && same(Feature::OSRELEASE, "/proc/sys/kernel/osrelease"),
        }
    }

    fn build_id(&self, image: &Image) -> Option<BuildId> {
        match image.identity {
            ImageIdentity::BuildId(id) => BuildId::new(id.as_bytes()),
            _ => self.build_ids.get(&image.path[..]).copied(),
        }
    }

    fn target(&self, place: Place, timeline: &Timeline, kernel_start: Option<u64>) -> Target {
        let image = |id| timeline.image(id).ok_or(Reason::Unmapped);
        match place {
            Place::Unmapped => Err(Reason::Unmapped),
            Place::Hypervisor | Place::GuestKernel | Place::GuestUser => Err(Reason::Guest),
            Place::Anonymous { .. } => Err(Reason::JitWithoutMap),
            Place::Kernel(id) => {
                let module = id.and_then(|id| timeline.image(id));
                match module.filter(|i| i.kind == ImageKind::KernelModule) {
                    Some(module) => {
                        let name = String::from_utf8_lossy(&module.path).into_owned();
                        let build_id = self.build_id(module);
                        self.known_here(build_id, Reason::ForeignModule)?;
                        Ok(ImageKey::kernel_module(&name).with_build_id(build_id))
                    }
                    None => {
                        let build_id = self.build_ids.get(&b"[kernel.kallsyms]"[..]).copied();
                        self.known_here(build_id, Reason::ForeignKernel)?;
                        Ok(ImageKey::kernel()
                            .with_build_id(build_id)
                            .with_recorded_start(kernel_start))
                    }
                }
            }
            Place::Image(id) => {
                let image = image(id)?;
                let build_id = self.build_id(image);
                match image.kind {
                    ImageKind::File => self.file(image, build_id),
                    // The file of that name is another one now, unless its build-id
                    // says that it was put back.
                    ImageKind::Deleted if build_id.is_some() => self.file(image, build_id),
                    ImageKind::Deleted => Err(Reason::FileChanged),
                    ImageKind::Vdso => {
                        self.known_here(build_id, Reason::ForeignVdso)?;
                        Ok(ImageKey::vdso().with_build_id(build_id))
                    }
                    ImageKind::Heap | ImageKind::Stack => Err(Reason::AnonymousMemory),
                    _ => Err(Reason::SpecialMapping),
                }
            }
        }
    }

    /// Without a build-id, only what was recorded on this machine is known.
    fn known_here(&self, build_id: Option<BuildId>, reason: Reason) -> Result<(), Reason> {
        match build_id.is_some() || self.is_here {
            true => Ok(()),
            false => Err(reason),
        }
    }

    fn file(&self, image: &Image, build_id: Option<BuildId>) -> Target {
        self.known_here(build_id, Reason::Unidentified)?;
        let path = image.path_without_deleted().to_vec();
        // A relative path would be looked for in the current folder, which is not
        // where the recording was made.
        if path.first() != Some(&b'/') {
            return Err(Reason::NoSuchFile);
        }
        let inode = match image.identity {
            ImageIdentity::Inode { inode, .. } if self.is_here => Some(inode),
            _ => None,
        };
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        Ok(ImageKey::file(path)
            .with_build_id(build_id)
            .with_inode(inode))
    }
}
