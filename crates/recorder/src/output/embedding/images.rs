//! Programs and libraries that nobody will find by their path.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rprof_image::{FileIdentity, FileView, LastLink, LocatedFile, RegularFile, Segments};
use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_processes::{Image, ImageIdentity, ImageKind, Pid};
use rprof_records::{Mapped, MmapIdentity};

use super::notices::{Notice, Notices};
use crate::mapped_files::mapped_file;

/// Most images that are looked at.
const MOST_SEEN: usize = 16_384;

/// Most files held open.
const MOST_HELD: usize = 192;

/// Longest image that is embedded, in bytes.
const LONGEST: u64 = 64 << 20;

/// Most bytes of images that are embedded.
const MOST_BYTES: u64 = 128 << 20;

/// Images that were mapped, and the files behind them, held open.
#[derive(Debug, Default)]
pub(super) struct HeldImages {
    /// Hashes of paths with identities, under keys of our own: a path may have 4 KiB.
    seen: HashSet<u64>,
    keys: RandomState,
    held: Vec<HeldImage>,
}

/// An image of which the file is held open.
#[derive(Debug)]
struct HeldImage {
    image: Image,
    file: RegularFile,
    device: (u32, u32),
    inode: u64,
    /// True if its path led to it from here when that was last looked at.
    is_here: bool,
}

impl HeldImages {
    /// Opens the file behind a mapping, while it is there.
    pub(super) fn handle_mapped(&mut self, map: &Mapped<'_>) {
        let kind = ImageKind::of_user(&map.path);
        if !matches!(
            kind,
            ImageKind::File | ImageKind::Deleted | ImageKind::Memfd
        ) || self.seen.len() == MOST_SEEN
        {
            return;
        }
        let identity = map.identity.map_or(ImageIdentity::PathOnly, Into::into);
        let (device, inode) = inode(map.identity);
        if !self.seen.insert(self.keys.hash_one((&*map.path, identity))) {
            return;
        }
        let image = Image {
            path: (*map.path).into(),
            identity,
            kind,
        };
        let range = map.start..map.end();
        let Some(file) = open(&image, range, Pid(map.pid)) else {
            return;
        };
        let mut held = HeldImage {
            image,
            file,
            device,
            inode,
            is_here: true,
        };
        held.is_here = held.is_still_here();
        if self.held.len() == MOST_HELD {
            // Those that are where they should be may well stay there.
            let replaceable = self.held.iter().position(|other| other.is_here);
            match replaceable {
                Some(place) if !held.is_here => {
                    self.held.swap_remove(place);
                }
                _ => return,
            }
        }
        self.held.push(held);
    }

    /// Reads the images whose path no longer leads to the same inode or build-id, or never did.
    pub(super) fn files(&mut self, notices: &mut Notices) -> Vec<EmbeddedFile<'static>> {
        let (mut files, mut bytes) = (Vec::new(), 0);
        for held in &mut self.held {
            held.is_here = held.is_still_here();
            if held.is_here {
                continue;
            }
            let len = held.file.current_len().unwrap_or(0);
            let is_too_long = len > LONGEST || held.file.is_mostly_holes();
            if is_too_long || bytes + len > MOST_BYTES {
                notices.push(Notice::ImageTooLong {
                    path: path_of(&held.image.path),
                    bytes: len,
                });
                continue;
            }
            if let Some(file) = held.embed() {
                bytes += len;
                files.push(file);
            }
        }
        if let [first, ..] = &files[..] {
            notices.push(Notice::ImagesEmbedded {
                first: path_of(&first.path),
                count: files.len(),
                bytes,
            });
        }
        files
    }
}

impl HeldImage {
    /// Returns true if its path leads to it from here.
    fn is_still_here(&self) -> bool {
        if self.image.kind != ImageKind::File {
            return false;
        }
        let path = Path::new(OsStr::from_bytes(&self.image.path));
        let Ok(here) = LocatedFile::at(path, LastLink::Follow) else {
            return false;
        };
        let id = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        if id(here.metadata()) == id(self.file.metadata()) {
            return true;
        }
        // Another file with the same build-id is the same build.
        let ImageIdentity::BuildId(wanted) = self.image.identity else {
            return false;
        };
        let file = here.open();
        file.is_ok_and(|file| FileIdentity::BuildId(wanted).is(&file))
    }

    fn embed(&self) -> Option<EmbeddedFile<'static>> {
        let bytes = self.file.read_all(LONGEST).ok()?;
        Segments::parse(&bytes[..])?;
        let build_id = match self.image.identity {
            ImageIdentity::BuildId(id) => id.as_bytes().to_vec(),
            _ => Vec::new(),
        };
        Some(EmbeddedFile {
            kind: EmbeddedKind::IMAGE,
            pid: -1,
            since: 0,
            device: self.device,
            inode: self.inode,
            build_id: Cow::Owned(build_id),
            path: Cow::Owned(self.image.path.to_vec()),
            len: bytes.len() as u64,
            compressed: Cow::Owned(compress(&bytes).ok()?),
        })
    }
}

/// Returns the device and inode that a record names; 0 where it has none.
fn inode(identity: Option<MmapIdentity>) -> ((u32, u32), u64) {
    match identity {
        Some(MmapIdentity::BuildId(_)) | None => ((0, 0), 0),
        Some(MmapIdentity::Inode {
            major,
            minor,
            inode,
            ..
        }) => ((major, minor), inode),
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Opens the file that is mapped there, as its process may.
fn open(image: &Image, range: Range<u64>, pid: Pid) -> Option<RegularFile> {
    let view = FileView::of_process(u32::try_from(pid.0).ok()?).ok()?;
    mapped_file(image, range, pid).open_to_copy(&view).ok()
}
