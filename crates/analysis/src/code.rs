//! Code of a profile's objects: images, and files of JIT compilers.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rprof_image::ImageKey;
use rprof_jit::JitBytes;
use rprof_processes::{ImageId, ImageKind};
use rprof_profile::{Object, ObjectKind, Reason};
use rprof_symbols::SourceLine;

use crate::image_lookup::{ImageLookup, recorded_kernel_start};
use crate::location::CodeRegion;
use crate::sideband_pass::Index;
use crate::symbolize::object_name;

/// Images of a recording by object, from [`analyse_with_code`](crate::analyse_with_code).
#[derive(Debug)]
pub struct CodeImages<'a> {
    index: Index<'a>,
    origin: ImageLookup,
}

/// Source of an object's code.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ObjectCode {
    /// An image that the symbolizer opens. Frame addresses are image offsets.
    Image(ImageKey),
    /// An image embedded in the recording. Frame addresses are image offsets.
    Copy {
        /// Contents of the ELF file.
        bytes: Vec<u8>,
        /// Original path.
        path: PathBuf,
    },
    /// A runtime's description of its JIT code. Frame addresses are AVMAs.
    Jit {
        /// Process with the code.
        pid: i32,
    },
}

impl<'a> CodeImages<'a> {
    pub(crate) fn new(index: Index<'a>, has_root: bool) -> CodeImages<'a> {
        CodeImages {
            origin: ImageLookup::of(index.data, index.machine, has_root),
            index,
        }
    }

    /// Returns the source of an object's code.
    ///
    /// # Errors
    /// Returns the [`Reason`] why the code is unavailable, such as a changed file or another
    /// kernel.
    pub fn of_object(&self, object: &Object) -> Result<ObjectCode, Reason> {
        let images = self.index.timeline.images();
        let kernel_start = recorded_kernel_start(&self.index.timeline);
        let target = |region| {
            let target = self.origin.target(region, images, kernel_start);
            target.map(ObjectCode::Image)
        };
        let by_name = |is_kind: &dyn Fn(ImageKind) -> bool,
                       region: &dyn Fn(ImageId) -> CodeRegion| {
            let mut regions = (0..).zip(images).filter_map(|(id, image)| {
                let region = region(ImageId(id));
                let is_it = is_kind(image.kind)
                    && *object_name(region, images) == *object.name
                    && (object.build_id.is_none()
                        || self.origin.build_id_of(region, images) == object.build_id);
                is_it.then_some((image, region))
            });
            regions.next()
        };
        match object.kind {
            ObjectKind::Jit => match self.pid_of(&object.name) {
                Some(pid) => Ok(ObjectCode::Jit { pid }),
                None => Err(Reason::JitWithoutMap),
            },
            ObjectKind::Waiting => Err(Reason::Unmapped),
            ObjectKind::Kernel if &*object.name == "[kernel.kallsyms]" => {
                target(CodeRegion::Kernel(None))
            }
            ObjectKind::Kernel => {
                let is_module = |kind| kind == ImageKind::KernelModule;
                match by_name(&is_module, &|id| CodeRegion::Kernel(Some(id))) {
                    Some((_, region)) => target(region),
                    // The symbol list does not tell the image.
                    None => Ok(ObjectCode::Image(ImageKey::kernel_module(&object.name))),
                }
            }
            ObjectKind::File => {
                let found = by_name(&|_| true, &CodeRegion::Image);
                let (image, region) = found.ok_or(Reason::Unmapped)?;
                let runtimes = &self.index.runtimes;
                let kept = runtimes
                    .image(image)
                    .and_then(|kept| runtimes.contents(kept));
                match kept {
                    Some((bytes, lease)) => {
                        lease.keep();
                        let path = image.path_without_deleted().to_vec();
                        let path = PathBuf::from(OsString::from_vec(path));
                        Ok(ObjectCode::Copy { bytes, path })
                    }
                    None => target(region),
                }
            }
        }
    }

    fn pid_of(&self, name: &str) -> Option<i32> {
        pid_of(name).or_else(|| self.index.runtimes.process_of_dump(name))
    }

    /// Returns the machine code of a JIT function at an address (AVMA), from the process's jitdump.
    /// Uses the copy in the recording or the file on this machine.
    pub fn jit_code(&self, pid: i32, function: &str, avma: u64) -> Option<JitBytes> {
        self.index.runtimes.code(pid, function, avma)
    }

    /// Returns the source line of JIT code at an address (AVMA), as of the end of the recording.
    pub fn jit_line(&self, pid: i32, function: &str, avma: u64) -> Option<SourceLine> {
        let runtimes = &self.index.runtimes;
        let frames = runtimes.frames(runtimes.find(pid, u64::MAX, avma)?, avma)?;
        let is_it = *frames.symbol().name == *function;
        frames.line().filter(|_| is_it).cloned()
    }

    /// Returns the requested precision (`precise_ip`) of an event's sample addresses; 0 for none.
    pub fn precision(&self, event: usize) -> u8 {
        let events = self.index.data.events().list();
        events.get(event).map_or(0, |event| event.attr.precise_ip())
    }
}

fn pid_of(name: &str) -> Option<i32> {
    let number = name.strip_prefix("/tmp/perf-")?.strip_suffix(".map")?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::pid_of;

    #[test]
    fn names_of_jit_code_have_the_process() {
        assert_eq!(pid_of("/tmp/perf-123.map"), Some(123));
        for other in [
            "/tmp/perf-.map",
            "/tmp/perf-1",
            "perf-1.map",
            "/tmp/perf-x.map",
        ] {
            assert_eq!(pid_of(other), None);
        }
    }
}
