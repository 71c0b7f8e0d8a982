//! [`Modules`]: the code of a process, by address.

use crate::UnwindTable;
use std::sync::Arc;

/// Code around an address: an image with its table, or code without an image.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// The call frame information of the image. `None` if there is no image (code made at run
    /// time) or it cannot be read: then frame pointers are what is left.
    pub table: Option<&'a UnwindTable>,
    /// AVMA minus SVMA of the image. Of no meaning without a table.
    pub bias: u64,
}

/// The executable mappings of a process at the time of a sample.
pub trait Modules {
    /// Returns the module mapped at this address. `None` where nothing executable is mapped, which
    /// tells the unwinder that a word is no return address.
    fn find(&self, avma: u64) -> Option<Module<'_>>;

    /// Copies the code bytes from `avma` on into `into`. Returns their number, fewer than asked where
    /// the mapping ends, 0 where they are not known. They are asked for only in code without
    /// call frame information, where they make the difference between knowing and guessing.
    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let _ = (avma, into);
        0
    }

    /// Returns the table that a JIT compiler has published for its code at this address; its addresses
    /// are AVMAs, as [`UnwindTable::of_jit_code`] has them. Called where [`find`](Self::find) returns a
    /// module without table. The answer is not cached, since such code comes and goes. `None` unless
    /// implemented.
    fn jit_table(&self, avma: u64) -> Option<Arc<UnwindTable>> {
        let _ = avma;
        None
    }

    /// Returns a number for what [`find`](Self::find) answers: as long as it is the same, and not `None`,
    /// every address has the same table with the same bias, in whichever processes. What is
    /// found is then kept from stack to stack. `None` unless implemented.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Returns a number for the process, such as its pid. What is learnt of the code that a process makes
    /// at run time is kept for its later stacks, and holds when its memory cannot be read
    /// any more. `None` unless implemented: then each stack is by itself.
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
