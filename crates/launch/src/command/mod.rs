//! Starting the program to be profiled, so that nothing of it is missed.
//!
//! ```text
//!   prepare              go()
//!   parent: build argv,  open events for the     write a byte,
//!           fork ------> child's pid, start ---> read the exec pipe ---> wait
//!   child:  block on the go pipe . . . . . . .   execve (pipe closes, or errno comes back)
//! ```
//!
//! The events are opened disabled with `enable_on_exec`, so that what is recorded
//! begins with the program's own first instruction. Standard streams, process group and
//! working directory are the caller's.
//!
//! | module | holds |
//! |---|---|
//! | `candidates` | which files a name may mean: PATH |
//! | `exec` | what runs in the child between fork and exec |
//! | `child` | the parent's handle |

mod candidates;
mod child;
mod exec;

pub use child::{Child, Waited};
pub use exec::block_all_signals;

use crate::errno_text::shown;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// What makes it impossible to prepare the child.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A string with a zero byte in it cannot be handed to a program.
    #[error("`{text}` cannot be passed to a program: it has a zero byte in it")]
    ZeroByte {
        /// The text.
        text: String,
    },
    /// The pipes could not be made.
    #[error("cannot make a pipe to the new process: {}", shown(*errno))]
    Pipe {
        /// What the kernel said.
        errno: Errno,
    },
    /// fork(2) failed.
    #[error("cannot start a process: {}; is the limit on processes (ulimit -u) reached?", shown(*errno))]
    Fork {
        /// What the kernel said.
        errno: Errno,
    },
}

/// The program could not be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot run `{path}`: {}", exec::explain(*errno, path))]
pub struct ExecError {
    /// What the kernel said, chosen among the candidates as execvp(3) does.
    pub errno: Errno,
    /// The program as it was named.
    pub path: String,
}

impl ExecError {
    /// The exit code by which shells tell it: 127 for a program that is not there, else 126.
    pub fn exit_code(&self) -> i32 {
        exec::exit_code(self.errno)
    }
}

/// A program with its arguments and environment, to be started under watch.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: OsString,
    args: Vec<OsString>,
    /// Changes to this process's environment; the last one for a name counts.
    env: Vec<(OsString, Option<OsString>)>,
    stdout_to_stderr: bool,
}

impl Launcher {
    /// The program `program`, looked for in PATH unless its name has a slash.
    pub fn new(program: impl AsRef<OsStr>) -> Launcher {
        Launcher {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            stdout_to_stderr: false,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Launcher {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Launcher {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        self.args.extend(args);
        self
    }

    /// Sets a variable in the program's environment, which otherwise is this process's.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launcher {
        let (name, value) = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.env.push((name, Some(value)));
        self
    }

    /// Takes a variable out of the program's environment.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Launcher {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Sends what the program writes to standard output to standard error: for a
    /// recorder whose own standard output is taken by the recording.
    pub fn stdout_to_stderr(mut self, on: bool) -> Launcher {
        self.stdout_to_stderr = on;
        self
    }

    /// Program and arguments, as for a file's command line.
    pub fn command_line(&self) -> Vec<OsString> {
        let mut line = vec![self.program.clone()];
        line.extend(self.args.iter().cloned());
        line
    }

    /// Forks the child, which waits until [`Child::go`] to become the program.
    ///
    /// # Errors
    /// [`LaunchError`]. A program that does not exist is found out by [`Child::go`].
    pub fn spawn(&self) -> Result<Child, LaunchError> {
        // Everything that allocates happens here, before the fork.
        let image = self.image()?;
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| LaunchError::Pipe { errno });
        let (go_read, go_write) = pipe()?;
        let (error_read, error_write) = pipe()?;
        let pid = exec::fork_and_wait_for_go(image, &go_read, &go_write, &error_write)
            .map_err(|errno| LaunchError::Fork { errno })?;
        drop((go_read, error_write));
        let path = self.program.to_string_lossy().into_owned();
        Ok(Child::new(pid, go_write, error_read, path))
    }

    /// All strings that execve needs.
    fn image(&self) -> Result<exec::Image, LaunchError> {
        let env = self.environment();
        let path = env.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.as_os_str());
        let candidates = candidates::for_program(&self.program, path);
        let strings = |texts: &[OsString]| -> Result<Vec<CString>, LaunchError> {
            texts.iter().map(|text| c_string(text)).collect()
        };
        let env: Vec<OsString> = env.iter().map(join).collect();
        Ok(exec::Image::new(
            strings(&candidates)?,
            strings(&self.command_line())?,
            strings(&env)?,
            self.stdout_to_stderr,
        ))
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        for (name, value) in &self.env {
            env.retain(|(known, _)| known != name);
            env.extend(value.clone().map(|value| (name.clone(), value)));
        }
        env
    }
}

/// `NAME=value`.
fn join((name, value): &(OsString, OsString)) -> OsString {
    let mut text = name.clone();
    text.push("=");
    text.push(value);
    text
}

fn c_string(text: &OsStr) -> Result<CString, LaunchError> {
    CString::new(text.as_bytes()).map_err(|_| LaunchError::ZeroByte {
        text: text.to_string_lossy().replace('\0', "\\0"),
    })
}

#[cfg(test)]
mod tests;
