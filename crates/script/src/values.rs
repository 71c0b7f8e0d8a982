//! Fields with lists, names or bytes.

use std::collections::HashMap;
use std::io::{self, Write};

use rprof_analysis::{SampleView, Samples};
use rprof_perfdata::PerfData;
use rprof_records::{ReadValues, Record, RecordType};

use rprof_export::clean::clean;

/// Paths of cgroups by id, from CGROUP records.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    paths: HashMap<u64, String>,
}

impl Cgroups {
    pub(crate) fn read(data: &PerfData) -> Cgroups {
        let mut cgroups = Cgroups::default();
        for block in data.blocks().filter_map(Result::ok) {
            for walked in block.walk() {
                let raw = &walked.record;
                if raw.kind != RecordType::CGROUP {
                    continue;
                }
                if let Ok(Record::Cgroup { id, path }) =
                    Record::decode(raw, data.events().layout_of(raw))
                {
                    let path = clean(&String::from_utf8_lossy(&path)).into_owned();
                    cgroups.paths.insert(id, path);
                }
            }
        }
        cgroups
    }

    pub(crate) fn name(&self, id: u64) -> String {
        (self.paths.get(&id)).map_or_else(|| id.to_string(), Clone::clone)
    }
}

/// Writes ` read{enabled=9,running=9,cycles=7}`: times in nanoseconds and counts. An event with
/// lost samples has the suffix `/lost=N`.
pub(crate) fn write_read(
    read: &ReadValues,
    view: &SampleView<'_>,
    samples: &Samples<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_counts(read, view.event_index, samples, out)
}

/// Like [`write_read`], for an event given by its index.
pub(crate) fn write_counts(
    read: &ReadValues,
    event_index: usize,
    samples: &Samples<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let events = samples.index().data.events();
    let mut parts = Vec::new();
    parts.extend(read.time_enabled.map(|t| format!("enabled={t}")));
    parts.extend(read.time_running.map(|t| format!("running={t}")));
    for value in &read.values {
        let event = match value.id {
            Some(id) => events.by_id(id),
            // A single value without id belongs to the event.
            None if read.values.len() == 1 => Some(event_index),
            None => None,
        };
        let name = match (event.and_then(|e| events.list().get(e)), value.id) {
            (Some(event), _) => clean(&event.name).into_owned(),
            (None, Some(id)) => format!("id {id}"),
            (None, None) => "?".to_owned(),
        };
        let lost = match value.lost {
            Some(lost) if lost > 0 => format!("/lost={lost}"),
            _ => String::new(),
        };
        parts.push(format!("{name}={}{lost}", value.value));
    }
    write!(out, " read{{{}}}", parts.join(","))
}

/// Formats a page size with its unit; `N/A` for 0.
pub(crate) fn page_size(size: u64) -> String {
    if size == 0 {
        return "N/A".into();
    }
    let unit = (size.ilog2() / 10).min(6);
    format!(
        "{}{}",
        size >> (unit * 10),
        ['B', 'K', 'M', 'G', 'T', 'P', 'E'][unit as usize]
    )
}

pub(crate) fn write_dump(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    for (i, line) in bytes.chunks(16).enumerate() {
        write!(out, "\n\t{:04x}:", i * 16)?;
        for byte in line {
            write!(out, " {byte:02x}")?;
        }
        let pad = (16 - line.len()) * 3;
        let text: String = (line.iter())
            .map(|b| match b.is_ascii_graphic() || *b == b' ' {
                true => char::from(*b),
                false => '.',
            })
            .collect();
        write!(out, "{:pad$}  {text}", "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes() {
        let sizes = [0, 1, 4096, 16384, 2 << 20, 1 << 30, u64::MAX].map(page_size);
        assert_eq!(sizes, ["N/A", "1B", "4K", "16K", "2M", "1G", "15E"]);
    }

    #[test]
    fn dumps() {
        let mut out = Vec::new();
        write_dump(b"0123456789abcdef\x1b[", &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "\n\t0000: 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\
             \n\t0010: 1b 5b                                            .["
        );
    }
}
