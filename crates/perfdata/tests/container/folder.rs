//! Recordings in folders.

use std::fs;
use std::io::Cursor;

use rprof_perfdata::{Error, PerfData, WriteOptions, rewrite, rewrite_pipe};
use rprof_records::{Endian, RecordType};

use crate::made;

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let options = WriteOptions::default();
    fs::write(dir.path().join("data"), made::file(1, options)).unwrap();
    fs::write(dir.path().join("data.0"), made::records(2, Endian::NATIVE)).unwrap();
    fs::write(dir.path().join("data.1"), made::records(3, Endian::NATIVE)).unwrap();
    dir
}

#[test]
fn all_files_are_read() {
    let dir = folder();
    let data = PerfData::open(dir.path()).unwrap();
    assert_eq!(made::counts(&data)[&9], 6);
    assert!(data.warnings().is_empty());
}

/// Returns the times, and the number of late records.
fn by_time(data: &PerfData) -> (Vec<u64>, u64) {
    let (mut records, mut times) = (data.records_by_time(), Vec::new());
    while let Some(record) = records.next_record().unwrap() {
        times.extend(record.time);
    }
    (times, records.late())
}

/// Files start at the same time, so the end of a round in the first does not apply to later ones.
#[test]
fn written_as_one_it_keeps_the_order_of_time() {
    let dir = folder();
    let data = PerfData::open(dir.path()).unwrap();
    let (times, late) = by_time(&data);
    assert!(times.len() == 9 && times.is_sorted() && late == 0);
    let (mut file, mut stream) = (Cursor::new(Vec::new()), Vec::new());
    let written = rewrite(&data, &mut file, None).unwrap();
    assert_eq!(written.records, 9);
    rewrite_pipe(&data, &mut stream, Some(1)).unwrap();
    for bytes in [file.into_inner(), stream] {
        let again = made::read(&bytes).unwrap();
        assert_eq!(by_time(&again), (times.clone(), 0));
        assert!(!made::counts(&again).contains_key(&RecordType::FINISHED_ROUND.0));
    }
}

#[test]
fn damage_in_one_file_leaves_the_others() {
    let dir = folder();
    fs::write(dir.path().join("data.0"), [0; 100]).unwrap();
    let data = PerfData::open(dir.path()).unwrap();
    let (mut samples, mut damaged) = (0, Vec::new());
    for block in data.blocks() {
        match block {
            Ok(block) => samples += block.walk().filter(|w| w.record.kind.0 == 9).count(),
            Err(damage) => damaged.push(damage),
        }
    }
    assert_eq!(samples, 4);
    assert_eq!(damaged.len(), 1);
    let damage = &damaged[0];
    assert!(damage.what.starts_with("in data.0"), "{damage}");
}

#[test]
fn a_link_is_not_followed() {
    let dir = folder();
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    fs::write(elsewhere.path(), made::records(9, Endian::NATIVE)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("data.2")).unwrap();
    let data = PerfData::open(dir.path()).unwrap();
    assert_eq!(made::counts(&data)[&9], 6);
    assert!(data.warnings()[0].contains("symbolic link"));
    fs::rename(dir.path().join("data"), dir.path().join("away")).unwrap();
    std::os::unix::fs::symlink("away", dir.path().join("data")).unwrap();
    let error = PerfData::open(dir.path()).unwrap_err();
    assert!(matches!(error, Error::NotAFile { .. }), "{error}");
}

#[test]
fn a_folder_that_is_no_recording_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = PerfData::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("is a directory"));
}
