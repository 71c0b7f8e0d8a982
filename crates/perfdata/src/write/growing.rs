//! Writer of a recording that is complete at every moment, including its header sections.
//!
//! ```text
//!   header | attrs | ids | sections | records ... gap gap gap | table | late sections
//!                                            ^end              ^limit
//! ```
//!
//! A recorder may be killed between any two writes. Readers expect the table of feature sections
//! right after the data, but there is no place for it while records are appended. So the header
//! states more data than there is, up to `limit`, where the table starts. After the last record,
//! gaps fill the data. A gap is a HEADER_EVENT_TYPE record, which every perf since 3.10 skips. Only
//! its header is written, at each multiple of 32 KiB.
//!
//! A record replaces a gap: first all bytes except for the first header, while readers still skip
//! the gap, then that header, eight bytes in one write. When the gaps are used up, more gaps and
//! another table are written after the table. Then the last gap is extended to them, and the header
//! is updated. Between these two writes, and between the last two at the end, the last gap exceeds
//! the data, and perf may refuse the file. This takes some microseconds in each half MiB.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use rprof_records::{Endian, Header, Misc, RawBytes, RecordType};

use super::RecordWriter;
use super::compress::Compressor;
use super::header_block::HeaderBlock;
use super::options::{EventDescription, WriteOptions};
use crate::features::rprof_notes::UNFINISHED;
use crate::features::{Feature, FeatureSections};
use crate::header::{DATA_LEN_AT, HEADER_SIZE};

/// Gaps start at multiples of this.
const GRID: u64 = 32 << 10;

/// Bytes reserved as gaps at a time.
const RESERVE: u64 = 512 << 10;

/// Length of the gap between the last multiple of [`GRID`] and the table.
const LAST_GAP: u64 = 16;

/// Maximum bytes placed at once, unless a single record is longer.
const PIECE: usize = 60 << 10;

/// The size of a record has 16 bits.
const LONGEST_GAP: u64 = 65_528;

const BUFFER: usize = 256 << 10;

/// Bytes of a table entry.
const ENTRY: u64 = 16;

/// Destination of a recording that supports truncation.
pub trait Storage: Write + Seek {
    /// Truncates the destination to `len` bytes.
    ///
    /// # Errors
    /// Fails if the file system does.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Storage for File {
    /// Does nothing on a device such as `/dev/null`.
    fn cut(&mut self, len: u64) -> io::Result<()> {
        match self.metadata()?.is_file() {
            true => self.set_len(len),
            false => Ok(()),
        }
    }
}

/// Writes a perf.data file in file mode that stays readable, even by perf, whenever the writer
/// dies. It then has all records up to the last [`checkpoint`](Self::checkpoint), and the sections
/// passed at the start.
///
/// After an error, the writer refuses further writes. Earlier data stays readable.
#[derive(Debug)]
pub struct GrowingWriter<W: Storage> {
    out: W,
    header: HeaderBlock,
    compressor: Option<Compressor>,
    features: FeatureSections,
    /// Offset and length of each of `features`.
    places: Vec<(u64, u64)>,
    pending: Vec<u8>,
    data_start: u64,
    /// End of the last record, a multiple of eight.
    end: u64,
    limit: u64,
    failed: bool,
}

impl<W: Storage> GrowingWriter<W> {
    /// Creates a file with these events and sections. Adds EVENT_DESC if missing, and COMPRESSED if
    /// the records will be compressed.
    ///
    /// # Errors
    /// Fails if the writer or zstd does.
    pub fn create(
        out: W,
        events: Vec<EventDescription>,
        features: &FeatureSections,
        options: WriteOptions,
    ) -> io::Result<GrowingWriter<W>> {
        let header = HeaderBlock::new(events, options.endian);
        let compressor = Compressor::for_options(&options)?;
        let mut features = features.clone();
        let mut notes = features.rprof_notes().unwrap_or_default();
        notes.push((UNFINISHED.to_owned(), String::new()));
        features.insert_rprof_notes(&notes);
        header.complete(&mut features, compressor.as_ref());
        let mut body = vec![0; HEADER_SIZE];
        body.extend(header.encode()?);
        let mut places = Vec::new();
        for (_, bytes) in features.iter() {
            places.push((body.len() as u64, bytes.len() as u64));
            body.extend_from_slice(bytes);
        }
        body.resize(body.len().next_multiple_of(8), 0);
        let data_start = body.len() as u64;
        let mut writer = GrowingWriter {
            out,
            header,
            compressor,
            features,
            places,
            pending: Vec::new(),
            data_start,
            end: data_start,
            limit: data_start.next_multiple_of(GRID) + LAST_GAP,
            failed: false,
        };
        writer.put_at(HEADER_SIZE as u64, &body[HEADER_SIZE..])?;
        writer.put_gap(data_start, next(data_start) - data_start)?;
        writer.extend()?;
        let named = writer.features.iter().map(|(feature, _)| feature);
        let bytes = (writer.header).header(data_start, writer.limit - data_start, named);
        writer.put_at(0, &bytes)?;
        Ok(writer)
    }

    /// Returns the events, in file order.
    pub fn events(&self) -> &[EventDescription] {
        &self.header.events
    }

    /// Publishes a table of sections: number, offset, length.
    fn commit(&mut self, data_end: u64, table: &[(Feature, u64, u64)]) -> io::Result<()> {
        let endian = self.header.endian;
        let entries = (table.iter())
            .flat_map(|(_, at, len)| [*at, *len])
            .flat_map(|n| endian.put_u64(n))
            .collect::<Vec<u8>>();
        self.put_at(data_end, &entries)?;
        let data_len = data_end - self.data_start;
        let named = table.iter().map(|(feature, ..)| *feature);
        let header = self.header.header(self.data_start, data_len, named);
        // Ends the data before the table, and publishes the sections in one write.
        self.put_at(0, &header)?;
        self.put_gap(self.end, Header::SIZE as u64)
    }

    fn place(&self, feature: Feature) -> Option<(u64, u64)> {
        (self.features.iter().zip(&self.places))
            .find(|((known, _), _)| *known == feature)
            .map(|(_, place)| *place)
    }

    /// Returns the offset of a section that has not changed since the start.
    fn standing(&self, feature: Feature, bytes: &[u8]) -> Option<u64> {
        let same = self.features.get(feature) == Some(bytes);
        self.place(feature).filter(|_| same).map(|(at, _)| at)
    }

    /// Remembers a failure: readers could not read records after a gap.
    fn guarded<T>(&mut self, write: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        if self.failed {
            return Err(io::Error::other("an earlier write to this file failed"));
        }
        let result = write(self);
        self.failed = result.is_err();
        result
    }

    fn gather(&mut self) -> io::Result<()> {
        if let Some(compressor) = &mut self.compressor {
            self.pending
                .extend_from_slice(compressor.compress_pushed()?);
        }
        Ok(())
    }

    fn put_pending(&mut self) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut rest = &pending[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(piece(rest, self.header.endian));
            self.append(piece)?;
            rest = behind;
        }
        pending.clear();
        self.pending = pending;
        Ok(())
    }

    /// Replaces a gap with records, in the module's order.
    fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        let (first, rest) = piece.split_at(Header::SIZE.min(piece.len()));
        let begin = self.end;
        // A short gap pads compressed records to a multiple of eight.
        let ragged = begin + piece.len() as u64;
        let end = match ragged % 8 {
            0 => ragged,
            _ => (ragged + Header::SIZE as u64).next_multiple_of(8),
        };
        self.reserve(end)?;
        let (endian, onward) = (self.header.endian, next(end) - end);
        let mut behind = rest.to_vec();
        if end > ragged {
            behind.extend(gap(end - ragged, endian));
            behind.resize((end - begin) as usize - Header::SIZE, 0);
        }
        if end + Header::SIZE as u64 <= next(begin) {
            behind.extend(gap(onward, endian));
        } else {
            // Readers must not enter the overwritten gaps any more.
            self.put_gap(end, onward)?;
            self.put_gap(begin, end - begin)?;
        }
        self.put_at(begin + Header::SIZE as u64, &behind)?;
        self.put_at(begin, first)?;
        self.end = end;
        Ok(())
    }

    fn reserve(&mut self, end: u64) -> io::Result<()> {
        while end + Header::SIZE as u64 > self.limit - LAST_GAP {
            self.extend()?;
            let len = self.limit - self.data_start;
            self.put_at(DATA_LEN_AT, &self.header.endian.put_u64(len))?;
        }
        Ok(())
    }

    /// Extends the last gap to more gaps and another table after them.
    fn extend(&mut self) -> io::Result<()> {
        let last = self.limit - LAST_GAP;
        let limit = self.limit + RESERVE;
        let table = (self.places.iter())
            .flat_map(|(at, len)| [*at, *len])
            .flat_map(|n| self.header.endian.put_u64(n))
            .collect::<Vec<u8>>();
        self.put_at(limit, &table)?;
        let mut at = last + GRID;
        while at < limit - LAST_GAP {
            self.put_gap(at, GRID)?;
            at += GRID;
        }
        self.put_gap(at, LAST_GAP)?;
        self.put_gap(last, GRID)?;
        self.limit = limit;
        Ok(())
    }

    fn put_gap(&mut self, at: u64, len: u64) -> io::Result<()> {
        self.put_at(at, &gap(len, self.header.endian))
    }

    fn put_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(bytes)
    }
}

impl<W: Storage> RecordWriter for GrowingWriter<W> {
    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        self.guarded(|this| {
            match &mut this.compressor {
                None => this.pending.extend_from_slice(records),
                Some(compressor) => {
                    if compressor.push(records) {
                        this.pending
                            .extend_from_slice(compressor.compress_pushed()?);
                    }
                }
            }
            match this.pending.len() < BUFFER {
                true => Ok(()),
                false => this.put_pending(),
            }
        })
    }

    fn write_with_payload(&mut self, record: &[u8]) -> io::Result<()> {
        // A gap covers the record while it is written.
        if record.len() > PIECE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.guarded(|this| {
            this.gather()?;
            this.put_pending()?;
            this.append(record)
        })
    }

    fn bytes_written(&self) -> u64 {
        self.end - self.data_start + self.pending.len() as u64
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.guarded(|this| {
            this.gather()?;
            this.put_pending()
        })
    }

    /// Ends the file. After an error, it is as at the last checkpoint.
    fn finish(mut self, mut features: FeatureSections) -> io::Result<u64> {
        self.checkpoint()?;
        (self.header).complete(&mut features, self.compressor.as_ref());
        // Only the header of this gap becomes data.
        let data_end = self.end + Header::SIZE as u64;
        let room = self.end + LONGEST_GAP;
        self.reserve(room)?;
        self.put_gap(room, next(room) - room)?;
        self.put_gap(self.end, LONGEST_GAP)?;
        let table_end = data_end + ENTRY * features.len() as u64;
        let (mut near, far) = (table_end, self.limit + ENTRY * self.places.len() as u64);
        let mut behind = far;
        let mut table = Vec::new();
        let mut left = None;
        for (feature, bytes) in features.iter() {
            let len = bytes.len() as u64;
            let at = match self.standing(feature, bytes) {
                Some(at) => at,
                None if near + len > room && feature == Feature::RPROF_FILES => {
                    left = Some(bytes);
                    continue;
                }
                None => {
                    let place = match near + len <= room {
                        true => &mut near,
                        false => &mut behind,
                    };
                    let at = *place;
                    *place += len;
                    self.put_at(at, bytes)?;
                    at
                }
            };
            table.push((feature, at, len));
        }
        let mut end = match behind > far {
            true => behind,
            false => near,
        };
        match left {
            None => self.commit(data_end, &table)?,
            Some(bytes) => {
                // Until then, the file has the note about being unfinished.
                let begun = self.place(Feature::RPROF);
                let notes = (table.iter().copied().enumerate())
                    .find(|(_, (feature, ..))| *feature == Feature::RPROF);
                if let (Some((n, (feature, ..))), Some((at, len))) = (notes, begun) {
                    table[n] = (feature, at, len);
                }
                self.commit(data_end, &table)?;
                self.put_at(end, bytes)?;
                table.push((Feature::RPROF_FILES, end, bytes.len() as u64));
                end += bytes.len() as u64;
                self.commit(data_end, &table)?;
                if let Some((n, (_, at, len))) = notes {
                    let entry = [at, len].map(|n| self.header.endian.put_u64(n)).concat();
                    self.put_at(data_end + ENTRY * n as u64, &entry)?;
                }
            }
        }
        self.out.cut(end)?;
        self.out.flush()?;
        Ok(end)
    }
}

/// Returns the header of a gap of at most [`LONGEST_GAP`] bytes.
fn gap(len: u64, endian: Endian) -> [u8; Header::SIZE] {
    let header = Header {
        kind: RecordType::HEADER_EVENT_TYPE,
        misc: Misc(0),
        size: u16::try_from(len).unwrap_or(u16::MAX),
    };
    header.encode(endian)
}

fn next(at: u64) -> u64 {
    (at + Header::SIZE as u64).next_multiple_of(GRID)
}

fn piece(records: &[u8], endian: Endian) -> usize {
    let mut len = 0;
    while let Some(header) = Header::parse(&RawBytes::from(&records[len..]), endian) {
        let more = len + usize::from(header.size).max(Header::SIZE);
        if len > 0 && more > PIECE {
            return len;
        }
        if more > records.len() {
            break;
        }
        len = more;
    }
    match len {
        0 => records.len(),
        len => len,
    }
}
