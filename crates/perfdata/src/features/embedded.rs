//! Files that rprof embeds since they are not there for long: perf maps and jitdumps of runtimes,
//! and programs that only the process could see.
//!
//! The section is rprof's own, like that of [`rprof_notes`](super::rprof_notes): a mark, a count, and
//! each file with what it is known by, compressed by zstd. Offsets and sizes are those of the
//! file's byte order.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

use super::{Feature, FeatureSections};

/// Begins the section, since another tool may use the same number.
const MARK: &str = "rprof files";

/// Longest embedded file, in bytes; one that says to be longer is not expanded.
pub const MOST_BYTES: u64 = 256 << 20;

/// Least bytes of an entry.
const LEAST: usize = 4 + 4 + 8 + 8 + 4 + 4 + 8 + 4 + 4 + 8 + 8;

/// Kind of an embedded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbeddedKind(pub u32);

impl EmbeddedKind {
    /// `/tmp/perf-PID.map`.
    pub const PERF_MAP: EmbeddedKind = EmbeddedKind(1);
    /// `jit-PID.dump`, perhaps without the machine code.
    pub const JITDUMP: EmbeddedKind = EmbeddedKind(2);
    /// A program or library.
    pub const IMAGE: EmbeddedKind = EmbeddedKind(3);
    /// No file, but the [build-id](EmbeddedFile::of_build_id) of one that records name by device and inode.
    pub const BUILD_ID: EmbeddedKind = EmbeddedKind(4);
}

/// A file embedded in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedFile<'a> {
    /// Kind of the file.
    pub kind: EmbeddedKind,
    /// Process of the file, by the number that the records use; -1 for a file of no process.
    pub pid: i32,
    /// From when on it is of that process, in nanoseconds, where its number was used again; of
    /// [`EmbeddedKind::BUILD_ID`] the generation of the inode.
    pub since: u64,
    /// The device it was on, as the record of the mapping tells; 0 where it does not.
    pub device: (u32, u32),
    /// Inode; 0 where the record has none.
    pub inode: u64,
    /// Build-id, where the record has one; else empty.
    pub build_id: Cow<'a, [u8]>,
    /// Path as the process saw it, or as the record has it.
    pub path: Cow<'a, [u8]>,
    /// Length in bytes.
    pub len: u64,
    /// Compressed contents.
    pub compressed: Cow<'a, [u8]>,
}

impl EmbeddedFile<'_> {
    /// Decompresses the contents. Returns `None` where they are damaged, or too long.
    pub fn contents(&self) -> Option<Vec<u8>> {
        if self.len > MOST_BYTES {
            return None;
        }
        let decoder = zstd::stream::read::Decoder::new(&self.compressed[..]).ok()?;
        let mut bytes = Vec::new();
        // It grows with what comes, not with what is said.
        decoder.take(self.len).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == self.len).then_some(bytes)
    }
}

/// Level of zstd: these files compress well at any.
const LEVEL: i32 = 1;

/// Compresses the contents of a file that is to be embedded.
///
/// # Errors
/// Fails if zstd does.
pub fn compress(contents: &[u8]) -> io::Result<Vec<u8>> {
    zstd::stream::encode_all(contents, LEVEL)
}

/// Compression of a file that is to be embedded, in pieces, at the level of [`compress`].
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
    /// Begins with nothing.
    ///
    /// # Errors
    /// Fails if zstd does.
    pub fn new() -> io::Result<Compressor> {
        let encoder = zstd::stream::Encoder::new(Vec::new(), LEVEL)?;
        Ok(Compressor { encoder })
    }

    /// Returns the compressed bytes so far; zstd holds some back.
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
    /// Returns the files that rprof embedded. `None` also when the section with this number is not
    /// rprof's.
    pub fn embedded_files(&self) -> Option<Vec<EmbeddedFile<'_>>> {
        let mut section = self.decoder(Feature::RPROF_FILES)?;
        if section.string()? != MARK {
            return None;
        }
        section.list(LEAST, |one| {
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
