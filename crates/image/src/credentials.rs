//! [`Credentials`]: access to files with the rights of another process.
//!
//! A process under observation chooses the paths that a recorder opens, and can mount any file
//! under any name. So the recorder opens such files with the user and groups of the process and
//! without capabilities. It reads no file that the process cannot read.
//!
//! The change affects one thread, unlike the functions of the C library: it uses the `setfsuid`,
//! `setgroups` and `capset` system calls. Signals, `ptrace` and limits depend on other ids, which
//! stay unchanged.

use rprof_launch::procfs::TaskStatus;
use rustix::process::Gid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::io;

/// User and groups for the kernel's file permission checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    user: u32,
    group: u32,
    /// Supplementary groups, ascending.
    groups: Box<[u32]>,
}

impl Credentials {
    /// Returns the credentials of a process for opening files, from its `/proc/PID/status`.
    /// `None` if they are missing.
    ///
    /// A set-user-ID program of root gets the ids of the user who started it, as the least
    /// privileged choice. In a user namespace, these are the ids outside of it: root in a container
    /// may be unprivileged here.
    #[must_use]
    pub fn of_process(status: &TaskStatus) -> Option<Self> {
        let least = |[real, _, _, file_system]: [u32; 4]| match file_system {
            0 => real,
            other => other,
        };
        Some(Self::new(
            least(status.users?),
            least(status.groups?),
            status.supplementary_groups.clone(),
        ))
    }

    /// Returns the credentials of `nobody` (65534), who can read only world-readable files.
    #[must_use]
    pub fn nobody() -> Self {
        Self::new(65534, 65534, Vec::new())
    }

    /// Returns the credentials of this thread.
    #[must_use]
    pub fn own() -> Self {
        let groups = rustix::process::getgroups().unwrap_or_default();
        Self::new(
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
            groups.into_iter().map(Gid::as_raw).collect(),
        )
    }

    /// Returns the credentials of the user behind `sudo`, without supplementary groups. `None`
    /// without `sudo`.
    #[must_use]
    pub fn of_sudo_user() -> Option<Self> {
        let id = |name| std::env::var(name).ok()?.parse().ok();
        let is_root = rustix::process::geteuid().is_root();
        let (user, group) = id("SUDO_UID").zip(id("SUDO_GID")).filter(|_| is_root)?;
        Some(Self::new(user, group, Vec::new()))
    }

    fn new(user: u32, group: u32, mut groups: Vec<u32>) -> Self {
        groups.sort_unstable();
        groups.dedup();
        Self {
            user,
            group,
            groups: groups.into(),
        }
    }

    /// Returns the user id.
    #[must_use]
    pub fn user(&self) -> u32 {
        self.user
    }

    /// Returns true if a file's permission bits allow reading. Ignores access control lists.
    #[must_use]
    pub fn may_read(&self, owner: u32, group: u32, mode: u32) -> bool {
        let bit = if owner == self.user {
            0o400
        } else if group == self.group || self.groups.contains(&group) {
            0o040
        } else {
            0o004
        };
        mode & bit != 0
    }

    /// Runs `act` on this thread with these credentials and without capabilities. Restores the
    /// thread's own afterwards, also if `act` panics.
    ///
    /// Other users' credentials need `CAP_SETUID` and `CAP_SETGID`, as root has.
    ///
    /// # Errors
    /// `EPERM` if this thread may not assume these credentials. `act` did not run.
    pub fn run<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        let _taken = Taken::take(self)?;
        Ok(act())
    }
}

/// Guard with assumed credentials.
struct Taken {
    /// Credentials to restore.
    before: Option<Credentials>,
    /// Capabilities to restore.
    capabilities: Option<CapabilitySets>,
}

impl Taken {
    fn take(wanted: &Credentials) -> io::Result<Self> {
        let own = Credentials::own();
        // From here on, an early return restores the old state.
        let mut taken = Taken {
            before: None,
            capabilities: None,
        };
        if own != *wanted {
            let user = wanted.user;
            taken.before = Some(own);
            wanted.set()?;
            if file_system_user() != user {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            }
        }
        let capabilities = capabilities(None)?;
        if !capabilities.effective.is_empty() || taken.before.is_some() {
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                ..capabilities
            };
            taken.capabilities = Some(capabilities);
            set_capabilities(None, none)?;
        }
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // A failure would leave fewer rights, never more. None is expected: permitted capabilities
        // can become effective, and they allow the rest.
        if let Some(capabilities) = self.capabilities {
            let _ = set_capabilities(None, capabilities);
        }
        if let Some(before) = &self.before {
            let _ = before.set();
        }
    }
}

impl Credentials {
    fn set(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|id| Gid::from_raw(*id)).collect();
        rustix::thread::set_thread_groups(&groups)?;
        // The group first: the user may carry the right to change it.
        set_file_system_id(libc::SYS_setfsgid, self.group);
        set_file_system_id(libc::SYS_setfsuid, self.user);
        Ok(())
    }
}

/// Returns the previous id. The call reports no errors: the next call returns the id that took
/// effect.
fn set_file_system_id(call: libc::c_long, id: u32) -> u32 {
    // SAFETY: both calls take one number and no address, and change this thread's credentials only.
    let before = unsafe { libc::syscall(call, libc::c_ulong::from(id)) };
    before as u32
}

fn file_system_user() -> u32 {
    // `u32::MAX` is invalid and changes nothing.
    set_file_system_id(libc::SYS_setfsuid, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_testing::needs;
    use std::os::unix::fs::PermissionsExt;

    fn state() -> (u32, Credentials, CapabilitySet) {
        let effective = capabilities(None).unwrap().effective;
        (file_system_user(), Credentials::own(), effective)
    }

    #[test]
    fn own_credentials_without_capabilities_need_no_rights() {
        let before = state();
        let inside = Credentials::own().run(state).unwrap();
        assert_eq!(inside, (before.0, before.1.clone(), CapabilitySet::empty()));
        assert_eq!(state(), before);
    }

    #[test]
    fn nobody_reads_what_anybody_may_and_no_more() {
        needs!(Root);
        let before = state();
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let open = |mode| std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode));
        open(0o755).unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let read = |mode| {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let read = Credentials::nobody().run(|| std::fs::read(&path));
            read.unwrap().ok()
        };
        assert_eq!(read(0o600), None);
        assert_eq!(read(0o640), None, "by root's group, which is gone too");
        assert_eq!(read(0o604).as_deref(), Some(&b"text"[..]));
        open(0o700).unwrap();
        assert_eq!(
            read(0o604),
            None,
            "no capability is left to search a folder"
        );
        assert_eq!(state(), before);
    }

    #[test]
    fn a_panic_gives_the_thread_its_own_back() {
        needs!(Root);
        let before = state();
        let run = || Credentials::nobody().run(|| assert_eq!(file_system_user(), 1, "on purpose"));
        std::panic::catch_unwind(run).unwrap_err();
        assert_eq!(state(), before);
    }

    #[test]
    fn other_threads_are_not_affected() {
        needs!(Root);
        let seen = Credentials::nobody().run(|| {
            let us = file_system_user();
            // The main thread is older, so it has not inherited these.
            (us, std::fs::read_to_string("/proc/self/status").unwrap())
        });
        let (us, of_main) = seen.unwrap();
        assert_eq!(us, 65534);
        let of_main = TaskStatus::parse(of_main.as_bytes());
        assert_eq!(of_main.users, Some([0, 0, 0, 0]));
    }

    #[test]
    fn a_program_of_root_that_another_user_started_reads_for_that_user() {
        let of = |text: &str| Credentials::of_process(&TaskStatus::parse(text.as_bytes()));
        let status = |user: &str| format!("Uid:\t{user}\nGid:\t7\t8\t9\t9\nGroups:\t3 2 3\n");
        let expected = |user| Some(Credentials::new(user, 9, vec![2, 3]));
        assert_eq!(of(&status("1000\t0\t0\t0")), expected(1000));
        assert_eq!(of(&status("0\t1000\t0\t1000")), expected(1000));
        assert_eq!(of(&status("0\t0\t0\t0")), expected(0));
        assert_eq!(of("Uid:\t1\t1\t1\t1\n"), None);
    }

    #[test]
    fn permission_bits_are_those_of_the_first_class_that_fits() {
        let who = Credentials::new(5, 6, vec![7]);
        for (owner, group, mode, expected) in [
            (5, 0, 0o400, true),
            (5, 6, 0o044, false),
            (4, 6, 0o040, true),
            (4, 7, 0o040, true),
            (4, 7, 0o404, false),
            (4, 8, 0o004, true),
            (4, 8, 0o660, false),
        ] {
            assert_eq!(
                who.may_read(owner, group, mode),
                expected,
                "{owner} {mode:o}"
            );
        }
    }
}
