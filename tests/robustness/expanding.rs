//! Small files that expand to large ones: reading them takes bounded memory and time, and says what is left out.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};

use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{
    EmbeddedFile, EmbeddedKind, EventDescription, FeatureSections, FileWriter, PerfData,
    RecordWriter, WriteOptions,
};
use rprof_records::{Mapped, MmapIdentity, ProcessEvent, RecordType};

use crate::support::{Here, c, c_with, needs};

/// Most memory that reading takes, in KiB, and most time.
const MOST_MEMORY: u64 = 512 << 10;
const MOST_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });

/// Runs rprof with these arguments, and checks what it takes. Returns what it says, be it in a report.
fn reads(here: &Here, args: &str) -> String {
    let rprof = env!("CARGO_BIN_EXE_rprof");
    // What it prints may be long, and is of no interest.
    let script = format!("exec {rprof} {args} > out");
    let began = Instant::now();
    let running = here.sh(&script).start();
    let path = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let mut peak = 0;
    // A process that has ended has no memory.
    while let Some(now) = std::fs::read_to_string(&path).ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    }) {
        peak = peak.max(now);
        std::thread::sleep(Duration::from_millis(2));
    }
    let run = running.end();
    let time = began.elapsed();
    assert!(peak < MOST_MEMORY, "{peak} KiB in {time:?}: {run}");
    assert!(time < MOST_TIME, "{time:?}, {peak} KiB: {run}");
    run.is_clean();
    let out = std::fs::read(here.path("out")).unwrap();
    let start = &out[..out.len().min(1 << 20)];
    format!("{run}{}", String::from_utf8_lossy(start))
}

/// Writes a recording like that of perf.data, with other contents.
fn rewrite(
    here: &Here,
    name: &str,
    contents: impl FnOnce(&PerfData, &mut dyn FnMut(&[u8]), &mut FeatureSections),
) {
    let data = PerfData::open(&here.path("perf.data")).unwrap();
    let events = data.events().list().iter().map(|event| EventDescription {
        attr: event.attr.clone(),
        name: event.name.clone(),
        ids: event.ids.clone(),
    });
    let options = WriteOptions {
        endian: data.endian(),
        compression: None,
    };
    let out = BufWriter::new(File::create(here.path(name)).unwrap());
    let mut writer = FileWriter::create_with(out, events.collect(), options).unwrap();
    let mut features = data.features().clone();
    let mut write = |records: &[u8]| writer.write_records(records).unwrap();
    contents(&data, &mut write, &mut features);
    writer.finish(features).unwrap();
}

/// All records of a recording, and the first sample.
fn records(data: &PerfData) -> (Vec<u8>, Vec<u8>) {
    let (mut all, mut sample) = (Vec::new(), Vec::new());
    for block in data.blocks() {
        for walked in block.unwrap().walk() {
            all.extend_from_slice(walked.bytes);
            if walked.record.kind == RecordType::SAMPLE && sample.is_empty() {
                sample.extend_from_slice(walked.bytes);
            }
        }
    }
    (all, sample)
}

/// The mapping of a program whose path ends like this.
fn mapping(data: &PerfData, end: &str) -> Mapped<'static> {
    for block in data.blocks() {
        for walked in block.unwrap().walk() {
            let layout = data.events().layout_of(&walked.record);
            let event = ProcessEvent::decode(&walked.record, layout);
            if let Ok(Some(ProcessEvent::Mapped(m))) =
                event.map(|e| e.map(ProcessEvent::into_owned))
                && m.executable
                && m.path.ends_with(end.as_bytes())
            {
                return m;
            }
        }
    }
    panic!("no mapping of {end}")
}

#[test]
fn compressed_records() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999", &c("shares.c"), "0.05");
    rewrite(&here, "bomb.data", |data, write, _| {
        let (all, sample) = records(data);
        write(&all);
        // One stream of zstd: a recorder flushes it now and then, so that it expands less.
        let bomb = compress(&sample.repeat((200 << 20) / sample.len())).unwrap();
        for part in bomb.chunks(60_000) {
            let size = 8 + part.len() as u16;
            let kind = RecordType::COMPRESSED.0;
            let head = [&kind.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes()].concat();
            write(&[&head[..], part].concat());
        }
    });
    for command in ["report", "collapse"] {
        let said = reads(&here, &format!("{command} -i bomb.data"));
        assert!(said.contains("expand to more than"), "{said}");
    }
}

/// An image with a section of debug information that expands to `len` bytes.
fn image_with_debug_info(image: &[u8], len: usize) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let half = |at: usize| u16::from_le_bytes(image[at..at + 2].try_into().unwrap()) as usize;
    let (sections, count, names) = (word(0x28) as usize, half(0x3c), half(0x3e));
    let header = |n: usize| &image[sections + n * 64..][..64];
    let at = |header: &[u8], at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    let (start, size) = (
        at(header(names), 0x18) as usize,
        at(header(names), 0x20) as usize,
    );
    let mut out = image.to_vec();
    let mut headers = image[sections..][..count * 64].to_vec();
    // The names of sections, with one more.
    let names_at = out.len() as u64;
    out.extend_from_slice(&image[start..start + size]);
    out.extend_from_slice(b".debug_info\0.debug_abbrev\0");
    headers[names * 64 + 0x18..][..8].copy_from_slice(&names_at.to_le_bytes());
    headers[names * 64 + 0x20..][..8].copy_from_slice(&(size as u64 + 26).to_le_bytes());
    for name in [size, size + 12] {
        // Elf64_Chdr: zstd, and how long it will be.
        let data_at = out.len() as u64;
        out.extend_from_slice(&2_u64.to_le_bytes());
        out.extend_from_slice(&(len as u64).to_le_bytes());
        out.extend_from_slice(&1_u64.to_le_bytes());
        out.extend_from_slice(&compress(&vec![0; len]).unwrap());
        let data_len = out.len() as u64 - data_at;
        // PROGBITS, compressed.
        headers.extend_from_slice(&(name as u32).to_le_bytes());
        headers.extend_from_slice(&1_u32.to_le_bytes());
        for word in [1 << 11, 0, data_at, data_len, 0, 1, 0] {
            headers.extend_from_slice(&u64::to_le_bytes(word));
        }
    }
    let headers_at = out.len() as u64;
    out.extend_from_slice(&headers);
    out[0x28..0x30].copy_from_slice(&headers_at.to_le_bytes());
    out[0x3c..0x3e].copy_from_slice(&(count as u16 + 2).to_le_bytes());
    out
}

#[test]
fn debug_information_of_embedded_images() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = here.copy(&c("shares.c"), "shares");
    here.record("-F 999", &program, "0.1");
    rewrite(&here, "bomb.data", |data, write, features| {
        let mapped = mapping(data, "/shares");
        let image = image_with_debug_info(&std::fs::read(&program).unwrap(), 400 << 20);
        let (build_id, (device, inode)) = match mapped.identity {
            Some(MmapIdentity::BuildId(id)) => (id.as_bytes().to_vec(), ((0, 0), 0)),
            Some(MmapIdentity::Inode {
                major,
                minor,
                inode,
                ..
            }) => (Vec::new(), ((major, minor), inode)),
            None => panic!("an image without identity"),
        };
        features.insert_embedded_files(&[EmbeddedFile {
            kind: EmbeddedKind::IMAGE,
            pid: -1,
            since: 0,
            device,
            inode,
            build_id: Cow::Owned(build_id),
            path: mapped.path,
            len: image.len() as u64,
            compressed: Cow::Owned(compress(&image).unwrap()),
        }]);
        write(&records(data).0);
    });
    std::fs::remove_file(&program).unwrap();
    let said = reads(&here, "report -i bomb.data");
    assert!(said.contains("would take too much memory"), "{said}");
    // Its names are those of its symbols.
    assert!(said.contains("burn_seventy"), "{said}");
}

#[test]
fn embedded_perf_maps() {
    needs!(PerfEvents);
    let here = Here::new();
    let program = c("jit.c");
    here.record("-F 999 -g", &program, "map 0.1");
    rewrite(&here, "bomb.data", |data, write, features| {
        let mut pids: Vec<i32> = Vec::new();
        for block in data.blocks() {
            for walked in block.unwrap().walk() {
                let layout = data.events().layout_of(&walked.record);
                if let Ok(Some(ProcessEvent::Mapped(m))) =
                    ProcessEvent::decode(&walked.record, layout)
                    && m.pid > 0
                {
                    pids.push(m.pid);
                }
            }
        }
        let len = 255 << 20;
        let compressed = compress(&vec![0; len]).unwrap();
        let maps: Vec<EmbeddedFile<'_>> = (0..24)
            .map(|since| EmbeddedFile {
                kind: EmbeddedKind::PERF_MAP,
                pid: pids[0],
                since,
                device: (0, 0),
                inode: 0,
                build_id: Cow::Borrowed(&[]),
                path: Cow::Owned(b"/tmp/perf-1.map".to_vec()),
                len: len as u64,
                compressed: Cow::Borrowed(&compressed),
            })
            .collect();
        features.insert_embedded_files(&maps);
        write(&records(data).0);
    });
    let said = reads(&here, "report -i bomb.data");
    assert!(said.contains("MiB of memory"), "{said}");
}

#[test]
fn a_debug_link_to_a_file_of_holes() {
    needs!(PerfEvents, Tool("objcopy"));
    let here = Here::new();
    let whole = c_with("shares.c", &["-Wl,--build-id=none"]);
    let program = here.copy(&whole, "shares");
    let debug = here.path("shares.debug");
    let objcopy = |args: &str, from: &Path, to: &Path| {
        here.command("objcopy").words(args).arg(from).arg(to).ok();
    };
    objcopy("--only-keep-debug", &program, &debug);
    let link = format!("--strip-all --add-gnu-debuglink={}", debug.display());
    objcopy(&link, &program, &here.path("stripped"));
    // As long as one likes, for nothing.
    let file = File::options().write(true).open(&debug).unwrap();
    file.set_len(24 << 30).unwrap();
    std::fs::rename(here.path("stripped"), &program).unwrap();
    here.record("-F 999", &program, "0.1");
    let said = reads(&here, "report");
    assert!(said.contains("too long to be read"), "{said}");
}
