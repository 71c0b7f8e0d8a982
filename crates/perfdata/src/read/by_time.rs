//! Records in time order.

use std::collections::VecDeque;

use rprof_records::{RawRecord, RecordType};

use super::blocks::{Block, Blocks};
use super::events::Events;
use super::walk::RecordAt;
use crate::error::Damage;

/// Iterates over the records of a recording in time order, as perf and its tools do.
///
/// Each CPU has its own ring buffer. A recorder reads the rings one after another, so each CPU's
/// records are in order in the file, but the merged sequence is not. After each *round*, in which
/// it has read every ring once, a recorder writes a FINISHED_ROUND record.
///
/// ```text
///           round 1        round 2          round 3
///   CPU 0   10 12 14  |    17 18       |    21 23      |
///   CPU 1   11 13 16  |    15 19       |    20 22      |
///                 ^latest: 16     ^latest: 19     ^latest: 23
///
///   at the end of round 1:   nothing is returned
///   at the end of round 2:   10 11 12 13 14 15 16
///   at the end of round 3:   17 18 19
///   at the end of the file:  20 21 22 23
/// ```
///
/// CPU 1's record of time 15 was written to its ring after that ring was read in round 1. It cannot
/// come in round 3: round 2 reads all records older than the end of round 1. The contract is:
/// **neighbouring rounds may overlap in time, others may not**. (`tools/perf/util/session.c`,
/// `process_finished_round`.)
///
/// | recording | treatment |
/// |---|---|
/// | with rounds | holds at most two rounds in memory |
/// | without rounds, or several files | sorts all: 16 bytes a record, plus decompressed records |
/// | breaks the contract | returns late records out of order, and [counts](Self::late) them |
///
/// Records of equal time stay in file order. Records without a time keep their position in the
/// file, before the records that wait. They are: the recorder's own records (`kind.is_user()`),
/// kernel records of events without `sample_id_all`, and the times 0 and `u64::MAX`, which
/// recorders use for the initial state. FINISHED_ROUND records are skipped.
///
/// Each record is borrowed until the next call, so this is not an [`Iterator`]:
///
/// ```
/// use std::io::Cursor;
/// use std::path::Path;
/// use rprof_perfdata::{EventDescription, FeatureSections, FileWriter, PerfData, RecordWriter};
/// use rprof_records::{Attr, AttrFlags, Endian, Misc, RecordType, SampleType, put_record};
///
/// let event = EventDescription {
///     attr: Attr {
///         sample_type: SampleType::TIME,
///         flags: AttrFlags::SAMPLE_ID_ALL,
///         ..Attr::default()
///     },
///     name: "cpu-clock".into(),
///     ids: Vec::new(),
/// };
/// let mut bytes = Vec::new();
/// let mut writer = FileWriter::create(Cursor::new(&mut bytes), vec![event])?;
/// for time in [10, 12, 11_u64] {
///     let mut record = Vec::new();
///     put_record(&mut record, RecordType::SAMPLE, Misc(0), Endian::NATIVE, |body| {
///         body.extend(Endian::NATIVE.put_u64(time));
///     })?;
///     writer.write_records(&record)?;
/// }
/// writer.finish(FeatureSections::new(Endian::NATIVE))?;
///
/// let data = PerfData::read(&bytes[..], Path::new("example"))?;
/// let mut records = data.records_by_time();
/// let mut times = Vec::new();
/// while let Some(record) = records.next_record()? {
///     times.extend(record.time);
/// }
/// assert_eq!(times, [10, 11, 12]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecordsByTime<'a> {
    blocks: Blocks<'a>,
    events: &'a Events,
    /// True if FINISHED_ROUND records control the release.
    has_rounds: bool,
    /// Blocks with waiting records, and the current one.
    held: VecDeque<HeldBlock<'a>>,
    first: u32,
    /// Next record in the last block of `held`; `None` after its end.
    at: Option<usize>,
    waiting: Vec<Position>,
    released: VecDeque<Position>,
    latest: u64,
    /// Latest time at the end of the previous round.
    complete_to: Option<u64>,
    returned_to: u64,
    late: u64,
    damage: VecDeque<Damage>,
}

/// Record with the time of its sample id, as returned in time order.
#[derive(Clone, Copy, Debug)]
pub struct TimedRecord<'r> {
    /// Nanoseconds of the recording's clock; `None` for a record without a time.
    pub time: Option<u64>,
    /// The record and its position.
    pub at: RecordAt<'r>,
}

/// Block with the number of its waiting records.
struct HeldBlock<'a> {
    block: Block<'a>,
    waiting: u32,
}

/// Block number, and offset in the block.
#[derive(Clone, Copy)]
struct Position {
    time: u64,
    block: u32,
    at: u32,
}

enum Step {
    Untimed(Position),
    Ended,
    Finished,
}

impl<'a> RecordsByTime<'a> {
    /// `has_rounds` must be false in a folder, because each file has its own rounds.
    pub(crate) fn new(blocks: Blocks<'a>, events: &'a Events, has_rounds: bool) -> Self {
        RecordsByTime {
            blocks,
            events,
            has_rounds,
            held: VecDeque::new(),
            first: 0,
            at: None,
            waiting: Vec::new(),
            released: VecDeque::new(),
            latest: 0,
            complete_to: None,
            returned_to: 0,
            late: 0,
            damage: VecDeque::new(),
        }
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    /// Returns [`Damage`] after everything before it. In a folder, each damaged file returns one at
    /// the end.
    pub fn next_record(&mut self) -> Result<Option<TimedRecord<'_>>, Damage> {
        self.drop_blocks();
        let (position, is_timed) = loop {
            if let Some(position) = self.released.pop_front() {
                self.returned_to = position.time;
                break (position, true);
            }
            match self.read_on() {
                Step::Untimed(position) => break (position, false),
                Step::Ended => {}
                Step::Finished if !self.waiting.is_empty() => self.release(u64::MAX),
                Step::Finished => return self.damage.pop_front().map_or(Ok(None), Err),
            }
        };
        let held = &mut self.held[(position.block - self.first) as usize];
        held.waiting -= u32::from(is_timed);
        let at = held.block.record_at(position.at as usize);
        Ok(at.map(|at| TimedRecord {
            time: is_timed.then_some(position.time),
            at,
        }))
    }

    /// Returns the number of late records so far, which break the contract of rounds.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of records read but not yet returned.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.released.len()
    }

    fn drop_blocks(&mut self) {
        while let Some(first) = self.held.front()
            && first.waiting == 0
            && (self.held.len() > 1 || self.at.is_none())
        {
            self.held.pop_front();
            self.first += 1;
        }
    }

    fn read_on(&mut self) -> Step {
        let Some(mut at) = self.at else {
            return self.next_block();
        };
        let number = self.first + self.held.len() as u32 - 1;
        let Some(HeldBlock { block, waiting }) = self.held.back_mut() else {
            return Step::Finished;
        };
        let mut walk = block.walk_from(at);
        let start = at;
        loop {
            at = start + walk.consumed();
            let Some(found) = walk.next() else {
                self.at = None;
                return Step::Ended;
            };
            let mut position = Position {
                time: 0,
                block: number,
                at: at as u32,
            };
            if found.record.kind == RecordType::FINISHED_ROUND {
                if self.has_rounds {
                    self.at = Some(start + walk.consumed());
                    self.end_round();
                    return Step::Ended;
                }
                continue;
            }
            let Some(time) = time_of(self.events, &found.record) else {
                self.at = Some(start + walk.consumed());
                return Step::Untimed(position);
            };
            position.time = time;
            self.latest = self.latest.max(time);
            self.late += u64::from(time < self.returned_to);
            *waiting += 1;
            self.waiting.push(position);
        }
    }

    fn next_block(&mut self) -> Step {
        match self.blocks.next() {
            Some(Ok(block)) => {
                self.held.push_back(HeldBlock { block, waiting: 0 });
                self.at = Some(0);
                Step::Ended
            }
            Some(Err(damage)) => {
                self.damage.push_back(damage);
                Step::Ended
            }
            None => Step::Finished,
        }
    }

    fn end_round(&mut self) {
        if let Some(time) = self.complete_to {
            self.release(time);
        }
        self.complete_to = Some(self.latest);
    }

    fn release(&mut self, up_to: u64) {
        // Stable: equal times stay in file order. Fast on sorted runs.
        self.waiting.sort_by_key(|position| position.time);
        let count = (self.waiting).partition_point(|position| position.time <= up_to);
        self.released.extend(self.waiting.drain(..count));
    }
}

impl std::fmt::Debug for RecordsByTime<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordsByTime")
            .field("has_rounds", &self.has_rounds)
            .field("waiting", &self.waiting())
            .field("late", &self.late)
            .finish_non_exhaustive()
    }
}

fn time_of(events: &Events, record: &RawRecord<'_>) -> Option<u64> {
    let time = events.layout_of(record)?.time_of(record);
    time.filter(|time| *time != 0 && *time != u64::MAX)
}
