//! Programs and libraries that nobody will find by their path.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rprof_image::{
    Credentials, FileIdentity, FileReader, FileView, LastLink, LocatedFile, OpenError,
    PatientCalls, RegularFile, Segments, build_id_of,
};
use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_processes::{Image, ImageIdentity, ImageKind, Pid};
use rprof_records::BuildId;

use super::mapped_event::MappedEvent;
use super::notices::{NotEmbedded, Notice, Notices};
use super::patience::TO_OPEN;
use super::selection::Embedding;
use crate::mapped_files::mapped_file;

/// Most files held open.
const MOST_HELD: usize = 192;

/// Longest image that is embedded, in bytes, and most bytes of all; those of images that will not be found,
/// and of all that were asked for.
const LIMITS: (u64, u64) = (64 << 20, 128 << 20);
const LIMITS_OF_ALL: (u64, u64) = (256 << 20, 512 << 20);

/// Images that were mapped, and the files behind them, held open.
#[derive(Debug)]
pub(super) struct HeldImages {
    embedding: Embedding,
    held: Vec<HeldImage>,
    /// Process of which an image was opened last, and its user: many follow each other.
    last_user: Option<(Pid, u32)>,
    /// Images for which there was no room.
    left_out: usize,
}

/// Outcome of reading a file's build-id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identification {
    /// The file was read; it may have none.
    Known(Option<BuildId>),
    /// The file could not be opened, which may be otherwise in the next process that maps it.
    NotOpened,
}

/// An image of which the file is open.
#[derive(Debug)]
struct OpenedImage {
    image: Image,
    file: RegularFile,
    device: (u32, u32),
    inode: u64,
    /// Build-id of the record, or as it was read.
    build_id: Option<BuildId>,
}

/// An image of which the file is held open.
#[derive(Debug)]
struct HeldImage {
    /// Shared with a thread that reads it.
    opened: Arc<OpenedImage>,
    /// User for whom the file was opened.
    user: u32,
    /// True if its path led to it from here when that was last looked at.
    is_here: bool,
}

impl HeldImages {
    pub(super) fn new(embedding: Embedding) -> HeldImages {
        HeldImages {
            embedding,
            held: Vec::new(),
            last_user: None,
            left_out: 0,
        }
    }

    /// Opens the file behind a mapping, while it is there, and reads its build-id.
    pub(super) fn handle_mapped(
        &mut self,
        map: MappedEvent,
        calls: &PatientCalls,
        notices: &mut Notices,
    ) -> Identification {
        let is_file = matches!(
            map.image.kind,
            ImageKind::File | ImageKind::Deleted | ImageKind::Memfd
        );
        if !is_file {
            return Identification::Known(None);
        }
        if let Some(held) = self.held_of(&map) {
            return Identification::Known(held.opened.build_id);
        }
        let user = match self.last_user {
            Some((pid, user)) if pid == map.pid => user,
            _ => PatientCalls::user_of(map.pid.0.cast_unsigned()),
        };
        self.last_user = Some((map.pid, user));
        let is_to_hold = self.embedding != Embedding::Nothing;
        let open = move || {
            let held = match is_to_hold {
                true => HeldImage::open(&map),
                false => Ok(None),
            };
            let identification = match &held {
                Ok(Some(held)) => Identification::Known(held.opened.build_id),
                Ok(None) | Err(_) => identify(&map),
            };
            (held, identification)
        };
        let Some((held, identification)) = calls.call_within(user, TO_OPEN, open) else {
            return Identification::NotOpened;
        };
        match held {
            Ok(Some(held)) => self.hold(held),
            Err(refused) => notices.push(refused),
            Ok(None) => {}
        }
        identification
    }

    /// Returns the image, if it is held already: of a process that maps a file again.
    fn held_of(&self, map: &MappedEvent) -> Option<&HeldImage> {
        let is_same = |held: &&HeldImage| {
            let (one, other) = (&held.opened.image, &map.image);
            (&one.path, one.identity) == (&other.path, other.identity)
        };
        // Memory without a name that lasts: each is another.
        (map.image.kind == ImageKind::File)
            .then(|| self.held.iter().find(is_same))
            .flatten()
    }

    /// Holds an image, in place of another if there are too many: one that is where it should be, and may well stay
    /// there, of the user who has most of them. Who has most gets no more at the cost of others.
    fn hold(&mut self, new: HeldImage) {
        if self.held.len() < MOST_HELD {
            self.held.push(new);
            return;
        }
        self.left_out += 1;
        let mut by_user: HashMap<u32, usize> = HashMap::new();
        for held in &self.held {
            *by_user.entry(held.user).or_default() += 1;
        }
        let count = |user: u32| by_user.get(&user).copied().unwrap_or(0);
        let replaceable = (self.held.iter().enumerate())
            .filter(|(_, held)| match held.user == new.user {
                true => held.is_here && !new.is_here,
                false => {
                    let has_more = count(held.user) > count(new.user) + 1;
                    (held.is_here && !new.is_here) || (has_more && held.is_here >= new.is_here)
                }
            })
            .max_by_key(|(_, held)| (held.is_here, count(held.user)));
        if let Some((place, _)) = replaceable {
            self.held[place] = new;
        }
    }

    /// Looks at whether the paths of images lead to them: all of a user at once, since nearly all do. Returns the users of
    /// whom not all answered.
    fn look(&mut self, calls: &PatientCalls) -> BTreeSet<u32> {
        let users: BTreeSet<u32> = self.held.iter().map(|held| held.user).collect();
        let mut silent = BTreeSet::new();
        for user in users {
            let of_user = self.held.iter().filter(|held| held.user == user);
            let all: Vec<Arc<OpenedImage>> = of_user.map(|held| Arc::clone(&held.opened)).collect();
            let look = move || -> Vec<bool> { all.iter().map(|one| one.is_still_here()).collect() };
            let Some(here) = calls.call_within(user, TO_OPEN, look) else {
                silent.insert(user);
                continue;
            };
            let of_user = self.held.iter_mut().filter(|held| held.user == user);
            for (held, is_here) in of_user.zip(here) {
                held.is_here = is_here;
            }
        }
        silent
    }

    /// Reads the images whose path no longer leads to the same inode or build-id, or never did, and hands
    /// them on.
    pub(super) fn files(
        &mut self,
        calls: &PatientCalls,
        notices: &mut Notices,
        hand: &mut impl FnMut(EmbeddedFile<'static>),
    ) {
        let (longest, most_bytes) = match self.embedding {
            Embedding::All => LIMITS_OF_ALL,
            _ => LIMITS,
        };
        let mut bytes = 0;
        let mut first = None;
        let mut count = 0;
        let mut first_refused = None;
        let mut refused = 0;
        let all = self.embedding == Embedding::All;
        let silent = self.look(calls);
        for held in &mut self.held {
            if held.is_here && !all && !silent.contains(&held.user) {
                continue;
            }
            let most = longest.min(most_bytes - bytes);
            let opened = Arc::clone(&held.opened);
            let Some((is_here, contents)) = calls.call(held.user, move || opened.read(all, most))
            else {
                continue;
            };
            held.is_here = is_here;
            let path = || path_of(&held.opened.image.path);
            match contents {
                Contents::TooLong(len) => {
                    refused += 1;
                    first_refused.get_or_insert_with(|| (path(), len));
                }
                Contents::Bytes(read) => {
                    if let Some(file) = held.opened.embed(&read) {
                        bytes += file.len;
                        count += 1;
                        first.get_or_insert_with(path);
                        hand(file);
                    }
                }
                Contents::NotNeeded => {}
            }
        }
        if let Some(first) = first {
            notices.push(Notice::ImagesEmbedded {
                first,
                count,
                bytes,
            });
        }
        if let Some((path, bytes)) = first_refused {
            notices.push(Notice::ImageTooLong {
                path,
                bytes,
                others: refused - 1,
            });
        }
        if self.left_out > 0 {
            notices.push(Notice::TooManyImages {
                held: MOST_HELD,
                left_out: self.left_out,
            });
            self.left_out = 0;
        }
    }
}

/// Contents of a held file in the end.
#[derive(Debug)]
enum Contents {
    /// It will be found by its path, or cannot be read.
    NotNeeded,
    /// So many bytes are too many, or nearly all of them are holes.
    TooLong(u64),
    Bytes(Vec<u8>),
}

impl HeldImage {
    /// Opens the file behind a mapping. `None` if there is none, or it is no ELF file.
    ///
    /// # Errors
    /// The notice that its process may not read it.
    fn open(map: &MappedEvent) -> Result<Option<HeldImage>, Notice> {
        let image = &map.image;
        let pid = u32::try_from(map.pid.0).ok();
        let Some(view) = pid.and_then(|pid| FileView::of_process(pid).ok()) else {
            return Ok(None);
        };
        let mapped = mapped_file(image, map.range.clone(), map.pid);
        let file = match mapped.open_to_copy(&view) {
            Ok(file) => file,
            Err(OpenError::PermissionDenied) if located(image).is_none() => {
                let path = path_of(&image.path);
                let reason = NotEmbedded::NotReadable;
                return Err(Notice::NotEmbedded { path, reason });
            }
            Err(_) => return Ok(None),
        };
        if !is_elf(&file) {
            return Ok(None);
        }
        let user = view.credentials().map_or(0, Credentials::user);
        let build_id = match map.image.identity {
            ImageIdentity::BuildId(id) => Some(id),
            _ => build_id_of(&FileReader::new(&file)),
        };
        let opened = OpenedImage {
            file,
            device: map.device,
            inode: map.inode,
            image: map.image.clone(),
            build_id,
        };
        Ok(Some(HeldImage {
            is_here: opened.is_still_here(),
            opened: Arc::new(opened),
            user,
        }))
    }
}

impl OpenedImage {
    /// Reads the file, if its path does not lead to it or `all` are wanted. Returns whether its path does.
    fn read(&self, all: bool, most: u64) -> (bool, Contents) {
        let is_here = self.is_still_here();
        if is_here && !all {
            return (is_here, Contents::NotNeeded);
        }
        let len = self.file.current_len().unwrap_or(0);
        if len > most || self.file.is_mostly_holes() {
            return (is_here, Contents::TooLong(len));
        }
        let bytes = self.file.read_all(most);
        (is_here, bytes.map_or(Contents::NotNeeded, Contents::Bytes))
    }

    /// Returns true if its path leads to it from here.
    fn is_still_here(&self) -> bool {
        let Some(here) = located(&self.image) else {
            return false;
        };
        let id = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        if id(here.metadata()) == id(self.file.metadata()) {
            return true;
        }
        // Another file with the same build-id is the same build.
        let Some(wanted) = self.build_id else {
            return false;
        };
        let file = here.open();
        file.is_ok_and(|file| FileIdentity::BuildId(wanted).is(&file))
    }

    /// Compresses the bytes of the file, if it still is an ELF file.
    fn embed(&self, bytes: &[u8]) -> Option<EmbeddedFile<'static>> {
        Segments::parse(bytes)?;
        let build_id = self
            .build_id
            .map_or(Vec::new(), |id| id.as_bytes().to_vec());
        Some(EmbeddedFile {
            kind: EmbeddedKind::IMAGE,
            pid: -1,
            since: 0,
            device: self.device,
            inode: self.inode,
            build_id: Cow::Owned(build_id),
            path: Cow::Owned(self.image.path.to_vec()),
            len: bytes.len() as u64,
            compressed: Cow::Owned(compress(bytes).ok()?),
        })
    }
}

/// Reads the build-id of a mapping's file, which is not to be copied.
fn identify(map: &MappedEvent) -> Identification {
    match mapped_file(&map.image, map.range.clone(), map.pid).open_to_identify() {
        Ok(file) => Identification::Known(build_id_of(&FileReader::new(&file))),
        Err(_) => Identification::NotOpened,
    }
}

/// Returns the file at an image's path from here, whichever it is.
fn located(image: &Image) -> Option<LocatedFile> {
    let path = Path::new(OsStr::from_bytes(&image.path));
    let is_path = image.kind == ImageKind::File && path.is_absolute();
    is_path.then(|| LocatedFile::at(path, LastLink::Follow).ok())?
}

/// Memory that a process shares, and data that it maps executably, are none.
fn is_elf(file: &RegularFile) -> bool {
    let mut magic = [0; 4];
    matches!(file.read_at(&mut magic, 0), Ok(4)) && magic == *b"\x7fELF"
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::patience::PATIENCE;
    use super::*;

    fn held(user: u32, path: &str, is_here: bool) -> HeldImage {
        let opened = OpenedImage {
            image: Image {
                path: path.as_bytes().into(),
                identity: ImageIdentity::PathOnly,
                kind: ImageKind::File,
            },
            file: RegularFile::open(Path::new("/proc/self/exe")).unwrap(),
            device: (0, 0),
            inode: 0,
            build_id: None,
        };
        HeldImage {
            opened: Arc::new(opened),
            user,
            is_here,
        }
    }

    fn count(images: &HeldImages, user: u32, is_here: bool) -> usize {
        let of_kind = |held: &&HeldImage| (held.user, held.is_here) == (user, is_here);
        images.held.iter().filter(of_kind).count()
    }

    #[test]
    fn who_floods_leaves_room_for_others() {
        let mut images = HeldImages::new(Embedding::Unreachable);
        for n in 0..1000 {
            images.hold(held(65534, &format!("/f{n}"), false));
        }
        assert_eq!(count(&images, 65534, false), MOST_HELD);
        for n in 0..50 {
            images.hold(held(0, &format!("/g{n}"), false));
        }
        assert_eq!(count(&images, 0, false), 50);
        assert_eq!(images.held.len(), MOST_HELD);
        for n in 0..1000 {
            images.hold(held(65534, &format!("/h{n}"), false));
        }
        assert_eq!(count(&images, 0, false), 50);
        // Not more than half of it, though.
        for n in 0..1000 {
            images.hold(held(0, &format!("/i{n}"), false));
        }
        assert_eq!(count(&images, 0, false), MOST_HELD / 2);
        let mut notices = Notices::default();
        let calls = PatientCalls::new("t", PATIENCE);
        images.files(&calls, &mut notices, &mut |_| {});
        let is_told = |notice: &Notice| matches!(notice, Notice::TooManyImages { .. });
        assert!(notices.into_vec().iter().any(is_told));
    }

    #[test]
    fn what_will_be_found_gives_way_to_what_will_not() {
        let mut images = HeldImages::new(Embedding::Unreachable);
        for n in 0..MOST_HELD {
            images.hold(held(1, &format!("/f{n}"), true));
        }
        for n in 0..10 {
            images.hold(held(1, &format!("/gone{n}"), false));
            images.hold(held(1, &format!("/here{n}"), true));
        }
        assert_eq!(count(&images, 1, false), 10);
        assert_eq!(count(&images, 1, true), MOST_HELD - 10);
    }
}
