//! Switches from one output file to the next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rprof_output::{OutputError, RecordingFile, Whereabouts};
use rprof_perfdata::Feature;
use rprof_records::{Endian, ProcessEvent, RawBytes, RawRecord};

use super::{EmbeddedName, RotatingOutput, Sink, interpreted, wall_clock};

impl RotatingOutput {
    pub(super) fn set_end(&mut self, from: u64) {
        let every = self.config.rotation.and_then(|rotation| rotation.every);
        self.until = every.map(|every| from.saturating_add(every.as_nanos() as u64));
    }

    pub(super) fn is_over(&self, time: u64) -> bool {
        let Some(rotation) = self.config.rotation else {
            return false;
        };
        let asked = self.live.switch.load(Ordering::Relaxed);
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        self.until.is_some_and(|until| time >= until)
            || (asked != 0 && time >= asked)
            || rotation.bytes.is_some_and(|most| bytes >= most)
    }

    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let Some(path) = self.path.clone() else {
            return Ok(());
        };
        self.live.switch.store(0, Ordering::Relaxed);
        let notes = [self.tally.notes(), self.config.notes.clone()].concat();
        self.bytes_before += self.sink.as_ref().map_or(0, Sink::len);
        self.finish_file(&notes)?;
        self.config.names.forget_all();
        self.put_aside()?;
        self.before.add(&std::mem::take(&mut self.tally));
        self.set_end(self.config.clock.now_ns());
        let next = self.next_file(&path)?;
        let events = self.config.events.clone();
        let handle = next.file.try_clone()?;
        let sink = Sink::file(handle, events, &self.config.features, self.config.write)?;
        self.file = Some(next);
        self.sink = Some(sink);
        self.begin()?;
        let mut living = Vec::new();
        let layouts = Arc::clone(&self.config.layouts);
        let layout = &layouts.sideband;
        if let Some(carried) = &self.carried {
            carried.append(layout, &mut living);
        }
        let mut at = 0;
        while let Some(raw) = RawRecord::parse(RawBytes::from(&living[at..]), Endian::NATIVE) {
            if let Ok(Some(event)) = ProcessEvent::decode(&raw, Some(layout)) {
                self.handle_identity(&event);
            }
            at += raw.size();
        }
        self.sink()?.write_records(&living)
    }

    pub(super) fn finish_file(&mut self, notes: &[(String, String)]) -> io::Result<u64> {
        let mut features = self.config.features.clone();
        self.limits = self.limits();
        let mut embedded = self.embedder.files(self.tally.samples + self.tally.waits);
        self.take_identified();
        let mapped = std::mem::take(&mut self.build_ids);
        features.insert_build_ids(&mapped.entries(&self.identified));
        let first = self.tally.first_sample.unwrap_or(0);
        features.insert_words(Feature::SAMPLE_TIME, &[first, self.tally.last_sample]);
        features.insert_rprof_notes(notes);
        self.embedded.extend(embedded.iter().map(EmbeddedName::of));
        embedded.extend(self.identified.take_table());
        embedded.extend(interpreted::perf_maps(&self.config.names));
        if !embedded.is_empty() {
            features.insert_embedded_files(&embedded);
        }
        match self.sink.take() {
            Some(sink) => sink.finish(features),
            None => Ok(0),
        }
    }

    /// Creates a file with the recording's name. If that is occupied, for example by another
    /// recorder with the same output, the new file gets a timestamped name at once.
    fn next_file(&mut self, path: &Path) -> io::Result<RecordingFile> {
        let mut name = path.to_owned();
        loop {
            match RecordingFile::create_free(&name) {
                Ok(file) => return Ok(file),
                Err(OutputError::Create { source, .. })
                    if source.kind() == io::ErrorKind::AlreadyExists =>
                {
                    name = stamped(path, self.last_name.as_deref());
                    self.last_name = Some(name.clone());
                }
                Err(OutputError::Create { source, .. }) => return Err(source),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    /// Gives a finished file its timestamped name, and removes the oldest beyond the maximum.
    /// Leaves alone and reports files that other programs renamed, deleted or replaced.
    pub(super) fn put_aside(&mut self) -> io::Result<()> {
        let (Some(file), Some(path)) = (&self.file, &self.path) else {
            return Ok(());
        };
        let Some(own) = file.own() else {
            return Ok(());
        };
        loop {
            if file.path != *path && own.is_at(&file.path) {
                self.finished.push_back((file.path.clone(), own));
                break;
            }
            let to = stamped(path, self.last_name.as_deref());
            match own.rename(&file.path, &to) {
                Ok(true) => {
                    self.last_name = Some(to.clone());
                    self.finished.push_back((to, own));
                    break;
                }
                Ok(false) => {
                    self.tell_if_moved();
                    break;
                }
                // Another program took the name; try the next one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.last_name = Some(to);
                }
                Err(error) => return Err(error),
            }
        }
        let max_files = self.config.rotation.and_then(|rotation| rotation.max_files);
        while max_files.is_some_and(|max| self.finished.len() > max as usize) {
            if let Some((oldest, own)) = self.finished.pop_front() {
                // It may already be gone.
                own.remove(&oldest).ok();
            }
        }
        Ok(())
    }

    pub(super) fn tell_if_moved(&mut self) {
        let moved = (self.file.as_ref()).map(|file| (file.path.clone(), file.whereabouts()));
        let moved = moved.filter(|(_, now)| *now != Whereabouts::Unmoved);
        if self.moved.len() < MAX_MOVED {
            self.moved.extend(moved);
        }
    }
}

/// Maximum number of externally moved files reported.
const MAX_MOVED: usize = 16;

/// Returns a free name `PATH.YYYYMMDDHHMMSSCC`, as in perf, for a file that ends now. It sorts
/// after `last`, the previous name, even if files in between were removed.
fn stamped(path: &Path, last: Option<&Path>) -> PathBuf {
    let mut time = wall_clock::LocalTime::now();
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", time.stamp()));
        let name = PathBuf::from(name);
        let is_later = last.is_none_or(|last| *name > *last);
        if is_later && fs::symlink_metadata(&name).is_err() {
            return name;
        }
        // Two files within a hundredth of a second: the later one gets a later timestamp.
        time = time.later(Duration::from_millis(10));
    }
}
