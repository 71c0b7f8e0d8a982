//! [`FileView`]: the file system as one process sees it and may read it.

use crate::credentials::Credentials;
use crate::open_error::OpenError;
use crate::regular_file::{LastLink, LocatedFile, RegularFile};
use rprof_launch::procfs::{Procfs, TaskStatus};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Root directory for resolving paths, and rights for opening files below it.
///
/// Paths of an observed process are resolved below its own root, without magic links (`openat2`
/// with `RESOLVE_IN_ROOT`), and opened with its rights. So its mounts, links and renames give no
/// access to files that it could not read itself.
///
/// The view holds descriptors of the process and its root. With a reused pid, lookups find no file.
#[derive(Debug)]
pub struct FileView {
    root: OwnedFd,
    /// `/proc/PID`, or the folder of a live thread.
    process: Option<OwnedFd>,
    /// True if the files stay the same after the process ends.
    outlives_process: bool,
    rights: Rights,
}

#[derive(Debug)]
enum Rights {
    /// Rights of this program, including capabilities.
    Own,
    /// The rights of the process, which this program has or can assume.
    Process(Credentials),
    /// The rights common to the process and this program without capabilities. Used if this program
    /// cannot assume the former.
    Both(Credentials),
}

impl FileView {
    /// Opens the view of a live process.
    ///
    /// # Errors
    /// `ENOENT` or `ESRCH` if there is no such process; `EACCES` if this user may not see its root.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let proc = Procfs::default();
        let pid = proc.id_with_memory(pid);
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = rustix::fs::open(proc.folder(pid), folder, Mode::empty())?;
        let root = rustix::fs::openat(&process, "root", folder, Mode::empty())?;
        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        let status = rustix::fs::openat(&process, "status", read, Mode::empty())?;
        let mut text = Vec::new();
        File::from(status).read_to_end(&mut text)?;
        let credentials = Credentials::of_process(&TaskStatus::parse(&text));
        // Unknown credentials: only world-readable files.
        let credentials = credentials.unwrap_or_else(Credentials::nobody);
        Ok(Self {
            root,
            process: Some(process),
            outlives_process: proc.has_our_root(pid),
            rights: Rights::of(credentials),
        })
    }

    /// Opens this program's own view, with all of its rights.
    ///
    /// # Errors
    /// `/` cannot be opened.
    pub fn own() -> io::Result<Self> {
        Self::beneath(Path::new("/"))
    }

    /// Opens this program's own view with the rights of its user, without capabilities.
    ///
    /// # Errors
    /// `/` cannot be opened.
    pub fn of_user() -> io::Result<Self> {
        Self::with_rights(Path::new("/"), Rights::of(Credentials::own()))
    }

    /// Opens the view of the user behind `sudo`. `None` without `sudo`.
    pub fn of_sudo_user() -> Option<io::Result<Self>> {
        let user = Credentials::of_sudo_user()?;
        Some(Self::with_rights(Path::new("/"), Rights::of(user)))
    }

    /// Opens a view below a folder, with this program's rights.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn beneath(folder: &Path) -> io::Result<Self> {
        Self::with_rights(folder, Rights::Own)
    }

    /// Opens the view of an ended process that shared this program's root. Without credentials,
    /// root reads only world-readable files.
    ///
    /// # Errors
    /// `/` cannot be opened.
    pub fn of_ended_process(credentials: Option<Credentials>) -> io::Result<Self> {
        let reader = credentials.unwrap_or_else(|| match Credentials::own() {
            us if us.user() == 0 => Credentials::nobody(),
            // An unprivileged user has no more rights to lend.
            us => us,
        });
        Self::with_rights(Path::new("/"), Rights::of(reader))
    }

    fn with_rights(folder: &Path, rights: Rights) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            root: rustix::fs::open(folder, flags, Mode::empty())?,
            process: None,
            outlives_process: true,
            rights,
        })
    }

    /// Returns the credentials for opening files. `None` for all rights of this program.
    #[must_use]
    pub fn credentials(&self) -> Option<&Credentials> {
        match &self.rights {
            Rights::Own => None,
            Rights::Process(credentials) | Rights::Both(credentials) => Some(credentials),
        }
    }

    /// Returns true if file contents may be copied into a recording: the view has the rights of the
    /// process. A program with file capabilities (`setcap`) can inspect other users' processes,
    /// whose files may be private.
    #[must_use]
    pub fn may_copy(&self) -> bool {
        !matches!(self.rights, Rights::Both(_))
    }

    /// Resolves an absolute path. Follows symbolic links, except one at the end.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn locate(&self, path: &Path) -> Result<LocatedFile, OpenError> {
        if !self.outlives_process && !self.is_alive() {
            return Err(OpenError::NoSuchFile);
        }
        let place = self.rights.run(|| resolve(self.root.as_fd(), path))?;
        LocatedFile::new(place.map_err(io::Error::from)?)
    }

    /// Locates the file mapped at this address range (`/proc/PID/map_files`), even if renamed or
    /// deleted.
    ///
    /// # Errors
    /// [`OpenError`], also if there is no such mapping.
    pub fn locate_mapped(&self, range: &Range<u64>) -> Result<LocatedFile, OpenError> {
        self.locate_in_proc(&format!("map_files/{:x}-{:x}", range.start, range.end))
    }

    /// Locates the program that the process runs (`/proc/PID/exe`).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn locate_program(&self) -> Result<LocatedFile, OpenError> {
        self.locate_in_proc("exe")
    }

    /// Follows a link of `/proc/PID` to the file itself. This needs rights over the process and
    /// gives none over the file.
    fn locate_in_proc(&self, link: &str) -> Result<LocatedFile, OpenError> {
        let process = self.process.as_ref().ok_or(OpenError::NoSuchFile)?;
        let flags = LastLink::Follow.flags();
        let place = rustix::fs::openat(process, link, flags, Mode::empty());
        LocatedFile::new(place.map_err(io::Error::from)?)
    }

    /// Opens a located file with the rights of the view.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self, file: &LocatedFile) -> Result<RegularFile, OpenError> {
        if let Rights::Both(credentials) = &self.rights {
            let seen = file.metadata();
            if !credentials.may_read(seen.uid(), seen.gid(), seen.mode()) {
                return Err(OpenError::PermissionDenied);
            }
        }
        self.rights.run(|| file.open())?
    }

    /// Resolves a folder and runs `act` in it with the rights of the view. The descriptor is a base
    /// for `openat(2)`.
    ///
    /// # Errors
    /// `EACCES` if this program cannot assume the rights of the process. Errors of opening the
    /// folder. `act` did not run.
    pub fn in_folder<T>(
        &self,
        path: &Path,
        act: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> io::Result<T> {
        if !self.may_copy() {
            return Err(Errno::ACCESS.into());
        }
        let acted = self.rights.run(|| {
            let folder = resolve(self.root.as_fd(), path)?;
            Ok(act(folder.as_fd()))
        })?;
        acted.map_err(|errno: Errno| errno.into())
    }

    fn is_alive(&self) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat(process, "stat", flags, Mode::empty()).is_ok()
    }
}

impl Rights {
    fn of(credentials: Credentials) -> Self {
        if credentials.run(|| ()).is_ok() {
            return Self::Process(credentials);
        }
        let own = Credentials::own();
        // Groups of a user may differ between login sessions.
        match own.user() == credentials.user() {
            true => Self::Process(own),
            false => Self::Both(credentials),
        }
    }

    fn run<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Self::Own => Ok(act()),
            Self::Process(credentials) => credentials.run(act),
            Self::Both(_) => Credentials::own().run(act),
        }
    }
}

fn resolve(root: impl AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = LastLink::Refuse.flags();
    let inside = path.strip_prefix("/").unwrap_or(path);
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&root, inside, flags, Mode::empty(), within) {
        // Linux before 5.6, or a seccomp filter: by name, without following links.
        Err(Errno::NOSYS | Errno::PERM) => {
            let mut at = rustix::fs::openat(&root, ".", flags, Mode::empty())?;
            for part in inside.components() {
                let name = part.as_os_str();
                if name.as_bytes() == b".." {
                    return Err(Errno::NOENT);
                }
                at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
            }
            Ok(at)
        }
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_testing::needs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn read(view: &FileView, path: &str) -> Result<Vec<u8>, OpenError> {
        let file = view.open(&view.locate(Path::new(path))?)?;
        Ok(file.read_all(1 << 20)?)
    }

    #[test]
    fn paths_and_links_stay_within_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("tmp")).unwrap();
        std::fs::write(root.join("tmp/file"), "text").unwrap();
        symlink("/tmp", root.join("inside")).unwrap();
        symlink("/etc", root.join("outside")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("file", root.join("tmp/link")).unwrap();
        let view = FileView::beneath(root).unwrap();
        for (path, expected) in [
            ("/tmp/file", Ok(b"text".to_vec())),
            ("/inside/file", Ok(b"text".to_vec())),
            ("/tmp/../../../../tmp/file", Ok(b"text".to_vec())),
            ("/outside/passwd", Err(OpenError::NoSuchFile)),
            ("/magic/etc/passwd", Err(OpenError::NoSuchFile)),
            ("/tmp/link", Err(OpenError::SymbolicLink)),
            ("/tmp/none", Err(OpenError::NoSuchFile)),
            ("/tmp", Err(OpenError::NotARegularFile)),
        ] {
            assert_eq!(read(&view, path), expected, "{path}");
        }
    }

    #[test]
    fn this_process_sees_its_own_files() {
        let view = FileView::of_process(std::process::id()).unwrap();
        assert!(view.may_copy());
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = read(&view, file.path().to_str().unwrap()).unwrap();
        assert!(text.is_empty());
        let program = view.locate_program().unwrap();
        let exe = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(program.metadata().ino(), exe.ino());
        assert!(view.open(&program).is_ok());
        assert!(FileView::of_process(u32::MAX).is_err());
    }

    #[test]
    fn files_of_a_process_that_ended_are_not_looked_for_elsewhere() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let view = FileView::of_process(child.id()).unwrap();
        let private = FileView {
            outlives_process: false,
            ..FileView::of_process(child.id()).unwrap()
        };
        for view in [&view, &private] {
            assert!(view.locate(Path::new("/etc/passwd")).is_ok());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(view.locate(Path::new("/etc/passwd")).is_ok());
        let gone = private.locate(Path::new("/etc/passwd")).unwrap_err();
        assert_eq!(gone, OpenError::NoSuchFile);
        assert_eq!(view.locate_program().unwrap_err(), OpenError::NoSuchFile);
    }

    #[test]
    fn nothing_is_read_for_a_process_that_it_may_not_read() {
        needs!(Root, Tool("setpriv"));
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        mode(folder.path(), 0o755);
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("secret"), "text").unwrap();
        std::fs::write(path("open"), "text").unwrap();
        std::fs::create_dir(path("closed")).unwrap();
        std::fs::write(path("closed/file"), "text").unwrap();
        for (name, bits) in [("secret", 0o600), ("closed", 0o700), ("closed/file", 0o644)] {
            mode(&path(name), bits);
        }
        let mut child = std::process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .args(["sh", "-c", "echo; exec sleep 60"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        child.stdout.take().unwrap().read_exact(&mut line).unwrap();
        let view = FileView::of_process(child.id()).unwrap();
        assert_eq!(view.credentials().map(Credentials::user), Some(65534));
        let read = |name: &str| read(&view, path(name).to_str().unwrap());
        assert_eq!(read("open").as_deref(), Ok(&b"text"[..]));
        assert_eq!(read("secret"), Err(OpenError::PermissionDenied));
        assert_eq!(read("closed/file"), Err(OpenError::PermissionDenied));
        // The check also applies to a file that this program located.
        let found = LocatedFile::at(&path("secret"), LastLink::Follow).unwrap();
        assert_eq!(view.open(&found).unwrap_err(), OpenError::PermissionDenied);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
