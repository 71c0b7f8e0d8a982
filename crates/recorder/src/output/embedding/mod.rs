//! Embedding: files that a report will need, and that will be gone by then, in the recording itself.
//!
//! ```text
//!   sideband --> runtimes: perf maps and jitdumps, held open while their processes live
//!           +--> images: programs and libraries, held open; those that nobody finds by their
//!                path in the end are embedded
//!                                 --> a section of the recording, which perf skips
//! ```
//!
//! A file in a process's own mount namespace goes with the process, as does a file that is deleted;
//! a perf map in `/tmp` may be that of the next process with the same number. So rprof takes
//! hold of them while it records. Everything is bounded, and what is left out becomes a [`Notice`].

mod images;
mod mapped_event;
mod notices;
mod runtimes;
mod seen;
mod selection;
mod worker;

use rprof_perfdata::EmbeddedFile;
use rprof_records::{Mapped, ProcessEvent};

use images::HeldImages;
use mapped_event::MappedEvent;
use notices::Notices;
pub use notices::{EmbeddedName, NotEmbedded, Notice};
use runtimes::Runtimes;
pub use selection::Embedding;
pub(crate) use worker::EmbeddingThread;

/// Holds files open while they are there, and embeds in the recording those that will not be found.
#[derive(Debug)]
struct FileEmbedder {
    runtimes: Runtimes,
    images: HeldImages,
    notices: Notices,
}

impl FileEmbedder {
    fn new(embedding: Embedding) -> FileEmbedder {
        FileEmbedder {
            runtimes: Runtimes::default(),
            images: HeldImages::new(embedding),
            notices: Notices::default(),
        }
    }

    /// Takes hold of the files that an event speaks of.
    fn handle(&mut self, event: &ProcessEvent<'_>, time: u64) {
        match event {
            ProcessEvent::Mapped(m) if m.pid > 0 && m.executable && !m.kernel => {
                self.handle_mapped(m, time);
            }
            ProcessEvent::Executed { pid, .. } => {
                self.runtimes.handle_exec(*pid, &mut self.notices);
            }
            _ => {}
        }
    }

    fn handle_mapped(&mut self, map: &Mapped<'_>, time: u64) {
        let (runtimes, notices) = (&mut self.runtimes, &mut self.notices);
        if !runtimes.handle_mapped(map, time, notices) {
            self.images.handle_mapped(&MappedEvent::new(map), notices);
        }
    }

    /// Looks again for files that were not there before.
    fn round(&mut self) {
        self.runtimes.round(&mut self.notices);
    }

    /// Reads the files that are to be embedded in the recording's file that ends now.
    fn files(&mut self) -> Vec<EmbeddedFile<'static>> {
        let mut files = self.runtimes.files(&mut self.notices);
        let mut hand = |file| files.push(file);
        self.images.files(&mut self.notices, &mut hand);
        files
    }

    /// Returns what was embedded, or could not be.
    fn into_notices(self) -> Vec<Notice> {
        self.notices.into_vec()
    }
}
