//! Writer for pipe mode.

use std::io::{self, BufWriter, Write};

use rprof_records::{Endian, Misc, RecordType, put_record};

use super::RecordWriter;
use super::compress::Compressor;
use super::header_block::{attr_size, encode_attr};
use super::options::{EventDescription, WriteOptions};
use crate::features::{Feature, FeatureSections, put_build_id};
use crate::header::{EMBEDDED_MARK, PIPE_HEADER_SIZE, PRIVATE_MARK, magic};

/// A multiple of eight, so that there is no padding.
const PIECE: usize = 65_000;

/// `type` of an EVENT_UPDATE with a name.
const NAME: u64 = 2;

/// Writes a recording in pipe mode, which `perf report -i -` reads as it arrives.
///
/// The header consists of records: each event with its ids and name, then the feature sections
/// passed at the start. [`finish`](RecordWriter::finish) or
/// [`write_features`](Self::write_features) adds new and changed ones.
///
/// [`checkpoint`](RecordWriter::checkpoint) flushes the buffer.
#[derive(Debug)]
pub struct PipeWriter<W: Write> {
    out: BufWriter<W>,
    endian: Endian,
    events: Vec<EventDescription>,
    compressor: Option<Compressor>,
    written: u64,
    features: FeatureSections,
    left_out: Vec<Feature>,
    failed: bool,
}

impl<W: Write> PipeWriter<W> {
    /// Creates a stream with these events and features. Adds EVENT_DESC if missing, and COMPRESSED
    /// if the records will be compressed.
    ///
    /// # Errors
    /// Fails if the writer or zstd does.
    pub fn create(
        out: W,
        events: Vec<EventDescription>,
        features: &FeatureSections,
        options: WriteOptions,
    ) -> io::Result<PipeWriter<W>> {
        let endian = options.endian;
        let mut writer = PipeWriter {
            out: BufWriter::new(out),
            endian,
            events,
            compressor: Compressor::for_options(&options)?,
            written: 0,
            features: features.clone(),
            left_out: Vec::new(),
            failed: false,
        };
        let mut start = magic(endian);
        start.extend(endian.put_u64(PIPE_HEADER_SIZE as u64));
        let size = attr_size(&writer.events);
        for event in &writer.events {
            let attr = encode_attr(&event.attr, size, endian)?;
            put_attr(&mut start, &attr, &event.ids, endian)?;
        }
        writer.put(&start)?;
        let mut all = features.clone();
        if !all.has(Feature::EVENT_DESC) {
            all.insert_event_descriptions(&writer.events, size);
        }
        if let Some(compressor) = &writer.compressor {
            all.insert_compression(&compressor.description());
        }
        writer.write_features(&all)?;
        let mut names = Vec::new();
        for event in &writer.events {
            if let Some(id) = event.ids.first() {
                put_name(&mut names, *id, &event.name, endian);
            }
        }
        writer.put(&names)?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// Returns the events, in stream order.
    pub fn events(&self) -> &[EventDescription] {
        &self.events
    }

    /// Returns the features omitted because they exceed a record (65,519 bytes).
    pub fn left_out(&self) -> &[Feature] {
        &self.left_out
    }

    /// Writes feature sections. A repeated section replaces the earlier one.
    ///
    /// TRACING_DATA, BUILD_ID and rprof's private section become records of other types. Other
    /// sections unknown to perf 6.1 are omitted: its `report` refuses them.
    ///
    /// # Errors
    /// Fails if the writer does.
    pub fn write_features(&mut self, features: &FeatureSections) -> io::Result<()> {
        let endian = self.endian;
        let mut out = Vec::new();
        for (feature, bytes) in features.iter() {
            match feature {
                Feature::TRACING_DATA => put_tracing_data(&mut out, bytes, endian)?,
                Feature::BUILD_ID => {
                    for entry in features.build_ids().unwrap_or_default() {
                        put_build_id(&mut out, RecordType::HEADER_BUILD_ID, &entry, endian);
                    }
                }
                // The AUXTRACE index has file offsets, and the output is not a folder.
                Feature::AUXTRACE | Feature::DIR_FORMAT => {}
                Feature::RPROF => {
                    let put = |out: &mut Vec<u8>| {
                        out.extend(endian.put_u64(PRIVATE_MARK));
                        out.extend_from_slice(bytes);
                    };
                    let kind = RecordType::HEADER_EVENT_TYPE;
                    if put_record(&mut out, kind, Misc(0), endian, put).is_err() {
                        self.left_out.push(feature);
                    }
                }
                Feature::RPROF_FILES => put_pieces(&mut out, bytes, endian)?,
                Feature(number) if number > Feature::PMU_CAPS.0 => self.left_out.push(feature),
                Feature(number) => {
                    let put = |out: &mut Vec<u8>| {
                        out.extend(endian.put_u64(u64::from(number)));
                        // perf 6.1 takes bytes after a CPU_TOPOLOGY for dies, and refuses the
                        // stream.
                        out.extend_from_slice(bytes);
                    };
                    let kind = RecordType::HEADER_FEATURE;
                    if put_record(&mut out, kind, Misc(0), endian, put).is_err() {
                        self.left_out.push(feature);
                    }
                }
            }
        }
        self.guarded(|this| {
            this.flush_compressed()?;
            this.put(&out)
        })
    }

    /// Appends whole records without compression, as payloads require.
    ///
    /// # Errors
    /// Fails like [`write_records`](RecordWriter::write_records).
    pub fn write_uncompressed(&mut self, records: &[u8]) -> io::Result<()> {
        self.guarded(|this| {
            this.flush_compressed()?;
            this.put(records)
        })
    }

    /// Remembers a failure: readers would mistake the rest of a truncated record for records.
    fn guarded<T>(&mut self, write: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        if self.failed {
            return Err(io::Error::other("an earlier write to this stream failed"));
        }
        let result = write(self);
        self.failed = result.is_err();
        result
    }

    fn flush_compressed(&mut self) -> io::Result<()> {
        if let Some(compressor) = &mut self.compressor {
            let records = compressor.compress_pushed()?;
            self.out.write_all(records)?;
            self.written += records.len() as u64;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl<W: Write> RecordWriter for PipeWriter<W> {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.guarded(|this| match &mut this.compressor {
            None => this.put(records),
            Some(compressor) => match compressor.push(records) {
                true => this.flush_compressed(),
                false => Ok(()),
            },
        })
    }

    fn write_with_payload(&mut self, record: &[u8]) -> io::Result<()> {
        self.write_uncompressed(record)
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.guarded(|this| {
            this.flush_compressed()?;
            this.out.flush()
        })
    }

    fn bytes_written(&self) -> u64 {
        self.written
    }

    fn finish(mut self, mut features: FeatureSections) -> io::Result<u64> {
        let known = std::mem::take(&mut self.features);
        let same: Vec<Feature> = (features.iter())
            .filter(|(feature, bytes)| known.get(*feature) == Some(*bytes))
            .map(|(feature, _)| feature)
            .collect();
        features.retain(|feature| !same.contains(&feature));
        self.write_features(&features)?;
        self.checkpoint()?;
        Ok(self.written)
    }
}

fn put_pieces(out: &mut Vec<u8>, bytes: &[u8], endian: Endian) -> io::Result<()> {
    for piece in bytes.chunks(PIECE) {
        put_record(out, RecordType::HEADER_EVENT_TYPE, Misc(0), endian, |out| {
            out.extend(endian.put_u64(EMBEDDED_MARK));
            out.extend_from_slice(piece);
        })
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    }
    Ok(())
}

fn put_attr(out: &mut Vec<u8>, attr: &[u8], ids: &[u64], endian: Endian) -> io::Result<()> {
    put_record(out, RecordType::HEADER_ATTR, Misc(0), endian, |out| {
        out.extend_from_slice(attr);
        out.extend(ids.iter().flat_map(|id| endian.put_u64(*id)));
    })
    .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

/// perf derives a name if this one is too long.
fn put_name(out: &mut Vec<u8>, id: u64, name: &str, endian: Endian) {
    put_record(out, RecordType::EVENT_UPDATE, Misc(0), endian, |out| {
        out.extend(endian.put_u64(NAME));
        out.extend(endian.put_u64(id));
        out.extend_from_slice(name.as_bytes());
        let padded = (name.len() + 1).next_multiple_of(8);
        out.extend(std::iter::repeat_n(0, padded - name.len()));
    })
    .ok();
}

/// perf refuses a length without the padding to a multiple of eight.
fn put_tracing_data(out: &mut Vec<u8>, bytes: &[u8], endian: Endian) -> io::Result<()> {
    let padded = bytes.len().next_multiple_of(8);
    let len = u32::try_from(padded)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "4 GiB of tracepoint formats"))?;
    let kind = RecordType::HEADER_TRACING_DATA;
    put_record(out, kind, Misc(0), endian, |out| {
        out.extend(endian.put_u32(len));
    })
    .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
    out.extend_from_slice(bytes);
    out.extend(std::iter::repeat_n(0, padded - bytes.len()));
    Ok(())
}
