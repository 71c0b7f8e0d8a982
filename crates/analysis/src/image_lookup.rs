//! Image lookup: finds the image of a code region, and checks that a file of this machine is that
//! image.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rprof_perfdata::features::run::ClockData;
use rprof_perfdata::{Feature, PerfData};
use rprof_processes::{Image, ImageId, ImageIdentity, ImageKind, SpaceId, Timeline};
use rprof_symbols::{BuildId, ImageKey, Reason};
use rustc_hash::FxHashMap;

use crate::location::CodeRegion;
use crate::machine::RecordedMachine;

/// Image that symbolizes a location, or the reason why there is none.
pub(crate) type Target = Result<ImageKey, Reason>;

pub(crate) fn recorded_kernel_start(timeline: &Timeline) -> Option<u64> {
    let end = timeline.view(SpaceId::KERNEL, u64::MAX);
    end.mappings().find_map(|m| {
        let path = &timeline.image(m.image)?.path;
        let is_start = path.ends_with(b"]_text") || path.ends_with(b"]_stext");
        (is_start && m.file_offset != 0).then_some(m.file_offset)
    })
}

pub(crate) fn image_of(images: &[Image], id: ImageId) -> Option<&Image> {
    images.get(id.0 as usize)
}

/// Checks files of this machine against a recording's images.
#[derive(Debug)]
pub(crate) struct ImageLookup {
    build_ids: FxHashMap<Vec<u8>, BuildId>,
    /// True if host and kernel release are equal.
    is_here: bool,
    /// True if the host name or the kernel release is missing, as the file was cut.
    lacks_header: bool,
    /// True for a root folder of the user. Its files are trusted to match.
    has_root: bool,
    /// True if this machine has booted since the recording.
    is_from_before_boot: bool,
    /// Time when the recording was last written.
    written: Option<SystemTime>,
    clocks: Option<ClockData>,
}

/// Inaccuracy of file times and of the time of day in recordings.
const CLOCK_ERROR: Duration = Duration::from_millis(100);

/// Maximum deviation of record clocks from the time of day, as a divisor. `adjtimex` allows 500
/// parts per million.
const MAX_DRIFT: u64 = 1000;

impl ImageLookup {
    pub(crate) fn of(data: &PerfData, machine: RecordedMachine, has_root: bool) -> ImageLookup {
        let features = data.features();
        let build_ids = (features.build_ids().unwrap_or_default().into_iter())
            .filter_map(|e| Some((e.path, BuildId::new(&e.build_id)?)))
            .collect();
        ImageLookup {
            build_ids,
            is_here: machine.is_here,
            lacks_header: features.is_cut()
                && !(features.has(Feature::HOSTNAME) && features.has(Feature::OSRELEASE)),
            has_root,
            is_from_before_boot: machine.is_from_before_boot,
            written: std::fs::metadata(data.path())
                .and_then(|file| file.modified())
                .ok(),
            clocks: features.clock_data(),
        }
    }

    pub(crate) fn of_this_machine(has_root: bool) -> ImageLookup {
        ImageLookup {
            build_ids: FxHashMap::default(),
            is_here: true,
            lacks_header: false,
            has_root,
            is_from_before_boot: false,
            written: None,
            clocks: None,
        }
    }

    fn build_id(&self, image: &Image) -> Option<BuildId> {
        match image.identity {
            ImageIdentity::BuildId(id) => BuildId::new(id.as_bytes()),
            _ => self.build_ids.get(&image.path[..]).copied(),
        }
    }

    pub(crate) fn build_id_of(&self, region: CodeRegion, images: &[Image]) -> Option<BuildId> {
        match region {
            CodeRegion::Image(id) => self.build_id(image_of(images, id)?),
            CodeRegion::Kernel(id) => {
                let module = id.and_then(|id| image_of(images, id));
                match module.filter(|image| image.kind == ImageKind::KernelModule) {
                    Some(module) => self.build_id(module),
                    None => self.build_ids.get(&b"[kernel.kallsyms]"[..]).copied(),
                }
            }
            _ => None,
        }
    }

    pub(crate) fn target(
        &self,
        region: CodeRegion,
        images: &[Image],
        kernel_start: Option<u64>,
    ) -> Target {
        let image = |id| image_of(images, id).ok_or(Reason::Unmapped);
        match region {
            CodeRegion::Vsyscall => Err(Reason::SpecialMapping),
            CodeRegion::Unmapped => Err(Reason::Unmapped),
            CodeRegion::Hypervisor | CodeRegion::GuestKernel | CodeRegion::GuestUser => {
                Err(Reason::Guest)
            }
            CodeRegion::Anonymous { .. } | CodeRegion::Jit(_) => Err(Reason::JitWithoutMap),
            CodeRegion::Kernel(id) => {
                let module = id.and_then(|id| image_of(images, id));
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
                        if kernel_start.is_none() && self.is_from_before_boot {
                            return Err(Reason::ForeignKernel);
                        }
                        Ok(ImageKey::kernel()
                            .with_build_id(build_id)
                            .with_recorded_start(kernel_start))
                    }
                }
            }
            CodeRegion::Image(id) => {
                let image = image(id)?;
                let build_id = self.build_id(image);
                match image.kind {
                    ImageKind::File => self.file(image, build_id),
                    // The path names a different file, unless the build-id matches.
                    ImageKind::Deleted if build_id.is_some() => self.file(image, build_id),
                    ImageKind::Deleted => Err(Reason::FileChanged),
                    ImageKind::Vdso => {
                        self.known_here(build_id, Reason::ForeignVdso)?;
                        Ok(ImageKey::vdso().with_build_id(build_id))
                    }
                    ImageKind::Vdso32 => Err(Reason::ForeignVdso),
                    ImageKind::Memfd => Err(Reason::JitWithoutMap),
                    ImageKind::Heap | ImageKind::Stack => Err(Reason::AnonymousMemory),
                    _ => Err(Reason::SpecialMapping),
                }
            }
        }
    }

    /// Fails with `reason` if there is no build-id and another machine made the recording, or with
    /// [`Reason::HeaderMissing`] if the machine is unknown.
    fn known_here(&self, build_id: Option<BuildId>, reason: Reason) -> Result<(), Reason> {
        match build_id.is_some() || self.is_here {
            true => Ok(()),
            false if self.lacks_header => Err(Reason::HeaderMissing),
            false => Err(reason),
        }
    }

    fn file(&self, image: &Image, build_id: Option<BuildId>) -> Target {
        if !self.has_root {
            self.known_here(build_id, Reason::Unidentified)?;
        }
        let path = image.path_without_deleted().to_vec();
        // A relative path would resolve in the current folder.
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
            .with_inode(inode)
            .with_mapped_at(self.mapped_at(image).filter(|_| self.is_here)))
    }

    /// Returns the time of day of an image's first mapping, at the earliest the recording's start.
    /// Without the time of day, the time when the recording was written.
    fn mapped_at(&self, image: &Image) -> Option<SystemTime> {
        let mapped = self.clocks.and_then(|clocks| {
            let elapsed = image.first_mapped.saturating_sub(clocks.clock);
            let error = Duration::from_nanos(elapsed / MAX_DRIFT).saturating_add(CLOCK_ERROR);
            let since = clocks.wall_time(clocks.clock.saturating_add(elapsed))?;
            let since = Duration::from_nanos(since).saturating_add(error);
            SystemTime::UNIX_EPOCH.checked_add(since)
        });
        mapped.into_iter().chain(self.written).min()
    }
}
