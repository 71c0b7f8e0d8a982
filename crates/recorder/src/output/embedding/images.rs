//! [`KeptImages`]: copies of programs and libraries that reports cannot find by path.
//!
//! Holding files open would keep file systems busy and deleted files on disk. So a sampled image is
//! opened only for inspection, and copied at once if it may disappear.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rprof_image::{
    Credentials, FileIdentity, FileReader, FileView, LastLink, LastingPlaces, LocatedFile,
    OpenError, PatientCalls, RegularFile, build_id_of, vdso_of_process,
};
use rprof_launch::procfs::Procfs;
use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_processes::{Image, ImageIdentity, ImageKind, Pid};
use rprof_records::BuildId;

use super::naming_parts::keep_naming_parts;
use super::notices::{NotEmbedded, Notice, Notices};
use super::patience::TO_OPEN;
use super::selection::Embedding;
use crate::mapped_files::MappedImage;

const MAX_KNOWN: usize = 4096;

/// Maximum bytes of one copied image and of all; the second pair is for [`Embedding::All`].
const LIMITS: (u64, u64) = (64 << 20, 128 << 20);
const LIMITS_OF_ALL: (u64, u64) = (256 << 20, 512 << 20);

/// Maximum bytes of uncompressed copies; further copies are compressed at once.
const MAX_PLAIN: u64 = 64 << 20;

/// Maximum bytes of an image copied after its process ended. Longer reads keep the file busy for
/// milliseconds.
const LONGEST_OF_ENDED: u64 = 1 << 20;

/// Bytes always embedded whole, and additional bytes per sample. Further images are embedded
/// without code.
const WHOLE_IN_ANY_CASE: u64 = 1 << 20;
const WHOLE_FOR_A_SAMPLE: u64 = 16 << 10;

/// Rounds between two checks of the images' places.
const LOOK_AGAIN: u32 = 10;

#[derive(Debug)]
pub(super) struct KeptImages {
    embedding: Embedding,
    known: Vec<KnownImage>,
    names: HashSet<(Box<[u8]>, ImageIdentity)>,
    /// Process and user of the last opened image, because many follow in a row.
    last_user: Option<(Pid, u32)>,
    lasting: Arc<LastingPlaces>,
    rounds: u32,
    left_out: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identification {
    /// The file was read; it may have no build-id.
    Known(Option<BuildId>),
    /// The file could not be opened; another process may provide it.
    NotOpened,
}

#[derive(Debug)]
struct KnownImage {
    source: Arc<ImageSource>,
    /// User whose process mapped the file.
    user: u32,
    state: State,
}

#[derive(Debug)]
struct ImageSource {
    map: MappedImage,
    /// Device and inode of the file from `stat`; `None` if it was not opened.
    file: Option<(u64, u64)>,
    build_id: Option<BuildId>,
}

#[derive(Clone, Debug)]
enum State {
    Lasting,
    Copied(Arc<ImageCopy>),
    /// It is too long to copy, with its length in bytes.
    TooLong(u64),
    Gone,
}

#[derive(Debug)]
struct ImageCopy {
    len: u64,
    bytes: CopiedBytes,
}

#[derive(Debug)]
enum CopiedBytes {
    Plain(Vec<u8>),
    Compressed(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// Copy images even if their paths are expected to last.
    all: bool,
    most: u64,
    plain: u64,
}

impl KeptImages {
    pub(super) fn new(embedding: Embedding) -> KeptImages {
        KeptImages {
            embedding,
            known: Vec::new(),
            names: HashSet::new(),
            last_user: None,
            lasting: Arc::default(),
            rounds: 0,
            left_out: 0,
        }
    }

    /// Reads the build-id of a mapped file. With [`Embedding::All`] it also adds the image.
    pub(super) fn handle_mapped(
        &mut self,
        map: MappedImage,
        calls: &PatientCalls,
        notices: &mut Notices,
    ) -> Identification {
        if map.image.kind == ImageKind::Vdso32 && self.embedding != Embedding::Nothing {
            self.take_in(map, calls, notices);
            return Identification::Known(None);
        }
        if !is_file(&map.image) {
            return Identification::Known(None);
        }
        let user = self.user_of(map.pid);
        let map = Arc::new(map);
        let of = Arc::clone(&map);
        let identified = calls.call_within(user, TO_OPEN, move || identify(&of));
        if self.embedding == Embedding::All {
            self.take_in(MappedImage::clone(&map), calls, notices);
        }
        identified.unwrap_or(Identification::NotOpened)
    }

    pub(super) fn handle_sampled(
        &mut self,
        map: MappedImage,
        calls: &PatientCalls,
        notices: &mut Notices,
    ) {
        if self.embedding == Embedding::Unreachable {
            self.take_in(map, calls, notices);
        }
    }

    fn take_in(&mut self, map: MappedImage, calls: &PatientCalls, notices: &mut Notices) {
        let is_vdso = map.image.kind == ImageKind::Vdso32;
        if !is_file(&map.image) && !is_vdso {
            return;
        }
        // Deleted files and memfds have no lasting name, so each is separate.
        let is_named = map.image.kind == ImageKind::File || is_vdso;
        let name = (map.image.path.clone(), map.image.identity);
        if is_named && self.names.contains(&name) {
            return;
        }
        if self.known.len() == MAX_KNOWN {
            self.left_out += 1;
            return;
        }
        let user = self.user_of(map.pid);
        let (wanted, lasting) = (self.wanted(), Arc::clone(&self.lasting));
        let look = move || look_at(map, wanted, &lasting);
        let Some(found) = calls.call(user, look) else {
            return;
        };
        let found = match found {
            Ok(found) => found,
            Err(refused) => {
                notices.push(refused);
                return;
            }
        };
        // A missing image may be found through the next process that maps it.
        let is_gone = |known: &KnownImage| matches!(known.state, State::Gone);
        if is_named {
            let is_same = |known: &KnownImage| {
                let image = &known.source.map.image;
                is_gone(known) && (&image.path, image.identity) == (&name.0, name.1)
            };
            self.known.retain(|known| !is_same(known));
            // Another process may still have the vdso.
            let is_to_retry = is_vdso && found.is_none();
            if !found.as_ref().is_some_and(is_gone) && !is_to_retry {
                self.names.insert(name);
            }
        }
        if let Some(found) = found {
            self.add(found);
        }
    }

    fn user_of(&mut self, pid: Pid) -> u32 {
        let user = match self.last_user {
            Some((known, user)) if known == pid => user,
            _ => PatientCalls::user_of(pid.0.cast_unsigned()),
        };
        self.last_user = Some((pid, user));
        user
    }

    fn wanted(&self) -> Wanted {
        let all = self.embedding == Embedding::All;
        let (most, _) = self.limits();
        let plain = self.known.iter().filter_map(|known| match &known.state {
            State::Copied(copy) if matches!(copy.bytes, CopiedBytes::Plain(_)) => Some(copy.len),
            _ => None,
        });
        Wanted {
            all,
            most,
            plain: MAX_PLAIN.saturating_sub(plain.sum()),
        }
    }

    fn limits(&self) -> (u64, u64) {
        match self.embedding {
            Embedding::All => LIMITS_OF_ALL,
            _ => LIMITS,
        }
    }

    /// Adds an image. Beyond the limit of copies, drops the newest ones of the user with the most
    /// bytes, so that no user displaces smaller ones.
    fn add(&mut self, new: KnownImage) {
        self.known.push(new);
        let (_, most) = self.limits();
        loop {
            let mut by_user: BTreeMap<u32, u64> = BTreeMap::new();
            for known in &self.known {
                *by_user.entry(known.user).or_default() += known.copied();
            }
            if by_user.values().sum::<u64>() <= most {
                return;
            }
            let greedy = by_user.iter().max_by_key(|(_, bytes)| **bytes);
            let greedy = greedy.map(|(user, _)| *user);
            let is_theirs = |known: &&mut KnownImage| {
                Some(known.user) == greedy && matches!(known.state, State::Copied(_))
            };
            match self.known.iter_mut().rev().find(is_theirs) {
                Some(last) => last.state = State::TooLong(last.copied()),
                None => return,
            }
        }
    }

    /// Checks about every second whether images are in place. Copies missing ones while they are
    /// mapped.
    pub(super) fn round(&mut self, calls: &PatientCalls) {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(LOOK_AGAIN) {
            self.look_again(calls);
        }
    }

    fn look_again(&mut self, calls: &PatientCalls) {
        let is_lasting = |known: &KnownImage| matches!(known.state, State::Lasting);
        let users: BTreeSet<u32> = (self.known.iter().filter(|known| is_lasting(known)))
            .map(|known| known.user)
            .collect();
        for user in users {
            let of_user = |known: &KnownImage| known.user == user && is_lasting(known);
            let places: Vec<usize> = (self.known.iter().enumerate())
                .filter_map(|(place, known)| of_user(known).then_some(place))
                .collect();
            let sources: Vec<Arc<ImageSource>> = (places.iter())
                .map(|place| Arc::clone(&self.known[*place].source))
                .collect();
            let lasting = Arc::clone(&self.lasting);
            // Images that disappear together, as in a package update, share the remaining space.
            let mut wanted = self.wanted();
            let (_, most) = self.limits();
            let mut room = most.saturating_sub(self.known.iter().map(KnownImage::copied).sum());
            let look = move || -> Vec<Option<State>> {
                let gone = sources.iter().map(|source| {
                    if source.is_still_here() {
                        return None;
                    }
                    wanted.most = wanted.most.min(room);
                    let state = look_at_gone(source, wanted, &lasting);
                    if let State::Copied(copy) = &state {
                        room -= copy.len.min(room);
                        if matches!(copy.bytes, CopiedBytes::Plain(_)) {
                            wanted.plain -= copy.len.min(wanted.plain);
                        }
                    }
                    Some(state)
                });
                gone.collect()
            };
            let Some(states) = calls.call(user, look) else {
                continue;
            };
            for (place, state) in places.into_iter().zip(states) {
                if let Some(state) = state {
                    self.known[place].state = state;
                }
            }
        }
    }

    /// Passes on the images that their paths no longer name; with [`Embedding::All`] all images.
    /// `samples` is the number of samples in the file.
    pub(super) fn files(
        &mut self,
        samples: u64,
        calls: &PatientCalls,
        notices: &mut Notices,
        hand: &mut impl FnMut(EmbeddedFile<'static>),
    ) {
        self.look_again(calls);
        let all = self.embedding == Embedding::All;
        let (longest, most) = self.limits();
        let allowed = WHOLE_IN_ANY_CASE.saturating_add(samples.saturating_mul(WHOLE_FOR_A_SAMPLE));
        let (mut whole_left, mut left) = (if all { u64::MAX } else { allowed }, most);
        let mut told = Told::default();
        for known in &self.known {
            let source = Arc::clone(&known.source);
            let path = || path_of(&source.map.image.path);
            let (longest, whole) = (longest.min(left), whole_left);
            let state = known.state.clone();
            let of = Arc::clone(&source);
            let embed = move || of.embed(&state, all, longest, whole);
            match calls.call(known.user, embed) {
                Some(Embedded::File(file, kept)) => {
                    // Two pages, which all recordings of 32-bit programs have.
                    if source.map.image.kind != ImageKind::Vdso32 {
                        told.embedded(path, kept, kept < file.len);
                    }
                    left = left.saturating_sub(file.len);
                    whole_left = whole_left.saturating_sub(kept);
                    hand(file);
                }
                Some(Embedded::TooLong(len)) => told.too_long(path, len),
                Some(Embedded::Gone) => told.gone(path),
                Some(Embedded::NotNeeded) | None => {}
            }
        }
        told.put(notices);
        if self.left_out > 0 {
            notices.push(Notice::TooManyImages {
                known: MAX_KNOWN,
                left_out: self.left_out,
            });
            self.left_out = 0;
        }
    }
}

#[derive(Debug, Default)]
struct Told {
    /// First path, number, bytes, and number of images without code.
    embedded: Option<(PathBuf, usize, u64, usize)>,
    too_long: Option<(PathBuf, u64, usize)>,
    gone: Option<(PathBuf, usize)>,
}

impl Told {
    fn embedded(&mut self, path: impl Fn() -> PathBuf, bytes: u64, is_part: bool) {
        let (_, count, sum, parts) = self.embedded.get_or_insert_with(|| (path(), 0, 0, 0));
        *count += 1;
        *sum += bytes;
        *parts += usize::from(is_part);
    }

    fn too_long(&mut self, path: impl Fn() -> PathBuf, len: u64) {
        let (.., count) = self.too_long.get_or_insert_with(|| (path(), len, 0));
        *count += 1;
    }

    fn gone(&mut self, path: impl Fn() -> PathBuf) {
        let (_, count) = self.gone.get_or_insert_with(|| (path(), 0));
        *count += 1;
    }

    fn put(self, notices: &mut Notices) {
        if let Some((first, count, bytes, without_code)) = self.embedded {
            notices.push(Notice::ImagesEmbedded {
                first,
                count,
                bytes,
                without_code,
            });
        }
        if let Some((path, bytes, count)) = self.too_long {
            notices.push(Notice::ImageTooLong {
                path,
                bytes,
                others: count - 1,
            });
        }
        if let Some((path, count)) = self.gone {
            notices.push(Notice::ImageGone {
                path,
                others: count - 1,
            });
        }
    }
}

impl KnownImage {
    fn copied(&self) -> u64 {
        match &self.state {
            State::Copied(copy) => copy.len,
            _ => 0,
        }
    }
}

impl ImageCopy {
    fn new(bytes: Vec<u8>, compressed: bool) -> Option<ImageCopy> {
        Some(ImageCopy {
            len: bytes.len() as u64,
            bytes: match compressed {
                true => CopiedBytes::Compressed(compress(&bytes).ok()?),
                false => CopiedBytes::Plain(bytes),
            },
        })
    }
}

#[derive(Debug)]
enum Embedded {
    /// Its path still names it, or compression failed.
    NotNeeded,
    /// It is too long or nearly all holes; contains its length.
    TooLong(u64),
    Gone,
    File(EmbeddedFile<'static>, u64),
}

impl ImageSource {
    /// Returns true if its path still names it, as seen by this process.
    fn is_still_here(&self) -> bool {
        let Some(here) = located(&self.map.image) else {
            return false;
        };
        let metadata = here.metadata();
        if Some((metadata.dev(), metadata.ino())) == self.file {
            return true;
        }
        match (self.build_id, self.map.image.identity) {
            // The same build-id means the same build. A file that cannot be opened counts as
            // unchanged.
            (Some(build_id), _) => match here.open() {
                Ok(file) => FileIdentity::BuildId(build_id).is(&file),
                Err(_) => self.file.is_none(),
            },
            (None, ImageIdentity::Inode { inode, .. }) => {
                self.file.is_none() && metadata.ino() == inode
            }
            (None, _) => self.file.is_none(),
        }
    }

    /// Builds the embedded file: whole if it has at most `whole` bytes, else only the parts needed
    /// for names.
    fn embed(&self, state: &State, all: bool, longest: u64, whole: u64) -> Embedded {
        let is_here = self.is_still_here();
        if is_here && !all {
            return Embedded::NotNeeded;
        }
        let copy = match state {
            State::Copied(copy) => Arc::clone(copy),
            State::TooLong(_) if is_here => return Embedded::NotNeeded,
            State::TooLong(len) => return Embedded::TooLong(*len),
            State::Lasting | State::Gone if is_here => return Embedded::NotNeeded,
            State::Lasting | State::Gone => return Embedded::Gone,
        };
        if copy.len > longest {
            return Embedded::TooLong(copy.len);
        }
        let file = |compressed: Vec<u8>| {
            let build_id = (self.build_id).map_or(Vec::new(), |id| id.as_bytes().to_vec());
            let (device, inode) = self.map.device_and_inode();
            EmbeddedFile {
                kind: EmbeddedKind::IMAGE,
                pid: -1,
                since: 0,
                device,
                inode,
                build_id: Cow::Owned(build_id),
                path: Cow::Owned(self.map.image.path.to_vec()),
                len: copy.len,
                compressed: Cow::Owned(compressed),
            }
        };
        match (&copy.bytes, copy.len <= whole) {
            (CopiedBytes::Compressed(bytes), true) => Embedded::File(file(bytes.clone()), copy.len),
            (CopiedBytes::Plain(bytes), true) => match compress(bytes) {
                Ok(bytes) => Embedded::File(file(bytes), copy.len),
                Err(_) => Embedded::NotNeeded,
            },
            (bytes, false) => {
                let bytes = match bytes {
                    CopiedBytes::Plain(bytes) => Some(bytes.clone()),
                    CopiedBytes::Compressed(bytes) => file(bytes.clone()).contents(),
                };
                let part = bytes.and_then(|mut bytes| {
                    let kept = keep_naming_parts(&mut bytes);
                    Some((compress(&bytes).ok()?, kept))
                });
                match part {
                    Some((bytes, kept)) => Embedded::File(file(bytes), kept),
                    None => Embedded::NotNeeded,
                }
            }
        }
    }
}

/// Inspects an image, and copies it unless its path is expected to last. Returns `None` for other
/// files than ELF.
///
/// # Errors
/// The notice that its process may not read it.
fn look_at(
    map: MappedImage,
    wanted: Wanted,
    lasting: &LastingPlaces,
) -> Result<Option<KnownImage>, Notice> {
    let pid = u32::try_from(map.pid.0).unwrap_or(0);
    let live = FileView::of_process(pid).ok();
    let is_live = live.is_some();
    // Its permissions and root directory are unknown now, so the file's identity must match.
    let view = live.or_else(|| FileView::of_ended_process(None).ok());
    let user = (view.as_ref().and_then(FileView::credentials)).map_or(0, Credentials::user);
    if map.image.kind == ImageKind::Vdso32 {
        return Ok(look_at_vdso(map, user));
    }
    let opened = match &view {
        Some(view) => map.file().open_to_copy(view),
        None => Err(OpenError::NoSuchFile),
    };
    let unopened = |map: MappedImage, state| {
        let build_id = match map.image.identity {
            ImageIdentity::BuildId(id) => Some(id),
            _ => None,
        };
        let source = Arc::new(ImageSource {
            map,
            file: None,
            build_id,
        });
        Ok(Some(KnownImage {
            source,
            user,
            state,
        }))
    };
    let file = match opened {
        Ok(file) => file,
        Err(OpenError::PermissionDenied) if is_live && located(&map.image).is_none() => {
            let path = path_of(&map.image.path);
            let reason = NotEmbedded::NotReadable;
            return Err(Notice::NotEmbedded { path, reason });
        }
        Err(OpenError::NoSuchFile) if located(&map.image).is_none() => {
            return unopened(map, State::Gone);
        }
        Err(_) => return unopened(map, State::Lasting),
    };
    if !is_elf(&file) {
        return Ok(None);
    }
    let build_id = match map.image.identity {
        ImageIdentity::BuildId(id) => Some(id),
        _ => build_id_of(&FileReader::new(&file)),
    };
    let source = ImageSource {
        file: Some((file.metadata().dev(), file.metadata().ino())),
        build_id,
        map,
    };
    let path = path_of(&source.map.image.path);
    let is_lasting = || source.is_still_here() && lasting.has(&path, file.metadata());
    let state = match !wanted.all && is_lasting() {
        true => State::Lasting,
        false => copy(&file, is_live.then_some(pid), wanted),
    };
    Ok(Some(KnownImage {
        source: Arc::new(source),
        user,
        state,
    }))
}

/// Copies the vdso of 32-bit programs. Programs for 64 bits do not have it, so reports need the copy.
fn look_at_vdso(map: MappedImage, user: u32) -> Option<KnownImage> {
    let pid = map.pid.0.cast_unsigned();
    let copy = ImageCopy::new(vdso_of_process(pid, map.range.clone())?, false)?;
    let source = ImageSource {
        map,
        file: None,
        build_id: None,
    };
    Some(KnownImage {
        source: Arc::new(source),
        user,
        state: State::Copied(Arc::new(copy)),
    })
}

/// Inspects an image that its path no longer names, but that may still be mapped.
fn look_at_gone(source: &ImageSource, wanted: Wanted, lasting: &LastingPlaces) -> State {
    let pid = u32::try_from(source.map.pid.0).unwrap_or(0);
    if FileView::of_process(pid).is_err() {
        return State::Gone;
    }
    match look_at(source.map.clone(), wanted, lasting) {
        Ok(Some(KnownImage { state, .. })) => match state {
            State::Lasting => State::Gone,
            state => state,
        },
        Ok(None) | Err(_) => State::Gone,
    }
}

/// Copies a file if it is short enough, for as long as its process lives.
fn copy(file: &RegularFile, pid: Option<u32>, wanted: Wanted) -> State {
    let len = file.current_len().unwrap_or(0);
    if len > wanted.most || file.is_mostly_holes() {
        return State::TooLong(len);
    }
    let proc = Procfs::default();
    let is_in_use = || match pid {
        Some(pid) => proc.stat(pid).is_some_and(|stat| !stat.has_ended),
        None => len <= LONGEST_OF_ENDED,
    };
    let bytes = file.read_all_while(wanted.most, is_in_use).ok();
    let copy = bytes.and_then(|bytes| ImageCopy::new(bytes, len > wanted.plain));
    copy.map_or(State::Gone, |copy| State::Copied(Arc::new(copy)))
}

fn identify(map: &MappedImage) -> Identification {
    match map.file().open_to_identify() {
        Ok(file) => Identification::Known(build_id_of(&FileReader::new(&file))),
        Err(_) => Identification::NotOpened,
    }
}

fn is_file(image: &Image) -> bool {
    matches!(
        image.kind,
        ImageKind::File | ImageKind::Deleted | ImageKind::Memfd
    )
}

/// Returns the file now at an image's path, as seen by this process.
fn located(image: &Image) -> Option<LocatedFile> {
    let path = Path::new(OsStr::from_bytes(&image.path));
    let is_path = image.kind == ImageKind::File && path.is_absolute();
    is_path.then(|| LocatedFile::at(path, LastLink::Follow).ok())?
}

/// Returns false for shared memory and executable data mappings.
fn is_elf(file: &RegularFile) -> bool {
    let mut magic = [0; 4];
    matches!(file.read_at(&mut magic, 0), Ok(4)) && magic == *b"\x7fELF"
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests;
