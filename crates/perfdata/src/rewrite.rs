//! Copies a recording into a new container.

use std::io::{self, Seek, Write};

use rprof_records::RecordType;

use crate::error::Damage;
use crate::features::run::AuxtraceEntry;
use crate::features::{Feature, FeatureSections};
use crate::read::reader::{Mode, PerfData};
use crate::read::walk::RecordAt;
use crate::write::file::FileWriter;
use crate::write::pipe::PipeWriter;
use crate::write::{EventDescription, RecordWriter, WriteOptions};

/// Result of a rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Bytes written.
    pub len: u64,
    /// Records written, except for header records.
    pub records: u64,
    /// First damage of the input. All records before it were written.
    pub damage: Option<Damage>,
    /// Features that pipe mode cannot hold.
    pub left_out: Vec<Feature>,
}

/// Writes a recording in file mode, with the same events, features and record bytes. The input may
/// be a file, stream or folder, with any compression. The byte order stays.
///
/// Changes:
/// - Header records of a stream become the file's header.
/// - COMPRESSED, DIR_FORMAT and the AUXTRACE index describe the new file.
/// - EVENT_DESC is added if missing.
/// - A folder's FINISHED_ROUND records are dropped, because each applies to only one file.
///
/// # Errors
/// Fails if the writer does. Damage of the input is not an error.
pub fn rewrite<W: Write + Seek>(
    data: &PerfData,
    out: W,
    compression: Option<i32>,
) -> io::Result<Rewritten> {
    let options = options(data, compression);
    let mut writer = FileWriter::create_with(out, descriptions(data), options)?;
    let mut moved = Vec::new();
    let (records, damage) = each_record(data, |walked| {
        if !is_kept_plain(walked.record.kind) {
            return writer.write_records(walked.bytes);
        }
        let offset = writer.write_uncompressed(walked.bytes)?;
        if walked.record.kind == RecordType::AUXTRACE {
            moved.push(AuxtraceEntry {
                offset,
                size: walked.record.size() as u64,
            });
        }
        Ok(())
    })?;
    let mut features = features(data);
    if features.has(Feature::AUXTRACE) {
        features.insert_auxtrace_index(&moved);
    }
    Ok(Rewritten {
        len: writer.finish(features)?,
        records,
        damage,
        left_out: Vec::new(),
    })
}

/// Writes a recording in pipe mode, otherwise like [`rewrite`].
///
/// # Errors
/// Fails like [`rewrite`].
pub fn rewrite_pipe<W: Write>(
    data: &PerfData,
    out: W,
    compression: Option<i32>,
) -> io::Result<Rewritten> {
    let options = options(data, compression);
    let features = features(data);
    let mut writer = PipeWriter::create(out, descriptions(data), &features, options)?;
    let (records, damage) = each_record(data, |walked| match is_kept_plain(walked.record.kind) {
        true => writer.write_uncompressed(walked.bytes),
        false => writer.write_records(walked.bytes),
    })?;
    let left_out = writer.left_out().to_vec();
    Ok(Rewritten {
        len: writer.finish(features)?,
        records,
        damage,
        left_out,
    })
}

fn options(data: &PerfData, compression: Option<i32>) -> WriteOptions {
    WriteOptions {
        endian: data.endian(),
        compression,
    }
}

fn descriptions(data: &PerfData) -> Vec<EventDescription> {
    (data.events().list().iter())
        .map(|event| EventDescription {
            attr: event.attr.clone(),
            name: event.name.clone(),
            ids: event.ids.clone(),
        })
        .collect()
}

fn features(data: &PerfData) -> FeatureSections {
    let mut features = data.features().clone();
    features.remove(Feature::COMPRESSED);
    features.remove(Feature::DIR_FORMAT);
    features
}

/// perf compresses only records from ring buffers.
fn is_kept_plain(kind: RecordType) -> bool {
    kind.is_user()
}

/// Passes on the records that keep their meaning in another recording. Skips header records, and
/// the ends of rounds if several files become one.
fn each_record(
    data: &PerfData,
    mut write: impl FnMut(&RecordAt<'_>) -> io::Result<()>,
) -> io::Result<(u64, Option<Damage>)> {
    let header = |kind| {
        data.mode() == Mode::Pipe
            && matches!(
                kind,
                RecordType::HEADER_ATTR
                    | RecordType::HEADER_EVENT_TYPE
                    | RecordType::HEADER_FEATURE
                    | RecordType::HEADER_BUILD_ID
                    | RecordType::HEADER_TRACING_DATA
            )
    };
    let is_round = |kind| kind == RecordType::FINISHED_ROUND && !data.has_rounds();
    let (mut records, mut damage) = (0, None);
    for block in data.blocks() {
        let block = match block {
            Ok(block) => block,
            Err(found) => {
                damage.get_or_insert(found);
                continue;
            }
        };
        for walked in block.walk() {
            if !header(walked.record.kind) && !is_round(walked.record.kind) {
                write(&walked)?;
                records += 1;
            }
        }
    }
    Ok((records, damage))
}
