//! The unwind tables of what is mapped: each image opened once, while it is there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crossbeam_channel::Sender;
use rprof_jit::JitUnwindTables;
use rprof_processes::{Image, ImageIdentity, ImageKind, LiveMapping, Pid};
use rprof_symbols::ImageFile;
use rprof_unwind::UnwindTable;

/// Bytes of a mapping from which on the image is opened as soon as it is mapped. A table takes time
/// for each function (38 ms for rustc's compiler), in which samples would wait, and memory would change.
const LARGE: u64 = 8 << 20;

/// Most images that wait to be opened.
const MOST_AHEAD: usize = 64;

/// Tables by image. One that cannot be had is not asked for again, so that a
/// file that is gone costs one attempt.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    /// Those of code that is no part of an image.
    pub(super) jit: JitUnwindTables,
    /// To the thread that opens large images ahead, once there is one.
    ahead: Option<Sender<Ahead>>,
}

type Table = Arc<OnceLock<Option<Box<UnwindTable>>>>;

/// An image to be opened.
struct Ahead {
    table: Table,
    image: Image,
    mapping: LiveMapping,
    pid: Pid,
}

impl Tables {
    /// Makes room for so many images.
    pub(crate) fn extend_to(&mut self, images: usize) {
        if self.tables.len() < images {
            self.tables.resize_with(images, Table::default);
        }
    }

    /// A process has mapped an image: begins to open it, if it is large.
    pub(crate) fn mapped(&mut self, images: &[Image], mapping: &LiveMapping, pid: Pid) {
        self.extend_to(images.len());
        let number = mapping.image.0 as usize;
        let (Some(image), Some(table)) = (images.get(number), self.tables.get(number)) else {
            return;
        };
        let is_large = mapping.executable && mapping.end.saturating_sub(mapping.start) >= LARGE;
        if !is_large || table.get().is_some() {
            return;
        }
        let ahead = self.ahead.get_or_insert_with(|| {
            let (sender, receiver) = crossbeam_channel::bounded::<Ahead>(MOST_AHEAD);
            // Without a thread they are opened when they are asked for.
            let thread = std::thread::Builder::new().name("rprof-images".into());
            let _ = thread.spawn(move || receiver.iter().for_each(Ahead::open));
            sender
        });
        let _ = ahead.try_send(Ahead {
            table: Arc::clone(table),
            image: image.clone(),
            mapping: *mapping,
            pid,
        });
    }

    /// The table of an image that `pid` has mapped there. `None` where the image cannot be
    /// read, or is no ELF file, or is memory.
    pub(crate) fn get(
        &self,
        images: &[Image],
        mapping: &LiveMapping,
        pid: Pid,
    ) -> Option<&UnwindTable> {
        let number = mapping.image.0 as usize;
        let table = self.tables.get(number)?.get_or_init(|| {
            let image = images.get(number)?;
            open(image, mapping, pid).map(Box::new)
        });
        table.as_deref()
    }
}

impl Ahead {
    fn open(self) {
        let open = || open(&self.image, &self.mapping, self.pid).map(Box::new);
        self.table.get_or_init(open);
    }
}

fn open(image: &Image, mapping: &LiveMapping, pid: Pid) -> Option<UnwindTable> {
    match image.kind {
        ImageKind::Vdso => UnwindTable::parse(&rprof_symbols::vdso::vdso_image()?).ok(),
        // Memory with a file descriptor may well hold an ELF image.
        ImageKind::File | ImageKind::Deleted | ImageKind::Memfd => {
            let file = places(image, (mapping.start, mapping.end), pid)
                .find_map(|place| place.open(image))?;
            UnwindTable::parse(file.bytes()).ok()
        }
        _ => None,
    }
}

/// A path under which the image may be found.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// Whether it is the very file that is mapped, whatever its name leads to by now.
    is_mapped: bool,
}

/// The mapping itself; the program that runs, which needs no privilege even where it was deleted;
/// the name as the process sees it, in its container; the name as it is here, for a process
/// that has ended.
pub(crate) fn places(
    image: &Image,
    (start, end): (u64, u64),
    pid: Pid,
) -> impl Iterator<Item = Place> {
    let proc = PathBuf::from(format!("/proc/{}", pid.0));
    let range = format!("{start:x}-{end:x}");
    let name = Path::new(OsStr::from_bytes(image.path_without_deleted()));
    let inside = (name.strip_prefix("/").ok()).map(|inside| proc.join("root").join(inside));
    let mapped = Place {
        path: proc.join("map_files").join(range),
        is_mapped: true,
    };
    // A name that is gone, or that never was one, leads elsewhere if anywhere.
    let named = [inside, Some(name.to_owned())]
        .into_iter()
        .filter(|_| image.kind != ImageKind::Memfd);
    // Which of its images that is, only their identities tell.
    let exe = (image.identity != ImageIdentity::PathOnly).then(|| proc.join("exe"));
    let named = [exe].into_iter().chain(named).flatten();
    let named = named.map(|path| Place {
        path,
        is_mapped: false,
    });
    std::iter::once(mapped).chain(named)
}

impl Place {
    /// The file there, if it is the image.
    pub(crate) fn open(&self, image: &Image) -> Option<ImageFile> {
        // A name that does not begin at the root leads to nowhere in particular.
        if !self.path.is_absolute() {
            return None;
        }
        let file = ImageFile::open(&self.path).ok()?;
        let is_right = self.is_mapped
            || match image.identity {
                ImageIdentity::BuildId(wanted) => {
                    let found = rprof_symbols::elf::build_id_of(file.bytes());
                    found.is_some_and(|id| id.as_bytes().starts_with(wanted.as_bytes()))
                }
                // Device numbers do not compare on overlay file systems and btrfs.
                ImageIdentity::Inode { inode, .. } => file.inode() == inode,
                ImageIdentity::PathOnly => true,
            };
        is_right.then_some(file)
    }
}
