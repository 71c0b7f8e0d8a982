//! Recorded CPUs and threads, and the ids of their events.

use rprof_records::{Endian, RawBytes};

use super::fields::Fields;

/// Event id with its CPU and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdIndexEntry {
    /// Event id, as in sample records.
    pub id: u64,
    /// Number of the ring buffer.
    pub index: u64,
    /// CPU; -1 for all.
    pub cpu: i64,
    /// Thread; -1 for all.
    pub tid: i64,
    /// Process and CPU of the virtual machine, if any.
    pub machine: Option<(u64, u64)>,
}

/// Recorded thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedThread {
    /// Thread id.
    pub tid: u64,
    /// Name of the thread.
    pub comm: String,
}

/// Set of CPUs. -1 means "any".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuSet {
    /// CPU numbers.
    List(Vec<i32>),
    /// Range of CPU numbers.
    Range {
        /// True if "any" is included.
        any: bool,
        /// First CPU.
        first: u16,
        /// Last CPU.
        last: u16,
    },
}

impl CpuSet {
    /// Decodes a 16-bit type, then numbers, a mask, or a range.
    pub(super) fn read(body: &RawBytes<'_>, endian: Endian) -> Option<CpuSet> {
        let u16_at = |at| body.u16(at, endian);
        match u16_at(0)? {
            0 => (0..usize::from(u16_at(2)?))
                .map(|i| u16_at(4 + 2 * i).map(|cpu| i32::from(cpu.cast_signed())))
                .collect::<Option<_>>()
                .map(CpuSet::List),
            // Length and alignment depend on the recorder's `unsigned long`.
            1 => {
                let (words, word_len) = (u16_at(2)?, u16_at(4)?);
                let word_at = |i| match word_len {
                    4 => body.u32(6 + 4 * i, endian).map(u64::from),
                    8 => body.u64(10 + 8 * i, endian),
                    _ => None,
                };
                let mut cpus = Vec::new();
                for i in 0..usize::from(words) {
                    let (word, bits) = (word_at(i)?, 8 * i32::from(word_len));
                    let set = (0..bits).filter(|bit| word >> bit & 1 == 1);
                    cpus.extend(set.map(|bit| i as i32 * bits + bit));
                }
                Some(CpuSet::List(cpus))
            }
            2 => Some(CpuSet::Range {
                any: body.u8(2)? != 0,
                first: u16_at(4)?,
                last: u16_at(6)?,
            }),
            _ => None,
        }
    }
}

pub(super) fn id_index(fields: &Fields<'_>) -> Option<Vec<IdIndexEntry>> {
    let count = fields.u64(0)?;
    let mut entries = fields.items(8, count, 32, |at| {
        Some(IdIndexEntry {
            id: fields.u64(at)?,
            index: fields.u64(at + 8)?,
            cpu: fields.u64(at + 16)?.cast_signed(),
            tid: fields.u64(at + 24)?.cast_signed(),
            machine: None,
        })
    })?;
    // Since perf 6.0, as many entries for virtual machines follow.
    let machines = fields.items(8 + 32 * entries.len(), count, 16, |at| {
        Some((fields.u64(at)?, fields.u64(at + 8)?))
    });
    for (entry, machine) in entries.iter_mut().zip(machines.unwrap_or_default()) {
        entry.machine = Some(machine).filter(|m| m.0 != 0);
    }
    Some(entries)
}

pub(super) fn threads(fields: &Fields<'_>) -> Option<Vec<WatchedThread>> {
    fields.items(8, fields.u64(0)?, 24, |at| {
        Some(WatchedThread {
            tid: fields.u64(at)?,
            comm: fields.text(at + 8, 16)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn read(body: &[u8]) -> Option<CpuSet> {
        CpuSet::read(&RawBytes::from(body), Endian::Little)
    }

    #[test]
    fn every_kind_of_set_is_read() {
        let numbers = halves(&[0, 3, 0, 5, 0xffff]);
        assert_eq!(read(&numbers), Some(CpuSet::List(vec![0, 5, -1])));
        let mask_64 = halves(&[1, 1, 8, 0, 0, 0b101, 0, 0, 0x8000]);
        assert_eq!(read(&mask_64), Some(CpuSet::List(vec![0, 2, 63])));
        let mask_32 = halves(&[1, 2, 4, 1, 0, 2, 0]);
        assert_eq!(read(&mask_32), Some(CpuSet::List(vec![0, 33])));
        let range = CpuSet::Range {
            any: false,
            first: 2,
            last: 9,
        };
        assert_eq!(read(&halves(&[2, 0, 2, 9])), Some(range));
        assert_eq!(read(&halves(&[0, 9, 1])), None);
        assert_eq!(read(&halves(&[1, 1, 3, 0, 0, 0, 0])), None);
    }

    #[test]
    fn ids_are_read_with_and_without_machines() {
        let words = [1u64, 40, 0, 2, u64::MAX, 7, 1];
        let body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let read = |len| {
            id_index(&Fields {
                body: RawBytes::from(&body[..len]),
                endian: Endian::Little,
            })
        };
        let entry = read(40).unwrap()[0];
        assert_eq!((entry.id, entry.cpu, entry.tid), (40, 2, -1));
        assert_eq!(entry.machine, None);
        assert_eq!(read(56).unwrap()[0].machine, Some((7, 1)));
        assert_eq!(read(39), None);
    }
}
