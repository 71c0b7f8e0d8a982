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

/// Returns true if an image with this file name switches between stacks of one thread, as greenlet
/// does for gevent. The frames below its own belong to whatever ran when the stack began.
#[must_use]
pub fn switches_stacks(name: &[u8]) -> bool {
    name.starts_with(b"_greenlet.") || name.starts_with(b"greenlet.")
}

const RUNTIMES: &[&dyn Runtime] = &[&Python, &V8, &HotSpot];
