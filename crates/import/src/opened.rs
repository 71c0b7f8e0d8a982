//! [`Opened`]: a decompressed input with its detected format.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use crate::detect::{Detected, MAX_START, detect};

/// First bytes of gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// First bytes of Zstandard (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Maximum number of compression layers. pprof profiles are already gzip files.
const MAX_LAYERS: usize = 3;

/// Decompressed size that every input may have, in bytes.
pub const MAX_EXPANDED: u64 = 1 << 30;

/// Maximum decompression ratio of larger inputs.
const MAX_RATIO: u64 = 200;

/// Decompressed input with its detected format.
pub struct Opened {
    detected: Detected,
    start: Vec<u8>,
    stream: Box<dyn BufRead>,
    is_compressed: bool,
}

impl Opened {
    /// Detects the format of a stream, which may be compressed by gzip or Zstandard.
    ///
    /// # Errors
    /// The stream cannot be read, or its start cannot be decompressed.
    pub fn new(stream: impl Read + 'static) -> io::Result<Opened> {
        let mut stream: Box<dyn BufRead> = Box::new(BufReader::with_capacity(64 << 10, stream));
        let mut layers = 0;
        let mut start = Vec::new();
        loop {
            start.clear();
            read_until(&mut stream, 4, &mut start)?;
            let (is_gzip, is_zstd) = (start.starts_with(&GZIP), start.starts_with(&ZSTD));
            let rest = Box::new(Cursor::new(start.clone()).chain(stream));
            if !is_gzip && !is_zstd || layers == MAX_LAYERS {
                stream = rest;
                break;
            }
            layers += 1;
            let read = Rc::new(Cell::new(0));
            let packed = Packed {
                stream: rest,
                read: Rc::clone(&read),
            };
            let unpacked: Box<dyn Read> = match is_gzip {
                true => Box::new(MultiGzDecoder::new(packed)),
                false => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
            };
            stream = Box::new(BufReader::with_capacity(
                64 << 10,
                Unpacked {
                    stream: unpacked,
                    read,
                    expanded: 0,
                },
            ));
        }
        start.clear();
        let mut wanted = 4096;
        let detected = loop {
            let at_end = !read_until(&mut stream, wanted, &mut start)?;
            if let Some(detected) = detect(&start, at_end) {
                break detected;
            }
            wanted = (2 * wanted).min(MAX_START);
        };
        Ok(Opened {
            detected,
            start,
            stream,
            is_compressed: layers > 0,
        })
    }

    /// Returns the detected format.
    pub fn detected(&self) -> &Detected {
        &self.detected
    }

    /// Returns the first decompressed bytes.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// Returns whether it was compressed.
    pub fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Returns the whole decompressed stream.
    pub fn into_stream(self) -> impl BufRead + 'static {
        Cursor::new(self.start).chain(self.stream)
    }
}

/// Reads until `start` has `wanted` bytes. Returns false at the end.
fn read_until(stream: &mut dyn BufRead, wanted: usize, start: &mut Vec<u8>) -> io::Result<bool> {
    let missing = wanted.saturating_sub(start.len()) as u64;
    stream.take(missing).read_to_end(start)?;
    Ok(start.len() >= wanted)
}

/// Compressed stream that counts its bytes.
struct Packed<R> {
    stream: R,
    read: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for Packed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(buffer)?;
        self.read.set(self.read.get() + len as u64);
        Ok(len)
    }
}

impl<R: BufRead> BufRead for Packed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.stream.fill_buf()
    }

    fn consume(&mut self, len: usize) {
        self.read.set(self.read.get() + len as u64);
        self.stream.consume(len);
    }
}

/// Decompressed stream with a limited ratio.
struct Unpacked {
    stream: Box<dyn Read>,
    /// Number of compressed bytes read.
    read: Rc<Cell<u64>>,
    expanded: u64,
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(buffer)?;
        self.expanded += len as u64;
        let most = MAX_EXPANDED.max(self.read.get().saturating_mul(MAX_RATIO));
        match self.expanded > most {
            true => Err(io::Error::other(TooLarge)),
            false => Ok(len),
        }
    }
}

/// A decompression bomb: the input expands beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it expands to more than {} MiB and {} times its size; unpack it first, or export less", MAX_EXPANDED >> 20, MAX_RATIO)]
pub struct TooLarge;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::Format;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).unwrap()
    }

    #[test]
    fn all_that_is_compressed_is_looked_into() {
        let texts = [
            (&b"main;work 12\n"[..], Detected::Profile(Format::Folded)),
            (
                b"w 17 1.5: cycles: \n",
                Detected::Profile(Format::PerfScript),
            ),
            (b"{\"meta\":{}}", Detected::Profile(Format::Json)),
            (b"PERFILE2\x68\0\0\0\0\0\0\0", Detected::Other),
        ];
        for (text, wanted) in texts {
            for packed in [gzip(text), zstd(text), zstd(&gzip(text)), gzip(&zstd(text))] {
                let opened = Opened::new(Cursor::new(packed)).unwrap();
                assert_eq!(opened.detected(), &wanted);
                assert!(opened.is_compressed());
                let mut all = Vec::new();
                opened.into_stream().read_to_end(&mut all).unwrap();
                assert_eq!(all, text);
            }
            let opened = Opened::new(Cursor::new(text.to_vec())).unwrap();
            assert!(opened.detected() == &wanted && !opened.is_compressed());
        }
    }

    #[test]
    fn members_and_frames_one_behind_the_other_are_one_stream() {
        for packed in [
            [gzip(b"main;work 12\n"), gzip(b"main;rest 1\n")].concat(),
            [zstd(b"main;work 12\n"), zstd(b"main;rest 1\n")].concat(),
        ] {
            let mut all = String::new();
            let opened = Opened::new(Cursor::new(packed)).unwrap();
            opened.into_stream().read_to_string(&mut all).unwrap();
            assert_eq!(all, "main;work 12\nmain;rest 1\n");
        }
    }

    #[test]
    fn what_is_damaged_or_cut_short_is_an_error() {
        let whole = gzip(&b"main;work 12\n".repeat(1 << 16));
        let opened = Opened::new(Cursor::new(whole[..whole.len() / 2].to_vec())).unwrap();
        assert!(opened.into_stream().read_to_end(&mut Vec::new()).is_err());
        assert!(Opened::new(Cursor::new(b"\x1f\x8b".to_vec())).is_err());
        assert!(Opened::new(Cursor::new(b"\x28\xb5\x2f\xfd\xff\xff".to_vec())).is_err());
    }

    #[test]
    fn what_expands_without_end_is_an_error() {
        // 1.4 MiB of gzip, 1.4 GiB of text.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b'\n'; 64 << 20]).unwrap();
        let bomb = encoder.finish().unwrap().repeat(22);
        let mut stream = Opened::new(Cursor::new(bomb)).unwrap().into_stream();
        let error = io::copy(&mut stream, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("200 times its size"), "{error}");
    }
}
