//! A preload library that samples allocations by bytes, and shows the samples to a profiler through
//! a breakpoint.
//!
//! [`LIBRARY`] is a shared object for `LD_PRELOAD`. It counts the requested bytes of each thread.
//! One in `mean` bytes on average is a point, and the allocation with the point is sampled: the
//! library stores to a page at an address that the profiler chose, and does the same when the
//! program releases a sampled allocation. Other calls cost some nanoseconds.
//!
//! The profiler opens a breakpoint event on stores to this page (`PERF_TYPE_BREAKPOINT`, any user
//! may open it for own processes). Each store is a sample with registers and stack, and the
//! registers are a [`Hit`].
//!
//! Your responsibilities:
//! - Write [`LIBRARY`] to a file that the target may map for execution, and keep it while the
//!   target starts programs.
//! - Set [`variables`] in its environment.
//! - Open the event at [`page`], with the registers [`REGISTERS`].
//!
//! Limits: programs without a dynamic linker and set-user-ID programs do not load the library.
//! Programs that bring their own `malloc` report it: [`Hit::Loaded`].

mod hit;

use std::ffi::{OsStr, OsString};

pub use hit::{Hit, REGISTERS};

/// Preload library; empty on an unsupported architecture.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/librprof-alloc.so"));

/// File name of the library, as in its `DT_SONAME`.
pub const FILE_NAME: &str = "librprof-alloc.so";

/// Returns the address of the watched page for a profiler: each has its own. Neither programs nor
/// the kernel place anything there by themselves.
///
/// ```
/// assert_eq!(rprof_preload::page(7) % 4096, 0);
/// assert_ne!(rprof_preload::page(7), rprof_preload::page(8));
/// ```
pub fn page(pid: u32) -> u64 {
    0x1f_0000_0000 + (u64::from(pid) << 12) % 0x1000_0000
}

/// Returns the environment variables that load the library in a program, and tell it the watched
/// page and the mean distance of two points in bytes. `preloaded` is the value of `LD_PRELOAD` so
/// far, which stays behind the library.
///
/// ```
/// use std::ffi::OsStr;
///
/// let [(_, preload), _] = rprof_preload::variables("/tmp/a.so".as_ref(), None, 0x1000, 512);
/// assert_eq!(preload, OsStr::new("/tmp/a.so"));
/// ```
pub fn variables(
    library: &OsStr,
    preloaded: Option<&OsStr>,
    page: u64,
    mean: u64,
) -> [(&'static str, OsString); 2] {
    let mut preload = library.to_owned();
    if let Some(others) = preloaded.filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let settings = format!("{page:x},{mean}").into();
    [("LD_PRELOAD", preload), ("RPROF_ALLOC", settings)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_preload_stays_behind_the_library() {
        let [preload, settings] = variables("/a.so".as_ref(), Some("b.so c.so".as_ref()), 4096, 9);
        assert_eq!(preload, ("LD_PRELOAD", "/a.so:b.so c.so".into()));
        assert_eq!(settings, ("RPROF_ALLOC", "1000,9".into()));
        let [preload, _] = variables("/a.so".as_ref(), Some("".as_ref()), 4096, 9);
        assert_eq!(preload.1, "/a.so");
    }

    #[test]
    fn the_library_is_an_elf_file_on_supported_architectures() {
        let is_supported = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
        assert_eq!(LIBRARY.starts_with(b"\x7fELF"), is_supported);
    }
}
