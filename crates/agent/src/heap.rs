//! Returns freed memory to the system.
//!
//! glibc keeps free memory by default. Each thread has its own arena. glibc trims an arena's end
//! only above a threshold, which grows with the largest buffer ever freed (mallopt(3)). An agent
//! with 13 MiB in use kept 195 MiB more.

/// Configures glibc to return memory, before other threads start. Does nothing with other C
/// libraries.
pub(crate) fn configure() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 256 << 10;
        const ARENAS: libc::c_int = 2;
        let settings = [
            (libc::M_MMAP_THRESHOLD, LARGE),
            (libc::M_TRIM_THRESHOLD, LARGE),
            (libc::M_ARENA_MAX, ARENAS),
        ];
        for (setting, value) in settings {
            // SAFETY: mallopt sets a parameter under the allocator's own lock. An invalid value
            // changes nothing.
            unsafe { libc::mallopt(setting, value) };
        }
    }
}

/// Returns free pages to the system, even between pages in use.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) releases only free pages, and takes the allocator's own lock.
    unsafe {
        libc::malloc_trim(0);
    }
}
