//! Decodes kernel output: a signal's siginfo, a control page, counter values, records.
//!
//! Input: a byte for the type of the rest. 0: a siginfo. 1: a word for a timestamp, a word for a
//! counter, a page. 2: a byte for the read format, the result of read(2). 3: an attr, and records
//! of its event and of another.

use rprof_perf_event::{
    ControlPage, OverflowCode, ReadError, Reading, RecordDecoder, SignalInfo, reading,
};
use rprof_records::{Attr, Endian, ReadFormat};

pub(crate) fn run(data: &[u8]) {
    let Some((what, data)) = data.split_first() else {
        return;
    };
    match what % 4 {
        0 => signal(data),
        1 => page(data),
        2 => values(data),
        _ => records(data),
    }
}

fn signal(data: &[u8]) {
    let info = SignalInfo::from_bytes(data);
    let mut padded = data.to_vec();
    padded.resize(data.len().max(128), 0);
    assert_eq!(info, SignalInfo::from_bytes(&padded));
    let word = |at: usize| i32::from_ne_bytes(padded[at..at + 4].try_into().expect("four bytes"));
    match info {
        SignalInfo::Trap(trap) => {
            assert_eq!((word(0), word(8)), (5, 6));
            assert_eq!(trap.thread, 0);
        }
        SignalInfo::Overflow(overflow) => {
            assert_eq!(overflow.signal, word(0));
            assert!(
                overflow.code == OverflowCode::QUEUE_FULL || (1..=6).contains(&overflow.code.0)
            );
        }
        SignalInfo::Other { signal, code } => assert_eq!((signal, code), (word(0), word(8))),
        _ => {}
    }
}

fn page(data: &[u8]) {
    let Some((words, bytes)) = data.split_first_chunk::<16>() else {
        return;
    };
    let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().expect("eight bytes"));
    let (tsc, counter) = (word(0), word(8));
    // A page with an odd lock is retried many times without success, so it is read only once.
    let mut still = bytes.to_vec();
    // A shorter page is read as if padded with zeroes.
    still.resize(bytes.len().max(12), 0);
    if let Some(lock) = still.get_mut(8..12) {
        let even = u32::from_ne_bytes(lock.try_into().expect("four bytes")) & !1;
        lock.copy_from_slice(&even.to_ne_bytes());
    }
    let page = ControlPage::from_bytes(&still);
    let fields = page.fields().expect("it stands still");
    assert_eq!(page.fields(), Some(fields));
    let _ = page.positions();
    let here = page.read_here().expect("it stands still");
    // The page is not from the kernel, so the processor's counter is not read.
    assert_eq!(here, fields.reading(None, None));
    assert_eq!(
        (here.enabled, here.running),
        (fields.time_enabled, fields.time_running)
    );
    let now = fields.reading(Some(counter), Some(tsc));
    if fields.index == 0 {
        assert_eq!(now.running, fields.time_running);
        assert_eq!(now.value, here.value);
    }
    let time = fields.time.time(tsc);
    assert_eq!(time.is_some(), fields.time.shift < 64);
    if let Some(time) = time {
        let back = fields.time.tsc(time);
        assert_eq!(back.is_some(), fields.time.mult != 0);
    }
}

fn values(data: &[u8]) {
    let Some((format, answer)) = data.split_first() else {
        return;
    };
    let format = ReadFormat::from_bits_retain(u64::from(format % 32));
    let values = match reading::decode(answer, format) {
        Ok(values) => values,
        Err(ReadError::PinnedWithoutCounter) => return assert!(answer.is_empty()),
        Err(error) => return assert_eq!(error, ReadError::Truncated { got: answer.len() }),
    };
    assert!(values.values.len() * 8 <= answer.len());
    let Some(first) = Reading::of(&values, None) else {
        return assert!(values.values.is_empty());
    };
    if let Some(id) = values.values[0].id {
        assert_eq!(Reading::of(&values, Some(id)), Some(first));
    }
    match first.scaled() {
        Some(scaled) => {
            assert!(scaled.share > 0.0 && scaled.share <= 1.0, "{scaled:?}");
            assert!(scaled.value >= first.value);
            assert!(!scaled.to_string().is_empty());
        }
        None => assert_eq!(first.running, Some(0)),
    }
    let none = first.since(&first);
    assert_eq!((none.value, none.enabled.unwrap_or(0)), (0, 0));
    let mut twice = first;
    twice.add(first);
    assert_eq!(twice.value, first.value.wrapping_mul(2));
}

fn records(data: &[u8]) {
    let Ok(attr) = Attr::parse(data, Endian::NATIVE) else {
        return;
    };
    let said = data.get(4..8).map_or(0, |size| {
        u32::from_ne_bytes(size.try_into().expect("four bytes")) as usize
    });
    let bytes = data.get(said.max(64)..).unwrap_or_default();
    let alone = RecordDecoder::new(&attr);
    let mut both = alone.clone();
    both.add(7, &attr);
    let mut decoded = both.records(bytes);
    for one in alone.records(bytes) {
        let other = decoded.next().expect("as many records");
        match (one, other) {
            (Ok(one), Ok(other)) => {
                assert_eq!((one.event, one.misc, one.id), (0, other.misc, other.id));
                assert!(other.event < 2);
            }
            (Err(one), Err(other)) => assert_eq!(one, other),
            (one, other) => panic!("{one:?}, {other:?}"),
        }
    }
    assert!(decoded.next().is_none());
}
