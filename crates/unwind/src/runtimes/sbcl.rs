//! SBCL: `call_into_lisp`, by which C code calls Lisp.
//!
//! In the first thread, Lisp code has a stack of its own, and call frame information leads from there back to the
//! stack on which `main` was called, which no copy of the other one has.

use crate::Modules;

/// Bytes before the return address, and behind it: the call of a function object, the choice between one value and several, and
/// the registers that were saved.
const CALL: [u8; 3] = [0xff, 0x50, 0xfd];
const BEHIND: [u8; 14] = [
    0x73, 0x03, 0x48, 0x89, 0xdc, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b,
];

/// Returns true if this is the return address of the call of Lisp code in `call_into_lisp`.
pub(crate) fn called_lisp<P: Modules + ?Sized>(address: u64, modules: &P) -> bool {
    let mut code = [0; CALL.len() + BEHIND.len()];
    let start = address.wrapping_sub(CALL.len() as u64);
    modules.code(start, &mut code) == code.len()
        && code.starts_with(&CALL)
        && code.ends_with(&BEHIND)
}
