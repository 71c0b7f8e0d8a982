//! Memory that was freed goes back to the system.
//!
//! What a window's analysis takes is free when it ends. By itself glibc keeps it: each thread has an arena of its own, whose end is given back
//! only where it is longer than a limit, and that limit grows with the largest buffer ever freed (mallopt(3)). In an agent that had 13 MiB in use, 195
//! more were kept so.

/// Sets the allocator of this process to give memory back. To be called before threads begin. Other C libraries than glibc are left as they are.
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
            // SAFETY: sets a number of the allocator, under its own lock; one that it does not take changes nothing.
            unsafe { libc::mallopt(setting, value) };
        }
    }
}

/// Gives back free pages between those that are in use.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: pages that are returned hold nothing (malloc_trim(3)); the allocator locks itself.
    unsafe {
        libc::malloc_trim(0);
    }
}
