//! Perfetto's trace format, decoded by its published field numbers.

use std::collections::BTreeMap;

use crate::support::{Here, Report, c, needs};

enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().expect("a varint");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            shift += 7;
            if first & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let len = varint(&mut bytes) as usize;
                let (body, rest) = bytes.split_at(len);
                bytes = rest;
                Field::Bytes(body)
            }
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn has_number(message: &[u8], tag: u64) -> bool {
    let is_it =
        |(field, value): &(u64, Field<'_>)| *field == tag && matches!(value, Field::Number(_));
    fields(message).iter().any(is_it)
}

fn number(message: &[u8], tag: u64) -> u64 {
    let found = fields(message)
        .into_iter()
        .find_map(|(field, value)| match value {
            Field::Number(number) if field == tag => Some(number),
            _ => None,
        });
    found.unwrap_or(0)
}

fn parts(message: &[u8], tag: u64) -> Vec<&[u8]> {
    let all = fields(message).into_iter();
    all.filter_map(|(field, value)| match value {
        Field::Bytes(bytes) if field == tag => Some(bytes),
        _ => None,
    })
    .collect()
}

fn text(message: &[u8], tag: u64) -> String {
    let found = parts(message, tag);
    String::from_utf8_lossy(found.first().copied().unwrap_or_default()).into_owned()
}

#[derive(Default)]
struct Trace {
    own: BTreeMap<String, (u64, u64)>,
    total: BTreeMap<String, u64>,
    waits: BTreeMap<String, u64>,
    threads: Vec<String>,
}

impl Trace {
    fn read(bytes: &[u8]) -> Trace {
        let packets = parts(bytes, 1);
        let mut tables: BTreeMap<u64, BTreeMap<u64, &[u8]>> = BTreeMap::new();
        for data in packets.iter().flat_map(|packet| parts(packet, 12)) {
            for (table, value) in fields(data) {
                if let Field::Bytes(entry) = value {
                    let entries = tables.entry(table).or_default();
                    assert!(
                        entries.insert(number(entry, 1), entry).is_none(),
                        "a number twice"
                    );
                }
            }
        }
        let entry = |table: u64, number: u64| tables[&table][&number];
        let (mut trace, mut counted) = (Trace::default(), BTreeMap::new());
        let mut open: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for packet in packets {
            let time = number(packet, 8);
            for sample in parts(packet, 66) {
                let stack: Vec<String> = fields(entry(7, number(sample, 4)))
                    .into_iter()
                    .filter_map(|(field, value)| match value {
                        Field::Number(frame) if field == 2 => Some(frame),
                        _ => None,
                    })
                    .map(|frame| text(entry(5, number(entry(6, frame), 2)), 2))
                    .collect();
                let count = number(sample, 6);
                let before = counted.insert(number(sample, 1), count).unwrap_or(0);
                let weight = count - before;
                let leaf = stack.last().expect("a frame").clone();
                let own = trace.own.entry(leaf).or_default();
                (own.0, own.1) = (own.0 + 1, own.1 + weight);
                let mut names = stack;
                names.sort();
                names.dedup();
                for name in names {
                    *trace.total.entry(name).or_default() += weight;
                }
            }
            for event in parts(packet, 11) {
                let track = number(event, 11);
                match number(event, 9) {
                    1 => {
                        let name = text(entry(2, number(event, 10)), 2);
                        assert!(open.insert(track, (time, name)).is_none(), "waits overlap");
                    }
                    _ => {
                        let (since, name) = open.remove(&track).expect("it began");
                        *trace.waits.entry(name).or_default() += time - since;
                    }
                }
            }
            for described in parts(packet, 60) {
                assert_ne!(number(described, 1), 0, "trace_processor refuses a track 0");
                for process in parts(described, 3) {
                    assert!(has_number(process, 1), "a process without its id");
                }
                for thread in parts(described, 4) {
                    assert!(
                        has_number(thread, 1) && has_number(thread, 2),
                        "a thread without ids"
                    );
                }
                let threads = parts(described, 4).into_iter();
                trace.threads.extend(threads.map(|thread| text(thread, 5)));
            }
        }
        assert!(open.is_empty(), "a wait without an end");
        trace
    }
}

#[test]
fn perfetto_shows_the_samples_and_waits_of_the_report() {
    needs!(PerfEvents, Root);
    let here = Here::new();
    here.record(
        "--off-cpu -g -e cpu-clock",
        &c("phases.c"),
        "pipeline 0.002 0.003 60",
    );
    here.rprof("export --no-inline -o x.pftrace")
        .ok()
        .says("wrote x.pftrace");
    let bytes = std::fs::read(here.path("x.pftrace")).expect("a trace");
    let trace = Trace::read(&bytes);
    let report = |options: &str| -> Report { here.report(options) };
    let samples = report("--event cpu-clock");
    let samples = samples.only();
    let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in &samples.rows {
        let own = expected.entry(&row.symbol).or_default();
        (own.0, own.1) = (own.0 + row.self_samples, own.1 + row.own);
    }
    assert_eq!(
        trace.own.values().map(|own| own.0).sum::<u64>(),
        samples.samples
    );
    for (name, own) in expected.into_iter().filter(|(_, own)| own.0 > 0) {
        assert_eq!(trace.own.get(name), Some(&own), "{name}");
    }
    assert_eq!(trace.total["main"], samples.row("main").total);
    let waits = report("--off-cpu --no-fold-idle");
    let waits = waits.only();
    assert_eq!(trace.waits.values().sum::<u64>(), waits.weight);
    for (name, length) in &trace.waits {
        assert_eq!(waits.row(name).own, *length, "{name}");
    }
    assert_eq!(trace.threads, ["phases", "phases"]);
}

/// `trace_processor` 58.2 counts tracks without a number, and threads without ids, as errors.
#[test]
fn perfetto_has_a_track_of_the_idle_thread() {
    let here = Here::new();
    let text = b"swapper 0/0 [000] 1.000000: 1000000 cpu-clock:\n\
        \tffffffff81000000 idle+0x1 ([kernel.kallsyms])\n\n";
    let export = here.rprof("export --format perfetto -o - -i -");
    let trace = Trace::read(export.stdin(text).ok().bytes());
    assert_eq!(trace.threads, ["swapper"]);
    assert_eq!(trace.own["idle"], (1, 1_000_000));
}
