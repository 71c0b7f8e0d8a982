//! The supported runtimes.

use crate::Runtime;
use crate::hotspot::HotSpot;
use crate::python::Python;
use crate::v8::V8;

/// Returns the runtimes that an image with this file name may contain.
pub fn runtimes_of(name: &[u8]) -> impl Iterator<Item = &'static dyn Runtime> + '_ {
    RUNTIMES
        .iter()
        .copied()
        .filter(|runtime| runtime.is_image(name))
}

const RUNTIMES: &[&dyn Runtime] = &[&Python, &V8, &HotSpot];
