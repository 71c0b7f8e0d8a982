//! The supported runtimes.

use crate::RuntimeKind;
use crate::hotspot::HotSpot;
use crate::python::Python;
use crate::v8::V8;

/// Returns the runtimes that an image with this file name may contain.
pub fn runtimes_of(name: &[u8]) -> impl Iterator<Item = &'static dyn RuntimeKind> + '_ {
    RUNTIMES
        .iter()
        .copied()
        .filter(|runtime| runtime.is_image(name))
}

/// Minimum bytes of code of a program that contains a runtime.
const MIN_PROGRAM: u64 = 1 << 20;

/// Returns true if a mapping may be of a program that contains a runtime under a file name of its
/// own: bundles of Node.js, and programs that embed Python. Its [symbols](runtimes_in) decide.
#[must_use]
pub fn may_contain_runtime(name: &[u8], len: u64) -> bool {
    let is_library = name.windows(3).any(|part| part == b".so");
    len >= MIN_PROGRAM && !is_library && !name.is_empty()
}

/// Returns the runtimes whose symbols a program exports.
pub fn runtimes_in(
    is_exported: impl Fn(&str) -> bool,
) -> impl Iterator<Item = &'static dyn RuntimeKind> {
    let is_in =
        move |runtime: &&dyn RuntimeKind| runtime.exported_symbol().is_some_and(&is_exported);
    RUNTIMES.iter().copied().filter(is_in)
}

/// Returns true if an image with this file name switches between stacks of one thread, as greenlet
/// does for gevent. The frames below its own belong to whatever ran when the stack began.
#[must_use]
pub fn switches_stacks(name: &[u8]) -> bool {
    name.starts_with(b"_greenlet.") || name.starts_with(b"greenlet.")
}

const RUNTIMES: &[&dyn RuntimeKind] = &[&Python, &V8, &HotSpot];
