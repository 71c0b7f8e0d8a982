//! Compresses records into a zstd stream of COMPRESSED records.

use std::io;

use rprof_records::{Endian, Header, Misc, RecordType};
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use super::options::WriteOptions;
use crate::features::run::Compression;

/// Bytes compressed together. The flush after them limits the loss in a crash.
const TOGETHER: usize = 256 << 10;

/// Maximum compressed bytes in a record, whose size has 16 bits: a multiple of eight with the
/// header, with room for padding.
const IN_A_RECORD: usize = 65_504;

/// Maximum expanded size of a COMPRESSED record, which perf allocates. It covers one flush plus
/// zstd's buffer (a block of 128 KiB).
const EXPANDS_TO: u32 = 512 << 10;

pub(crate) struct Compressor {
    encoder: Encoder<'static>,
    level: i32,
    endian: Endian,
    pending: Vec<u8>,
    out: Vec<u8>,
    scratch: Vec<u8>,
    bytes_in: u64,
    bytes_out: u64,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor")
            .field("level", &self.level)
            .field("bytes_in", &self.bytes_in)
            .field("bytes_out", &self.bytes_out)
            .finish_non_exhaustive()
    }
}

impl Compressor {
    pub(crate) fn for_options(options: &WriteOptions) -> io::Result<Option<Compressor>> {
        let Some(level) = options.compression else {
            return Ok(None);
        };
        Ok(Some(Compressor {
            encoder: Encoder::new(level)?,
            level,
            endian: options.endian,
            pending: Vec::new(),
            out: Vec::new(),
            scratch: vec![0; TOGETHER],
            bytes_in: 0,
            bytes_out: 0,
        }))
    }

    /// Returns true if there are enough records to compress.
    pub(crate) fn push(&mut self, records: &[u8]) -> bool {
        self.pending.extend_from_slice(records);
        self.pending.len() >= TOGETHER
    }

    pub(crate) fn compress_pushed(&mut self) -> io::Result<&[u8]> {
        self.out.clear();
        let pending = std::mem::take(&mut self.pending);
        let result = pending.chunks(TOGETHER).try_for_each(|c| self.compress(c));
        self.pending = pending;
        self.pending.clear();
        result?;
        Ok(&self.out)
    }

    fn compress(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut compressed = Vec::new();
        let mut input = InBuffer::around(bytes);
        while input.pos() < bytes.len() {
            let mut output = OutBuffer::around(&mut self.scratch[..]);
            self.encoder.run(&mut input, &mut output)?;
            compressed.extend_from_slice(output.as_slice());
        }
        loop {
            let mut output = OutBuffer::around(&mut self.scratch[..]);
            let left = self.encoder.flush(&mut output)?;
            compressed.extend_from_slice(output.as_slice());
            if left == 0 {
                break;
            }
        }
        for piece in compressed.chunks(IN_A_RECORD) {
            let header = Header {
                kind: RecordType::COMPRESSED,
                misc: Misc(0),
                size: (Header::SIZE + piece.len()) as u16,
            };
            self.out.extend(header.encode(self.endian));
            self.out.extend_from_slice(piece);
        }
        self.bytes_in += bytes.len() as u64;
        self.bytes_out += compressed.len() as u64;
        Ok(())
    }

    pub(crate) fn description(&self) -> Compression {
        Compression {
            version: 1,
            kind: Compression::ZSTD,
            level: self.level.unsigned_abs(),
            ratio: u32::try_from(self.bytes_in / self.bytes_out.max(1)).unwrap_or(u32::MAX),
            mmap_len: EXPANDS_TO,
        }
    }
}
