//! [`AuxTally`]: totals and gaps of AUX traces.

use std::fmt;

use rprof_records::{AuxFlags, RawRecord, Record, RecordType};

use crate::PerfData;

/// Counts of AUX records, which describe pieces of hardware traces (Intel PT, Arm SPE and others).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuxTally {
    /// AUX records, one for each piece.
    pub pieces: u64,
    /// Bytes of all pieces.
    pub bytes: u64,
    /// Pieces cut short because the buffer was full.
    pub truncated: u64,
    /// Pieces with gaps.
    pub partial: u64,
    /// Pieces with samples that the trace unit dropped.
    pub collided: u64,
}

impl AuxTally {
    /// Counts the AUX records of a recording. Reads all records if it has a trace.
    pub fn of(data: &PerfData) -> AuxTally {
        let mut tally = AuxTally::default();
        for block in data.blocks().filter_map(Result::ok) {
            for walked in block.walk() {
                tally.handle(&walked.record);
            }
        }
        tally
    }

    /// Counts a record if it is an AUX record.
    pub fn handle(&mut self, record: &RawRecord<'_>) {
        if record.kind != RecordType::AUX {
            return;
        }
        let Ok(Record::Aux { size, flags, .. }) = Record::decode(record, None) else {
            return;
        };
        let flags = AuxFlags(flags);
        self.pieces += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.truncated += u64::from(flags.has(AuxFlags::TRUNCATED));
        self.partial += u64::from(flags.has(AuxFlags::PARTIAL));
        self.collided += u64::from(flags.has(AuxFlags::COLLISION));
    }

    /// Adds the counts of another recording, or of this one's next file.
    pub fn add(&mut self, other: &AuxTally) {
        self.pieces += other.pieces;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.truncated += other.truncated;
        self.partial += other.partial;
        self.collided += other.collided;
    }

    /// Returns true if data is missing.
    pub fn has_gaps(&self) -> bool {
        self.truncated + self.partial + self.collided > 0
    }
}

impl fmt::Display for AuxTally {
    /// Describes the gaps: `3 of 10 pieces of the AUX trace end early, as its buffer was full`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = [
            (self.truncated, "end early: its buffer was full"),
            (self.partial, "have gaps"),
            (self.collided, "lack samples: the tracing unit dropped them"),
        ];
        let mut clauses = Vec::new();
        for (count, what) in found.into_iter().filter(|(count, _)| *count > 0) {
            clauses.push(match clauses.is_empty() {
                true => format!("{count} of {} pieces of the AUX trace {what}", self.pieces),
                false => format!("{count} {what}"),
            });
        }
        match clauses.is_empty() {
            true => write!(
                f,
                "{} pieces of an AUX trace, {} bytes",
                self.pieces, self.bytes
            ),
            false => f.write_str(&clauses.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_records::{Endian, Misc, RawBytes, SampleId, SampleLayout};

    #[test]
    fn what_is_missing_is_counted_and_told() {
        let layout = SampleLayout::new(&Default::default(), Endian::NATIVE);
        let mut tally = AuxTally::default();
        for (size, flags) in [(100, 0), (50, 1), (7, 9), (0, 4)] {
            let record = Record::Aux {
                offset: 0,
                size,
                flags,
            };
            let mut bytes = Vec::new();
            let id = SampleId::default();
            record.encode(Misc(0), &layout, &id, &mut bytes).unwrap();
            let bytes = RawBytes::from(&bytes[..]);
            tally.handle(&RawRecord::parse(bytes, Endian::NATIVE).unwrap());
        }
        assert_eq!((tally.pieces, tally.bytes, tally.truncated), (4, 157, 2));
        assert!(tally.has_gaps());
        assert_eq!(
            tally.to_string(),
            "2 of 4 pieces of the AUX trace end early: its buffer was full; 1 have gaps; 1 lack \
             samples: the tracing unit dropped them"
        );
    }
}
