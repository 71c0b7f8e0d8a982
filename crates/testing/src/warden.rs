//! Shells that do something once the test binary has ended, in whatever way.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Environment variable by which the processes of a test are known. Wardens do not have it.
pub(crate) const VARIABLE: &str = "RPROF_TEST_TETHER";

/// A shell that waits at the end of a pipe which only this process has open.
#[derive(Debug)]
pub(crate) struct Warden(Child);

impl Warden {
    /// Starts a shell that runs the script, with these arguments from `$0` on, when this process ends or
    /// [`Warden::relieve`] is called. It is in a session of its own, and no signal but SIGKILL ends it.
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

    /// Has it run its script now, and waits for that.
    pub(crate) fn relieve(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}
