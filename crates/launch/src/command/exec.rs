//! The child between fork and exec.
//!
//! A forked child of a multithreaded program may call only the functions in signal-safety(7):
//! another thread may have held the allocator's lock. So the parent prepares all strings, and the
//! child only calls `read`, `write`, `close`, `dup2`, `sigaction`, `sigprocmask`, `execve` and
//! `_exit`, through the C library: rustix offers no fork and exec beside one. [`rprof_errno::last`]
//! only reads a thread-local variable.

use super::error::exit_code;
use super::signals::block_all_signals;
use rustix::io::Errno;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

/// Shell for scripts without a `#!` line, as in execvp(3).
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// Byte that releases the child.
pub(super) const RELEASE: u8 = 1;

pub(super) struct ExecStrings {
    candidates: Vec<CString>,
    argv: Vec<*const c_char>,
    /// `/bin/sh`, a slot for the candidate, and the arguments.
    shell_argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    stdout_to_stderr: bool,
    /// Replaces standard input, output and error.
    null: Option<OwnedFd>,
    /// Owners of the strings. A CString's heap block does not move.
    _strings: [Vec<CString>; 2],
}

impl ExecStrings {
    pub(super) fn new(
        candidates: Vec<CString>,
        args: Vec<CString>,
        env: Vec<CString>,
        stdout_to_stderr: bool,
        null: Option<OwnedFd>,
    ) -> ExecStrings {
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            let all = strings.iter().map(|s| s.as_ptr());
            all.chain([ptr::null()]).collect()
        };
        let argv = pointers(&args);
        let mut shell_argv = vec![SHELL.as_ptr(), ptr::null()];
        shell_argv.extend(argv.iter().skip(1));
        ExecStrings {
            candidates,
            shell_argv,
            envp: pointers(&env),
            argv,
            stdout_to_stderr,
            null,
            _strings: [args, env],
        }
    }

    /// Executes the first candidate that succeeds. Returns only the error of execvp(3).
    /// Async-signal-safe.
    fn execute(&mut self) -> Errno {
        let mut result = Errno::NOENT;
        for candidate in &self.candidates {
            // SAFETY: all three are valid, null-terminated arrays of C strings, owned by `self`.
            unsafe { libc::execve(candidate.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
            let mut errno = rprof_errno::last();
            if errno == Errno::NOEXEC {
                self.shell_argv[1] = candidate.as_ptr();
                // SAFETY: as above.
                unsafe {
                    libc::execve(SHELL.as_ptr(), self.shell_argv.as_ptr(), self.envp.as_ptr());
                }
                errno = rprof_errno::last();
            }
            match errno {
                Errno::ACCESS => result = errno,
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {
                    // A file without permission is a better error than a missing one.
                    if result == Errno::NOENT {
                        result = errno;
                    }
                }
                _ => return errno,
            }
        }
        result
    }
}

/// Forks. The child waits for the byte [`RELEASE`], then executes `strings`. If the pipe closes, it
/// exits. It writes the errno of a failed exec to `error_write`.
///
/// # Errors
/// Returns the error number of fork(2).
pub(super) fn fork_and_hold(
    mut strings: ExecStrings,
    release_read: &OwnedFd,
    release_write: &OwnedFd,
    error_write: &OwnedFd,
) -> Result<libc::pid_t, Errno> {
    let fds = [
        release_read.as_raw_fd(),
        release_write.as_raw_fd(),
        error_write.as_raw_fd(),
    ];
    // This process's handlers must not run in the child.
    let before = block_all_signals();
    // SAFETY: the child calls only async-signal-safe functions and never returns from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        in_child(&mut strings, fds);
    }
    let forked = if pid < 0 {
        Err(rprof_errno::last())
    } else {
        Ok(pid)
    };
    // SAFETY: `before` is the previous signal set; the call only reads it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    forked
}

/// Runs the child up to its exec. Async-signal-safe.
fn in_child(
    strings: &mut ExecStrings,
    [release_read, release_write, error_write]: [RawFd; 3],
) -> ! {
    reset_signals();
    // The child's own copy would keep the pipe open. SAFETY: the descriptor is a copy in this
    // process; its owner lives in the parent.
    unsafe { libc::close(release_write) };
    if !wait_for_release(release_read) {
        // SAFETY: ends this process without the parent's exit handlers.
        unsafe { libc::_exit(127) };
    }
    if strings.stdout_to_stderr {
        // SAFETY: two descriptors by number; it fails harmlessly if the second is closed.
        unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    }
    if let Some(null) = &strings.null {
        for standard in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: two descriptors by number; the first is open until the exec.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
    let errno = strings.execute();
    let bytes = errno.raw_os_error().to_ne_bytes();
    // SAFETY: four readable bytes; a pipe accepts them in one write.
    unsafe { libc::write(error_write, bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: as above.
    unsafe { libc::_exit(exit_code(errno)) };
}

/// Resets signals for the program: default handlers, SIGPIPE fatal (Rust's runtime ignores it),
/// none blocked.
fn reset_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: sigaction is plain data; the query fails harmlessly for the C library's signals.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &mut action) != 0 {
                continue;
            }
            let ignored = action.sa_sigaction == libc::SIG_IGN && signal != libc::SIGPIPE;
            if !ignored && action.sa_sigaction != libc::SIG_DFL {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, ptr::null_mut());
            }
        }
    }
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Returns false if the pipe closes without the byte.
fn wait_for_release(release_read: RawFd) -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: one writable byte.
        let got: isize = unsafe { libc::read(release_read, (&raw mut byte).cast(), 1) };
        if got < 0 && rprof_errno::last() == Errno::INTR {
            continue;
        }
        return got == 1 && byte == RELEASE;
    }
}
