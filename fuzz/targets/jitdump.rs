//! Parses bytes as a jitdump, and looks up addresses. Without machine code it must give the same
//! result; truncated, it must not have more entries.
//!
//! Input: the file.

use rprof_jit::JitDump;
use rprof_jit::jitdump::without_code;

pub(crate) fn run(data: &[u8]) {
    let dump = match JitDump::parse(data) {
        Ok(dump) => dump,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(without_code(data).is_err());
            return;
        }
    };
    let stripped = without_code(data).expect("it is one");
    assert!(stripped.len() <= data.len());
    let stripped = JitDump::parse(&stripped).expect("it is one");
    assert_eq!(stripped.len(), dump.len());
    assert_eq!(stripped.cut_at(), None);
    assert!(dump.len() <= data.len());
    let half = JitDump::parse(&data[..data.len() / 2]);
    assert!(half.is_err() || half.is_ok_and(|half| half.len() <= dump.len()));

    let mut times = vec![0, u64::MAX];
    let mut places = vec![0, u64::MAX];
    for number in 0..dump.len().min(64) as u32 {
        let function = dump.function(number);
        assert_eq!(function, stripped.function(number));
        assert_eq!(dump.unwinding(number), stripped.unwinding(number));
        if let Some(function) = function {
            assert!(function.size > 0 && function.name.len() < 16_384);
            let end = function.start + function.size;
            places.extend([function.start, end - 1, end]);
            // A time within the validity of an entry, from the record indices.
            times.push(u64::from(number) << 8);
        }
    }
    for avma in places {
        for &time in &times {
            let found = dump.find(avma, time);
            assert_eq!(found, stripped.find(avma, time));
            let Some(number) = found else { continue };
            assert!(number < dump.epoch(time));
            let function = dump.function(number).expect("it was found");
            assert!((function.start..function.start + function.size).contains(&avma));
            assert_eq!(dump.line(number, avma), stripped.line(number, avma));
        }
    }
}
