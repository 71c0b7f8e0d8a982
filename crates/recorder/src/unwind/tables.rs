//! The unwind tables of what is mapped: each image opened once, while it is there.

use std::sync::{Arc, OnceLock};

use crossbeam_channel::Sender;
use rprof_image::{FileReader, vdso_image};
use rprof_jit::JitUnwindTables;
use rprof_processes::{Image, ImageKind, LiveMapping, Pid};
use rprof_unwind::UnwindTable;

use crate::mapped_files::mapped_file;

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
    /// Tables of JIT code.
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
    /// Grows to this number of images.
    pub(crate) fn extend_to(&mut self, images: usize) {
        if self.tables.len() < images {
            self.tables.resize_with(images, Table::default);
        }
    }

    /// Handles a mapping: begins to open its image, if it is large.
    pub(crate) fn mapped(&mut self, images: &[Image], mapping: &LiveMapping, pid: Pid) {
        self.extend_to(images.len());
        let number = mapping.backing.0 as usize;
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

    /// Returns the table of an image that `pid` has mapped there. `None` where the image cannot be
    /// read, or is no ELF file, or is memory.
    pub(crate) fn get(
        &self,
        images: &[Image],
        mapping: &LiveMapping,
        pid: Pid,
    ) -> Option<&UnwindTable> {
        let number = mapping.backing.0 as usize;
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
        ImageKind::Vdso => UnwindTable::parse(&vdso_image()?).ok(),
        // Memory with a file descriptor may well hold an ELF image.
        ImageKind::File | ImageKind::Deleted | ImageKind::Memfd => {
            let file = mapped_file(image, mapping.start..mapping.end, pid).open()?;
            UnwindTable::read(&FileReader::new(&file)).ok()
        }
        _ => None,
    }
}
