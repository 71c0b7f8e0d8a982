//! [`SampleStreams`]: single samples by thread and time, compressed to a few bytes each.
//!
//! Ten million samples take 320 MB in [columns](crate::SampleColumns), and 70 MB in streams, which
//! are read only sequentially. A sample encodes the time since its predecessor, its index in
//! [`Profile::aggregated`](crate::Profile::aggregated), and changes of CPU and weight.

use crate::samples::ThreadId;

/// Decoded sample of a [`SampleStream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamedSample {
    /// Nanoseconds of the recording's clock; 0 without time.
    pub time: u64,
    /// CPU number, if recorded.
    pub cpu: Option<u32>,
    /// Index of the aggregated stack, with event and thread.
    pub entry: u32,
    /// Period, in the event's unit.
    pub weight: u64,
}

/// Samples in insertion order, delta-encoded.
///
/// # Examples
/// ```
/// use rprof_profile::{SampleStream, StreamedSample};
///
/// let mut stream = SampleStream::default();
/// let first = StreamedSample { time: 5_000_000, cpu: Some(1), entry: 7, weight: 1_000_000 };
/// let second = StreamedSample { time: 6_000_000, ..first };
/// stream.push(first);
/// stream.push(second);
/// assert_eq!(stream.iter().collect::<Vec<_>>(), [first, second]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleStream {
    bytes: Vec<u8>,
    len: usize,
    last: Last,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Last {
    time: u64,
    weight: u64,
    /// CPU number plus 1; 0 if not recorded.
    cpu: u64,
}

/// A weight follows the first number.
const HAS_WEIGHT: u64 = 1;

/// A CPU follows the first number.
const HAS_CPU: u64 = 2;

/// Flag bits in the first number, below the entry.
const FLAG_BITS: u32 = 2;

impl SampleStream {
    /// Appends a sample. An earlier one takes more bytes.
    pub fn push(&mut self, sample: StreamedSample) {
        let cpu = sample.cpu.map_or(0, |cpu| u64::from(cpu) + 1);
        let mut head = u64::from(sample.entry) << FLAG_BITS;
        if sample.weight != self.last.weight {
            head |= HAS_WEIGHT;
        }
        if cpu != self.last.cpu {
            head |= HAS_CPU;
        }
        push_number(head, &mut self.bytes);
        push_number(sample.time.wrapping_sub(self.last.time), &mut self.bytes);
        if head & HAS_WEIGHT > 0 {
            push_number(sample.weight, &mut self.bytes);
        }
        if head & HAS_CPU > 0 {
            push_number(cpu, &mut self.bytes);
        }
        self.last = Last {
            time: sample.time,
            weight: sample.weight,
            cpu,
        };
        self.len += 1;
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Releases unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Iterates over the samples.
    pub fn iter(&self) -> StreamIter<&[u8]> {
        StreamIter::new(&self.bytes)
    }
}

impl IntoIterator for SampleStream {
    type Item = StreamedSample;
    type IntoIter = StreamIter<Vec<u8>>;

    fn into_iter(self) -> StreamIter<Vec<u8>> {
        StreamIter::new(self.bytes)
    }
}

impl<'s> IntoIterator for &'s SampleStream {
    type Item = StreamedSample;
    type IntoIter = StreamIter<&'s [u8]>;

    fn into_iter(self) -> StreamIter<&'s [u8]> {
        self.iter()
    }
}

/// Iterator over a [`SampleStream`].
#[derive(Clone, Debug)]
pub struct StreamIter<B> {
    bytes: B,
    at: usize,
    last: Last,
}

impl<B: AsRef<[u8]>> StreamIter<B> {
    fn new(bytes: B) -> StreamIter<B> {
        StreamIter {
            bytes,
            at: 0,
            last: Last::default(),
        }
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = *self.bytes.as_ref().get(self.at)?;
            self.at += 1;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }
}

impl<B: AsRef<[u8]>> Iterator for StreamIter<B> {
    type Item = StreamedSample;

    #[inline]
    fn next(&mut self) -> Option<StreamedSample> {
        let head = self.number()?;
        let passed = self.number()?;
        self.last.time = self.last.time.wrapping_add(passed);
        if head & HAS_WEIGHT > 0 {
            self.last.weight = self.number()?;
        }
        if head & HAS_CPU > 0 {
            self.last.cpu = self.number()?;
        }
        let cpu = self.last.cpu.checked_sub(1);
        Some(StreamedSample {
            time: self.last.time,
            cpu: cpu.and_then(|cpu| u32::try_from(cpu).ok()),
            entry: (head >> FLAG_BITS) as u32,
            weight: self.last.weight,
        })
    }
}

#[inline]
fn push_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Single samples by thread and time: see [`Profile::streams`](crate::Profile::streams).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleStreams {
    /// Streams by thread id. The last threads may be missing.
    threads: Vec<SampleStream>,
}

impl SampleStreams {
    /// Appends a thread's sample. Its time must not precede the last one.
    pub fn push(&mut self, thread: ThreadId, sample: StreamedSample) {
        let place = thread.0 as usize;
        if self.threads.len() <= place {
            self.threads.resize_with(place + 1, SampleStream::default);
        }
        self.threads[place].push(sample);
    }

    /// Iterates over a thread's samples, by time.
    pub fn of(&self, thread: ThreadId) -> StreamIter<&[u8]> {
        match self.threads.get(thread.0 as usize) {
            Some(stream) => stream.iter(),
            None => StreamIter::new(&[]),
        }
    }

    /// Iterates over all samples, thread by thread.
    pub fn iter(&self) -> impl Iterator<Item = StreamedSample> + '_ {
        self.threads.iter().flatten()
    }

    /// Renumbers entries. Drops samples of entries without a number.
    pub(crate) fn renumbered(&self, number: impl Fn(u32) -> Option<u32>) -> SampleStreams {
        let renumbered = |stream: &SampleStream| {
            let mut kept = SampleStream::default();
            for sample in stream {
                if let Some(entry) = number(sample.entry) {
                    kept.push(StreamedSample { entry, ..sample });
                }
            }
            kept.shrink_to_fit();
            kept
        };
        SampleStreams {
            threads: self.threads.iter().map(renumbered).collect(),
        }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.threads.iter().map(SampleStream::len).sum()
    }

    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: u64, cpu: Option<u32>, entry: u32, weight: u64) -> StreamedSample {
        StreamedSample {
            time,
            cpu,
            entry,
            weight,
        }
    }

    #[test]
    fn samples_come_back_as_they_were() {
        let samples = [
            sample(5, None, 0, 1),
            sample(5, Some(0), u32::MAX, 1),
            sample(u64::MAX, Some(u32::MAX), 1, u64::MAX),
            sample(0, None, 1, 0),
            sample(1_000_000, Some(3), 128, 127),
        ];
        let mut stream = SampleStream::default();
        samples.iter().for_each(|one| stream.push(*one));
        assert_eq!(stream.len(), 5);
        assert_eq!(stream.iter().collect::<Vec<_>>(), samples);
        assert_eq!(stream.into_iter().collect::<Vec<_>>(), samples);
    }

    #[test]
    fn samples_are_left_out_with_their_entries() {
        let mut streams = SampleStreams::default();
        for entry in [0, 1, 2, 1] {
            streams.push(ThreadId(1), sample(u64::from(entry), None, entry, 3));
        }
        let kept = streams.renumbered(|entry| (entry > 0).then(|| entry - 1));
        let entries: Vec<(u64, u32)> = kept
            .of(ThreadId(1))
            .map(|one| (one.time, one.entry))
            .collect();
        assert_eq!(entries, [(1, 0), (2, 1), (1, 0)]);
    }

    #[test]
    fn a_sample_at_a_steady_rate_takes_six_bytes() {
        let mut streams = SampleStreams::default();
        for n in 0..10_000u64 {
            let one = sample(n * 1_001_000, Some(1), n as u32 % 50_000, 1_001_001);
            streams.push(ThreadId(2), one);
        }
        let bytes = streams.threads[2].bytes.len();
        assert!(bytes <= 6 * 10_000 + 8, "{bytes}");
        assert_eq!(streams.len(), 10_000);
        assert_eq!(streams.of(ThreadId(2)).count(), 10_000);
        assert_eq!(streams.of(ThreadId(0)).count(), 0);
        assert_eq!(streams.of(ThreadId(9)).count(), 0);
    }
}
