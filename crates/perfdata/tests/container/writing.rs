//! Written files survive kills and full disks.

use std::io::{self, Cursor, Seek, SeekFrom, Write};

use rprof_perfdata::{FileWriter, PerfData, RecordWriter, WriteOptions};
use rprof_records::Endian;

use crate::made;

fn samples(data: &PerfData) -> u64 {
    made::counts(data).get(&9).copied().unwrap_or(0)
}

#[test]
fn compressed_records_survive_a_kill_at_any_byte() {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer =
        FileWriter::create_with(&mut bytes, made::events(), made::compressed()).unwrap();
    let mut ends = Vec::new();
    for _ in 0..4 {
        writer
            .write_records(&made::records(50, Endian::NATIVE))
            .unwrap();
        writer.checkpoint().unwrap();
        ends.push(writer.bytes_written());
    }
    drop(writer);
    let bytes = bytes.into_inner();
    let start = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    for len in start..=bytes.len() as u64 {
        let data = made::read(&bytes[..len as usize]).unwrap();
        let rounds = ends.iter().filter(|end| start + **end <= len).count();
        assert!(samples(&data) >= 50 * rounds as u64);
    }
}

#[test]
fn killed_while_finishing_leaves_all_records_and_nothing_else() {
    /// Fails after a number of bytes, like a killed process.
    struct Killed {
        file: Cursor<Vec<u8>>,
        left: usize,
    }
    impl Write for Killed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.left);
            self.left -= taken;
            self.file.write_all(&bytes[..taken])?;
            match taken {
                0 if !bytes.is_empty() => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
                taken => Ok(taken),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Seek for Killed {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.file.seek(to)
        }
    }
    let records = made::records(50, Endian::NATIVE);
    let whole = made::file(50, WriteOptions::default()).len() + 300;
    let (mut errors, mut finished) = (0, 0);
    for left in 0..whole {
        let mut out = Killed {
            file: Cursor::new(Vec::new()),
            left,
        };
        let Ok(mut writer) = FileWriter::create(&mut out, made::events()) else {
            continue;
        };
        let written = writer
            .write_records(&records)
            .and_then(|()| writer.checkpoint());
        let checkpointed = written.is_ok();
        if written.is_err() {
            assert!(writer.write_records(&records).is_err());
        }
        match writer.finish(made::features(Endian::NATIVE)) {
            Ok(_) => finished += 1,
            Err(_) => errors += 1,
        }
        let bytes = out.file.into_inner();
        let data = made::read(&bytes).unwrap();
        let n = samples(&data);
        assert!(n <= 50);
        if checkpointed {
            assert_eq!(n, 50, "{left} bytes");
            assert_eq!(made::damage(&data), None, "{left} bytes");
        }
    }
    assert!(errors > 1000 && finished > 0, "{errors} {finished}");
}

#[test]
fn compressed_files_are_smaller_and_say_how() {
    let plain = made::file(5000, WriteOptions::default());
    let small = made::file(5000, made::compressed());
    assert!(small.len() * 3 < plain.len());
    let (plain, small) = (made::read(&plain).unwrap(), made::read(&small).unwrap());
    assert_eq!(made::all_records(&plain), made::all_records(&small));
    let how = small.features().compression().unwrap();
    assert_eq!((how.version, how.kind, how.level), (1, 1, 1));
    assert!(how.ratio >= 3 && plain.features().compression().is_none());
}
