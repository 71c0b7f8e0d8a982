//! [`LaunchError`] and [`ExecError`].

use rprof_errno::ErrnoText;
use rustix::io::Errno;
use std::ffi::c_int;

/// Failure to prepare the child.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The program name, an argument or a variable contains a zero byte.
    #[error("`{text}` cannot be passed to a program: it contains a zero byte")]
    ZeroByte {
        /// The string, with `\0` for the byte.
        text: String,
    },
    /// pipe(2) failed: too many files are open.
    #[error("cannot make a pipe to the new process: {}", ErrnoText(*errno))]
    Pipe {
        /// The kernel's error number.
        errno: Errno,
    },
    /// `/dev/null` cannot be opened.
    #[error("cannot open /dev/null: {}", ErrnoText(*errno))]
    Null {
        /// The kernel's error number.
        errno: Errno,
    },
    /// fork(2) failed: process limit reached, or out of memory.
    #[error("cannot start a process: {}; is the limit on processes (ulimit -u) reached?", ErrnoText(*errno))]
    Fork {
        /// The kernel's error number.
        errno: Errno,
    },
}

/// Failure to execute the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot run `{path}`: {}", explain(*errno, path))]
pub struct ExecError {
    /// Error number of execve(2), chosen among the candidates as in execvp(3).
    pub errno: Errno,
    /// Program name as given.
    pub path: String,
}

impl ExecError {
    /// Returns the exit code that shells use: 127 for a missing program, else 126.
    pub fn exit_code(&self) -> i32 {
        exit_code(self.errno)
    }
}

pub(super) fn exit_code(errno: Errno) -> c_int {
    match errno {
        Errno::NOENT => 127,
        _ => 126,
    }
}

fn explain(errno: Errno, path: &str) -> String {
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
    format!("{}{hint}", ErrnoText(errno))
}
