//! What happens between fork and exec.
//!
//! The child of a program with threads may call only what signal-safety(7) lists: another
//! thread may have held the allocator's lock at the moment of the fork. So
//! all strings are made before, and the child calls `read`, `write`, `close`, `dup2`, `sigaction`,
//! `sigprocmask`, `execve` and `_exit`, and nothing else.

use crate::errno_text::{errno_from, shown};
use rustix::io::Errno;
use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

/// The shell that runs scripts without a `#!` line, as execvp(3) does.
const SHELL: &std::ffi::CStr = c"/bin/sh";

/// The byte that means "go".
pub(super) const GO: u8 = 1;

/// The strings of an execve call, with the pointers into them that the call wants.
pub(super) struct Image {
    candidates: Vec<CString>,
    argv: Vec<*const c_char>,
    /// `/bin/sh`, a place for the candidate, the arguments.
    shell_argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// Whether standard output goes where standard error does.
    stdout_to_stderr: bool,
    /// What the pointers point into; the heap blocks of a CString do not move.
    _strings: [Vec<CString>; 2],
}

impl Image {
    pub(super) fn new(
        candidates: Vec<CString>,
        args: Vec<CString>,
        env: Vec<CString>,
        stdout_to_stderr: bool,
    ) -> Image {
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            let all = strings.iter().map(|s| s.as_ptr());
            all.chain([ptr::null()]).collect()
        };
        let argv = pointers(&args);
        let mut shell_argv = vec![SHELL.as_ptr(), ptr::null()];
        shell_argv.extend(argv.iter().skip(1));
        Image {
            candidates,
            shell_argv,
            envp: pointers(&env),
            argv,
            stdout_to_stderr,
            _strings: [args, env],
        }
    }

    /// Tries every candidate; returns only if none could be executed, with the
    /// error that execvp(3) would give. Async-signal-safe.
    fn execute(&mut self) -> Errno {
        let mut result = Errno::NOENT;
        for candidate in &self.candidates {
            // SAFETY: all three are valid, null-terminated arrays of C strings, kept by `self`.
            unsafe { libc::execve(candidate.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
            let mut errno = last_errno();
            if errno == Errno::NOEXEC {
                self.shell_argv[1] = candidate.as_ptr();
                // SAFETY: as above.
                unsafe {
                    libc::execve(SHELL.as_ptr(), self.shell_argv.as_ptr(), self.envp.as_ptr());
                }
                errno = last_errno();
            }
            match errno {
                Errno::ACCESS => result = errno,
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {
                    // A file that may not be run says more than one that is not there.
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

/// Forks. The child waits for the go byte and then becomes `image`; if that pipe closes
/// without the byte it exits, and a failed exec is written to `error_write`.
pub(super) fn fork_and_wait_for_go(
    mut image: Image,
    go_read: &OwnedFd,
    go_write: &OwnedFd,
    error_write: &OwnedFd,
) -> Result<libc::pid_t, Errno> {
    let fds = [
        go_read.as_raw_fd(),
        go_write.as_raw_fd(),
        error_write.as_raw_fd(),
    ];
    // With all signals blocked over the fork, none of this process's handlers
    // can run in the child: they would act on pipes that both share.
    let before = block_all_signals();
    // SAFETY: the child calls only async-signal-safe functions and never returns from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        in_child(&mut image, fds);
    }
    let forked = if pid < 0 { Err(last_errno()) } else { Ok(pid) };
    // SAFETY: `before` is the set that was in force; the call only reads it.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    forked
}

/// The error number of the last call through the C library, which keeps it in memory of this
/// thread: reading it is async-signal-safe.
fn last_errno() -> Errno {
    // SAFETY: the pointer is valid for the life of the thread.
    errno_from(unsafe { *libc::__errno_location() })
}

/// Blocks every signal for this thread; returns what was blocked before.
pub fn block_all_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the first set, pthread_sigmask (which cannot fail with
    // SIG_SETMASK) the second.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

/// The child's life before exec. Async-signal-safe throughout.
fn in_child(image: &mut Image, [go_read, go_write, error_write]: [RawFd; 3]) -> ! {
    reset_signals();
    // The child's own copy of the write end would keep the pipe from ever reading as closed.
    // SAFETY: a descriptor of this process copy; its owner lives in the parent.
    unsafe { libc::close(go_write) };
    if !told_to_go(go_read) {
        // SAFETY: ends this process without running exit handlers of the parent's.
        unsafe { libc::_exit(127) };
    }
    if image.stdout_to_stderr {
        // SAFETY: two descriptors by number; it fails harmlessly if the second is closed.
        unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    }
    let errno = image.execute();
    let bytes = errno.raw_os_error().to_ne_bytes();
    // SAFETY: four readable bytes; a pipe takes them in one piece.
    unsafe { libc::write(error_write, bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: as above.
    unsafe { libc::_exit(exit_code(errno)) };
}

/// Puts signals in the state in which a shell starts a program: no handlers of this process's,
/// SIGPIPE deadly again (Rust's runtime ignores it), none blocked.
fn reset_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: sigaction is plain data; asking fails harmlessly for the signals that
        // the C library keeps to itself.
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

/// Waits for the byte; `false` when the pipe closed without it.
fn told_to_go(go_read: RawFd) -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: one writable byte.
        let got: isize = unsafe { libc::read(go_read, (&raw mut byte).cast(), 1) };
        if got < 0 && last_errno() == Errno::INTR {
            continue;
        }
        return got == 1 && byte == GO;
    }
}

/// The exit code by which shells tell a failed exec.
pub(super) fn exit_code(errno: Errno) -> c_int {
    match errno {
        Errno::NOENT => 127,
        _ => 126,
    }
}

/// The error with what to do about it.
pub(super) fn explain(errno: Errno, path: &str) -> String {
    let hint = match errno {
        Errno::NOENT if path.contains('/') => {
            "; the file, or the interpreter it names in its first line or ELF header, is not there"
        }
        Errno::NOENT => "; no folder of PATH has it",
        Errno::ACCESS if !path.contains('/') => {
            "; the file may not be executed, or a folder of PATH not searched, by this user"
        }
        Errno::ACCESS if std::path::Path::new(path).is_dir() => "; it is a folder",
        Errno::ACCESS => "; it, or a folder above it, may not be executed (chmod +x?)",
        Errno::NOEXEC => "; it is for another kind of machine, or damaged",
        Errno::TOOBIG => "; arguments and environment are too long",
        Errno::TXTBSY => "; it is being written to",
        _ => "",
    };
    format!("{}{hint}", shown(errno))
}
