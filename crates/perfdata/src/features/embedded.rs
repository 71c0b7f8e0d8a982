//! Short-lived files that rprof embeds: perf maps and jitdumps of runtimes, and programs visible
//! only to the process.
//!
//! This section is private to rprof. It contains a magic string, a count, and an entry for each
//! file: its identity and its contents, compressed with zstd. Numbers have the file's byte order.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

use super::{Feature, FeatureSections};

/// Magic string, because another tool may use the same section number.
const MARK: &str = "rprof files";

/// Maximum length of an embedded file in bytes, for decompression.
pub const MAX_BYTES: u64 = 256 << 20;

/// Minimum bytes of an entry.
const MINIMUM: usize = 4 + 4 + 8 + 8 + 4 + 4 + 8 + 4 + 4 + 8 + 8;

/// Kind of an embedded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedKind(pub u32);

impl EmbeddedKind {
    /// `/tmp/perf-PID.map`.
    pub const PERF_MAP: EmbeddedKind = EmbeddedKind(1);
    /// `jit-PID.dump`, possibly without the machine code.
    pub const JITDUMP: EmbeddedKind = EmbeddedKind(2);
    /// Program or library.
    pub const IMAGE: EmbeddedKind = EmbeddedKind(3);
    /// [Build-id](EmbeddedFile::of_build_id) of a file that records identify by device and inode.
    /// Has no contents.
    pub const BUILD_ID: EmbeddedKind = EmbeddedKind(4);
}

/// File embedded in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedFile<'a> {
    /// Kind of the file.
    pub kind: EmbeddedKind,
    /// Process of the file, with the pid of the records; -1 if it belongs to none.
    pub pid: i32,
    /// Start of that process in nanoseconds, if its pid was reused. For [`EmbeddedKind::BUILD_ID`],
    /// the inode's generation.
    pub since: u64,
    /// Device from the mapping record; 0 if unknown.
    pub device: (u32, u32),
    /// Inode; 0 if unknown.
    pub inode: u64,
    /// Build-id from the record; may be empty.
    pub build_id: Cow<'a, [u8]>,
    /// Path as seen by the process, or as recorded.
    pub path: Cow<'a, [u8]>,
    /// Uncompressed length in bytes.
    pub len: u64,
    /// Compressed contents.
    pub compressed: Cow<'a, [u8]>,
}

impl EmbeddedFile<'_> {
    /// Decompresses the contents; `None` if they are damaged or too long.
    pub fn contents(&self) -> Option<Vec<u8>> {
        if self.len > MAX_BYTES {
            return None;
        }
        let decoder = zstd::stream::read::Decoder::new(&self.compressed[..]).ok()?;
        let mut bytes = Vec::new();
        // The buffer grows with the data, not with the stated length.
        decoder.take(self.len).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == self.len).then_some(bytes)
    }
}

/// Level of zstd. These files compress well at any.
const LEVEL: i32 = 1;

/// Compresses contents for embedding.
///
/// # Errors
/// Fails if zstd does.
pub fn compress(contents: &[u8]) -> io::Result<Vec<u8>> {
    zstd::stream::encode_all(contents, LEVEL)
}

/// Streaming form of [`compress`].
pub struct Compressor {
    encoder: zstd::stream::Encoder<'static, Vec<u8>>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Compressor"))
            .field("compressed", &self.compressed())
            .finish_non_exhaustive()
    }
}

impl Compressor {
    /// Creates an empty compressor.
    ///
    /// # Errors
    /// Fails if zstd does.
    pub fn new() -> io::Result<Compressor> {
        let encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
        Ok(Compressor { encoder })
    }

    /// Returns the number of compressed bytes so far, without those buffered in zstd.
    pub fn compressed(&self) -> usize {
        self.encoder.get_ref().len()
    }

    /// Ends the compression, and returns all compressed bytes.
    ///
    /// # Errors
    /// Fails if zstd does.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        self.encoder.finish()
    }
}

impl io::Write for Compressor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.encoder.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.encoder.flush()
    }
}

impl FeatureSections {
    /// Returns the embedded files. `None` also if another tool wrote the section.
    pub fn embedded_files(&self) -> Option<Vec<EmbeddedFile<'_>>> {
        let mut section = self.decoder(Feature::RPROF_FILES)?;
        if section.string()? != MARK {
            return None;
        }
        section.list(MINIMUM, |one| {
            let kind = EmbeddedKind(one.u32()?);
            let (pid, since) = (one.i32()?, one.u64()?);
            let (device, inode) = ((one.u32()?, one.u32()?), one.u64()?);
            let build_id = one.u32()? as usize;
            let build_id = Cow::Borrowed(one.take(build_id)?);
            let path = one.u32()? as usize;
            let path = Cow::Borrowed(one.take(path)?);
            let len = one.u64()?;
            let compressed = usize::try_from(one.u64()?).ok()?;
            Some(EmbeddedFile {
                kind,
                pid,
                since,
                device,
                inode,
                build_id,
                path,
                len,
                compressed: Cow::Borrowed(one.take(compressed)?),
            })
        })
    }

    /// Sets the embedded files. perf skips the section.
    pub fn insert_embedded_files(&mut self, files: &[EmbeddedFile<'_>]) {
        self.encode(Feature::RPROF_FILES, |out| {
            out.string(MARK);
            out.list(files, |out, file| {
                out.u32(file.kind.0);
                out.u32(file.pid.cast_unsigned());
                out.u64(file.since);
                out.u32(file.device.0);
                out.u32(file.device.1);
                out.u64(file.inode);
                for bytes in [&file.build_id, &file.path] {
                    out.u32(bytes.len() as u32);
                    out.bytes.extend_from_slice(bytes);
                }
                out.u64(file.len);
                out.u64(file.compressed.len() as u64);
                out.bytes.extend_from_slice(&file.compressed);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    fn file(contents: &[u8]) -> EmbeddedFile<'static> {
        EmbeddedFile {
            kind: EmbeddedKind::PERF_MAP,
            pid: 7,
            since: 8,
            device: (1, 2),
            inode: 3,
            build_id: Cow::Borrowed(&[1, 2]),
            path: Cow::Borrowed(b"/tmp/perf-7.map"),
            len: contents.len() as u64,
            compressed: Cow::Owned(compress(contents).unwrap()),
        }
    }

    #[test]
    fn embedded_files_come_back() {
        in_both_orders(|f| {
            let files = [file(b"1 2 three\n"), file(&[])];
            f.insert_embedded_files(&files);
            let read = f.embedded_files().unwrap();
            assert_eq!(read, files);
            assert_eq!(read[0].contents().unwrap(), b"1 2 three\n");
            assert_eq!(read[1].contents().unwrap(), b"");
            f.insert_string(Feature::RPROF_FILES, "somebody");
            assert_eq!(f.embedded_files(), None);
        });
    }

    #[test]
    fn lengths_are_not_trusted() {
        let mut bomb = file(&vec![0; 1 << 20]);
        for len in [0, 1, (1 << 20) - 1, (1 << 20) + 1, u64::MAX] {
            bomb.len = len;
            let read = bomb.contents().map(|bytes| bytes.len() as u64);
            assert!(read.is_none_or(|read| read == len), "{len}");
        }
        in_both_orders(|f| {
            f.insert_embedded_files(&[file(b"x")]);
            let whole = f.get(Feature::RPROF_FILES).unwrap().to_vec();
            for len in 0..whole.len() {
                f.insert(Feature::RPROF_FILES, whole[..len].to_vec());
                assert_eq!(f.embedded_files(), None, "{len}");
            }
        });
    }
}
