//! [`Launcher`]: program, arguments and environment of a command.

use super::child::Child;
use super::error::LaunchError;
use super::{candidates, exec};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// Program with its arguments and environment, which starts held before its exec.
///
/// # Examples
/// ```
/// use rprof_launch::Launcher;
///
/// let mut child = Launcher::new("sh").args(["-c", "exit 7"]).spawn()?;
/// // The process is there, and nothing of the program has run yet.
/// assert!(child.pid() > 0 && child.try_wait()?.is_none());
/// child.release()?;
/// assert_eq!(child.wait()?.code(), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launcher {
    program: OsString,
    args: Vec<OsString>,
    /// Changes to the environment, `None` for removal. The last one for a name applies.
    env: Vec<(OsString, Option<OsString>)>,
    stdout_to_stderr: bool,
    is_silent: bool,
}

impl Launcher {
    /// Creates a launcher of `program`. PATH is searched unless the name has a slash.
    pub fn new(program: impl AsRef<OsStr>) -> Launcher {
        Launcher {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            stdout_to_stderr: false,
            is_silent: false,
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

    /// Sets an environment variable. Others come from this process.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Launcher {
        let (name, value) = (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.env.push((name, Some(value)));
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Launcher {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Redirects the program's standard output to standard error, for a recording on standard
    /// output.
    pub fn stdout_to_stderr(mut self, on: bool) -> Launcher {
        self.stdout_to_stderr = on;
        self
    }

    /// Redirects the program's standard input, output and error to `/dev/null`, beside a program
    /// that uses the terminal.
    pub fn silent(mut self, on: bool) -> Launcher {
        self.is_silent = on;
        self
    }

    /// Returns program and arguments.
    pub fn command_line(&self) -> Vec<OsString> {
        let mut line = vec![self.program.clone()];
        line.extend(self.args.iter().cloned());
        line
    }

    /// Forks the child, which waits for [`Child::release`] before it executes the program.
    ///
    /// # Errors
    /// Returns [`LaunchError`]. [`Child::release`] reports a missing program.
    pub fn spawn(&self) -> Result<Child, LaunchError> {
        // All allocations happen before the fork.
        let strings = self.exec_strings()?;
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| LaunchError::Pipe { errno });
        let (release_read, release_write) = pipe()?;
        let (error_read, error_write) = pipe()?;
        let pid = exec::fork_and_hold(strings, &release_read, &release_write, &error_write)
            .map_err(|errno| LaunchError::Fork { errno })?;
        drop((release_read, error_write));
        let path = self.program.to_string_lossy().into_owned();
        Ok(Child::new(pid, release_write, error_read, path))
    }

    fn exec_strings(&self) -> Result<exec::ExecStrings, LaunchError> {
        let env = self.environment();
        let path = env.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.as_os_str());
        let candidates = candidates::for_program(&self.program, path);
        let strings = |texts: &[OsString]| -> Result<Vec<CString>, LaunchError> {
            texts.iter().map(|text| c_string(text)).collect()
        };
        let env: Vec<OsString> = env.iter().map(join).collect();
        Ok(exec::ExecStrings::new(
            strings(&candidates)?,
            strings(&self.command_line())?,
            strings(&env)?,
            self.stdout_to_stderr,
            self.is_silent.then(open_null).transpose()?,
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

fn open_null() -> Result<OwnedFd, LaunchError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/null", flags, Mode::empty()).map_err(|errno| LaunchError::Null { errno })
}

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
