//! Records of `perf stat record`.

use super::fields::Fields;

/// Settings of perf stat: tags and values. Tag 0 is the aggregation mode, 1 the interval in
/// milliseconds, 2 scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatConfig(pub Vec<(u64, u64)>);

/// Count of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// An id of the event.
    pub id: u64,
    /// Index of the CPU in the CPU map.
    pub cpu: u32,
    /// Index of the thread in the thread map.
    pub thread: u32,
    /// The count.
    pub value: u64,
    /// Enabled time in nanoseconds.
    pub enabled: u64,
    /// Running time in nanoseconds.
    pub running: u64,
}

pub(super) fn config(fields: &Fields<'_>) -> Option<StatConfig> {
    fields
        .items(8, fields.u64(0)?, 16, |at| {
            Some((fields.u64(at)?, fields.u64(at + 8)?))
        })
        .map(StatConfig)
}

pub(super) fn count(fields: &Fields<'_>) -> Option<Stat> {
    Some(Stat {
        id: fields.u64(0)?,
        cpu: fields.u32(8)?,
        thread: fields.u32(12)?,
        value: fields.u64(16)?,
        enabled: fields.u64(24)?,
        running: fields.u64(32)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{UserRecord, raw};
    use super::*;
    use rprof_records::RecordType;

    #[test]
    fn settings_and_counts_are_read() {
        let bytes =
            |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
        let body = bytes(&[2, 0, 1, 1, 500]);
        let read = UserRecord::decode(&raw(RecordType::STAT_CONFIG, &body)).unwrap();
        let config = StatConfig(vec![(0, 1), (1, 500)]);
        assert_eq!(read, UserRecord::StatConfig(config));
        let body = bytes(&[9, 3 | 4 << 32, 1000, 20, 10]);
        let read = UserRecord::decode(&raw(RecordType::STAT, &body)).unwrap();
        let stat = Stat {
            id: 9,
            cpu: 3,
            thread: 4,
            value: 1000,
            enabled: 20,
            running: 10,
        };
        assert_eq!(read, UserRecord::Stat(stat));
    }
}
