//! [`Births`]: code objects that existed before they were first read.
//!
//! CPython 3.12 and later number all code objects in the order of their creation (`co_version`). So
//! a code object existed when one with a higher number was read.

/// Maximum number of reads that are kept. At the limit the older half is forgotten, and code objects
/// count as younger.
const MAX_READS: usize = 4096;

/// The highest version read by each time.
#[derive(Debug, Default)]
pub(super) struct Births {
    /// Times and versions, both ascending.
    reads: Vec<(u64, u32)>,
}

impl Births {
    /// Adds a read of a code object with this version at a time. Version 0 is none: the counter has
    /// overflowed.
    pub(super) fn add(&mut self, time: u64, version: u32) {
        let at = self.reads.partition_point(|(before, _)| *before <= time);
        let (earlier, later) = self.reads.split_at(at);
        if earlier.last().map_or(0, |(_, highest)| *highest) >= version {
            return;
        }
        let lower = later.partition_point(|(_, later)| *later <= version);
        self.reads.splice(at..at + lower, [(time, version)]);
        if self.reads.len() > MAX_READS {
            self.reads.drain(..MAX_READS / 2);
        }
    }

    /// Returns the first time at which a code object with this version or a higher one was read.
    pub(super) fn before(&self, version: u32) -> Option<u64> {
        let at = self.reads.partition_point(|(_, read)| *read < version);
        let (time, _) = self.reads.get(at).filter(|_| version > 0)?;
        Some(*time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_object_existed_when_a_newer_one_was_read() {
        let mut births = Births::default();
        assert_eq!(births.before(5), None, "nothing was read");
        births.add(100, 7);
        births.add(300, 9);
        births.add(200, 3);
        assert_eq!(births.before(5), Some(100));
        assert_eq!(births.before(7), Some(100));
        assert_eq!(births.before(8), Some(300));
        assert_eq!(births.before(10), None);
        // Reads are reported late.
        births.add(200, 9);
        assert_eq!(births.before(8), Some(200));
        births.add(50, 20);
        assert_eq!(births.before(3), Some(50));
        assert_eq!(births.reads, [(50, 20)]);
        // The counter has overflowed.
        births.add(10, 0);
        assert_eq!(births.before(0), None);
    }

    #[test]
    fn the_number_of_reads_is_limited() {
        let mut births = Births::default();
        for number in 1..=10_000 {
            births.add(number.into(), number);
        }
        assert!(births.reads.len() <= MAX_READS);
        assert_eq!(births.before(9_999), Some(9_999));
        assert!(births.before(1).is_some_and(|time| time > 1), "younger");
    }
}
