//! Writer for file mode.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::RecordWriter;
use super::compress::Compressor;
use super::header_block::HeaderBlock;
use super::options::{EventDescription, WriteOptions};
use crate::features::FeatureSections;
use crate::header::DATA_LEN_AT;

const BUFFER: usize = 256 << 10;

/// Writes a perf.data file in file mode.
///
/// The header contains the data length at the last [`checkpoint`](Self::checkpoint); before it 0,
/// which readers take for "to the end of the file". If the writer is killed, readers find the
/// complete records but no sections, and perf no compressed ones. Recorders should use
/// [`GrowingWriter`](crate::GrowingWriter).
///
/// After an error, the writer refuses further writes. Earlier data stays readable.
#[derive(Debug)]
pub struct FileWriter<W: Write + Seek> {
    out: BufWriter<W>,
    header: HeaderBlock,
    data_start: u64,
    data_len: u64,
    compressor: Option<Compressor>,
    failed: bool,
}

impl<W: Write + Seek> FileWriter<W> {
    /// Creates a file with these events: writes the header, the attrs and the ids.
    ///
    /// # Errors
    /// Fails if the writer does.
    pub fn create(out: W, events: Vec<EventDescription>) -> io::Result<FileWriter<W>> {
        FileWriter::create_with(out, events, WriteOptions::default())
    }

    /// Creates a file like [`create`](Self::create), with a byte order and a compression.
    ///
    /// # Errors
    /// Fails if the writer or zstd does.
    pub fn create_with(
        out: W,
        events: Vec<EventDescription>,
        options: WriteOptions,
    ) -> io::Result<FileWriter<W>> {
        let header = HeaderBlock::new(events, options.endian);
        let mut writer = FileWriter {
            out: BufWriter::with_capacity(BUFFER, out),
            data_start: header.len() as u64,
            data_len: 0,
            compressor: Compressor::for_options(&options)?,
            header,
            failed: false,
        };
        let mut body = writer.encode_header(0, &FeatureSections::default());
        body.extend(writer.header.encode()?);
        writer.out.write_all(&body)?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// Returns the events, in file order.
    pub fn events(&self) -> &[EventDescription] {
        &self.header.events
    }

    /// Appends whole records without compression, as payloads require. Returns their file offset.
    ///
    /// # Errors
    /// Fails like [`write_records`](RecordWriter::write_records).
    pub fn write_uncompressed(&mut self, records: &[u8]) -> io::Result<u64> {
        self.guarded(|this| {
            this.put_compressed()?;
            let at = this.data_start + this.data_len;
            this.put(records)?;
            Ok(at)
        })
    }

    /// Remembers a failure: readers could not find records after a gap.
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
            let records = compressor.compress_pushed()?;
            self.out.write_all(records)?;
            self.data_len += records.len() as u64;
        }
        Ok(())
    }

    fn encode_header(&self, data_len: u64, features: &FeatureSections) -> Vec<u8> {
        let features = features.iter().map(|(feature, _)| feature);
        self.header.header(self.data_start, data_len, features)
    }
}

impl<W: Write + Seek> RecordWriter for FileWriter<W> {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
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

    fn write_with_payload(&mut self, record: &[u8]) -> io::Result<()> {
        self.write_uncompressed(record).map(drop)
    }

    fn bytes_written(&self) -> u64 {
        self.data_len
    }

    /// Flushes the buffer, then updates the header's data length. (perf reads nothing if it is 0.)
    fn checkpoint(&mut self) -> io::Result<()> {
        self.guarded(|this| {
            this.put_compressed()?;
            this.out.flush()?;
            // Records before the header.
            this.out.seek(SeekFrom::Start(DATA_LEN_AT))?;
            this.out
                .write_all(&this.header.endian.put_u64(this.data_len))?;
            let end = this.data_start + this.data_len;
            this.out.seek(SeekFrom::Start(end))?;
            Ok(())
        })
    }

    fn finish(mut self, mut features: FeatureSections) -> io::Result<u64> {
        // Now the header has the data length but no sections. After a crash, readers do not mistake
        // a section for records.
        self.checkpoint()?;
        (self.header).complete(&mut features, self.compressor.as_ref());
        let mut at = self.data_start + self.data_len + 16 * features.len() as u64;
        for (_, bytes) in features.iter() {
            self.out.write_all(&self.header.endian.put_u64(at))?;
            self.out
                .write_all(&self.header.endian.put_u64(bytes.len() as u64))?;
            at += bytes.len() as u64;
        }
        for (_, bytes) in features.iter() {
            self.out.write_all(bytes)?;
        }
        // Sections before the header.
        self.out.flush()?;
        let header = self.encode_header(self.data_len, &features);
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header)?;
        self.out.flush()?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Feature;
    use crate::read::reader::PerfData;
    use rprof_records::{Attr, Endian, Misc, RecordType, put_record};
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
        (data.blocks().filter_map(Result::ok))
            .map(|b| b.walk().count())
            .sum()
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
            let _ = PerfData::read(&bytes[..len], Path::new("-"));
        }
    }
}
