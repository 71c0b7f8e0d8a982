//! Counter readings: values, and enabled and running times.

use crate::errno::{Errno, ErrnoText};
use crate::fd::PerfFd;
use crate::scaled::Scaled;
use rprof_records::{Endian, RawBytes, ReadFormat, ReadValues};

/// Reading of one event's counter, including children that inherited the event.
///
/// With more events than hardware counters, the kernel multiplexes them. The event is then enabled
/// for longer than it runs, and `value` covers only the running time. [`scaled`](Self::scaled)
/// extrapolates like perf(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Count, or nanoseconds for clock events.
    pub value: u64,
    /// Enabled time in nanoseconds; `None` unless the read format has
    /// [`ReadFormat::TOTAL_TIME_ENABLED`].
    pub enabled: Option<u64>,
    /// Running time in nanoseconds; `None` unless the read format has
    /// [`ReadFormat::TOTAL_TIME_RUNNING`].
    pub running: Option<u64>,
    /// Samples dropped because the ring buffer was full; `None` unless the read format has
    /// [`ReadFormat::LOST`] (Linux 6.0).
    pub lost: Option<u64>,
}

impl Reading {
    /// Extracts one event's reading from [`PerfFd::read`]: by id, or without an id the first.
    pub fn of(values: &ReadValues, id: Option<u64>) -> Option<Reading> {
        let value = match id {
            Some(id) => values.values.iter().find(|value| value.id == Some(id)),
            None => values.values.first(),
        }?;
        Some(Reading {
            value: value.value,
            enabled: values.time_enabled,
            running: values.time_running,
            lost: value.lost,
        })
    }

    /// Returns the running share of the enabled time, 0 to 1. `None` without the times, or if the
    /// event was never enabled.
    pub fn share(&self) -> Option<f64> {
        match (self.enabled?, self.running?) {
            (0, _) => None,
            (enabled, running) => Some(running as f64 / enabled as f64),
        }
    }

    /// Returns the value extrapolated to the enabled time, with the running share.
    ///
    /// Without times in the read format, returns the value itself. `None` if the event never ran:
    /// no measurement, not a count of zero.
    pub fn scaled(&self) -> Option<Scaled> {
        match (self.enabled, self.running) {
            (Some(enabled), Some(running)) => Scaled::new(self.value, enabled, running),
            _ => Some(Scaled {
                value: self.value,
                share: 1.0,
            }),
        }
    }

    /// Returns the difference to an earlier reading of the same event. A field missing in either is
    /// missing in the result.
    ///
    /// Use this instead of `PERF_EVENT_IOC_RESET`, which does not reset the times.
    #[must_use]
    pub fn since(&self, earlier: &Reading) -> Reading {
        let less = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_sub(b?));
        Reading {
            value: self.value.wrapping_sub(earlier.value),
            enabled: less(self.enabled, earlier.enabled),
            running: less(self.running, earlier.running),
            lost: less(self.lost, earlier.lost),
        }
    }

    /// Adds a reading of the same event for another thread or CPU. A field missing in either is
    /// missing in the sum.
    pub fn add(&mut self, other: Reading) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        self.value = self.value.wrapping_add(other.value);
        self.enabled = sum(self.enabled, other.enabled);
        self.running = sum(self.running, other.running);
        self.lost = sum(self.lost, other.lost);
    }
}

/// Failure to read a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The kernel refused the read.
    #[error("cannot read the counter: {}", ErrnoText(*_0))]
    Refused(Errno),
    /// The event is pinned, but has no counter: read(2) returned end of file (perf_event_open(2),
    /// `pinned`). It stays so until it is enabled again.
    #[error("the event is pinned, and the kernel could not keep it on a counter")]
    PinnedWithoutCounter,
    /// The result is shorter than the read format requires.
    #[error("the kernel returned {got} bytes, fewer than the read format requires")]
    Truncated {
        /// Bytes read.
        got: usize,
    },
    /// The group's result does not contain the event's id.
    #[error("event id {id} is not in the group that was read")]
    NotInGroup {
        /// Id of the event.
        id: u64,
    },
}

/// Initial buffer size: about forty members with all fields.
const GROUP_BYTES: usize = 1024;

/// Maximum buffer size. The kernel limits a group's values to 16 KiB (`perf_event_validate_size`).
const MAX_GROUP_BYTES: usize = 64 << 10;

impl PerfFd {
    /// Reads the counter. A group's leader with [`ReadFormat::GROUP`] reads all members, in the
    /// order of opening.
    ///
    /// # Errors
    /// Returns [`ReadError`]; [`ReadError::PinnedWithoutCounter`] is a normal state of a pinned
    /// event.
    pub fn read(&self) -> Result<ReadValues, ReadError> {
        let format = self.read_format();
        if !format.contains(ReadFormat::GROUP) {
            // The value, and at most one word for each bit of the format.
            let mut answer = [0; 8 * (1 + u64::BITS as usize)];
            let length = 8 * (1 + format.bits().count_ones() as usize);
            let answer = &mut answer[..length];
            let got = self.read_bytes(answer).map_err(ReadError::Refused)?;
            return decode(&answer[..got], format);
        }
        let mut answer = vec![0; GROUP_BYTES];
        loop {
            match self.read_bytes(&mut answer) {
                Ok(got) => return decode(&answer[..got], format),
                Err(Errno::NOSPC) if answer.len() < MAX_GROUP_BYTES => {
                    answer = vec![0; answer.len() * 2];
                }
                Err(errno) => return Err(ReadError::Refused(errno)),
            }
        }
    }

    /// Reads this event's counter alone, even if the read format covers its whole group.
    ///
    /// Without [`ReadFormat::ID`], the event counts as the leader, whose value comes first.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read), and [`ReadError::NotInGroup`].
    pub fn reading(&self) -> Result<Reading, ReadError> {
        let values = self.read()?;
        let format = self.read_format();
        let id = match format.contains(ReadFormat::GROUP | ReadFormat::ID) {
            true => Some(self.id().map_err(ReadError::Refused)?),
            false => None,
        };
        Reading::of(&values, id).ok_or(match id {
            Some(id) => ReadError::NotInGroup { id },
            None => ReadError::Truncated { got: 0 },
        })
    }
}

/// Decodes the result of read(2) on an event of this read format. Accepts arbitrary bytes.
///
/// # Errors
/// Returns [`ReadError::PinnedWithoutCounter`] for an empty result, which is end of file;
/// [`ReadError::Truncated`].
pub fn decode(answer: &[u8], format: ReadFormat) -> Result<ReadValues, ReadError> {
    if answer.is_empty() {
        return Err(ReadError::PinnedWithoutCounter);
    }
    let got = answer.len();
    ReadValues::parse(&RawBytes::from(answer), 0, format, Endian::NATIVE)
        .ok_or(ReadError::Truncated { got })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: ReadFormat = ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING);

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn reads_as(answer: &[u8], format: ReadFormat) -> PerfFd {
        let (read, write) = rustix::pipe::pipe().unwrap();
        if !answer.is_empty() {
            rustix::io::write(&write, answer).unwrap();
        }
        PerfFd::from_fd(read, format)
    }

    #[test]
    fn an_event_alone_is_read_with_all_fields() {
        let format = TIMES | ReadFormat::ID | ReadFormat::LOST;
        let expected = Reading {
            value: 5,
            enabled: Some(10),
            running: Some(9),
            lost: Some(2),
        };
        let answer = bytes(&[5, 10, 9, 77, 2]);
        assert_eq!(reads_as(&answer, format).reading(), Ok(expected));
        let short = reads_as(&answer[..32], format).reading();
        assert_eq!(short, Err(ReadError::Truncated { got: 32 }));
    }

    #[test]
    fn a_pinned_event_without_a_counter_is_an_error_of_its_own() {
        for format in [TIMES, TIMES | ReadFormat::GROUP] {
            let read = reads_as(&[], format).read();
            assert_eq!(read, Err(ReadError::PinnedWithoutCounter));
        }
    }

    #[test]
    fn a_group_without_ids_is_read() {
        let format = TIMES | ReadFormat::GROUP;
        let answer = bytes(&[2, 10, 9, 4, 5]);
        let values = reads_as(&answer, format).read().unwrap();
        let counts: Vec<u64> = values.values.iter().map(|value| value.value).collect();
        assert_eq!(counts, [4, 5]);
        let leader = reads_as(&answer, format).reading().unwrap();
        assert_eq!((leader.value, leader.running), (4, Some(9)));
    }

    #[test]
    fn a_member_of_a_group_is_found_by_its_id() {
        let format = TIMES | ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST;
        let answer = bytes(&[2, 10, 9, 4, 76, 1, 5, 77, 2]);
        let values = decode(&answer, format).unwrap();
        let member = Reading::of(&values, Some(77)).unwrap();
        assert_eq!((member.value, member.lost), (5, Some(2)));
        assert_eq!(Reading::of(&values, Some(78)), None);
        let endless = bytes(&[u64::MAX, 1, 1]);
        assert_eq!(
            decode(&endless, format),
            Err(ReadError::Truncated { got: 24 })
        );
    }

    #[test]
    fn values_are_scaled_to_the_time_enabled() {
        let reading = |value, enabled, running| Reading {
            value,
            enabled: Some(enabled),
            running: Some(running),
            lost: None,
        };
        let scaled = |value, enabled, running| {
            let scaled = reading(value, enabled, running).scaled().unwrap();
            (scaled.value, scaled.share)
        };
        assert_eq!(scaled(100, 10, 10), (100, 1.0));
        assert_eq!(scaled(100, 10, 4), (250, 0.4));
        assert_eq!(reading(100, 10, 4).share(), Some(0.4));
        assert_eq!(scaled(u64::MAX, 10, 1), (u64::MAX, 0.1));
        assert_eq!(scaled(0, 0, 0), (0, 1.0));
        assert_eq!(reading(0, 10, 0).scaled(), None);
        assert_eq!(reading(0, 0, 0).share(), None);
        let untimed = Reading {
            value: 7,
            ..Reading::default()
        };
        let exact = Scaled {
            value: 7,
            share: 1.0,
        };
        assert_eq!((untimed.scaled(), untimed.share()), (Some(exact), None));
        assert_eq!(
            reading(7, 20, 9).since(&reading(5, 10, 4)),
            reading(2, 10, 5)
        );
    }

    #[test]
    fn a_sum_lacks_what_one_reading_lacks() {
        let mut sum = Reading {
            value: 1,
            enabled: Some(2),
            running: Some(3),
            lost: Some(4),
        };
        sum.add(sum);
        assert_eq!((sum.value, sum.lost), (2, Some(8)));
        sum.add(Reading::default());
        assert_eq!((sum.value, sum.enabled, sum.lost), (2, None, None));
    }
}
