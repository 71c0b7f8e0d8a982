//! `rprof header`.

use std::fs::Metadata;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use rprof_export::clean::clean;
use rprof_perfdata::{AuxTally, EmbeddedKind, Feature, Mode, PerfData};
use rprof_records::AttrFlags;
use serde::Serialize;

use crate::Outcome;
use crate::cli::{HeaderArgs, HeaderFormat};
use crate::input::recordings::open;
use crate::terminal::pager::show;
use crate::wording::messages::say;
use crate::wording::recording_facts::rfc_3339;

/// Shown fields; `None` if the recording lacks them.
#[derive(Serialize)]
struct Header {
    file: String,
    mode: &'static str,
    byte_order: &'static str,
    data_bytes: u64,
    /// Last write of the file, which is the end of the recording: RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    captured_on: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_release: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus_online: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus_available: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_kib: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command_line: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_sample_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sample_ns: Option<u64>,
    features: Vec<String>,
    /// Quality notes stored by rprof, as key and value.
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<Vec<(String, String)>>,
    events: Vec<Event>,
    images: Vec<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aux_trace: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<Kept>,
}

#[derive(Serialize)]
struct Event {
    name: String,
    kind: u32,
    config: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<u64>,
    sample_fields: Vec<String>,
    ids: Vec<u64>,
}

#[derive(Serialize)]
struct Image {
    build_id: String,
    path: String,
}

#[derive(Serialize)]
struct Kept {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    bytes: u64,
    path: String,
}

pub(crate) fn run(args: &HeaderArgs) -> Outcome {
    let mut headers = Vec::new();
    for path in args.paths() {
        let data = open(&path)?;
        for warning in data.warnings() {
            say(format_args!("warning: {warning}"));
        }
        headers.push(header(&data));
    }
    show(|out| {
        for (index, header) in headers.iter().enumerate() {
            match args.format {
                HeaderFormat::Json => {
                    serde_json::to_writer_pretty(&mut *out, header)?;
                    writeln!(out)?;
                }
                HeaderFormat::Text => {
                    if index > 0 {
                        writeln!(out)?;
                    }
                    write_text(header, out)?;
                }
            }
        }
        Ok(())
    })?;
    Ok(0)
}

fn header(data: &PerfData) -> Header {
    let features = data.features();
    let text = |feature| features.string(feature).map(|t| clean(&t).into_owned());
    let cpus = features.cpu_counts();
    let time = features.sample_time();
    Header {
        file: clean(&data.path().to_string_lossy()).into_owned(),
        mode: match data.mode() {
            Mode::File => "file",
            Mode::Pipe => "pipe",
        },
        byte_order: match data.endian() {
            rprof_records::Endian::Little => "little",
            rprof_records::Endian::Big => "big",
        },
        data_bytes: data.data_len(),
        captured_on: last_written(data.path()),
        hostname: text(Feature::HOSTNAME),
        os_release: text(Feature::OSRELEASE),
        recorder: text(Feature::VERSION),
        architecture: text(Feature::ARCH),
        cpus_available: cpus.map(|c| c.0),
        cpus_online: cpus.map(|c| c.1),
        cpu: text(Feature::CPUDESC),
        memory_kib: features.total_memory(),
        command_line: (features.command_line())
            .map(|line| line.iter().map(|a| clean(a).into_owned()).collect()),
        first_sample_ns: time.map(|t| t.0),
        last_sample_ns: time.map(|t| t.1),
        features: features.iter().map(|(f, _)| f.to_string()).collect(),
        quality: features.rprof_notes().map(|notes| {
            let clean = |text: &str| clean(text).into_owned();
            notes.iter().map(|(k, v)| (clean(k), clean(v))).collect()
        }),
        events: (data.events().list().iter())
            .map(|event| {
                let attr = &event.attr;
                let by_frequency = attr.flags.contains(AttrFlags::FREQ);
                Event {
                    name: clean(&event.name).into_owned(),
                    kind: attr.kind.0,
                    config: attr.config,
                    frequency: by_frequency.then_some(attr.period_or_freq),
                    period: (!by_frequency).then_some(attr.period_or_freq),
                    sample_fields: (attr.sample_type.iter_names())
                        .map(|(name, _)| name.to_owned())
                        .collect(),
                    ids: event.ids.clone(),
                }
            })
            .collect(),
        images: (features.build_ids().unwrap_or_default().into_iter())
            .map(|image| Image {
                build_id: image.build_id.iter().map(|b| format!("{b:02x}")).collect(),
                path: clean(&String::from_utf8_lossy(&image.path)).into_owned(),
            })
            .collect(),
        aux_trace: (features.has(Feature::AUXTRACE)).then(|| AuxTally::of(data).to_string()),
        kept: (features.embedded_files().unwrap_or_default().into_iter())
            .filter(|file| file.kind != EmbeddedKind::BUILD_ID)
            .map(|file| Kept {
                kind: match file.kind {
                    EmbeddedKind::PERF_MAP => "perf map",
                    EmbeddedKind::JITDUMP => "jitdump",
                    EmbeddedKind::IMAGE => "image",
                    _ => "file",
                },
                pid: (file.pid >= 0).then_some(file.pid),
                bytes: file.len,
                path: clean(&String::from_utf8_lossy(&file.path)).into_owned(),
            })
            .collect(),
    }
}

/// Returns the last write of a file as `2026-01-31T23:59:58Z`; `None` for a stream.
fn last_written(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    let since = meta.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH);
    Some(rfc_3339(since.ok()?.as_secs()))
}

fn write_text(h: &Header, out: &mut dyn Write) -> std::io::Result<()> {
    let mut line = |name: &str, value: Option<String>| match value {
        Some(value) => writeln!(out, "{name:<14} {value}"),
        None => Ok(()),
    };
    line(
        "file",
        Some(format!(
            "{} ({} mode, {} endian)",
            h.file, h.mode, h.byte_order
        )),
    )?;
    line("data", Some(format!("{} bytes", h.data_bytes)))?;
    line("captured on", h.captured_on.clone())?;
    line("host", h.hostname.clone())?;
    line("kernel", h.os_release.clone())?;
    line("recorder", h.recorder.clone())?;
    line("architecture", h.architecture.clone())?;
    line("cpu", h.cpu.clone())?;
    let cpus = h.cpus_online.zip(h.cpus_available);
    line(
        "cpus",
        cpus.map(|(online, all)| format!("{online} online of {all}")),
    )?;
    line("memory", h.memory_kib.map(|kib| format!("{kib} KiB")))?;
    line("command", h.command_line.as_ref().map(|c| c.join(" ")))?;
    let times = h
        .first_sample_ns
        .zip(h.last_sample_ns)
        .filter(|(_, last)| *last > 0);
    line(
        "samples",
        times.map(|(first, last)| {
            let seconds = |ns: u64| ns as f64 / 1e9;
            format!("from {:.6} s to {:.6} s", seconds(first), seconds(last))
        }),
    )?;
    line("features", Some(h.features.join(" ")))?;
    for (key, value) in h.quality.iter().flatten() {
        writeln!(out, "quality        {key}: {value}")?;
    }
    for event in &h.events {
        let rate = match (event.frequency, event.period) {
            (Some(f), _) => format!("{f} Hz"),
            (_, Some(p)) => format!("every {p}"),
            _ => String::new(),
        };
        writeln!(
            out,
            "event          {}: type {}, config {:#x}, {rate}, fields {}, {} ids",
            event.name,
            event.kind,
            event.config,
            event.sample_fields.join("|"),
            event.ids.len()
        )?;
    }
    for image in &h.images {
        writeln!(out, "image          {} {}", image.build_id, image.path)?;
    }
    if let Some(aux_trace) = &h.aux_trace {
        writeln!(out, "aux trace      {aux_trace}")?;
    }
    for file in &h.kept {
        let of = file.pid.map(|pid| format!(" of {pid}")).unwrap_or_default();
        let (kind, bytes, path) = (file.kind, file.bytes, &file.path);
        writeln!(out, "kept           {kind}{of}, {bytes} bytes, {path}")?;
    }
    Ok(())
}
