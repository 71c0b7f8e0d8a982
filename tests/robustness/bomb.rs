//! Bombs: small recordings that could be expensive to read.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;

use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{
    EmbeddedFile, EmbeddedKind, EventDescription, FeatureSections, FileWriter, PerfData,
    RecordWriter, WriteOptions,
};
use rprof_records::{Mapped, MmapIdentity, ProcessEvent, RecordType};

use super::reader::Reader;
use crate::support::{Here, c};

const MAX_MEMORY: u64 = 512 << 10;

/// Checks the resource usage of rprof. Returns its messages, also those in a report.
pub(super) fn reads(here: &Here, args: &str) -> String {
    let reader = Reader::new();
    let (rprof, seconds) = (&reader.program, reader.seconds);
    // The output may be long, and is not used.
    let script = format!("ulimit -t {seconds}; exec {rprof} {args} > out");
    let running = here.sh(&script).start();
    let path = format!("/proc/{}/status", running.pid().as_raw_nonzero());
    let mut peak = 0;
    // A process that has ended has no VmHWM line.
    while let Some(now) = std::fs::read_to_string(&path).ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    }) {
        peak = peak.max(now);
        std::thread::sleep(Duration::from_millis(2));
    }
    let run = running.end();
    println!("{args}: {peak} KiB");
    assert!(peak < MAX_MEMORY, "{peak} KiB: {run}");
    assert!(
        run.code().is_some(),
        "within {seconds} s of CPU time: {run}"
    );
    run.is_clean();
    let out = std::fs::read(here.path("out")).unwrap();
    let start = &out[..out.len().min(1 << 20)];
    format!("{run}{}", String::from_utf8_lossy(start))
}

pub(super) fn rewrite(
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

pub(super) fn records(data: &PerfData) -> (Vec<u8>, Vec<u8>) {
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

fn image_with_sections(image: &[u8], sections: &[(&str, &[u8])]) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let half = |at: usize| u16::from_le_bytes(image[at..at + 2].try_into().unwrap()) as usize;
    let (headers, count, names) = (word(0x28) as usize, half(0x3c), half(0x3e));
    let header = |n: usize| &image[headers + n * 64..][..64];
    let at = |header: &[u8], at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    let (start, size) = (
        at(header(names), 0x18) as usize,
        at(header(names), 0x20) as usize,
    );
    let mut out = image.to_vec();
    let mut headers = image[headers..][..count * 64].to_vec();
    let names_at = out.len() as u64;
    let mut texts = image[start..start + size].to_vec();
    let mut place = Vec::new();
    for (name, _) in sections {
        place.push(texts.len() as u32);
        texts.extend_from_slice(name.as_bytes());
        texts.push(0);
    }
    out.extend_from_slice(&texts);
    headers[names * 64 + 0x18..][..8].copy_from_slice(&names_at.to_le_bytes());
    headers[names * 64 + 0x20..][..8].copy_from_slice(&(texts.len() as u64).to_le_bytes());
    for (name, (_, contents)) in place.into_iter().zip(sections) {
        // Elf64_Chdr: zstd, and the decompressed size.
        let data_at = out.len() as u64;
        out.extend_from_slice(&2_u64.to_le_bytes());
        out.extend_from_slice(&(contents.len() as u64).to_le_bytes());
        out.extend_from_slice(&1_u64.to_le_bytes());
        out.extend_from_slice(&compress(contents).unwrap());
        let data_len = out.len() as u64 - data_at;
        headers.extend_from_slice(&name.to_le_bytes());
        headers.extend_from_slice(&1_u32.to_le_bytes());
        for word in [1 << 11, 0, data_at, data_len, 0, 1, 0] {
            headers.extend_from_slice(&u64::to_le_bytes(word));
        }
    }
    let headers_at = out.len() as u64;
    out.extend_from_slice(&headers);
    out[0x28..0x30].copy_from_slice(&headers_at.to_le_bytes());
    out[0x3c..0x3e].copy_from_slice(&((count + sections.len()) as u16).to_le_bytes());
    out
}

/// Writes `bomb.data`, where `shares.c` is embedded with these debug information sections. No other
/// copy of it exists.
pub(super) fn record_with_debug_info(here: &Here, sections: &[(&str, &[u8])]) {
    let program = here.copy(&c("shares.c"), "shares");
    here.record("-F 999", &program, "0.1");
    rewrite(here, "bomb.data", |data, write, features| {
        let mapped = mapping(data, "/shares");
        let image = image_with_sections(&std::fs::read(&program).unwrap(), sections);
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
}
