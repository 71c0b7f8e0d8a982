//! [`RecentRecords`]: an in-memory ring of the last records, which can be written as a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rprof_jit::InterpretedNames;
use rprof_perfdata::{
    EmbeddedFile, EventDescription, Events, FeatureSections, FileWriter, RecordWriter,
};
use rprof_records::{Attr, Endian, ProcessEvent, RawBytes, RawRecord, RecordType, SampleLayout};

use crate::output::{CarriedRecords, interpreted};
use crate::synthesize::kernel_maps;

/// Bytes of records dropped together.
const CHUNK: usize = 256 << 10;

/// The last records of a recording, limited by a number of intervals and by bytes. Clones share the
/// data.
///
/// A [writer](Self::writer) adds records. Names and mappings of dropped records stay, so that a
/// [snapshot](Self::snapshot) is self-contained.
#[derive(Clone, Debug)]
pub struct RecentRecords(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    most_bytes: usize,
    events: Vec<EventDescription>,
    features: FeatureSections,
    described: Events,
    carried: CarriedRecords,
    names: InterpretedNames,
    chunks: VecDeque<Chunk>,
    bytes: Vec<u8>,
    len: usize,
    interval: u64,
}

#[derive(Clone, Debug)]
struct Chunk {
    bytes: Arc<Vec<u8>>,
    interval: u64,
}

impl RecentRecords {
    /// Keeps at most this many bytes of records.
    ///
    /// `names` are the recording's [names of interpreted functions](crate::RecordOptions::names):
    /// snapshots have copies.
    pub fn new(most_bytes: usize, names: InterpretedNames) -> RecentRecords {
        RecentRecords(Arc::new(Mutex::new(Kept {
            most_bytes,
            events: Vec::new(),
            features: FeatureSections::default(),
            described: Events::new(Vec::new(), Endian::NATIVE),
            carried: CarriedRecords::default(),
            names,
            chunks: VecDeque::new(),
            bytes: Vec::new(),
            len: 0,
            interval: 0,
        })))
    }

    /// Returns a record writer for [`Output::writer`](crate::Output::writer).
    pub fn writer(&self, events: &[EventDescription], features: &FeatureSections) -> RecentWriter {
        let list = events.iter().cloned();
        let list = list.map(|event| (event.attr, event.name, event.ids));
        let mut kept = self.kept();
        kept.described = Events::new(list.collect(), Endian::NATIVE);
        (kept.events, kept.features) = (events.to_vec(), features.clone());
        RecentWriter {
            recent: self.clone(),
            bytes: 0,
        }
    }

    /// Begins a new interval, and keeps the records of the last `most` intervals including it.
    pub fn next_interval(&self, most: usize) {
        let mut kept = self.kept();
        kept.end_chunk();
        kept.interval += 1;
        let first = (kept.interval + 1).saturating_sub(most.max(1) as u64);
        kept.let_go(|chunk, _| chunk.interval < first);
    }

    /// Drops all records.
    pub fn clear(&self) {
        let mut kept = self.kept();
        kept.end_chunk();
        kept.let_go(|_, _| true);
    }

    /// Returns the number of bytes of the current records.
    pub fn bytes(&self) -> usize {
        let kept = self.kept();
        kept.len + kept.bytes.len()
    }

    /// Returns a snapshot of the current records.
    pub fn snapshot(&self) -> RecentSnapshot {
        let mut kept = self.kept();
        kept.end_chunk();
        let layout = kept.layout();
        let mut head = Vec::new();
        kernel_maps::append(&layout, &mut head);
        kept.carried.append(&layout, &mut head);
        RecentSnapshot {
            events: kept.events.clone(),
            features: kept.features.clone(),
            head,
            embedded: interpreted::perf_maps(&kept.names),
            chunks: (kept.chunks.iter())
                .map(|chunk| Arc::clone(&chunk.bytes))
                .collect(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn layout(&self) -> SampleLayout {
        match self.described.list().first() {
            Some(event) => event.layout.clone(),
            None => SampleLayout::new(&Attr::default(), Endian::NATIVE),
        }
    }

    fn take(&mut self, records: &[u8]) {
        self.bytes.extend_from_slice(records);
        if self.bytes.len() >= CHUNK {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.len += bytes.len();
        self.chunks.push_back(Chunk {
            bytes: Arc::new(bytes),
            interval: self.interval,
        });
        let most = self.most_bytes;
        self.let_go(|_, len| len > most);
    }

    /// Drops the oldest chunks while `is_unwanted` accepts the chunk and the total bytes.
    fn let_go(&mut self, is_unwanted: impl Fn(&Chunk, usize) -> bool) {
        while let Some(chunk) = self
            .chunks
            .pop_front_if(|chunk| is_unwanted(chunk, self.len))
        {
            self.len -= chunk.bytes.len();
            let mut records = &chunk.bytes[..];
            while let Some(raw) = RawRecord::parse(RawBytes::from(records), Endian::NATIVE) {
                let (record, rest) = records.split_at(raw.size());
                if raw.kind != RecordType::SAMPLE {
                    let event = ProcessEvent::decode(&raw, self.described.layout_of(&raw));
                    let event = event.ok().flatten();
                    self.carried.handle(&raw, event.as_ref(), record);
                    // No later record refers to its functions.
                    if let Some(ProcessEvent::Ended { pid, tid }) = event
                        && pid == tid
                    {
                        self.names.forget(pid);
                    }
                }
                records = rest;
            }
        }
    }

    /// Returns true for a mapping of the kernel, which each snapshot synthesizes anyway.
    fn is_kernel_map(&self, raw: &RawRecord<'_>) -> bool {
        if !ProcessEvent::is_recorded_as(raw.kind) {
            return false;
        }
        let event = ProcessEvent::decode(raw, self.described.layout_of(raw));
        matches!(event, Ok(Some(ProcessEvent::Mapped(mapped))) if mapped.kernel)
    }
}

/// Writer that adds records: see [`RecentRecords::writer`].
#[derive(Debug)]
pub struct RecentWriter {
    recent: RecentRecords,
    bytes: u64,
}

impl RecordWriter for RecentWriter {
    fn write_records(&mut self, mut records: &[u8]) -> io::Result<()> {
        self.bytes += records.len() as u64;
        let mut kept = self.recent.kept();
        while let Some(raw) = RawRecord::parse(RawBytes::from(records), Endian::NATIVE) {
            let (record, rest) = records.split_at(raw.size());
            if !kept.is_kernel_map(&raw) {
                kept.take(record);
            }
            records = rest;
        }
        Ok(())
    }

    fn bytes_written(&self) -> u64 {
        self.bytes
    }

    fn finish(self, _: FeatureSections) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

/// Records at one moment.
#[derive(Debug)]
pub struct RecentSnapshot {
    events: Vec<EventDescription>,
    features: FeatureSections,
    head: Vec<u8>,
    embedded: Vec<EmbeddedFile<'static>>,
    chunks: Vec<Arc<Vec<u8>>>,
}

impl RecentSnapshot {
    /// Writes the records as a perf.data file; returns its length in bytes.
    ///
    /// # Errors
    /// Errors of writing the file.
    pub fn write(&self, out: File) -> io::Result<u64> {
        let mut writer = FileWriter::create(out, self.events.clone())?;
        writer.write_records(&self.head)?;
        for chunk in &self.chunks {
            writer.write_records(chunk)?;
        }
        let mut features = self.features.clone();
        if !self.embedded.is_empty() {
            features.insert_embedded_files(&self.embedded);
        }
        writer.finish(features)
    }
}
