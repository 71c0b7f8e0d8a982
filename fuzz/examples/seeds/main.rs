//! Writes the seeds of every target: `cargo run --example seeds -- FOLDER`.
//!
//! It generates all files, except the ELF files, which the C compiler generates.

use std::borrow::Cow;
use std::error::Error;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use rprof_perfdata::features::EventGroup;
use rprof_perfdata::features::bpf::{BpfBtf, BpfProgram};
use rprof_perfdata::features::domains::{CpuDomains, DomainsOfCpu, SchedulingDomain};
use rprof_perfdata::features::memory::{Cache, MemoryNode, MemoryTopology};
use rprof_perfdata::features::pmus::PmuCaps;
use rprof_perfdata::features::run::{AuxtraceEntry, ClockData};
use rprof_perfdata::features::topology::{CpuTopology, CpuTopologyEntry, HybridPmu, NumaNode};
use rprof_perfdata::{BuildIdEntry, EventDescription, Feature, FeatureSections, FileWriter, RecordWriter};
use rprof_records::{
    Attr, AttrFlags, BranchEntry, BranchFlags, BranchSampleType, BuildId, Comm, Endian, EventKind, Lost, Misc,
    Mmap, Mmap2, MmapIdentity, RawBytes, RawRecord, ReadFormat, ReadValue, ReadValues, Record,
    RecordType, RegisterValues, SampleFields, SampleId, SampleLayout, SampleType, Task, put_record,
};

mod files;
mod jit;
mod perf_event;
mod records;
mod tracepoints;

use files::*;
use records::*;
use tracepoints::*;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ORDERS: [Endian; 2] = [Endian::Little, Endian::Big];
const BUILD_ID: [u8; 20] = [7; 20];

fn main() -> Result<()> {
    let root = PathBuf::from(std::env::args().nth(1).ok_or("which folder?")?);
    record_decode(&Seeds::new(&root, "record_decode")?)?;
    perf_event::seeds(&Seeds::new(&root, "perf_event")?)?;
    let files = files()?;
    for target in ["file_reader", "analyse"] {
        let seeds = Seeds::new(&root, target)?;
        for (name, bytes) in &files {
            seeds.put(name, bytes)?;
        }
        for (name, records) in streams()? {
            let magic = match name.ends_with("big") {
                false => [*b"PERFILE2", 16u64.to_le_bytes()],
                true => [*b"2ELIFREP", 16u64.to_be_bytes()],
            };
            seeds.put(&name, &[&magic.concat()[..], &records[1..]].concat())?;
        }
    }
    let seeds = Seeds::new(&root, "pipe_reader")?;
    for (name, records) in streams()? {
        seeds.put(&name, &records)?;
    }
    feature_sections(&Seeds::new(&root, "feature_sections")?)?;
    process_map(&Seeds::new(&root, "process_map")?)?;
    tracepoint(&Seeds::new(&root, "tracepoint")?)?;
    elf_symbols(&Seeds::new(&root, "elf_symbols")?)?;
    kallsyms(&Seeds::new(&root, "kallsyms")?)?;
    demangle(&Seeds::new(&root, "demangle")?)?;
    jit::perf_maps(&Seeds::new(&root, "perf_map")?)?;
    jit::jitdumps(&Seeds::new(&root, "jitdump")?)?;
    Ok(())
}

/// The seeds of one target.
struct Seeds(PathBuf);

impl Seeds {
    fn new(root: &Path, target: &str) -> Result<Seeds> {
        let folder = root.join(target);
        fs::create_dir_all(&folder)?;
        Ok(Seeds(folder))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(fs::write(self.0.join(name), bytes)?)
    }
}

fn record_decode(seeds: &Seeds) -> Result<()> {
    let all = SampleType::from_bits_retain((1 << 25) - 1);
    let mut types: Vec<(String, SampleType)> = (0..25)
        .map(|bit| {
            (
                format!("bit{bit}"),
                SampleType::from_bits_retain(1 << bit) | SampleType::IP,
            )
        })
        .collect();
    types.push(("all".into(), all));
    types.push(("usual".into(), usual()));
    for endian in ORDERS {
        let order = match endian {
            Endian::Little => "little",
            Endian::Big => "big",
        };
        let start = [u8::from(endian == Endian::Big), 40, 0];
        for (name, sample_type) in &types {
            let attr = attr(*sample_type);
            let layout = SampleLayout::new(&attr, endian);
            let mut out = start.to_vec();
            out.extend(attr.encode(endian, attr.needed_size())?);
            sample(5, 6, vec![1, 2]).encode(Misc::USER, &layout, &mut out)?;
            seeds.put(&format!("{name}-{order}"), &out)?;
        }
        let mut group = attr(usual() | SampleType::READ);
        group.read_format = ReadFormat::from_bits_retain(31);
        for (name, attr) in [("records", attr(usual())), ("group", group)] {
            let layout = SampleLayout::new(&attr, endian);
            for (number, (misc, record)) in every_record().into_iter().enumerate() {
                let mut out = start.to_vec();
                out.extend(attr.encode(endian, 144)?);
                record.encode(misc, &layout, &sample_id(), &mut out)?;
                seeds.put(&format!("{name}{number}-{order}"), &out)?;
            }
        }
    }
    Ok(())
}

fn feature_sections(seeds: &Seeds) -> Result<()> {
    for (endian, order) in ORDERS.into_iter().zip(["little", "big"]) {
        let mut features = sections(endian);
        features.insert_event_descriptions(&descriptions(), 128);
        for (feature, bytes) in features.iter() {
            seeds.put(&format!("{feature}-{order}"), bytes)?;
        }
    }
    Ok(())
}

fn process_map(seeds: &Seeds) -> Result<()> {
    // The target documents the bytes: a map, one over it, an exec, a fork.
    let map = |time: u8, pid: u8, start: u8, len: u8, path: u8| {
        vec![time << 6, pid, start, len, 0, path, 0]
    };
    let huge = |time: u8, start: u8, len: u8, path: u8| {
        vec![time << 6, 1, 0xc0 + start, 0xc0 + len, 0, path, 0]
    };
    let maps = [map(1, 1, 4, 16, 0), map(1, 1, 8, 4, 1), map(0, 1, 2, 8, 3)].concat();
    let fork = vec![0x4a, 2, 1, 2, 1];
    let exec = vec![0x57, 1, 1, b'x'];
    let exit = vec![0x4f, 2, 2];
    let moved = [huge(1, 1, 4, 0), huge(1, 2, 1, 3)].concat();
    let kernel = vec![0x70, 0xff, 0xe1, 0xbf, 0, 8, 0];
    let all = [&maps[..], &fork, &maps, &exec, &maps, &exit, &kernel].concat();
    for options in 0..4u8 {
        for (name, bytes) in [("maps", &maps), ("moved", &moved), ("all", &all)] {
            let bytes = [&[options][..], bytes].concat();
            seeds.put(&format!("{name}{options}"), &bytes)?;
        }
    }
    Ok(())
}

fn elf_symbols(seeds: &Seeds) -> Result<()> {
    let source = "int g(void); static int h(void) { return 3; } \
                  int f(void) { return g() + h(); } int e(void) { return f(); }";
    let folder = std::env::temp_dir().join("rprof-fuzz-seeds");
    fs::create_dir_all(&folder)?;
    let path = folder.join("a.c");
    fs::write(&path, source)?;
    let common = [
        "-nostdlib",
        "-Os",
        "-Wl,-z,noseparate-code",
        "-Wl,-z,max-page-size=64",
    ];
    for (name, flags) in [
        ("shared", &["-shared", "-fPIC", "-Wl,--build-id"][..]),
        ("stripped", &["-shared", "-fPIC", "-s"]),
        ("object", &["-c"]),
        ("m32", &["-c", "-m32"]),
    ] {
        let out = folder.join(name);
        let status = Command::new("cc")
            .args(common)
            .args(flags)
            .arg(&path)
            .arg("-o")
            .arg(&out)
            .status()?;
        if status.success() {
            seeds.put(name, &fs::read(&out)?)?;
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn kallsyms(seeds: &Seeds) -> Result<()> {
    seeds.put(
        "usual",
        b"0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n\
          ffffffff81000000 T _text\nffffffff81000100 t f\nffffffff81000100 t g\n\
          ffffffff82000000 T _etext\nffffffff82000000 D _sdata\n\
          ffffffffc0000000 t h\t[module]\nffffffffc0001000 t b\t[bpf]\n",
    )?;
    seeds.put(
        "hidden",
        b"0000000000000000 T _text\n0000000000000000 T f\n",
    )?;
    seeds.put(
        "odd",
        b"ffffffffffffffff T x\n1 t\n\n2 W \xff\n3 T $x\n4 w y [m] z\n",
    )
}

fn demangle(seeds: &Seeds) -> Result<()> {
    for (number, name) in [
        "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
        "_RNvCs1234_7mycrate3foo",
        "_RINvNtC3std3mem8align_ofdE",
        "_RNvXs_C3fooINtB4_3BarpEINtB4_3BazRSTmxEE3qux",
        "_ZNSt6vectorIiSaIiEE9push_backEOi",
        "_ZN1AIN1BIN1CIiEEEEE1fEv.cold",
        "_ZZ4mainENKUlvE_clEv",
        "_ZNSt8ios_base4InitC1Ev@@GLIBCXX_3.4",
        "_Z1fIiJdcEEvT_DpT0_@plt",
        "_ZL1fPFivE",
        "_ZThn16_N1A1fEv",
        "main",
    ]
    .into_iter()
    .enumerate()
    {
        seeds.put(&format!("name{number}"), name.as_bytes())?;
    }
    Ok(())
}
