//! [`KeptImages`]: copies of programs and libraries that reports cannot find by path.
//!
//! Holding files open would keep file systems busy and deleted files on disk. So a sampled image is
//! opened only for inspection, and copied at once if it may disappear.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use rprof_image::{FileReader, LastingPlaces, PatientCalls, build_id_of};
use rprof_perfdata::EmbeddedFile;
use rprof_processes::{Image, ImageIdentity, ImageKind, Pid};
use rprof_records::BuildId;

mod copying;
mod summary;

use super::notices::{Notice, Notices};
use super::selection::{Embedding, TO_OPEN};
use crate::mapped_files::MappedImage;
use copying::{
    CopiedBytes, Embedded, ImageSource, KnownImage, State, Wanted, look_at, look_at_gone, path_of,
};
use summary::Summary;

const MAX_KNOWN: usize = 4096;

/// Maximum bytes of one copied image and of all; the second pair is for [`Embedding::All`].
const LIMITS: (u64, u64) = (64 << 20, 128 << 20);
const LIMITS_OF_ALL: (u64, u64) = (256 << 20, 512 << 20);

/// Maximum bytes of uncompressed copies; further copies are compressed at once.
const MAX_PLAIN: u64 = 64 << 20;

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
        let mut summary = Summary::default();
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
                        summary.embedded(path, kept, kept < file.len);
                    }
                    left = left.saturating_sub(file.len);
                    whole_left = whole_left.saturating_sub(kept);
                    hand(file);
                }
                Some(Embedded::TooLong(len)) => summary.too_long(path, len),
                Some(Embedded::Gone) => summary.gone(path),
                Some(Embedded::NotNeeded) | None => {}
            }
        }
        summary.push_to(notices);
        if self.left_out > 0 {
            notices.push(Notice::TooManyImages {
                known: MAX_KNOWN,
                left_out: self.left_out,
            });
            self.left_out = 0;
        }
    }
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

#[cfg(test)]
mod tests;
