//! A recording is complete whenever its recorder dies.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::rc::Rc;

use rprof_perfdata::write::growing::Storage;
use rprof_perfdata::{Feature, FeatureSections, GrowingWriter, RecordWriter, WriteOptions};
use rprof_records::{Endian, Misc, RecordType, put_record};

use crate::made;
use crate::perf::perf;

/// Each write to a file: offset and bytes.
type Writes = Rc<RefCell<Vec<(u64, Vec<u8>)>>>;

/// Stores only its sequence of writes.
#[derive(Default)]
struct Journal {
    at: u64,
    writes: Writes,
}

impl Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.borrow_mut().push((self.at, bytes.to_vec()));
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Journal {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Start(at) => self.at = at,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(self.at)
    }
}

impl Storage for Journal {
    fn cut(&mut self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}

fn apply(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    file.resize(file.len().max(end), 0);
    file[at as usize..end].copy_from_slice(bytes);
}

fn start(endian: Endian) -> FeatureSections {
    let mut features = made::features(endian);
    features.remove(Feature::RPROF);
    features
}

fn pieces(count: usize) -> Vec<Vec<u8>> {
    let sizes = [
        24, 40, 800, 30_000, 65_528, 65_520, 8, 32_760, 32_768, 61_440,
    ];
    (0..count)
        .map(|n| {
            let mut out = Vec::new();
            for i in 0..7 {
                made::sample(&mut out, 100, 7 * n as u64 + i, Endian::NATIVE);
            }
            put_record(
                &mut out,
                RecordType::HEADER_EVENT_TYPE,
                Misc(0),
                Endian::NATIVE,
                |out| {
                    out.resize(out.len() + sizes[n % sizes.len()] - 8, n as u8);
                },
            )
            .unwrap();
            out
        })
        .collect()
}

struct Killed<'a> {
    bytes: &'a [u8],
    kept: u64,
    finished: bool,
}

/// Writes rounds of seven samples and a record of some size. Calls `look` with each state that a
/// kill may leave.
fn each_state(options: WriteOptions, rounds: usize, mut look: impl FnMut(usize, &Killed<'_>)) {
    let journal = Journal::default();
    let writes = Rc::clone(&journal.writes);
    let so_far = || writes.borrow().len();
    let features = start(options.endian);
    let mut writer = GrowingWriter::create(journal, made::events(), &features, options).unwrap();
    let begun = so_far();
    let mut checkpoints = Vec::new();
    for records in pieces(rounds) {
        writer.write_records(&records).unwrap();
        writer.checkpoint().unwrap();
        checkpoints.push(so_far());
    }
    let mut features = made::features(options.endian);
    if options.compression.is_some() {
        // Too large for the space after the records.
        features.insert(Feature::RPROF_FILES, vec![7; 300_000]);
    }
    writer.finish(features).unwrap();
    let done = match options.compression {
        Some(_) => Some(so_far() - 1),
        None => (writes.borrow().iter()).rposition(|(at, _)| *at == 0),
    };
    let mut file = Vec::new();
    let mut finished = false;
    for (n, (at, bytes)) in writes.borrow().iter().enumerate() {
        let kept = 7 * checkpoints.iter().filter(|end| **end <= n).count() as u64;
        // A write within a page is atomic.
        if n > begun && bytes.len() > 104 {
            let mut half = file.clone();
            apply(&mut half, *at, &bytes[..bytes.len() / 2]);
            let bytes = &half;
            look(
                n,
                &Killed {
                    bytes,
                    kept,
                    finished,
                },
            );
        }
        apply(&mut file, *at, bytes);
        finished = Some(n) >= done;
        if n + 1 >= begun {
            let bytes = &file;
            look(
                n,
                &Killed {
                    bytes,
                    kept,
                    finished,
                },
            );
        }
    }
    assert!(finished);
}

#[test]
fn killed_between_any_two_writes_it_is_whole() {
    let (mut states, mut damaged) = (0, 0);
    for options in [WriteOptions::default(), made::compressed()] {
        each_state(options, 60, |n, state| {
            let data = made::read(state.bytes).unwrap();
            // When gaps are added and at the end, the last gap exceeds the file.
            let damage = made::damage(&data).map(|damage| damage.what);
            if let Some(what) = damage {
                assert!(
                    what.starts_with("a HEADER_EVENT_TYPE record"),
                    "write {n}: {what}"
                );
                damaged += 1;
            }
            let samples = made::counts(&data).get(&9).copied().unwrap_or(0);
            assert!(
                samples >= state.kept,
                "write {n}: {samples} of {}",
                state.kept
            );
            let features = data.features();
            assert_eq!(features.string(Feature::HOSTNAME).unwrap(), "somewhere");
            assert_eq!(
                features.has(Feature::COMPRESSED),
                options.compression.is_some()
            );
            let told = data.warnings().join("\n");
            assert_eq!(
                told.contains("did not finish"),
                !state.finished,
                "write {n}: {told}"
            );
            states += 1;
        });
    }
    assert!(
        states >= 500 && damaged < states / 50,
        "{damaged} of {states}"
    );
}

#[test]
fn perf_reads_what_a_kill_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    let args = ["script", "-i", path.to_str().unwrap(), "-F", "time,event"];
    let mut looked = 0;
    for options in [WriteOptions::default(), made::compressed()] {
        each_state(options, 30, |n, state| {
            if n % 7 != 0 && !state.finished {
                return;
            }
            let data = made::read(state.bytes).unwrap();
            // As above, between two writes of eight bytes.
            if made::damage(&data).is_some() {
                return;
            }
            fs::write(&path, state.bytes).unwrap();
            let Some((out, complaints)) = perf(&args, None) else {
                return;
            };
            assert_eq!(complaints, "", "write {n}");
            let samples = out.lines().count() as u64;
            assert!(
                samples >= state.kept,
                "write {n}: {samples} of {}",
                state.kept
            );
            let data = made::read(state.bytes).unwrap();
            assert_eq!(
                samples,
                made::counts(&data).get(&9).copied().unwrap_or(0),
                "write {n}"
            );
            looked += 1;
        });
    }
    assert!(looked == 0 || looked > 30, "{looked}");
}

#[test]
fn what_is_finished_is_cut_and_says_what_it_should() {
    let endian = Endian::Big;
    let options = WriteOptions {
        endian,
        compression: None,
    };
    let mut late = made::features(endian);
    // Too large for the space after the records.
    late.insert(Feature::RPROF_FILES, vec![7; 200_000]);
    for features in [made::features(endian), late] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        let file = fs::File::create(&path).unwrap();
        let mut writer =
            GrowingWriter::create(file, made::events(), &start(endian), options).unwrap();
        writer.write_records(&made::records(50, endian)).unwrap();
        let len = writer.finish(features.clone()).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(len, bytes.len() as u64);
        let data = made::read(&bytes).unwrap();
        assert_eq!((data.warnings(), made::counts(&data)[&9]), (&[][..], 50));
        for (feature, bytes) in features.iter() {
            assert_eq!(data.features().get(feature), Some(bytes), "{feature}");
        }
        assert!(data.features().has(Feature::EVENT_DESC));
        if !features.has(Feature::RPROF_FILES) {
            assert!(len < 8000, "{len} bytes for 50 samples");
        }
        assert!(len < 210_000, "{len} bytes, with 200,000 of a kept file");
    }
}
