//! From one file to the next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::wall_clock;
use rprof_perfdata::Feature;
use rprof_perfdata::output::OutputFile;
use rprof_records::{Endian, RawBytes, RawRecord, Record};

use super::Files;
use crate::sink::Sink;

impl Files {
    pub(super) fn set_end(&mut self, from: u64) {
        let every = self.how.switch.and_then(|switch| switch.every);
        self.until = every.map(|every| from.saturating_add(every.as_nanos() as u64));
    }

    /// Whether a record of this time belongs to the next file.
    pub(super) fn is_over(&self, time: u64) -> bool {
        let Some(switch) = self.how.switch else {
            return false;
        };
        let asked = self.live.switch.load(Ordering::Relaxed);
        let bytes = self.sink.as_ref().map_or(0, Sink::len);
        self.until.is_some_and(|until| time >= until)
            || (asked != 0 && time >= asked)
            || switch.bytes.is_some_and(|most| bytes >= most)
    }

    /// Finishes this file and begins the next.
    pub(super) fn switch(&mut self) -> io::Result<()> {
        let Some(path) = self.how.path.clone() else {
            return Ok(());
        };
        // A signal that comes from now on is for the next file.
        self.live.switch.store(0, Ordering::Relaxed);
        let notes = [self.tally.notes(), self.how.notes.clone()].concat();
        self.bytes_before += self.sink.as_ref().map_or(0, Sink::len);
        self.finish_file(&notes)?;
        self.put_aside()?;
        self.before.add(&std::mem::take(&mut self.tally));
        self.set_end(rprof_sampler::monotonic_ns());
        let output = OutputFile::create(&path).map_err(io::Error::other)?;
        let events = self.how.events.clone();
        let sink = Sink::file(output.file, events, &self.how.features, self.how.write)?;
        self.sink = Some(sink);
        self.begin()?;
        let mut living = Vec::new();
        if let Some(state) = &self.state {
            state.append(&self.how.sideband, &mut living);
        }
        let mut at = 0;
        while let Some(raw) = RawRecord::parse(RawBytes::from(&living[at..]), Endian::NATIVE) {
            if let Ok(record) = Record::decode(&raw, Some(&self.how.sideband)) {
                self.images.take(&record);
            }
            at += raw.size();
        }
        self.sink()?.write_records(&living)
    }

    /// Writes the end of the file.
    pub(super) fn finish_file(&mut self, notes: &[(String, String)]) -> io::Result<u64> {
        let mut features = self.how.features.clone();
        let images = std::mem::take(&mut self.images);
        features.insert_build_ids(&images.build_ids());
        let first = self.tally.first_sample.unwrap_or(0);
        features.insert_words(Feature::SAMPLE_TIME, &[first, self.tally.last_sample]);
        features.insert_private(notes);
        let kept = self.keeper.files();
        if !kept.is_empty() {
            features.insert_kept_files(&kept);
        }
        match self.sink.take() {
            Some(sink) => sink.finish(features),
            None => Ok(0),
        }
    }

    /// Gives a finished file its name, and removes the oldest if there are too many.
    pub(super) fn put_aside(&mut self) -> io::Result<()> {
        let Some(path) = &self.how.path else {
            return Ok(());
        };
        let to = stamped(path);
        fs::rename(path, &to)?;
        self.finished.push_back(to);
        let keep = self.how.switch.and_then(|switch| switch.keep);
        while keep.is_some_and(|keep| self.finished.len() > keep as usize) {
            if let Some(oldest) = self.finished.pop_front() {
                // One that somebody took away is not missed.
                fs::remove_file(oldest).ok();
            }
        }
        Ok(())
    }
}

/// A free name for a file that ends now: `PATH.YYYYMMDDHHMMSSCC`, as perf has it.
fn stamped(path: &Path) -> PathBuf {
    let mut time = wall_clock::LocalTime::now();
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", time.stamp()));
        let name = PathBuf::from(name);
        if fs::symlink_metadata(&name).is_err() {
            return name;
        }
        // Two within a hundredth of a second: the later one says that it is later.
        time = time.later(Duration::from_millis(10));
    }
}
