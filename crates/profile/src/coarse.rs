//! Addresses told apart only as far as names need it.
//!
//! Where no debug information is asked, all addresses of a function get the same answer. To keep
//! each of them would make most samples of a recording distinct stacks, which are then looked up,
//! merged, symbolized, and found to be the same. So an address is replaced as soon as
//! it is located by one that stands for its function.

use std::sync::OnceLock;

use rprof_symbols::{Extents, ImageKind, Symbolizer};

use crate::index::Index;
use crate::location::{Location, Place};
use crate::symbolize::{Origin, recorded_kernel_start};

/// Samples from which on it pays to know all functions of an image.
const ENOUGH: u64 = 20_000;

/// What stands for what, in images that are asked about.
pub(crate) struct Coarse<'a> {
    index: &'a Index<'a>,
    symbolizer: &'a Symbolizer,
    origin: Origin,
    kernel_start: Option<u64>,
    images: Vec<OnceLock<Option<Extents>>>,
    /// The kernel; modules are few, and told apart by address.
    kernel: OnceLock<Option<Extents>>,
}

impl<'a> Coarse<'a> {
    /// `None` where addresses are to be kept as they are, or there are too few.
    pub(crate) fn new(index: &'a Index<'a>, symbolizer: &'a Symbolizer) -> Option<Coarse<'a>> {
        let samples: u64 = index.events.iter().map(|e| e.samples).sum();
        // What is fetched is fetched in the order of samples, which is not known yet.
        if samples < ENOUGH || symbolizer.has_remote() {
            return None;
        }
        let images = index.timeline.images();
        Some(Coarse {
            index,
            symbolizer,
            origin: Origin::of(index.data, symbolizer.has_root()),
            kernel_start: recorded_kernel_start(&index.timeline),
            images: images.iter().map(|_| OnceLock::new()).collect(),
            kernel: OnceLock::new(),
        })
    }

    /// A location that gets the same functions as this one.
    pub(crate) fn of(&self, location: Location) -> Location {
        let extents = match location.place {
            Place::Image(id) => (self.images.get(id.0 as usize))
                .and_then(|slot| slot.get_or_init(|| self.image(location.place)).as_ref()),
            Place::Kernel(id) => {
                let kind = id.and_then(|id| self.index.timeline.image(id).map(|i| i.kind));
                use rprof_processes::ImageKind::{KernelModule, KernelSymbol};
                match kind {
                    Some(KernelModule | KernelSymbol) => None,
                    _ => (self.kernel)
                        .get_or_init(|| self.extents(location.place, Some(&ImageKind::Kernel)))
                        .as_ref(),
                }
            }
            // Their names come from elsewhere, by address.
            Place::Made(_) | Place::Vsyscall => None,
            Place::Anonymous { .. }
            | Place::Unmapped
            | Place::Hypervisor
            | Place::GuestKernel
            | Place::GuestUser => {
                return Location {
                    lookup: 0,
                    caller: false,
                    ..location
                };
            }
        };
        match extents {
            Some(extents) => Location {
                lookup: extents.representative(location.lookup),
                caller: false,
                ..location
            },
            None => location,
        }
    }

    fn image(&self, place: Place) -> Option<Extents> {
        let Place::Image(id) = place else { return None };
        let image = self.index.timeline.image(id)?;
        // One that was kept in the recording is opened only to be asked all at once.
        match self.index.runtimes.image(image) {
            Some(_) => None,
            None => self.extents(place, None),
        }
    }

    fn extents(&self, place: Place, kind: Option<&ImageKind>) -> Option<Extents> {
        let timeline = &self.index.timeline;
        match self.origin.target(place, timeline, self.kernel_start) {
            Ok(key) if kind.is_none_or(|kind| kind == key.kind()) => self.symbolizer.extents(&key),
            // The same reason for all.
            Err(_) => Some(Extents::none()),
            Ok(_) => None,
        }
    }
}
