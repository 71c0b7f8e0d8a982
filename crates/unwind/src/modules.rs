//! [`Modules`]: the code of a process, by address.

use crate::branch::Branch;
use crate::{Arch, UnwindTable, code};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::sync::Arc;

/// Number of bytes of code that are read at a time.
const PIECE: usize = 256;

/// Maximum length in bytes of an x86 instruction.
const MAX_INSTRUCTION: usize = 15;

/// Code at an address: an image with its table, or code without an image.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// Call frame information. `None` for run-time code and unreadable images, which are unwound by
    /// frame pointers.
    pub table: Option<&'a UnwindTable>,
    /// AVMA minus SVMA of the image. Meaningless without a table.
    pub bias: u64,
}

impl<'a> Module<'a> {
    /// Returns the table's copy of code without call frame information, from an AVMA on.
    pub(crate) fn kept_code(&self, avma: u64) -> Option<&'a [u8]> {
        self.table?.undescribed_code(avma.wrapping_sub(self.bias))
    }

    /// Returns false if the image is for another architecture. A process can have 32-bit and 64-bit
    /// code, but no stack leads from one to the other.
    pub(crate) fn runs_on(&self, arch: Arch) -> bool {
        self.table.is_none_or(|table| table.arch() == arch)
    }
}

/// The executable mappings of a process at the time of a sample.
pub trait Modules {
    /// Returns the module at this address. `None` if no code is mapped there, so that the unwinder
    /// rejects it as a return address.
    fn find(&self, avma: u64) -> Option<Module<'_>>;

    /// Copies code bytes at `avma` and returns their number: fewer if the mapping ends, 0 if
    /// unknown. Used for code without call frame information, and to check callers.
    fn code(&self, avma: u64, into: &mut [u8]) -> usize {
        let _ = (avma, into);
        0
    }

    /// Returns the table that a JIT compiler has published for its code at this address, see
    /// [`UnwindTable::of_jit_code`]. Called if [`find`](Self::find) returns a module without a
    /// table. The result is not cached. `None` unless implemented.
    fn jit_table(&self, avma: u64) -> Option<Arc<UnwindTable>> {
        let _ = avma;
        None
    }

    /// Returns a number for the state of the mappings. The same number promises the same table and
    /// bias for every address, even in different processes; rules are then cached. `None` unless
    /// implemented.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Returns a number for the process, such as its pid, by which the unwinder caches run-time
    /// code. `None` unless implemented.
    fn process(&self) -> Option<u64> {
        None
    }
}

/// Copies code from the table's copy, or else from the process, which may have ended. Returns the
/// number of bytes.
pub(crate) fn read_code(
    module: Module<'_>,
    modules: &dyn Modules,
    avma: u64,
    into: &mut [u8],
) -> usize {
    let kept = module.kept_code(avma).unwrap_or_default();
    if kept.len() < into.len() {
        let len = modules.code(avma, into);
        if len >= kept.len() {
            return len;
        }
    }
    copy(kept, into)
}

/// Copies as many bytes as there is room for. Returns their number.
pub(crate) fn copy(bytes: &[u8], into: &mut [u8]) -> usize {
    let len = bytes.len().min(into.len());
    if let (Some(into), Some(bytes)) = (into.get_mut(..len), bytes.get(..len)) {
        into.copy_from_slice(bytes);
    }
    len
}

/// Returns the target of a direct call before a return address: `Some(None)` for other code, `None`
/// if it is unreadable.
pub(crate) fn call_target(return_address: u64, modules: &dyn Modules) -> Option<Option<u64>> {
    let module = modules.find(return_address.checked_sub(1)?)?;
    let Some(table) = module.table else {
        return Some(None);
    };
    if table.arch() == Arch::Aarch64 {
        let call = return_address.checked_sub(4)?;
        let word = word_at(call, module, modules)?;
        return Some(match Branch::decode(word, call) {
            Some(Branch::Call(target)) => target,
            _ => None,
        });
    }
    direct_target(return_address, module, modules)
}

/// Returns the target of a direct call before a return address, which may be in generated code. For x86.
pub(crate) fn any_call_target(return_address: u64, modules: &dyn Modules) -> Option<u64> {
    let module = modules.find(return_address.checked_sub(1)?)?;
    direct_target(return_address, module, modules).flatten()
}

fn direct_target(
    return_address: u64,
    module: Module<'_>,
    modules: &dyn Modules,
) -> Option<Option<u64>> {
    let mut before = [0; code::LONGEST_CALL];
    let start = return_address.checked_sub(before.len() as u64)?;
    let len = read_code(module, modules, start, &mut before);
    (len == before.len()).then(|| {
        let distance = code::direct_call(&before)?;
        Some(return_address.wrapping_add_signed(distance.into()))
    })
}

/// Returns true if a call stands before an address in x86 code, or the code is unreadable.
pub(crate) fn may_be_behind_call(address: u64, modules: &dyn Modules) -> bool {
    let module = address
        .checked_sub(1)
        .and_then(|inside| modules.find(inside));
    let start = address.checked_sub(code::LONGEST_CALL as u64);
    let (Some(module), Some(start)) = (module, start) else {
        return true;
    };
    let mut before = [0; code::LONGEST_CALL];
    read_code(module, modules, start, &mut before) < before.len() || code::ends_with_call(&before)
}

/// Returns a word of code, if it is readable.
pub(crate) fn word_at(avma: u64, module: Module<'_>, modules: &dyn Modules) -> Option<u32> {
    let mut bytes = [0; 4];
    let len = read_code(module, modules, avma, &mut bytes);
    (len == bytes.len()).then(|| u32::from_le_bytes(bytes))
}

/// Returns the address of the pointer through which code of x86-64 begins to jump, as an entry of a
/// procedure linkage table.
pub(crate) fn linkage_slot(entry: u64, modules: &dyn Modules) -> Option<u64> {
    let mut code = [0; 16];
    let len = modules.code(entry, &mut code);
    let code = code.get(..len)?;
    let jump = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let jump = jump.strip_prefix(&[0xf2]).unwrap_or(jump);
    let [0xff, 0x25, a, b, c, d, rest @ ..] = jump else {
        return None;
    };
    let behind = entry.wrapping_add((len - rest.len()) as u64);
    Some(relative(behind, [*a, *b, *c, *d]))
}

pub(crate) fn relative(from: u64, offset: [u8; 4]) -> u64 {
    from.wrapping_add_signed(i32::from_le_bytes(offset).into())
}

pub(crate) fn pointer(at: u64, modules: &dyn Modules) -> Option<u64> {
    let mut bytes = [0; 8];
    (modules.code(at, &mut bytes) == bytes.len()).then(|| u64::from_le_bytes(bytes))
}

/// Returns true if an address is in an image, by its table and bias.
pub(crate) fn is_image_of(
    avma: u64,
    (table, bias): (&UnwindTable, u64),
    modules: &dyn Modules,
) -> bool {
    modules.find(avma).is_some_and(|image| {
        image.bias == bias && image.table.is_some_and(|other| std::ptr::eq(other, table))
    })
}

/// The piece of x86 code that was read last.
#[derive(Default)]
pub(crate) struct Piece {
    start: u64,
    bytes: Vec<u8>,
}

impl Piece {
    pub(crate) fn decode(
        &mut self,
        arch: Arch,
        ip: u64,
        module: Module<'_>,
        modules: &dyn Modules,
    ) -> Instruction {
        let within = |start: u64| usize::try_from(ip.wrapping_sub(start)).unwrap_or(usize::MAX);
        if self.bytes.len().saturating_sub(within(self.start)) < MAX_INSTRUCTION {
            self.start = ip;
            self.bytes.resize(PIECE, 0);
            let len = read_code(module, modules, ip, &mut self.bytes);
            self.bytes.truncate(len);
        }
        let bytes = self.bytes.get(within(self.start)..).unwrap_or(&[]);
        Decoder::with_ip(arch.bits(), bytes, ip, DecoderOptions::NONE).decode()
    }
}
