//! Small profiles of other tools that expand to large ones: reading is bounded, and the error names
//! the limit.

use std::fs::File;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::bomb::reads;
use crate::support::Here;

fn gzip(here: &Here, name: &str, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) {
    let file = File::create(here.path(name)).expect("it can be written");
    let mut encoder = GzEncoder::new(file, Compression::fast());
    write(&mut encoder).expect("it can be written");
    encoder.finish().expect("it can be written");
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn value(tag: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    number(tag << 3, &mut out);
    number(value, &mut out);
    out
}

fn field(tag: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    number(tag << 3 | 2, &mut out);
    number(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

/// Encodes a profile's start. String 4 is `main`.
fn pprof_start() -> Vec<u8> {
    let strings = ["", "samples", "count", "f", "main"];
    let strings = strings.map(|text| field(6, text.as_bytes())).concat();
    [field(1, &[value(1, 1), value(2, 2)].concat()), strings].concat()
}

fn pprof_end() -> Vec<u8> {
    let location = field(4, &[value(1, 1), field(4, &value(1, 1))].concat());
    let sample = field(2, &[field(1, &[1]), field(2, &[1])].concat());
    [location, sample].concat()
}

fn empty_strings(count: usize, out: &mut dyn Write) -> std::io::Result<()> {
    let block = "\"\",".repeat(1 << 16);
    for _ in 0..count >> 16 {
        out.write_all(block.as_bytes())?;
    }
    out.write_all(b"\"\"")
}

#[test]
fn tables_of_many_threads_share_one_budget() {
    let here = Here::new();
    gzip(&here, "x.json.gz", |out| {
        out.write_all(b"{\"meta\":{\"preprocessedProfileVersion\":60},\"libs\":[],\"threads\":[")?;
        for thread in 0..10 {
            let comma = if thread > 0 { "," } else { "" };
            write!(
                out,
                "{comma}{{\"name\":\"t\",\"samples\":{{}},\"stringArray\":["
            )?;
            empty_strings(33 << 20, out)?;
            out.write_all(b"]}")?;
        }
        out.write_all(b"]}")
    });
    let said = reads(&here, "report -i x.json.gz");
    assert!(
        said.contains("it takes more than 320 MiB of memory"),
        "{said}"
    );
}

#[test]
fn samples_without_end() {
    let here = Here::new();
    gzip(&here, "x.json.gz", |out| {
        out.write_all(
            b"{\"meta\":{\"preprocessedProfileVersion\":60},\"threads\":[{\"samples\":{\"stack\":[",
        )?;
        let block = "0,".repeat(1 << 16);
        for _ in 0..1600 {
            out.write_all(block.as_bytes())?;
        }
        out.write_all(b"0]}}]}")
    });
    let said = reads(&here, "report -i x.json.gz");
    assert!(
        said.contains("it takes more than 320 MiB of memory"),
        "{said}"
    );
}

#[test]
fn functions_that_share_a_long_name() {
    let here = Here::new();
    gzip(&here, "x.pb.gz", |out| {
        out.write_all(&pprof_start())?;
        out.write_all(&field(6, &vec![b'A'; 1 << 20]))?;
        for id in 1..=200_000 {
            out.write_all(&field(5, &[value(1, id), value(2, 5)].concat()))?;
        }
        out.write_all(&pprof_end())
    });
    let said = reads(&here, "report -i x.pb.gz");
    assert!(said.contains("100.00%"), "{said}");
}

#[test]
fn labels_that_share_a_long_name() {
    let here = Here::new();
    gzip(&here, "x.pb.gz", |out| {
        out.write_all(&pprof_start())?;
        out.write_all(&field(6, &vec![b'A'; 1 << 20]))?;
        out.write_all(&field(6, b"comm"))?;
        out.write_all(&field(5, &[value(1, 1), value(2, 4)].concat()))?;
        let label = field(3, &[value(1, 6), value(2, 5)].concat());
        let sample = field(2, &[field(1, &[1]), field(2, &[1]), label].concat());
        for _ in 0..200_000 {
            out.write_all(&sample)?;
        }
        out.write_all(&pprof_end())
    });
    let said = reads(&here, "report -i x.pb.gz");
    assert!(said.contains("100.00%"), "{said}");
}

#[test]
fn a_location_of_many_inlined_calls() {
    let here = Here::new();
    gzip(&here, "x.pb.gz", |out| {
        out.write_all(&pprof_start())?;
        out.write_all(&field(5, &[value(1, 1), value(2, 4)].concat()))?;
        let calls = field(4, &value(1, 1)).repeat(7_000_000);
        let location = [value(1, 1), value(3, 4096), calls].concat();
        out.write_all(&field(4, &location))?;
        out.write_all(&field(2, &[field(1, &[1]), field(2, &[1])].concat()))
    });
    let said = reads(&here, "report -i x.pb.gz");
    assert!(said.contains("more than 4096 frames"), "{said}");
}

#[test]
fn many_events() {
    let here = Here::new();
    let text: String = (0..300_000)
        .map(|nth| format!("sh 7/8 [001] 12.{nth:06}: 10 ev{nth}: \n\t401000 f+0x10 (/x)\n\n"))
        .collect();
    std::fs::write(here.path("x.txt"), text).expect("it can be written");
    let said = reads(&here, "report -i x.txt");
    assert!(
        said.contains("299,000 samples were dropped: the input has more than"),
        "{said}"
    );
}

#[test]
fn events_and_functions_are_no_product() {
    let here = Here::new();
    let text: String = (0..100_000)
        .map(|nth| {
            format!(
                "sh 7 12.{nth:06}: 10 ev{}: \n\t401000 f{nth} (/x)\n\n",
                nth % 1000
            )
        })
        .collect();
    std::fs::write(here.path("x.txt"), text).expect("it can be written");
    for command in [
        "report",
        "report --format json",
        "collapse",
        "flamegraph -o -",
    ] {
        reads(&here, &format!("{command} -i x.txt"));
    }
}

#[test]
fn a_folded_stack_without_end() {
    let here = Here::new();
    for frames in [1_000_000, 5_000_000] {
        let text = format!("{}leaf 3\n", "f;".repeat(frames));
        std::fs::write(here.path("x.folded"), text).expect("it can be written");
        for command in ["report", "flamegraph -o -", "collapse"] {
            let said = reads(&here, &format!("{command} x.folded"));
            assert!(said.contains("more than 4096 frames"), "{said}");
        }
    }
}

#[test]
fn text_that_expands_without_end() {
    let here = Here::new();
    // A ratio of 1,000 each. Long names: few are read fast.
    let mut member = GzEncoder::new(Vec::new(), Compression::best());
    member
        .write_all(
            &format!("main;{} 1\n", "w".repeat(12_000))
                .repeat(1_000)
                .into_bytes(),
        )
        .expect("memory takes it");
    let member = member.finish().expect("memory takes it");
    std::fs::write(here.path("x.folded.gz"), member.repeat(200)).expect("it can be written");
    let said = reads(&here, "report x.folded.gz");
    assert!(said.contains("it expands to more than 1024 MiB"), "{said}");
}
