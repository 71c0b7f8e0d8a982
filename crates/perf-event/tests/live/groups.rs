//! Event groups in all read formats.

use crate::support::Word;
use rprof_perf_event::{Builder, Errno, Group, OpenFlags, Software};
use rprof_records::ReadFormat;
use rprof_testing::needs;

#[test]
fn members_start_and_stop_with_their_leader() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let mut group = Group::open(&one.event()).unwrap();
    let first = group.leader();
    let second = group.add(&two.event()).unwrap();
    let dummy = Builder::software(Software::DUMMY).exclude_kernel(true);
    let third = group.add(&dummy).unwrap();
    assert_eq!(group.len(), 3);
    two.write(7);
    let work = || {
        one.write(100);
        two.write(250);
    };
    let ((), counted) = group.measure(work).unwrap();
    two.write(7);
    assert_eq!(counted.get(first).unwrap().value, 100);
    assert_eq!(counted.scaled(second).unwrap().value, 250);
    assert_eq!(counted.get(third).unwrap().value, 0);
    assert_eq!(counted.ratio(second, first), Some(2.5));
    assert_eq!(counted.ratio(first, third), None);
    group.reset().unwrap();
    let values: Vec<u64> = group
        .read()
        .unwrap()
        .all()
        .iter()
        .map(|r| r.value)
        .collect();
    assert_eq!(values, [0, 0, 0]);
}

#[test]
fn any_member_moves_the_whole_group() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let mut group = Group::open(&one.event()).unwrap();
    let member = group.add(&two.event()).unwrap();
    let write = || {
        one.write(2);
        two.write(3);
    };
    let values = || {
        let reading = group.read().unwrap();
        (reading.all()[0].value, reading.all()[1].value)
    };
    let fd = group.fd(member).unwrap();
    fd.enable_group().unwrap();
    write();
    assert_eq!(values(), (2, 3));
    fd.disable_group().unwrap();
    write();
    assert_eq!(values(), (2, 3));
    fd.reset_group().unwrap();
    assert_eq!(values(), (0, 0));
    // Without the flag, the leader keeps running.
    fd.enable_group().unwrap();
    fd.disable().unwrap();
    write();
    assert_eq!(values(), (2, 0));
}

#[test]
fn all_read_formats_say_the_same() {
    needs!(PerfEvents);
    for bits in 0..32 {
        let format = ReadFormat::from_bits_retain(bits);
        let (one, two) = (Word::new(), Word::new());
        let leader = one.event().read_format(format);
        let mut group = match Group::open_as_is(&leader) {
            Err(error) if error.errno == Errno::INVAL && format.contains(ReadFormat::LOST) => {
                continue;
            }
            group => group.unwrap(),
        };
        let member = group.add(&two.event()).unwrap();
        group.enable().unwrap();
        one.write(11);
        two.write(12);
        group.disable().unwrap();
        let counted = group.read().unwrap();
        for (member, value) in [(group.leader(), 11), (member, 12)] {
            let reading = counted.get(member).unwrap();
            assert_eq!(reading.value, value, "{format:?}");
            let has = |bit| format.contains(bit);
            assert_eq!(
                reading.enabled.is_some(),
                has(ReadFormat::TOTAL_TIME_ENABLED)
            );
            assert_eq!(
                reading.running.is_some(),
                has(ReadFormat::TOTAL_TIME_RUNNING)
            );
            assert_eq!(reading.lost.is_some(), has(ReadFormat::LOST));
            // Without ids, a group's members are indistinguishable.
            if has(ReadFormat::ID) || !has(ReadFormat::GROUP) {
                let alone = group.fd(member).unwrap().reading().unwrap();
                assert_eq!(alone.value, value, "{format:?}");
            }
        }
    }
}

#[test]
fn a_large_group_is_read_whole() {
    needs!(PerfEvents);
    let event = Builder::software(Software::PAGE_FAULTS).exclude_kernel(true);
    let format = ReadFormat::GROUP | ReadFormat::ID;
    let mut group = Group::open_as_is(&event.clone().read_format(format)).unwrap();
    let others: Vec<_> = (0..99).map(|_| group.add(&event).unwrap()).collect();
    group.enable().unwrap();
    let counted = group.read().unwrap();
    assert_eq!(counted.all().len(), 100);
    assert!(counted.get(others[98]).is_some());
}

#[test]
fn no_group_ignores_the_leader() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let leader = one.event().open_fd(None).unwrap();
    let flags = OpenFlags::CLOEXEC | OpenFlags::NO_GROUP;
    let alone = two.event().disabled(false).open_flags(flags);
    let alone = alone.open_fd(Some(&leader)).unwrap();
    let member = two.event().disabled(false).open_fd(Some(&leader)).unwrap();
    two.write(4);
    assert_eq!(alone.reading().unwrap().value, 4, "its leader is disabled");
    assert_eq!(member.reading().unwrap().value, 0);
}

#[test]
fn an_inherited_group_is_read_one_by_one() {
    needs!(PerfEvents);
    let (one, two) = (Word::new(), Word::new());
    let mut group = Group::open(&one.event().inherit(true)).unwrap();
    let member = group.add(&two.event().inherit(true)).unwrap();
    let work = || {
        std::thread::scope(|scope| {
            scope.spawn(|| one.write(10)).join().unwrap();
            scope.spawn(|| two.write(20)).join().unwrap();
        });
        one.write(3);
    };
    let ((), counted) = group.measure(work).unwrap();
    assert_eq!(counted.get(group.leader()).unwrap().value, 13);
    assert_eq!(counted.get(member).unwrap().value, 20);
}
