//! Inspects one image, and copies it if its path may soon name another file.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rprof_image::{
    Credentials, FileIdentity, FileReader, FileView, LastLink, LastingPlaces, LocatedFile,
    OpenError, RegularFile, build_id_of, vdso_of_process,
};
use rprof_launch::procfs::Procfs;
use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_processes::{Image, ImageIdentity, ImageKind};
use rprof_records::BuildId;

use super::super::naming_parts::keep_naming_parts;
use super::super::notices::{NotEmbedded, Notice};
use crate::mapped_files::MappedImage;

/// Maximum bytes of an image copied after its process ended. Longer reads keep the file busy for
/// milliseconds.
const LONGEST_OF_ENDED: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct KnownImage {
    pub(super) source: Arc<ImageSource>,
    /// User whose process mapped the file.
    pub(super) user: u32,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) struct ImageSource {
    pub(super) map: MappedImage,
    /// Device and inode of the file from `stat`; `None` if it was not opened.
    pub(super) file: Option<(u64, u64)>,
    pub(super) build_id: Option<BuildId>,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Lasting,
    Copied(Arc<ImageCopy>),
    /// It is too long to copy, with its length in bytes.
    TooLong(u64),
    Gone,
}

#[derive(Debug)]
pub(super) struct ImageCopy {
    pub(super) len: u64,
    pub(super) bytes: CopiedBytes,
}

#[derive(Debug)]
pub(super) enum CopiedBytes {
    Plain(Vec<u8>),
    Compressed(Vec<u8>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Copy images even if their paths are expected to last.
    pub(super) all: bool,
    pub(super) most: u64,
    pub(super) plain: u64,
}

impl KnownImage {
    pub(super) fn copied(&self) -> u64 {
        match &self.state {
            State::Copied(copy) => copy.len,
            _ => 0,
        }
    }
}

impl ImageCopy {
    pub(super) fn new(bytes: Vec<u8>, compressed: bool) -> Option<ImageCopy> {
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
pub(super) enum Embedded {
    /// The image's path still names it, or compression failed.
    NotNeeded,
    /// The image is too long or nearly all holes; contains its length.
    TooLong(u64),
    Gone,
    File(EmbeddedFile<'static>, u64),
}

impl ImageSource {
    /// Returns true if its path still names it, as seen by this process.
    pub(super) fn is_still_here(&self) -> bool {
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
    pub(super) fn embed(&self, state: &State, all: bool, longest: u64, whole: u64) -> Embedded {
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
pub(super) fn look_at(
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
pub(super) fn look_at_vdso(map: MappedImage, user: u32) -> Option<KnownImage> {
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
pub(super) fn look_at_gone(source: &ImageSource, wanted: Wanted, lasting: &LastingPlaces) -> State {
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
pub(super) fn copy(file: &RegularFile, pid: Option<u32>, wanted: Wanted) -> State {
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

/// Returns the file now at an image's path, as seen by this process.
pub(super) fn located(image: &Image) -> Option<LocatedFile> {
    let path = Path::new(OsStr::from_bytes(&image.path));
    let is_path = image.kind == ImageKind::File && path.is_absolute();
    is_path.then(|| LocatedFile::at(path, LastLink::Follow).ok())?
}

/// Returns false for shared memory and executable data mappings.
pub(super) fn is_elf(file: &RegularFile) -> bool {
    let mut magic = [0; 4];
    matches!(file.read_at(&mut magic, 0), Ok(4)) && magic == *b"\x7fELF"
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
