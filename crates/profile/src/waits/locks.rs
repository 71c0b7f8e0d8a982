//! [`acquires_lock`]: detects functions that acquire locks.

/// Lock functions of glibc, musl, Rust's standard library, parking_lot, Abseil, Go, two OpenMP
/// runtimes and CPython, without leading underscores and paths.
const FUNCTIONS: &[&str] = &[
    "pthread_mutex_lock*",
    "pthread_mutex_timedlock*",
    "pthread_mutex_clocklock*",
    "pthread_mutex_cond_lock*",
    "pthread_rwlock_rdlock*",
    "pthread_rwlock_wrlock*",
    "pthread_rwlock_timed*lock*",
    "pthread_rwlock_clock*lock*",
    "lll_lock_wait*",
    "lll_timedlock_wait*",
    "lll_clocklock_wait*",
    "lock_contended",
    "read_contended",
    "write_contended",
    "lock_slow",
    "lock_shared_slow",
    "lock_exclusive_slow",
    "lock_upgradable_slow",
    "LockSlow",
    "LockSlowLoop",
    "LockSlowWithDeadline",
    "gomp_mutex_lock_slow",
    "gomp_critical_start",
    "kmp_acquire_*lock*",
    "take_gil",
];

/// Ambiguous last names of Go's runtime and HotSpot's monitors.
const QUALIFIED: &[&str] = &[
    "runtime.lock2",
    "ObjectMonitor::enter",
    "ObjectMonitor::EnterI",
];

/// Returns true for a lock function, by demangled name: a thread waiting there has work.
///
/// # Examples
/// ```
/// use rprof_profile::waits::locks::acquires_lock;
///
/// assert!(acquires_lock("___pthread_mutex_lock"));
/// assert!(acquires_lock("<std::sys::sync::mutex::futex::Mutex>::lock_contended"));
/// assert!(!acquires_lock("pthread_cond_wait"));
/// ```
pub fn acquires_lock(name: &str) -> bool {
    let without_arguments = name.rfind('(').map_or(name, |at| &name[..at]);
    let whole = without_arguments.split('@').next().unwrap_or(name);
    if QUALIFIED.iter().any(|function| whole.ends_with(function)) {
        return true;
    }
    let own = whole.rsplit(':').next().unwrap_or(whole);
    // `runtime.lock2` of Go, `take_gil.cold` of a compiler.
    let parts = own.split('.').map(|part| {
        let part = part.trim_start_matches('_');
        part.strip_prefix("GI_")
            .map_or(part, |part| part.trim_start_matches('_'))
    });
    let is_one =
        |part: &str| (FUNCTIONS.iter()).any(|pattern| crate::pattern::matches_name(pattern, part));
    parts.into_iter().any(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_told_from_what_waits_for_work() {
        for name in [
            "pthread_mutex_lock@@GLIBC_2.2.5",
            "__GI___pthread_mutex_lock",
            "___pthread_mutex_lock",
            "__lll_lock_wait_private",
            "__pthread_mutex_cond_lock",
            "__pthread_rwlock_rdlock_full64",
            "std::sys::sync::rwlock::futex::RwLock::read_contended",
            "parking_lot::raw_mutex::RawMutex::lock_slow",
            "absl::lts_20220623::Mutex::LockSlow(absl::MuHow, absl::Condition const*, int)",
            "runtime.lock2",
            "__kmp_acquire_queuing_lock",
            "take_gil.cold",
            "ObjectMonitor::enter(JavaThread*)",
        ] {
            assert!(acquires_lock(name), "{name}");
        }
        for name in [
            "pthread_cond_wait@@GLIBC_2.3.2",
            "pthread_mutex_unlock",
            "std::sys::sync::condvar::futex::Condvar::wait_optional_timeout",
            "epoll_wait",
            "sem_wait",
            "block::lock2::wait_for_work",
            "unlock_slow",
            "",
        ] {
            assert!(!acquires_lock(name), "{name}");
        }
    }
}
