//! Recordings in the other byte order.

use rprof_perfdata::{Feature, Mode, WriteOptions};
use rprof_records::Endian;

use crate::made;

#[test]
fn files_and_streams_read_the_same_in_both_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let options = WriteOptions {
            endian,
            ..WriteOptions::default()
        };
        let both = [
            (Mode::File, made::file(10, options)),
            (Mode::Pipe, made::stream(10, options)),
        ];
        for (mode, bytes) in both {
            let data = made::read(&bytes).unwrap();
            assert_eq!((data.mode(), data.endian()), (mode, endian));
            // A stream also has records with event names.
            let names = if mode == Mode::Pipe { 2 } else { 0 };
            assert_eq!(made::all_records(&data).len(), 12 + names);
            let events = data.events().list();
            assert_eq!(events[1].name, "page-faults");
            assert_eq!(events[1].attr, made::events()[1].attr);
            assert_eq!(data.events().by_id(202), Some(1));
            let f = data.features();
            assert_eq!(f.string(Feature::HOSTNAME).unwrap(), "somewhere");
            assert_eq!(f.rprof_notes().unwrap(), [("lost".into(), "3".into())]);
            let mut of_events = [0; 2];
            for block in data.blocks() {
                for w in block.unwrap().walk().filter(|w| w.record.kind.0 == 9) {
                    of_events[data.events().of_sample(&w.record).unwrap()] += 1;
                }
            }
            assert_eq!(of_events, [5, 5]);
        }
    }
}

#[test]
fn the_magic_of_version_1_in_either_order() {
    for endian in [Endian::Little, Endian::Big] {
        let options = WriteOptions {
            endian,
            ..WriteOptions::default()
        };
        let mut bytes = made::file(3, options);
        bytes[..8].copy_from_slice(b"PERFFILE");
        let data = made::read(&bytes).unwrap();
        assert_eq!(data.endian(), endian);
        assert_eq!(made::all_records(&data).len(), 5);
    }
}
