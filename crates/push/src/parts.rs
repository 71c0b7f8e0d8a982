//! [`Parts`]: splits a profile to meet the limits.

use std::ops::Range;

use rprof_export::PartEncoder;

use crate::error::PushError;
use crate::target::ServerLimits;

/// Encoded part of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPart {
    /// Range of the profile's rows.
    pub rows: Range<usize>,
    /// Number of samples in these rows.
    pub samples: u64,
    /// Encoded profile, compressed with gzip.
    pub profile: Vec<u8>,
    /// Size in bytes before compression.
    pub bytes: u64,
    /// Stacks with omitted outermost frames.
    pub cut: u64,
    /// True if a single row exceeds the server's limit, so that it cannot be split.
    pub is_too_large: bool,
}

/// Iterator over the parts of a profile. Each is encoded on demand.
pub struct Parts<'e> {
    encoder: Box<dyn PartEncoder + 'e>,
    limits: ServerLimits,
    /// Remaining row ranges, the next one last.
    left: Vec<Range<usize>>,
}

impl<'e> Parts<'e> {
    /// Creates an iterator over all rows of an encoder.
    pub fn new(encoder: Box<dyn PartEncoder + 'e>, limits: ServerLimits) -> Parts<'e> {
        let (all, most) = (encoder.rows(), limits.samples.max(1));
        let count = all.div_ceil(most);
        let at = |nth: usize| (all as u128 * nth as u128 / count.max(1) as u128) as usize;
        let left = (0..count).map(|nth| at(nth)..at(nth + 1)).rev().collect();
        Parts {
            encoder,
            limits,
            left,
        }
    }

    /// Returns the number of samples in all rows.
    pub fn all_samples(&self) -> u64 {
        self.encoder.samples(0..self.encoder.rows())
    }

    /// Returns the number of samples in the remaining rows.
    pub(crate) fn samples_left(&self) -> u64 {
        let left = self.left.iter();
        left.map(|rows| self.encoder.samples(rows.clone())).sum()
    }

    /// Puts the rows of a part back as two halves, because the server's limit is lower than
    /// expected. Returns false for a single row.
    pub fn split(&mut self, part: &EncodedPart) -> bool {
        let Range { start, end } = part.rows;
        if end - start < 2 {
            return false;
        }
        let middle = start + (end - start) / 2;
        self.left.extend([middle..end, start..middle]);
        true
    }

    /// Returns the next part.
    ///
    /// # Errors
    /// Returns [`PushError::Encode`], which does not occur with encoders into memory.
    pub fn next_part(&mut self) -> Result<Option<EncodedPart>, PushError> {
        while let Some(rows) = self.left.pop() {
            let mut profile = Vec::new();
            let encoded = self.encoder.encode(rows.clone(), &mut profile)?;
            let part = EncodedPart {
                samples: self.encoder.samples(rows.clone()),
                rows,
                profile,
                bytes: encoded.bytes,
                cut: encoded.cut,
                is_too_large: encoded.bytes > self.limits.bytes,
            };
            if !part.is_too_large || !self.split(&part) {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use rprof_export::Encoded;

    use super::*;
    use crate::target::ServerKind;

    /// Encodes each row as this many bytes, with two samples.
    struct Sizes(Vec<u64>);

    impl PartEncoder for Sizes {
        fn rows(&self) -> usize {
            self.0.len()
        }

        fn samples(&self, rows: Range<usize>) -> u64 {
            2 * rows.len() as u64
        }

        fn encode(&mut self, rows: Range<usize>, out: &mut dyn Write) -> io::Result<Encoded> {
            out.write_all(&vec![0; rows.len()])?;
            let bytes = self.0[rows].iter().sum();
            Ok(Encoded { bytes, cut: 0 })
        }
    }

    fn parts(sizes: Vec<u64>, samples: usize, bytes: u64) -> Vec<EncodedPart> {
        let limits = ServerLimits {
            samples,
            bytes,
            ..ServerKind::Pyroscope.limits()
        };
        let mut parts = Parts::new(Box::new(Sizes(sizes)), limits);
        std::iter::from_fn(|| parts.next_part().unwrap()).collect()
    }

    #[test]
    fn all_rows_are_in_one_part_each_and_parts_fit() {
        for (sizes, samples, bytes) in [
            (vec![10; 100], 16, 1_000),
            (vec![10; 100], usize::MAX, 95),
            (vec![10; 100], 33, 95),
            (vec![1, 1, 500, 1, 1], 100, 100),
            (vec![7], 1, 7),
            (Vec::new(), 1, 1),
        ] {
            let all = sizes.len();
            let parts = parts(sizes, samples, bytes);
            let mut next = 0;
            for part in &parts {
                assert_eq!(part.rows.start, next);
                next = part.rows.end;
                assert!(part.rows.len() <= samples);
                assert!(part.bytes <= bytes || (part.is_too_large && part.rows.len() == 1));
            }
            assert_eq!(next, all);
            let samples: u64 = parts.iter().map(|part| part.samples).sum();
            assert_eq!(samples, 2 * all as u64);
        }
        assert_eq!(parts(vec![1; 32_001], 16_000, 1 << 20).len(), 3);
    }
}
