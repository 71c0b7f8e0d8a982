//! [`FileEmbedder`]: passes each event to the embedding of images or runtimes.

use rprof_image::PatientCalls;
use rprof_perfdata::EmbeddedFile;
use rprof_records::{Mapped, MmapIdentity, ProcessEvent};

use super::images::{Identification, KeptImages};
use super::notices::{Notice, Notices};
use super::runtimes::Runtimes;
use super::selection::{Embedding, PATIENCE};
use crate::mapped_files::MappedImage;

#[derive(Debug)]
pub(super) struct Identified {
    pub(super) identity: MmapIdentity,
    pub(super) path: Vec<u8>,
    pub(super) identification: Identification,
}

#[derive(Debug)]
pub(super) struct FileEmbedder {
    embedding: Embedding,
    runtimes: Runtimes,
    images: KeptImages,
    notices: Notices,
    calls: PatientCalls,
}

impl FileEmbedder {
    pub(super) fn new(embedding: Embedding) -> FileEmbedder {
        FileEmbedder {
            embedding,
            runtimes: Runtimes::new(embedding),
            images: KeptImages::new(embedding),
            notices: Notices::default(),
            calls: PatientCalls::new("rprof-embed", PATIENCE),
        }
    }

    /// Inspects the files of an event. Returns the build-id result of a mapping with device and
    /// inode.
    pub(super) fn handle(&mut self, event: &ProcessEvent<'_>, time: u64) -> Option<Identified> {
        match event {
            ProcessEvent::Mapped(m) if m.pid > 0 && m.executable && !m.kernel => {
                self.handle_mapped(m, time)
            }
            ProcessEvent::Executed { pid, .. } => {
                (self.runtimes).handle_exec(*pid, &self.calls, &mut self.notices);
                None
            }
            ProcessEvent::Ended { pid, .. } => {
                (self.runtimes).handle_ended(*pid, &self.calls, &mut self.notices);
                None
            }
            _ => None,
        }
    }

    fn handle_mapped(&mut self, map: &Mapped<'_>, time: u64) -> Option<Identified> {
        let (runtimes, notices) = (&mut self.runtimes, &mut self.notices);
        let embeds = self.embedding != Embedding::Nothing;
        if embeds && runtimes.handle_mapped(map, time, &self.calls, notices) {
            return None;
        }
        let event = MappedImage::new(map);
        let identification = (self.images).handle_mapped(event, &self.calls, notices);
        match map.identity {
            Some(identity @ MmapIdentity::Inode { inode: 1.., .. }) => Some(Identified {
                identity,
                path: map.path.to_vec(),
                identification,
            }),
            _ => None,
        }
    }

    pub(super) fn handle_sampled(&mut self, map: MappedImage) {
        (self.images).handle_sampled(map, &self.calls, &mut self.notices);
    }

    pub(super) fn round(&mut self) {
        self.runtimes.round(&self.calls, &mut self.notices);
        self.images.round(&self.calls);
    }

    pub(super) fn files(&mut self, samples: u64) -> Vec<EmbeddedFile<'static>> {
        let mut files = self.runtimes.files(&self.calls, &mut self.notices);
        let mut hand = |file| files.push(file);
        (self.images).files(samples, &self.calls, &mut self.notices, &mut hand);
        files
    }

    pub(super) fn into_notices(self) -> (Vec<Notice>, u64) {
        (self.notices.into_vec(), self.calls.refused())
    }
}
