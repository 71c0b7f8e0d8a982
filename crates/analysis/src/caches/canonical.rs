//! Addresses told apart only as far as names need it.
//!
//! Where no debug information is asked, all addresses of a function get the same answer. To keep
//! each of them would make most samples of a recording distinct stacks, which are then looked up,
//! merged, symbolized, and found to be the same. So an address is replaced as soon as
//! it is located by one that stands for its function.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rprof_processes::ImageId;
use rprof_symbols::{FunctionBounds, ImageSource, PartialLookup, Symbolizer};

use crate::image_lookup::{ImageLookup, recorded_kernel_start};
use crate::location::{CodeRegion, Location};
use crate::sideband_pass::Index;

/// Samples from which on it pays to know all functions of an image.
const ENOUGH: u64 = 20_000;

/// Locations that are looked up together.
const TOGETHER: usize = 64;

/// What stands for what, in images that are asked about.
pub(crate) struct FunctionCanonicalizer<'a> {
    index: &'a Index<'a>,
    symbolizer: &'a Symbolizer,
    origin: ImageLookup,
    kernel_start: Option<u64>,
    images: Vec<OnceLock<Option<FunctionBounds>>>,
    /// Whether somebody is about to open an image.
    opening: Vec<AtomicBool>,
    /// The kernel; modules are few, and told apart by address.
    kernel: OnceLock<Option<FunctionBounds>>,
}

/// How far the addresses of a place are told apart.
enum Granularity<'c> {
    /// Each may have another answer, or it is not known yet.
    Unknown,
    /// All of them get the same.
    One,
    /// Those between two bounds do.
    Several(&'c FunctionBounds),
}

impl<'a> FunctionCanonicalizer<'a> {
    /// `None` where addresses are to be kept as they are, or there are too few.
    pub(crate) fn new(
        index: &'a Index<'a>,
        symbolizer: &'a Symbolizer,
    ) -> Option<FunctionCanonicalizer<'a>> {
        let samples: u64 = index.events.iter().map(|e| e.samples).sum();
        // What is fetched is fetched in the order of samples, which is not known yet.
        if samples < ENOUGH || symbolizer.has_remote() {
            return None;
        }
        let images = index.timeline.images();
        Some(FunctionCanonicalizer {
            index,
            symbolizer,
            origin: ImageLookup::of(index.data, symbolizer.has_root()),
            kernel_start: recorded_kernel_start(&index.timeline),
            images: images.iter().map(|_| OnceLock::new()).collect(),
            opening: images.iter().map(|_| AtomicBool::new(false)).collect(),
            kernel: OnceLock::new(),
        })
    }

    #[inline]
    fn answers(&self, place: CodeRegion) -> Granularity<'_> {
        let bounds = match place {
            CodeRegion::Image(id) => self.of_image(id),
            CodeRegion::Kernel(id) => self.kernel(id, place),
            // Their names come from elsewhere, by address.
            CodeRegion::Jit(_) | CodeRegion::Vsyscall => None,
            CodeRegion::Anonymous { .. }
            | CodeRegion::Unmapped
            | CodeRegion::Hypervisor
            | CodeRegion::GuestKernel
            | CodeRegion::GuestUser => return Granularity::One,
        };
        bounds.map_or(Granularity::Unknown, Granularity::Several)
    }

    /// Replaces locations by ones that get the same functions: step by step for all of them,
    /// as each step waits for other memory.
    #[inline]
    pub(crate) fn canonicalize<T>(
        &self,
        all: &mut [T],
        location: impl Fn(&mut T) -> &mut Location,
    ) {
        for some in all.chunks_mut(TOGETHER) {
            let mut begun: [Option<(&FunctionBounds, PartialLookup)>; TOGETHER] = [None; TOGETHER];
            for (one, begun) in some.iter_mut().zip(&mut begun) {
                let location = location(one);
                match self.answers(location.place) {
                    Granularity::Several(bounds) => {
                        *begun = Some((bounds, bounds.begin(location.lookup)));
                    }
                    Granularity::One => (location.lookup, location.caller) = (0, false),
                    Granularity::Unknown => {}
                }
            }
            for (one, begun) in some.iter_mut().zip(begun) {
                if let Some((bounds, begun)) = begun {
                    let location = location(one);
                    location.lookup = bounds.finish(location.lookup, begun);
                    location.caller = false;
                }
            }
        }
    }

    #[inline]
    fn of_image(&self, id: ImageId) -> Option<&FunctionBounds> {
        let number = id.0 as usize;
        let slot = self.images.get(number)?;
        match slot.get() {
            Some(bounds) => bounds.as_ref(),
            // As with the kernel.
            None if self.opening.get(number)?.swap(true, Ordering::Relaxed) => None,
            None => slot
                .get_or_init(|| self.image(CodeRegion::Image(id)))
                .as_ref(),
        }
    }

    fn kernel(&self, id: Option<ImageId>, place: CodeRegion) -> Option<&FunctionBounds> {
        use rprof_processes::ImageKind::{KernelModule, KernelSymbol};
        let kind = id.and_then(|id| self.index.timeline.image(id).map(|i| i.kind));
        if let Some(KernelModule | KernelSymbol) = kind {
            return None;
        }
        match self.kernel.get() {
            Some(bounds) => bounds.as_ref(),
            // Blocking until it is loaded takes longer than what is kept apart meanwhile.
            None if self.symbolizer.is_loading_kernel() => None,
            None => (self.kernel)
                .get_or_init(|| self.bounds(place, Some(&ImageSource::Kernel)))
                .as_ref(),
        }
    }

    fn image(&self, place: CodeRegion) -> Option<FunctionBounds> {
        let CodeRegion::Image(id) = place else {
            return None;
        };
        let image = self.index.timeline.image(id)?;
        // One that was kept in the recording is opened only to be asked all at once.
        match self.index.runtimes.image(image) {
            Some(_) => None,
            None => self.bounds(place, None),
        }
    }

    fn bounds(&self, place: CodeRegion, kind: Option<&ImageSource>) -> Option<FunctionBounds> {
        let timeline = &self.index.timeline;
        match self.origin.target(place, timeline, self.kernel_start) {
            Ok(key) if kind.is_none_or(|kind| kind == key.source()) => {
                self.symbolizer.function_bounds(&key)
            }
            // The same reason for all.
            Err(_) => Some(FunctionBounds::none()),
            Ok(_) => None,
        }
    }
}
