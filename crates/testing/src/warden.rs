//! Shells that run a script after the test binary has ended in any way.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Environment variable that marks the processes of a test. Wardens do not have it.
pub(crate) const VARIABLE: &str = "RPROF_TEST_TETHER";

/// A shell that reads from a pipe. Only this process has the write end.
#[derive(Debug)]
pub(crate) struct Warden(Child);

impl Warden {
    /// Starts a shell that runs the script when this process ends or calls [`Warden::relieve`].
    /// `arguments` are its `$0` and following. The shell has its own session, and only SIGKILL ends
    /// it.
    pub(crate) fn post(script: &str, arguments: &[&OsStr]) -> Warden {
        let script = format!("trap '' HUP INT QUIT TERM; cat >/dev/null; {script}");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).args(arguments);
        command.stdin(Stdio::piped()).current_dir("/");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.env_remove(VARIABLE);
        // SAFETY: setsid(2) is async-signal-safe.
        unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?)) };
        Warden(command.spawn().expect("tests need sh"))
    }

    /// Runs the script now, and waits for its end.
    pub(crate) fn relieve(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}
