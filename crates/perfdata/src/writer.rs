//! Writing a file that stays readable if its writer dies.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use rprof_records::{Attr, Endian};

use crate::features::{DescribedEvent, Feature, FeatureSections};
use crate::header::{HEADER_SIZE, MAGIC};

/// An event to be recorded.
pub type EventDescription = DescribedEvent;

/// What perf 6.1 knows. It refuses a file whose attrs are longer, even with a
/// zero tail, so more is written only when a newer field is used.
const ATTR_SIZE: usize = 128;

/// Where the header has the length of the data.
const DATA_LEN_AT: u64 = 48;

/// Bytes gathered before a write.
const BUFFER: usize = 256 << 10;

/// Writes a perf.data file in file mode.
///
/// The header says how much data there was at the last
/// [`checkpoint`](Self::checkpoint), and before the first one 0, which readers take
/// for "to the end of the file": a recorder that is killed leaves a file whose
/// complete records read back.
#[derive(Debug)]
pub struct FileWriter<W: Write + Seek> {
    out: BufWriter<W>,
    events: Vec<EventDescription>,
    attr_size: usize,
    data_start: u64,
    data_len: u64,
}

impl<W: Write + Seek> FileWriter<W> {
    /// Begins a file with these events: writes the header, the attrs and the ids.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn create(out: W, events: Vec<EventDescription>) -> io::Result<FileWriter<W>> {
        let attr_size = (events.iter())
            .map(|e| e.attr.needed_size())
            .fold(ATTR_SIZE, usize::max);
        let stride = attr_size + 16;
        let ids_start = HEADER_SIZE + stride * events.len();
        let ids_len: usize = events.iter().map(|e| e.ids.len() * 8).sum();
        let mut writer = FileWriter {
            out: BufWriter::with_capacity(BUFFER, out),
            attr_size,
            data_start: (ids_start + ids_len) as u64,
            data_len: 0,
            events,
        };
        writer.write_header(&FeatureSections::default())?;
        let mut ids_at = ids_start;
        let mut body = Vec::new();
        for event in &writer.events {
            body.extend(encode_attr(&event.attr, attr_size)?);
            body.extend((ids_at as u64).to_ne_bytes());
            body.extend((event.ids.len() as u64 * 8).to_ne_bytes());
            ids_at += event.ids.len() * 8;
        }
        for event in &writer.events {
            body.extend(event.ids.iter().flat_map(|id| id.to_ne_bytes()));
        }
        writer.out.write_all(&body)?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// The events, in the order of the file.
    pub fn events(&self) -> &[EventDescription] {
        &self.events
    }

    /// Appends whole records.
    ///
    /// # Errors
    /// Those of the writer. What was flushed before remains readable.
    pub fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.out.write_all(records)?;
        self.data_len += records.len() as u64;
        Ok(())
    }

    /// Bytes of records so far.
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
        self.out.flush()?;
        // The records first, the header after: it must not name what is not there.
        self.out.seek(SeekFrom::Start(DATA_LEN_AT))?;
        self.out.write_all(&self.data_len.to_ne_bytes())?;
        self.out
            .seek(SeekFrom::Start(self.data_start + self.data_len))?;
        Ok(())
    }

    /// Ends the file: appends the feature sections and tells the header how much
    /// there is. EVENT_DESC is added. Answers the length of the file in bytes.
    ///
    /// # Errors
    /// Those of the writer. The records remain readable.
    pub fn finish(mut self, mut features: FeatureSections) -> io::Result<u64> {
        features.insert_event_descriptions(&self.events, self.attr_size);
        let mut at = self.data_start + self.data_len + 16 * features.iter().count() as u64;
        let (mut table, mut sections) = (Vec::new(), Vec::new());
        for (_, bytes) in features.iter() {
            table.extend(at.to_ne_bytes());
            table.extend((bytes.len() as u64).to_ne_bytes());
            sections.extend_from_slice(bytes);
            at += bytes.len() as u64;
        }
        self.out.write_all(&table)?;
        self.out.write_all(&sections)?;
        // The sections first, the header last: it must not name what is not there.
        self.out.flush()?;
        self.out.seek(SeekFrom::Start(0))?;
        self.write_header(&features)?;
        self.out.flush()?;
        Ok(at)
    }

    fn write_header(&mut self, features: &FeatureSections) -> io::Result<()> {
        let stride = (self.attr_size + 16) as u64;
        let mut bitmap = [0u64; Feature::MAX as usize / 64];
        for (feature, _) in features.iter() {
            bitmap[feature.0 as usize / 64] |= 1 << (feature.0 % 64);
        }
        let words = [
            HEADER_SIZE as u64,
            stride,
            HEADER_SIZE as u64,
            stride * self.events.len() as u64,
            self.data_start,
            self.data_len,
            0,
            0,
        ];
        // Read as one number the magic tells the byte order: a little-endian
        // machine writes the letters in order, a big-endian one in reverse.
        let mut header = u64::from_le_bytes(MAGIC).to_ne_bytes().to_vec();
        header.extend(words.into_iter().chain(bitmap).flat_map(u64::to_ne_bytes));
        self.out.write_all(&header)
    }
}

fn encode_attr(attr: &Attr, size: usize) -> io::Result<Vec<u8>> {
    attr.encode(Endian::NATIVE, size)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::PerfData;
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
