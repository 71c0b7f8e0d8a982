//! EVENT_UPDATE records: units, scales, names and CPUs of events.

use rprof_records::{RawRecord, RecordType};

use super::cpus::CpuSet;

/// Additional data of an event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventUpdate {
    /// Unit of its counts.
    Unit(String),
    /// Factor from counts to the unit.
    Scale(f64),
    /// New name of the event.
    Name(String),
    /// CPUs of the event.
    Cpus(CpuSet),
}

impl EventUpdate {
    /// Decodes the event id and the update; `None` for other records, unknown updates, and
    /// truncated ones.
    pub fn decode(record: &RawRecord<'_>) -> Option<(u64, EventUpdate)> {
        if record.kind != RecordType::EVENT_UPDATE {
            return None;
        }
        let (body, endian) = (record.body, record.endian);
        let text = || {
            let bytes = body.c_str(16)?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let update = match body.u64(0, endian)? {
            0 => EventUpdate::Unit(text()?),
            1 => EventUpdate::Scale(f64::from_bits(body.u64(16, endian)?)),
            2 => EventUpdate::Name(text()?),
            3 => EventUpdate::Cpus(CpuSet::read(&body.get_from(16)?, endian)?),
            _ => return None,
        };
        Some((body.u64(8, endian)?, update))
    }
}

#[cfg(test)]
mod tests {
    use super::super::raw;
    use super::*;

    #[test]
    fn each_kind_is_read() {
        let read = |kind: u64, rest: &[u8]| {
            let body = [&kind.to_le_bytes()[..], &7u64.to_le_bytes(), rest].concat();
            EventUpdate::decode(&raw(RecordType::EVENT_UPDATE, &body))
        };
        let unit = EventUpdate::Unit("Joules".into());
        assert_eq!(read(0, b"Joules\0\0"), Some((7, unit)));
        let scale = EventUpdate::Scale(0.25);
        assert_eq!(read(1, &0.25f64.to_le_bytes()), Some((7, scale)));
        let name = EventUpdate::Name("cycles:u".into());
        assert_eq!(read(2, b"cycles:u\0"), Some((7, name)));
        let cpus = EventUpdate::Cpus(CpuSet::List(vec![1]));
        assert_eq!(read(3, &[0, 0, 1, 0, 1, 0]), Some((7, cpus)));
        assert_eq!(read(4, &[0; 8]), None);
    }
}
