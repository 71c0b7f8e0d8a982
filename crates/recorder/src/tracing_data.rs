//! The TRACING_DATA section: formats of the recorded tracepoints, which readers need to decode
//! payloads.
//!
//! ```text
//!   17 08 44 "tracing"         magic
//!   "0.6" NUL                  version
//!   u8 u8 u32                  big-endian?, size of long, page size
//!   "header_page" NUL  u64 len bytes
//!   "header_event" NUL u64 len bytes
//!   u32 n, n × (u64 len, bytes)                         formats of the system ftrace
//!   u32 n, n × (name NUL, u32 m, m × (u64 len, bytes))  other systems and their formats
//!   u32 len, bytes             kallsyms
//!   u32 len, bytes             printk_formats: addresses of strings
//!   u64 len, bytes             saved_cmdlines
//! ```
//!
//! The layout is perf's (`tools/perf/util/trace-event-info.c`), with recorded tracepoints only.
//! kallsyms is empty, as in perf. Unlike in perf, saved_cmdlines is empty too: COMM records name
//! the recorded threads, and other names are private.

use std::collections::BTreeMap;
use std::io;

use rprof_events::tracefs::{Tracefs, TracefsError};
use rprof_perfdata::{Feature, FeatureSections};
use rprof_records::EventKind;
use rprof_sampler::{EventIds, Role};
use rustix::param::page_size;

/// The system with a separate list of formats.
const FTRACE: &str = "ftrace";

/// Builds the section for tracepoints given as (system, name), in any order and with duplicates.
///
/// # Errors
/// The error of reading tracefs. Missing tracepoints are skipped: readers show their payload as
/// bytes.
pub fn tracing_data(events: &[(&str, &str)]) -> io::Result<Vec<u8>> {
    let tracefs = Tracefs::find().map_err(io::Error::other)?;
    build(&tracefs, events).map_err(io::Error::other)
}

pub(crate) fn add(features: &mut FeatureSections, events: &[EventIds]) -> io::Result<()> {
    let mut events = (events.iter())
        .filter(|event| event.attr.kind == EventKind::TRACEPOINT && event.role != Role::Wakeups)
        .peekable();
    if events.peek().is_none() {
        return Ok(());
    }
    let tracefs = Tracefs::find().map_err(io::Error::other)?;
    let names: Vec<(String, String)> = events
        .filter_map(|event| tracepoint(&tracefs, &event.name, event.attr.config))
        .collect();
    let names: Vec<(&str, &str)> = (names.iter())
        .map(|(system, name)| (system.as_str(), name.as_str()))
        .collect();
    let section = build(&tracefs, &names).map_err(io::Error::other)?;
    features.insert(Feature::TRACING_DATA, section);
    Ok(())
}

/// Returns system and name of the tracepoint with this id. The event's name usually has them,
/// unless the user gave another name or a number.
fn tracepoint(tracefs: &Tracefs, called: &str, id: u64) -> Option<(String, String)> {
    let mut words = called.split([':', '/']);
    let (system, name) = (words.next()?, words.next().unwrap_or_default());
    match tracefs.id(system, name) {
        Ok(Some(found)) if found == id => Some((system.to_owned(), name.to_owned())),
        _ => tracefs.by_id(id),
    }
}

fn build(tracefs: &Tracefs, events: &[(&str, &str)]) -> Result<Vec<u8>, TracefsError> {
    let mut systems: BTreeMap<&str, BTreeMap<&str, Vec<u8>>> = BTreeMap::new();
    for (system, name) in events {
        let formats = systems.entry(system).or_default();
        if formats.contains_key(name) {
            continue;
        }
        if let Some(format) = tracefs.format(system, name)? {
            formats.insert(name, format);
        }
    }
    let mut out = Vec::new();
    out.extend(b"\x17\x08Dtracing0.6\0");
    out.push(u8::from(cfg!(target_endian = "big")));
    out.push(size_of::<libc::c_long>() as u8);
    put_u32(&mut out, page_size());
    for header in ["header_page", "header_event"] {
        out.extend(header.as_bytes());
        out.push(0);
        put_sized(&mut out, &tracefs.read(&format!("events/{header}"))?);
    }
    let ftrace = systems.remove(FTRACE).unwrap_or_default();
    put_formats(&mut out, &ftrace);
    systems.retain(|_, formats| !formats.is_empty());
    put_u32(&mut out, systems.len());
    for (system, formats) in &systems {
        out.extend(system.as_bytes());
        out.push(0);
        put_formats(&mut out, formats);
    }
    put_u32(&mut out, 0);
    // Missing if the kernel has none; readers then show addresses instead of strings.
    let strings = tracefs.read("printk_formats").unwrap_or_default();
    put_u32(&mut out, strings.len());
    out.extend(strings);
    put_sized(&mut out, &[]);
    Ok(out)
}

fn put_formats(out: &mut Vec<u8>, formats: &BTreeMap<&str, Vec<u8>>) {
    put_u32(out, formats.len());
    for format in formats.values() {
        put_sized(out, format);
    }
}

fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_ne_bytes());
    out.extend(bytes);
}

/// Appends a count or length. Files of tracefs have at most 16 MiB, so it fits 32 bits.
fn put_u32(out: &mut Vec<u8>, number: usize) {
    out.extend((number as u32).to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_layout_of_perf() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        put("events/header_page", "page");
        put("events/header_event", "event");
        put("events/sched/sched_switch/format", "switch");
        put("events/irq/softirq_entry/format", "soft");
        put("events/ftrace/function/format", "func");
        put("printk_formats", "0x1 : \"x\"\n");
        let tracefs = Tracefs::open(root.path()).expect("tracefs");
        let events = [
            ("sched", "sched_switch"),
            ("irq", "softirq_entry"),
            ("sched", "sched_switch"),
            ("ftrace", "function"),
            ("gone", "gone"),
        ];
        let section = build(&tracefs, &events).expect("a section");

        let mut expected = b"\x17\x08Dtracing0.6\0".to_vec();
        expected.extend([
            u8::from(cfg!(target_endian = "big")),
            size_of::<usize>() as u8,
        ]);
        put_u32(&mut expected, page_size());
        for (name, text) in [("header_page\0", "page"), ("header_event\0", "event")] {
            expected.extend(name.as_bytes());
            put_sized(&mut expected, text.as_bytes());
        }
        put_u32(&mut expected, 1);
        put_sized(&mut expected, b"func");
        put_u32(&mut expected, 2);
        for (name, text) in [("irq\0", "soft"), ("sched\0", "switch")] {
            expected.extend(name.as_bytes());
            put_u32(&mut expected, 1);
            put_sized(&mut expected, text.as_bytes());
        }
        put_u32(&mut expected, 0);
        put_u32(&mut expected, 10);
        expected.extend(b"0x1 : \"x\"\n");
        put_sized(&mut expected, &[]);
        assert_eq!(section, expected);
    }
}
