//! Data about the run: clocks, compression, folder, AUX index.

use super::{Feature, FeatureSections};

/// Same instant on two clocks, to convert between them (CLOCK_DATA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockData {
    /// Version of the section; 1.
    pub version: u32,
    /// Clock of the records, as in clock_gettime(2).
    pub clockid: u32,
    /// Wall clock in nanoseconds since 1970.
    pub wall_clock: u64,
    /// Clock of the records at the same instant, in nanoseconds.
    pub clock: u64,
}

impl ClockData {
    /// Converts a record time to nanoseconds since 1970; `None` if out of range.
    pub fn wall_time(&self, time: u64) -> Option<u64> {
        let since = i128::from(time) - i128::from(self.clock);
        u64::try_from(i128::from(self.wall_clock) + since).ok()
    }
}

/// Compression of the records (COMPRESSED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Version of the section; 1.
    pub version: u32,
    /// Algorithm; 1 for zstd.
    pub kind: u32,
    /// Requested compression level.
    pub level: u32,
    /// Uncompressed size divided by compressed size.
    pub ratio: u32,
    /// Maximum uncompressed bytes of one COMPRESSED record. perf allocates that much.
    pub mmap_len: u32,
}

impl Compression {
    /// `kind` of zstd.
    pub const ZSTD: u32 = 1;
}

/// Position of an AUXTRACE record (AUXTRACE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceEntry {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes of the record without its payload.
    pub size: u64,
}

impl FeatureSections {
    /// Returns the time of the first and of the last sample, in nanoseconds.
    pub fn sample_time(&self) -> Option<(u64, u64)> {
        let mut section = self.decoder(Feature::SAMPLE_TIME)?;
        Some((section.u64()?, section.u64()?))
    }

    /// Returns the resolution of the record clock in nanoseconds (CLOCKID).
    pub fn clock_resolution(&self) -> Option<u64> {
        self.decoder(Feature::CLOCKID)?.u64()
    }

    /// Returns the version of the folder format, if the data is in a folder (DIR_FORMAT).
    pub fn folder_version(&self) -> Option<u64> {
        self.decoder(Feature::DIR_FORMAT)?.u64()
    }

    /// Returns one instant on two clocks.
    pub fn clock_data(&self) -> Option<ClockData> {
        let mut section = self.decoder(Feature::CLOCK_DATA)?;
        Some(ClockData {
            version: section.u32()?,
            clockid: section.u32()?,
            wall_clock: section.u64()?,
            clock: section.u64()?,
        })
    }

    /// Sets one instant on two clocks.
    pub fn insert_clock_data(&mut self, clocks: &ClockData) {
        self.encode(Feature::CLOCK_DATA, |out| {
            out.u32(clocks.version);
            out.u32(clocks.clockid);
            out.u64(clocks.wall_clock);
            out.u64(clocks.clock);
        });
    }

    /// Returns the compression of the records.
    pub fn compression(&self) -> Option<Compression> {
        let mut section = self.decoder(Feature::COMPRESSED)?;
        Some(Compression {
            version: section.u32()?,
            kind: section.u32()?,
            level: section.u32()?,
            ratio: section.u32()?,
            mmap_len: section.u32()?,
        })
    }

    /// Sets the compression of the records.
    pub fn insert_compression(&mut self, how: &Compression) {
        self.encode(Feature::COMPRESSED, |out| {
            for word in [how.version, how.kind, how.level, how.ratio, how.mmap_len] {
                out.u32(word);
            }
        });
    }

    /// Returns the positions of the AUXTRACE records.
    pub fn auxtrace_index(&self) -> Option<Vec<AuxtraceEntry>> {
        let mut section = self.decoder(Feature::AUXTRACE)?;
        let count = section.u64()?;
        section.items(count, 16, |section| {
            Some(AuxtraceEntry {
                offset: section.u64()?,
                size: section.u64()?,
            })
        })
    }

    /// Sets the positions of the AUXTRACE records.
    pub fn insert_auxtrace_index(&mut self, entries: &[AuxtraceEntry]) {
        self.encode(Feature::AUXTRACE, |out| {
            out.u64(entries.len() as u64);
            for entry in entries {
                out.u64(entry.offset);
                out.u64(entry.size);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_both_orders;
    use super::*;

    #[test]
    fn reads_back_what_was_set() {
        in_both_orders(|f| {
            f.insert_words(Feature::SAMPLE_TIME, &[5, 6]);
            f.insert_words(Feature::CLOCKID, &[1]);
            f.insert_words(Feature::DIR_FORMAT, &[1]);
            assert_eq!(f.sample_time(), Some((5, 6)));
            assert_eq!(f.clock_resolution(), Some(1));
            assert_eq!(f.folder_version(), Some(1));
            let clocks = ClockData {
                version: 1,
                clockid: 4,
                wall_clock: 1 << 60,
                clock: 99,
            };
            f.insert_clock_data(&clocks);
            assert_eq!(f.clock_data(), Some(clocks));
            let how = Compression {
                version: 1,
                kind: Compression::ZSTD,
                level: 3,
                ratio: 4,
                mmap_len: 1 << 19,
            };
            f.insert_compression(&how);
            assert_eq!(f.compression(), Some(how));
            let index = [AuxtraceEntry {
                offset: 4096,
                size: 48,
            }];
            f.insert_auxtrace_index(&index);
            assert_eq!(f.auxtrace_index().unwrap(), index);
        });
    }
}
