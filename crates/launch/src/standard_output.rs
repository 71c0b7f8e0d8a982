//! Whether standard output was open when this program began.
//!
//! Rust's runtime opens `/dev/null` in the place of standard streams that are closed, before `main`. What is printed then goes
//! nowhere, without an error. So this is looked at earlier, by a function that the dynamic linker calls.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns true if standard output was closed when the program began, as by `>&-` in a shell.
pub fn standard_output_was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // SAFETY: fcntl(2) with F_GETFD reads a flag of a number that may be no descriptor, and has no other effect. Neither it nor
    // the atomic takes anything that Rust's runtime sets up.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Has the dynamic linker call [`look`] before `main`.
// SAFETY: `.init_array` holds addresses of functions of the C ABI, as this is.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
