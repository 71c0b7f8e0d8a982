//! Stack layouts of runtimes without call frame information.
//!
//! Each runtime is detected from code and memory; a layout applies only if all its parts fit.
//! `hotspot` has a folder of its own.
//!
//! | module | idea |
//! |---|---|
//! | `beam` | Erlang: start of processes, and code on a scheduler's stack |
//! | `go` | Go: from the stack that the runtime switched to, back to the goroutine's |
//! | `guile` | Guile: code behind the trampoline that saves its registers |
//! | `luajit` | LuaJIT: traces, which run in the interpreter's frame |
//! | `sbcl` | SBCL: the separate stack of Lisp code in the first thread |
//! | `v8` | V8: handlers of bytecodes, which have no frame |

pub(crate) mod beam;
pub(crate) mod go;
pub(crate) mod guile;
pub(crate) mod luajit;
pub(crate) mod sbcl;
pub(crate) mod v8;

use crate::modules::{linkage_slot, pointer, relative};
use crate::{Module, Modules};
use std::cell::Cell;

/// Records failed reads. The innermost matching place is the frame. With unreadable code, a match
/// may belong to an outer call.
struct NotedReads<'p> {
    modules: &'p dyn Modules,
    has_failed: Cell<bool>,
}

impl<'p> NotedReads<'p> {
    const fn new(modules: &'p dyn Modules) -> Self {
        Self {
            modules,
            has_failed: Cell::new(false),
        }
    }

    /// Returns the first matching place. `None` if a place before it could not be checked.
    fn first_known<T>(
        &self,
        mut places: impl Iterator<Item = u64>,
        fit: impl Fn(u64) -> Option<T>,
    ) -> Option<T> {
        let found = places.find_map(|place| {
            let found = fit(place);
            (found.is_some() || self.has_failed.get()).then_some(found)
        });
        found.flatten().filter(|_| !self.has_failed.get())
    }
}

impl Modules for NotedReads<'_> {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        self.modules.find(avma)
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let len = self.modules.code(avma, into);
        if len == 0 && self.modules.find(avma).is_some() {
            self.has_failed.set(true);
        }
        len
    }
}

/// Returns the target of a direct call, or of a call through a pointer beside the code. Resolves
/// PLT entries.
pub(crate) fn callee(address: u64, modules: &dyn Modules) -> Option<u64> {
    let mut call = [0; 6];
    let start = address.checked_sub(call.len() as u64)?;
    if modules.code(start, &mut call) < call.len() {
        return None;
    }
    let target = match call {
        [0xff, 0x15, offset @ ..] => return pointer(relative(address, offset), modules),
        [_, 0xe8, offset @ ..] => relative(address, offset),
        _ => return None,
    };
    match linkage_slot(target, modules) {
        Some(slot) => pointer(slot, modules),
        None => Some(target),
    }
}
