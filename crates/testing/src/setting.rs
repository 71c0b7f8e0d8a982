//! Machine settings that a test changes temporarily.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::warden::Warden;

/// A file in `/proc/sys` or similar. Its old value is restored when this is dropped, or when the
/// test binary ends in any way.
///
/// The change affects the whole machine. Tests that depend on the setting must not run meanwhile.
#[derive(Debug)]
pub struct Setting {
    path: PathBuf,
    warden: Warden,
}

impl Setting {
    /// Remembers the current value, to restore it later.
    ///
    /// # Panics
    /// If the setting cannot be read.
    pub fn remember(path: impl AsRef<Path>) -> Setting {
        let path = path.as_ref().to_owned();
        let old = read(&path);
        let script = "printf %s \"$0\" >\"$1\"";
        Setting {
            warden: Warden::post(script, &[OsStr::new(&old), path.as_os_str()]),
            path,
        }
    }

    /// Returns the current value without the line end.
    ///
    /// # Panics
    /// If the setting cannot be read.
    pub fn get(&self) -> String {
        read(&self.path)
    }

    /// Writes a value.
    ///
    /// # Panics
    /// If the setting cannot be written.
    pub fn set(&self, value: &str) {
        let written = std::fs::write(&self.path, value);
        written.unwrap_or_else(|e| panic!("cannot write {}: {e}", self.path.display()));
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.warden.relieve();
    }
}

fn read(path: &Path) -> String {
    let read = std::fs::read_to_string(path);
    let text = read.unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("rprof-{name}-{}", std::process::id()));
        std::fs::write(&path, "2\n").unwrap();
        path
    }

    #[test]
    fn the_old_value_is_back_after_a_panic() {
        let path = file("setting");
        let changed = std::panic::catch_unwind(|| {
            let setting = Setting::remember(&path);
            setting.set("3");
            assert_eq!(setting.get(), "3");
            panic!("a test that fails");
        });
        assert!(changed.is_err());
        assert_eq!(read(&path), "2");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    #[ignore = "run by the test below, in a process of its own"]
    fn example() {
        let Some(path) = std::env::var_os("RPROF_SETTING") else {
            return;
        };
        let setting = Setting::remember(path);
        setting.set("3");
        std::thread::sleep(Duration::from_secs(100));
    }

    #[test]
    fn the_old_value_is_back_when_the_test_binary_is_killed() {
        let path = file("killed");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "setting::tests::example"]);
        command.env("RPROF_SETTING", &path);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let wait_for = |value: &str| {
            let patience = Instant::now() + Duration::from_secs(60);
            while read(&path) != value {
                assert!(Instant::now() < patience, "in vain waited for {value}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for("3");
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("2");
        std::fs::remove_file(path).unwrap();
    }
}
