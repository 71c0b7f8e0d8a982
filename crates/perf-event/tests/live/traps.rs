//! SIGTRAP. The signal belongs to the whole process, so there is only one test.

use crate::support::Word;
use rprof_perf_event::{Errno, Traps, TrapsError};
use rprof_records::EventKind;
use rprof_testing::{needs, skip};

#[test]
fn a_write_traps_with_the_data_of_its_event() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let mut traps = Traps::install().unwrap();
    assert_eq!(Traps::install().unwrap_err(), TrapsError::Taken);
    let trapped = |word: &Word, data| {
        let event = word.event().period(1).sigtrap(true).remove_on_exec(true);
        event.signal_data(data).open()
    };
    let first = match trapped(&one, 42) {
        Err(error) if error.errno == Errno::TOOBIG || error.errno == Errno::INVAL => {
            return skip("needs sigtrap (Linux 5.13)");
        }
        first => first.unwrap(),
    };
    let second = trapped(&two, 43).unwrap();
    first.enable().unwrap();
    second.enable().unwrap();
    let mut expected = Vec::new();
    for round in 0..50 {
        let (word, data) = [(&one, 42), (&two, 43)][round % 2];
        word.write(1);
        expected.push((data, word.breakpoint().address));
    }
    second.disable().unwrap();
    two.write(5);
    let taken = traps.take();
    let found: Vec<_> = taken.iter().map(|trap| (trap.data, trap.address)).collect();
    assert_eq!(found, expected);
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    for trap in &taken {
        assert_eq!((trap.thread, trap.kind), (thread, EventKind::BREAKPOINT.0));
        assert!(!trap.is_async);
    }
    assert_eq!(traps.missed(), 0);
    assert!(traps.take().is_empty());
    one.write(1500);
    let kept = traps.take().len() as u64;
    assert!(kept < 1500);
    assert_eq!(kept + traps.missed(), 1500);
    drop(first);
    one.write(1);
    assert!(traps.take().is_empty());
    drop(traps);
    Traps::install().unwrap();
}
