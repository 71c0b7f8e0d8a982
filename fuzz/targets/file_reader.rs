//! Reads a file as `rprof` does: header, features, events, every record. Then rewrites it, and
//! reads it again.
//!
//! Input: the bytes of a perf.data file, in file or pipe mode.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Cursor, ErrorKind};
use std::path::Path;

use rprof_perfdata::{Mode, PerfData, RecordAt, UserRecord, rewrite, rewrite_pipe};
use rprof_records::{Record, RecordType};

use super::readers::read_all;

/// Limit of expanded bytes. Compressed records of a few bytes can expand to gigabytes, which takes
/// time but no memory.
const ENOUGH: usize = 8 << 20;

/// Maximum attr size in a file. Streams may have longer ones.
const LONGEST_ATTR: usize = 4080;

pub(crate) fn run(data: &[u8]) {
    let read = match PerfData::read(data, Path::new("fuzz")) {
        Ok(read) => read,
        Err(e) => {
            assert!(!e.to_string().is_empty());
            return;
        }
    };
    assert!(read.data_len() <= data.len() as u64);
    read.warnings().iter().for_each(|w| assert!(!w.is_empty()));
    read_all(read.features());
    events(&read, data.len());
    let first = records(&read);
    // Blocks can be read repeatedly.
    assert_eq!(first, records(&read));
    if first.len < ENOUGH && !first.nested && first.count > 0 {
        write_and_read(&read, &first, data.len());
    }
}

fn events(read: &PerfData, len: usize) {
    let events = read.events();
    assert!(!events.list().is_empty());
    let mut ids = 0;
    for event in events.list() {
        assert!(!event.name.is_empty() || event.attr.name().is_empty());
        ids += event.ids.len();
        for id in &event.ids {
            assert!(events.by_id(*id).is_some_and(|i| i < events.list().len()));
        }
    }
    // Memory is proportional to the input, even if many events point to the same ids. Those are in
    // the header, or else in EVENT_DESC.
    assert!(read.mode() == Mode::Pipe || ids * 8 <= 2 * len);
}

/// Summary of a recording's contents, for comparison.
#[derive(Debug, PartialEq, Eq)]
struct Records {
    /// Bytes of all blocks.
    len: usize,
    /// Number and hash of the records outside of a stream's header.
    count: usize,
    hash: u64,
    /// Number of records of a stream's header.
    headers: usize,
    /// True if COMPRESSED records contain COMPRESSED records.
    nested: bool,
}

fn records(read: &PerfData) -> Records {
    let mut records = Records {
        len: 0,
        count: 0,
        hash: 0,
        headers: 0,
        nested: false,
    };
    let mut hash = DefaultHasher::new();
    for block in read.blocks() {
        let block = match block {
            Ok(block) => block,
            Err(damage) => {
                assert!(!damage.to_string().is_empty());
                continue;
            }
        };
        records.len += block.bytes.len();
        let mut walk = block.walk();
        for walked in walk.by_ref() {
            let kind = walked.record.kind;
            records.nested |= matches!(kind, RecordType::COMPRESSED | RecordType::COMPRESSED2);
            decode(&walked, read);
            if is_header(kind) {
                records.headers += 1;
            } else {
                records.count += 1;
                walked.bytes.hash(&mut hash);
            }
        }
        assert!(walk.damage().is_none(), "a block has whole records only");
        assert_eq!(walk.consumed(), block.bytes.len());
        if records.len >= ENOUGH {
            break;
        }
    }
    records.hash = hash.finish();
    records
}

fn decode(walked: &RecordAt<'_>, read: &PerfData) {
    let record = &walked.record;
    let layout = read.events().layout_of(record);
    if record.kind.is_user() {
        if let Err(e) = UserRecord::decode(record) {
            assert!(!e.to_string().is_empty());
        }
        return;
    }
    if let Ok(Record::Sample(sample)) = Record::decode(record, layout) {
        let _ = (sample.callchain(), sample.stack_user(), sample.period());
    }
    if let Some(layout) = layout {
        let _ = layout.sample_id(record);
    }
}

/// Returns true for records of a stream's header, which a file should not have. Includes event
/// names, which a stream may have anyway.
fn is_header(kind: RecordType) -> bool {
    // The last one is rprof's own, for its feature.
    let private = RecordType(0x5250_524f);
    matches!(
        kind,
        RecordType::HEADER_ATTR
            | RecordType::HEADER_EVENT_TYPE
            | RecordType::HEADER_FEATURE
            | RecordType::HEADER_BUILD_ID
            | RecordType::HEADER_TRACING_DATA
            | RecordType::EVENT_UPDATE
    ) || kind == private
}

/// Asserts that a rewritten recording reads the same. `number` selects the method.
fn write_and_read(read: &PerfData, first: &Records, number: usize) {
    let mut out = Cursor::new(Vec::new());
    let written = match number % 4 {
        0 => rewrite(read, &mut out, None),
        1 => rewrite(read, &mut out, Some(1)),
        2 => rewrite_pipe(read, &mut out, None),
        _ => rewrite_pipe(read, &mut out, Some(1)),
    };
    let written = match written {
        Ok(written) => written,
        Err(e) => {
            // An attr too long for a record.
            assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}");
            return;
        }
    };
    assert_eq!(written.len, out.get_ref().len() as u64);
    let attrs = || read.events().list().iter().map(|e| e.attr.needed_size());
    if number % 4 < 2 && attrs().any(|size| size > LONGEST_ATTR) {
        return;
    }
    let again = PerfData::read(&out.get_ref()[..], Path::new("again")).expect("as it was written");
    if !again.events().are_indistinct() {
        assert!(again.warnings().is_empty(), "{:?}", again.warnings());
    }
    assert_eq!(again.endian(), read.endian());
    let second = records(&again);
    assert_eq!((first.count, first.hash), (second.count, second.hash));
    let events = |data: &PerfData| -> Vec<_> {
        (data.events().list().iter())
            .map(|e| (e.ids.clone(), e.layout.clone()))
            .collect()
    };
    // Header records within a file become part of the stream's header.
    if read.mode() == Mode::Pipe || first.headers == 0 {
        assert_eq!(events(read), events(&again));
    }
}
