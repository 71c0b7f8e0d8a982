//! Writing a file that stays readable if its writer dies.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use rprof_records::{Attr, Endian};

use crate::write::compress::Compressor;
use crate::features::{DescribedEvent, Feature, FeatureSections};
use crate::header::{HEADER_SIZE, MAGIC};

/// An event to be recorded.
pub type EventDescription = DescribedEvent;

/// What perf 6.1 knows. It refuses a file whose attrs are longer, even with a
/// zero tail, so more is written only when a newer field is used.
const ATTR_SIZE: usize = 128;

/// Where the header has the length of the data.
pub(crate) const DATA_LEN_AT: u64 = 48;

/// Bytes gathered before a write.
const BUFFER: usize = 256 << 10;

/// How a recording is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Byte order of the records that will come, and so of the file.
    pub endian: Endian,
    /// Level at which zstd compresses the records, from 1 to 22; `None` for not at all.
    pub compression: Option<i32>,
}

impl Default for WriteOptions {
    /// This machine's byte order, no compression.
    fn default() -> WriteOptions {
        WriteOptions {
            endian: Endian::NATIVE,
            compression: None,
        }
    }
}

/// What stands at the front of a file: the header, the attrs, and their ids.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) events: Vec<EventDescription>,
    pub(crate) endian: Endian,
    pub(crate) attr_size: usize,
}

impl Front {
    pub(crate) fn new(events: Vec<EventDescription>, endian: Endian) -> Front {
        Front {
            attr_size: attr_size(&events),
            events,
            endian,
        }
    }

    fn stride(&self) -> usize {
        self.attr_size + 16
    }

    /// Bytes of all that comes before the data.
    pub(crate) fn len(&self) -> usize {
        let ids: usize = self.events.iter().map(|e| e.ids.len() * 8).sum();
        HEADER_SIZE + self.stride() * self.events.len() + ids
    }

    /// The attrs, each with where its ids stand, then the ids: what follows the header.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let endian = self.endian;
        let mut body = Vec::new();
        let mut ids_at = HEADER_SIZE + self.stride() * self.events.len();
        for event in &self.events {
            body.extend(encode_attr(&event.attr, self.attr_size, endian)?);
            body.extend(endian.put_u64(ids_at as u64));
            body.extend(endian.put_u64(event.ids.len() as u64 * 8));
            ids_at += event.ids.len() * 8;
        }
        for event in &self.events {
            body.extend(event.ids.iter().flat_map(|id| endian.put_u64(*id)));
        }
        Ok(body)
    }

    /// The header: where the data stands, and which sections follow it.
    pub(crate) fn header(
        &self,
        data_start: u64,
        data_len: u64,
        features: impl Iterator<Item = Feature>,
    ) -> Vec<u8> {
        let mut bitmap = [0u64; Feature::MAX as usize / 64];
        for feature in features {
            if let Some(word) = bitmap.get_mut(feature.0 as usize / 64) {
                *word |= 1 << (feature.0 % 64);
            }
        }
        let stride = self.stride() as u64;
        let words = [
            HEADER_SIZE as u64,
            stride,
            HEADER_SIZE as u64,
            stride * self.events.len() as u64,
            data_start,
            data_len,
            0,
            0,
        ];
        let mut header = magic(self.endian);
        header.extend((words.into_iter().chain(bitmap)).flat_map(|word| self.endian.put_u64(word)));
        header
    }
}

/// Writes a perf.data file in file mode.
///
/// The header says how much data there was at the last
/// [`checkpoint`](Self::checkpoint), and before the first one 0, which readers take
/// for "to the end of the file": a writer that is killed leaves a file whose
/// complete records read back, without its sections, and so, if they are compressed,
/// beyond perf. A recorder has [`GrowingWriter`](crate::GrowingWriter) for that.
///
/// After an error nothing more is written: what went before stays readable.
#[derive(Debug)]
pub struct FileWriter<W: Write + Seek> {
    out: BufWriter<W>,
    front: Front,
    data_start: u64,
    data_len: u64,
    compressor: Option<Compressor>,
    failed: bool,
}

impl<W: Write + Seek> FileWriter<W> {
    /// Begins a file with these events: writes the header, the attrs and the ids.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn create(out: W, events: Vec<EventDescription>) -> io::Result<FileWriter<W>> {
        FileWriter::create_with(out, events, WriteOptions::default())
    }

    /// As [`create`](Self::create), with a byte order and a compression.
    ///
    /// # Errors
    /// Those of the writer, and of zstd.
    pub fn create_with(
        out: W,
        events: Vec<EventDescription>,
        options: WriteOptions,
    ) -> io::Result<FileWriter<W>> {
        let front = Front::new(events, options.endian);
        let mut writer = FileWriter {
            out: BufWriter::with_capacity(BUFFER, out),
            data_start: front.len() as u64,
            data_len: 0,
            compressor: Compressor::for_options(&options)?,
            front,
            failed: false,
        };
        let mut body = writer.header(0, &FeatureSections::default());
        body.extend(writer.front.encode()?);
        writer.out.write_all(&body)?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// The events, in the order of the file.
    pub fn events(&self) -> &[EventDescription] {
        &self.front.events
    }

    /// Appends whole records.
    ///
    /// # Errors
    /// Those of the writer. What was flushed before remains readable.
    pub fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.guarded(|this| match &mut this.compressor {
            None => this.put(records),
            Some(compressor) => {
                if compressor.push(records) {
                    this.put_compressed()?;
                }
                Ok(())
            }
        })
    }

    /// Appends whole records as they are, even where others are compressed: those
    /// with a payload behind them must not be. Answers at which byte of the file
    /// they stand.
    ///
    /// # Errors
    /// As [`write_records`](Self::write_records).
    pub fn write_uncompressed(&mut self, records: &[u8]) -> io::Result<u64> {
        self.guarded(|this| {
            this.put_compressed()?;
            let at = this.data_start + this.data_len;
            this.put(records)?;
            Ok(at)
        })
    }

    /// Bytes of records so far, as they stand in the file.
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// Hands on what is buffered, then tells the header how much there is: what
    /// was recorded up to here survives this process. (perf reads nothing from a
    /// file whose header says 0 bytes.)
    ///
    /// # Errors
    /// Those of the writer.
    pub fn checkpoint(&mut self) -> io::Result<()> {
        self.guarded(|this| {
            this.put_compressed()?;
            this.out.flush()?;
            // The records first, the header after: it must not name what is not there.
            this.out.seek(SeekFrom::Start(DATA_LEN_AT))?;
            this.out
                .write_all(&this.front.endian.put_u64(this.data_len))?;
            let end = this.data_start + this.data_len;
            this.out.seek(SeekFrom::Start(end))?;
            Ok(())
        })
    }

    /// Ends the file: appends the feature sections and tells the header how much
    /// there is. EVENT_DESC is added unless `features` has it, and so is COMPRESSED
    /// where records were. Answers the length of the file in bytes.
    ///
    /// # Errors
    /// Those of the writer. The records remain readable.
    pub fn finish(mut self, mut features: FeatureSections) -> io::Result<u64> {
        // From here on the header knows how long the data is, and of no section: who
        // reads it after a crash below takes no section for records.
        self.checkpoint()?;
        // The bitmap has no room for more.
        features.retain(|feature| feature.0 < Feature::MAX);
        if !features.has(Feature::EVENT_DESC) {
            features.insert_event_descriptions(&self.front.events, self.front.attr_size);
        }
        if let Some(compressor) = &self.compressor {
            features.insert_compression(&compressor.description());
        }
        let mut at = self.data_start + self.data_len + 16 * features.len() as u64;
        for (_, bytes) in features.iter() {
            self.out.write_all(&self.front.endian.put_u64(at))?;
            self.out
                .write_all(&self.front.endian.put_u64(bytes.len() as u64))?;
            at += bytes.len() as u64;
        }
        for (_, bytes) in features.iter() {
            self.out.write_all(bytes)?;
        }
        // The sections first, the header last: it must not name what is not there.
        self.out.flush()?;
        let header = self.header(self.data_len, &features);
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header)?;
        self.out.flush()?;
        Ok(at)
    }

    /// Remembers a failure: records written after a gap could not be read, nor told
    /// from good ones.
    fn guarded<T>(&mut self, write: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        if self.failed {
            return Err(io::Error::other("an earlier write to this file failed"));
        }
        let result = write(self);
        self.failed = result.is_err();
        result
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.data_len += bytes.len() as u64;
        Ok(())
    }

    fn put_compressed(&mut self) -> io::Result<()> {
        if let Some(compressor) = &mut self.compressor {
            let records = compressor.take()?;
            self.out.write_all(records)?;
            self.data_len += records.len() as u64;
        }
        Ok(())
    }

    fn header(&self, data_len: u64, features: &FeatureSections) -> Vec<u8> {
        let features = features.iter().map(|(feature, _)| feature);
        self.front.header(self.data_start, data_len, features)
    }
}

/// Read as one number the magic tells the byte order: a little-endian machine
/// writes the letters in order, a big-endian one in reverse.
pub(crate) fn magic(endian: Endian) -> Vec<u8> {
    endian.put_u64(u64::from_le_bytes(MAGIC)).to_vec()
}

/// The size that holds all attrs.
pub(crate) fn attr_size(events: &[EventDescription]) -> usize {
    (events.iter())
        .map(|e| e.attr.needed_size())
        .fold(ATTR_SIZE, usize::max)
}

pub(crate) fn encode_attr(attr: &Attr, size: usize, endian: Endian) -> io::Result<Vec<u8>> {
    attr.encode(endian, size)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::reader::PerfData;
    use rprof_records::{Misc, RecordType, put_record};
    use std::io::Cursor;
    use std::path::Path;

    fn events() -> Vec<EventDescription> {
        ["cpu-clock", "sideband"]
            .map(|name| EventDescription {
                attr: Attr::default(),
                name: name.into(),
                ids: vec![name.len() as u64, 100 + name.len() as u64],
            })
            .to_vec()
    }

    fn records() -> Vec<u8> {
        let mut out = Vec::new();
        for i in 0..10u8 {
            put_record(&mut out, RecordType::COMM, Misc(0), Endian::NATIVE, |out| {
                out.extend([i; 16]);
            })
            .unwrap();
        }
        out
    }

    fn kinds(data: &PerfData) -> usize {
        data.blocks().map(|b| b.walk().count()).sum()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = FileWriter::create(&mut bytes, events()).unwrap();
        writer.write_records(&records()).unwrap();
        let mut features = FeatureSections::new(Endian::NATIVE);
        features.insert_string(Feature::HOSTNAME, "somewhere");
        let len = writer.finish(features).unwrap();
        assert_eq!(len, bytes.get_ref().len() as u64);
        let data = PerfData::read(&bytes.get_ref()[..], Path::new("-")).unwrap();
        assert_eq!(kinds(&data), 10);
        assert_eq!(
            data.features().string(Feature::HOSTNAME).unwrap(),
            "somewhere"
        );
        let names: Vec<_> = data.events().list().iter().map(|e| &e.name[..]).collect();
        assert_eq!(names, ["cpu-clock", "sideband"]);
        assert_eq!(data.events().by_id(108), Some(1));
        assert!(data.warnings().is_empty());
    }

    #[test]
    fn killed_at_any_byte_leaves_the_whole_records() {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = FileWriter::create(&mut bytes, events()).unwrap();
        writer.write_records(&records()).unwrap();
        writer.checkpoint().unwrap();
        let start = writer.data_start as usize;
        drop(writer);
        let bytes = bytes.into_inner();
        for len in start..=bytes.len() {
            let data = PerfData::read(&bytes[..len], Path::new("-")).unwrap();
            assert_eq!(kinds(&data), (len - start) / 24);
        }
        for len in 1..start {
            // Attrs or ids cut off: an error or a warning, never a panic.
            let _ = PerfData::read(&bytes[..len], Path::new("-"));
        }
    }
}
