//! Canonical addresses: one address for each function.
//!
//! Without lines and inlined calls, all addresses of a function have one symbol. As separate
//! addresses, they would make most samples distinct stacks. So each located address is replaced
//! with its function's canonical one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rprof_perfdata::PerfData;
use rprof_processes::ImageId;
use rprof_symbols::{FunctionBounds, ImageSource, PartialLookup, Symbolizer};

use crate::image_lookup::{ImageLookup, recorded_kernel_start};
use crate::location::{CodeRegion, Location};
use crate::sideband_pass::Index;

/// Minimum number of samples for reading all function bounds of an image. Below it, the cost
/// exceeds the gain.
const ENOUGH: u64 = 20_000;

/// Length in bytes of the shortest sample record with an address.
const SHORTEST_SAMPLE: u64 = 16;

/// Returns false if the recording is too short for function bounds to pay off. A compressed
/// recording may have more samples than its length allows, so its bounds are read on first use.
pub(crate) fn may_want_bounds(data: &PerfData) -> bool {
    data.data_len() >= ENOUGH * SHORTEST_SAMPLE
}

/// Number of locations in a batch.
const TOGETHER: usize = 64;

/// Maps the addresses of each image to canonical ones. Shared by all workers.
pub(crate) struct FunctionCanonicalizer<'a> {
    index: &'a Index<'a>,
    symbolizer: &'a Symbolizer,
    origin: ImageLookup,
    kernel_start: Option<u64>,
    images: Vec<OnceLock<Option<FunctionBounds>>>,
    /// Flags of images that a worker has started to open. Meanwhile, others keep the addresses.
    opening: Vec<AtomicBool>,
    /// Function bounds of the kernel. Modules have too few addresses.
    kernel: OnceLock<Option<FunctionBounds>>,
}

/// Granularity of the addresses of a region.
enum Granularity<'c> {
    /// Bounds are loading, or each address may have its own symbol.
    Unknown,
    One,
    /// All addresses between two bounds have one symbol.
    Several(&'c FunctionBounds),
}

impl<'a> FunctionCanonicalizer<'a> {
    /// Returns `None` for remote images or too few samples.
    pub(crate) fn new(
        index: &'a Index<'a>,
        symbolizer: &'a Symbolizer,
    ) -> Option<FunctionCanonicalizer<'a>> {
        let samples: u64 = index.events.iter().map(|e| e.samples).sum();
        // Remote images are fetched hottest first, which is not yet known.
        if samples < ENOUGH || symbolizer.has_remote() {
            return None;
        }
        let images = index.timeline.images();
        Some(FunctionCanonicalizer {
            index,
            symbolizer,
            origin: ImageLookup::of(index.data, index.machine, symbolizer.has_root()),
            kernel_start: recorded_kernel_start(&index.timeline),
            images: images.iter().map(|_| OnceLock::new()).collect(),
            opening: images.iter().map(|_| AtomicBool::new(false)).collect(),
            kernel: OnceLock::new(),
        })
    }

    #[inline]
    fn answers(&self, region: CodeRegion) -> Granularity<'_> {
        let bounds = match region {
            CodeRegion::Image(id) => self.of_image(id),
            CodeRegion::Kernel(id) => self.kernel(id, region),
            CodeRegion::Jit(_) | CodeRegion::Vsyscall => None,
            CodeRegion::Anonymous { .. }
            | CodeRegion::Unmapped
            | CodeRegion::Hypervisor
            | CodeRegion::GuestKernel
            | CodeRegion::GuestUser => return Granularity::One,
        };
        bounds.map_or(Granularity::Unknown, Granularity::Several)
    }

    /// Replaces locations with canonical ones. Each step runs for a batch of [`TOGETHER`]
    /// locations, so that their cache misses overlap.
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
                match self.answers(location.region) {
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
        let index = id.0 as usize;
        let slot = self.images.get(index)?;
        match slot.get() {
            Some(bounds) => bounds.as_ref(),
            // Waiting costs more than keeping the address.
            None if self.opening.get(index)?.swap(true, Ordering::Relaxed) => None,
            None => slot
                .get_or_init(|| self.image(CodeRegion::Image(id)))
                .as_ref(),
        }
    }

    fn kernel(&self, id: Option<ImageId>, region: CodeRegion) -> Option<&FunctionBounds> {
        use rprof_processes::ImageKind::{KernelModule, KernelSymbol};
        let kind = id.and_then(|id| self.index.timeline.image(id).map(|i| i.kind));
        if let Some(KernelModule | KernelSymbol) = kind {
            return None;
        }
        match self.kernel.get() {
            Some(bounds) => bounds.as_ref(),
            // Waiting takes longer than handling the distinct addresses.
            None if self.symbolizer.is_loading_kernel() => None,
            None => (self.kernel)
                .get_or_init(|| self.bounds(region, Some(&ImageSource::Kernel)))
                .as_ref(),
        }
    }

    fn image(&self, region: CodeRegion) -> Option<FunctionBounds> {
        let CodeRegion::Image(id) = region else {
            return None;
        };
        let image = self.index.timeline.image(id)?;
        match self.index.runtimes.image(image) {
            Some(_) => None,
            None => self.bounds(region, None),
        }
    }

    fn bounds(&self, region: CodeRegion, kind: Option<&ImageSource>) -> Option<FunctionBounds> {
        let timeline = &self.index.timeline;
        match self
            .origin
            .target(region, timeline.images(), self.kernel_start)
        {
            Ok(key) if kind.is_none_or(|kind| kind == key.source()) => {
                self.symbolizer.function_bounds(&key)
            }
            Err(_) => Some(FunctionBounds::none()),
            Ok(_) => None,
        }
    }
}
