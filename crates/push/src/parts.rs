//! [`Parts`]: a profile in parts that fit the limits.

use std::ops::Range;

use rprof_export::PartEncoder;

use crate::error::PushError;
use crate::target::Limits;

/// Part of a profile, encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Rows of the profile that are in it.
    pub rows: Range<usize>,
    /// Number of samples that they sum up.
    pub samples: u64,
    /// The encoded profile, compressed with gzip.
    pub profile: Vec<u8>,
    /// Bytes of it before compression.
    pub bytes: u64,
    /// Stacks of which outer frames are left out.
    pub cut: u64,
    /// True if it is larger than its server takes: one row that cannot be split.
    pub is_too_large: bool,
}

/// Iterator over the parts of a profile, each of which is encoded when it is asked for.
pub struct Parts<'e> {
    encoder: Box<dyn PartEncoder + 'e>,
    limits: Limits,
    /// Rows that are still to come, the next ones last.
    left: Vec<Range<usize>>,
}

impl<'e> Parts<'e> {
    /// Begins with all rows of an encoder.
    pub fn new(encoder: Box<dyn PartEncoder + 'e>, limits: Limits) -> Parts<'e> {
        let (all, most) = (encoder.rows(), limits.samples.max(1));
        // As few parts as there can be, of about one size.
        let count = all.div_ceil(most);
        let at = |nth: usize| (all as u128 * nth as u128 / count.max(1) as u128) as usize;
        let left = (0..count).map(|nth| at(nth)..at(nth + 1)).rev().collect();
        Parts {
            encoder,
            limits,
            left,
        }
    }

    /// Returns the number of samples of all rows.
    pub fn all_samples(&self) -> u64 {
        self.encoder.samples(0..self.encoder.rows())
    }

    /// Returns the number of samples that are still to come.
    pub fn samples_left(&self) -> u64 {
        let left = self.left.iter();
        left.map(|rows| self.encoder.samples(rows.clone())).sum()
    }

    /// Puts the rows of a part back as two halves, since the server takes less than it was believed to. Returns false for
    /// one of a single row.
    pub fn split(&mut self, part: &Part) -> bool {
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
    /// [`PushError::Encode`], which an encoder into memory does not give.
    pub fn next_part(&mut self) -> Result<Option<Part>, PushError> {
        while let Some(rows) = self.left.pop() {
            let mut profile = Vec::new();
            let encoded = self.encoder.encode(rows.clone(), &mut profile)?;
            let part = Part {
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
    use crate::target::Target;

    /// Encodes rows as so many bytes each, with two samples in each.
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

    fn parts(sizes: Vec<u64>, samples: usize, bytes: u64) -> Vec<Part> {
        let limits = Limits {
            samples,
            bytes,
            ..Target::Pyroscope.limits()
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
        // As few as there can be.
        assert_eq!(parts(vec![1; 32_001], 16_000, 1 << 20).len(), 3);
    }
}
