//! Detects whether standard output was closed when this program started.
//!
//! Rust's runtime replaces closed standard streams with `/dev/null` before `main`. So a function
//! called by the dynamic linker checks the stream earlier.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns true if standard output was closed at the start, for example by `>&-` in a shell.
pub fn standard_output_was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // SAFETY: fcntl(2) with F_GETFD only reads a flag of a number that may not be a descriptor.
    // Neither it nor the atomic depends on Rust's runtime.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: `.init_array` holds addresses of functions with the C ABI, like this one.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
