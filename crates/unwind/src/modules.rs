//! [`Modules`]: the code of a process, by address.

use crate::UnwindTable;
use std::sync::Arc;

/// Code at an address: an image with its table, or code without an image.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// Call frame information of the image. `None` for run-time code without an image and for
    /// unreadable images: the unwinder then uses frame pointers.
    pub table: Option<&'a UnwindTable>,
    /// AVMA minus SVMA of the image. Meaningless without a table.
    pub bias: u64,
}

/// The executable mappings of a process at the time of a sample.
pub trait Modules {
    /// Returns the module mapped at this address. `None` if no code is mapped there; the unwinder
    /// then rejects the address as a return address.
    fn find(&self, avma: u64) -> Option<Module<'_>>;

    /// Copies the code bytes at `avma` into `into` and returns their number. Fewer than requested
    /// if the mapping ends, 0 if they are unknown. Called only for code without call frame
    /// information.
    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let _ = (avma, into);
        0
    }

    /// Returns the table that a JIT compiler has published for its code at this address. Its
    /// addresses are AVMAs, as in [`UnwindTable::of_jit_code`]. Called if [`find`](Self::find)
    /// returns a module without a table. The unwinder does not cache the result, since JIT code
    /// comes and goes. `None` unless implemented.
    fn jit_table(&self, avma: u64) -> Option<Arc<UnwindTable>> {
        let _ = avma;
        None
    }

    /// Returns a number for the current state of the mappings. If two calls return the same number,
    /// every address must have the same table and bias, even in different processes. The unwinder
    /// then reuses its rule cache. `None` unless implemented.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Returns a number for the process, such as its pid. The unwinder remembers the run-time code
    /// of a process by it, for later stacks, even if the memory becomes unreadable. `None` unless
    /// implemented: nothing is remembered.
    fn process(&self) -> Option<u64> {
        None
    }
}

impl<M: Modules + ?Sized> Modules for &M {
    fn find(&self, avma: u64) -> Option<Module<'_>> {
        (**self).find(avma)
    }

    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        (**self).code(avma, into)
    }

    fn jit_table(&self, avma: u64) -> Option<Arc<UnwindTable>> {
        (**self).jit_table(avma)
    }

    fn generation(&self) -> Option<u64> {
        (**self).generation()
    }

    fn process(&self) -> Option<u64> {
        (**self).process()
    }
}
