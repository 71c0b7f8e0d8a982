//! Pages of code that were lately seen.
//!
//! Leaves are spread over so many addresses that most are not met again soon, but they lie in
//! few pages. All of a page of one mapping lies in one image, so where a page is known, its
//! addresses need not be looked for among the mappings.

use rprof_jit::may_hold_jit_code;
use rprof_processes::ImageId;
use rprof_records::CpuMode;

use crate::location::{CodeRegion, Context, Location};

/// Pages that are kept at hand; a power of two. 96 KiB: a part of what a core has for itself.
const SLOTS: usize = 4096;

/// Smallest unit of mappings.
const PAGE: u64 = 4096;

#[derive(Clone, Copy)]
struct Slot {
    /// First address.
    start: u64,
    /// Where in the image's file it lies.
    offset: u64,
    /// Number of the task that it is a page of.
    task: u32,
    image: ImageId,
}

/// Some of the pages that were seen last, by task and address.
pub(crate) struct Pages(Box<[Slot]>);

impl Default for Pages {
    fn default() -> Pages {
        let nobodys = Slot {
            // That of no page.
            start: 1,
            offset: 0,
            task: 0,
            image: ImageId(0),
        };
        Pages(vec![nobodys; SLOTS].into())
    }
}

impl Pages {
    /// What an address is that is nobody's caller, in a task by its number.
    #[inline]
    pub(crate) fn locate<'c>(
        &mut self,
        address: u64,
        mode: CpuMode,
        task: u32,
        context: impl FnOnce() -> Context<'c>,
    ) -> Location {
        let start = address & !(PAGE - 1);
        let mixed = (start ^ u64::from(task) << 44).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.0[(mixed >> 40) as usize % SLOTS];
        // Whether it says so or not, an address of a page in an image is one of user mode.
        let is_user = matches!(mode, CpuMode::User | CpuMode::Unknown);
        if is_user && (slot.start, slot.task) == (start, task) {
            return Location {
                place: CodeRegion::Image(slot.image),
                lookup: slot.offset.wrapping_add(address - start),
                caller: false,
            };
        }
        let context = context();
        let location = context.locate(address, mode, false);
        if is_user
            && let CodeRegion::Image(image) = location.place
            && let Some(mapping) = context.user.mapping_at(address)
            && mapping.start <= start
            && mapping.end - start >= PAGE
            // Code that was made at run time may begin anywhere.
            && !(context.timeline.image(image)).is_none_or(|image| may_hold_jit_code(image.kind))
        {
            *slot = Slot {
                start,
                offset: location.lookup.wrapping_sub(address - start),
                task,
                image,
            };
        }
        location
    }
}
