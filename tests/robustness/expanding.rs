//! Small files that expand to large ones: reading is bounded, and reports skipped parts.

use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

use rprof_perfdata::features::embedded::compress;
use rprof_perfdata::{EmbeddedFile, EmbeddedKind};
use rprof_records::{ProcessEvent, RecordType};

use super::bomb::{reads, record_with_debug_info, records, rewrite};
use crate::support::{Here, c, c_with, needs};

#[test]
fn compressed_records() {
    needs!(PerfEvents);
    let here = Here::new();
    here.record("-F 999", &c("shares.c"), "0.05");
    rewrite(&here, "bomb.data", |data, write, _| {
        let (all, sample) = records(data);
        write(&all);
        // Real recorders flush the stream, so it expands less.
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
        assert!(
            said.contains("compressed records expand more than"),
            "{said}"
        );
    }
}

#[test]
fn debug_information_of_embedded_images() {
    needs!(PerfEvents);
    let here = Here::new();
    let zeros = vec![0; 400 << 20];
    record_with_debug_info(&here, &[(".debug_info", &zeros), (".debug_abbrev", &zeros)]);
    let said = reads(&here, "report -i bomb.data");
    assert!(said.contains("would take too much memory"), "{said}");
    assert!(said.contains("burn_seventy"), "{said}");
}

#[test]
fn more_memory_may_be_given() {
    needs!(PerfEvents);
    let here = Here::new();
    let zeros = vec![0; 140 << 20];
    record_with_debug_info(&here, &[(".debug_info", &zeros), (".debug_abbrev", &zeros)]);
    let told = "would take too much memory";
    assert!(reads(&here, "report -i bomb.data").contains(told));
    let said = reads(&here, "report --memory-limit 400M -i bomb.data");
    assert!(
        !said.contains(told) && said.contains("burn_seventy"),
        "{said}"
    );
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
    // A sparse file needs no disk space.
    let file = File::options().write(true).open(&debug).unwrap();
    file.set_len(24 << 30).unwrap();
    std::fs::rename(here.path("stripped"), &program).unwrap();
    here.record("-F 999", &program, "0.1");
    let said = reads(&here, "report");
    assert!(said.contains("debug information too large"), "{said}");
}
