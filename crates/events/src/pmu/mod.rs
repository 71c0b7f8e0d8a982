//! PMUs (performance monitoring units) in sysfs.
//!
//! Each folder of `/sys/bus/event_source/devices` is a PMU. It contains its number (`type`), the
//! terms of its events (`format/`), named events (`events/`), and restrictions of CPUs (`cpumask`,
//! or `cpus` for one core type). The reference is
//! `Documentation/ABI/testing/sysfs-bus-event_source-devices*`.
//!
//! Unreadable files yield `None`, or are skipped.

mod format;
mod scale;

pub(crate) use format::word_index;
pub use format::{CONFIG_WORDS, PmuFormat};
pub use scale::Scale;

use crate::cpus;
use crate::glob::matches;
use rprof_records::EventKind;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Folder of the kernel's PMUs.
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// A sysfs file has at most one page.
const MAX_FILE_LEN: u64 = 4096;

/// A PMU. Each call reads its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    name: String,
    folder: PathBuf,
    kind: EventKind,
}

impl Pmu {
    /// Opens a PMU by name in `sources`, such as [`EVENT_SOURCES`]; `None` if it does not exist.
    pub fn open(sources: &Path, name: &str) -> Option<Pmu> {
        // A user types the name.
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return None;
        }
        let folder = sources.join(name);
        let kind = text(&folder.join("type"))?.parse().ok()?;
        Some(Pmu {
            name: name.to_owned(),
            folder,
            kind: EventKind(kind),
        })
    }

    /// Lists all PMUs by name.
    pub fn all(sources: &Path) -> Vec<Pmu> {
        let names = names_in(sources);
        names
            .iter()
            .filter_map(|name| Pmu::open(sources, name))
            .collect()
    }

    /// Returns the name, such as `cpu` or `uncore_imc_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `perf_event_attr.type` of its events.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// Returns the bits for a term's value.
    pub fn format(&self, term: &str) -> Option<PmuFormat> {
        PmuFormat::parse(&self.file("format", term)?)
    }

    /// Lists the terms of its events, by name.
    pub fn terms(&self) -> Vec<String> {
        names_in(&self.folder.join("format"))
    }

    /// Returns the terms of one of its named events, such as `event=0xcd,umask=0x1,ldlat=3`.
    pub fn event(&self, name: &str) -> Option<String> {
        match is_event_name(name) {
            true => self.file("events", name),
            false => None,
        }
    }

    /// Returns the scale of a named event; `None` if the PMU has none (files `NAME.scale` and
    /// `NAME.unit`).
    pub fn scale(&self, name: &str) -> Option<Scale> {
        if !is_event_name(name) {
            return None;
        }
        let factor = self.file("events", &format!("{name}.scale"));
        let unit = self.file("events", &format!("{name}.unit"));
        Scale::parse(factor.as_deref(), unit.as_deref())
    }

    /// Returns true if a named event counts a level, not a sum (the file `NAME.snapshot` contains
    /// 1).
    pub fn is_level(&self, name: &str) -> bool {
        let snapshot = self.file("events", &format!("{name}.snapshot"));
        is_event_name(name) && snapshot.is_some_and(|text| text == "1")
    }

    /// Lists its named events, by name.
    pub fn events(&self) -> Vec<String> {
        let mut names = names_in(&self.folder.join("events"));
        names.retain(|name| is_event_name(name));
        names
    }

    /// Returns the CPUs for opening its events; `None` if each CPU has its own counters.
    ///
    /// A PMU of a package has a `cpumask` with one CPU of each package. The PMU of one core type
    /// (`cpu_atom`) has `cpus` with those cores.
    pub fn cpus(&self) -> Option<Vec<u32>> {
        ["cpumask", "cpus"]
            .iter()
            .find_map(|file| text(&self.folder.join(file)))
            .and_then(|list| cpus::parse_list(&list).ok())
    }

    /// Returns true if `pattern` selects this PMU: as in perf, a name, a shell pattern, or the name
    /// without the prefix `uncore_` or a number at the end.
    pub(crate) fn is_meant_by(&self, pattern: &str) -> bool {
        let name = match pattern.starts_with("uncore_") {
            true => self.name.as_str(),
            false => self.name.strip_prefix("uncore_").unwrap_or(&self.name),
        };
        if matches(pattern, name) {
            return true;
        }
        let number = name.strip_prefix(pattern);
        let number = number.map(|rest| rest.strip_prefix('_').unwrap_or(rest));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    }

    fn file(&self, folder: &str, name: &str) -> Option<String> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return None;
        }
        text(&self.folder.join(folder).join(name))
    }
}

/// Returns false for files such as `energy-pkg.scale`, which describe another event.
fn is_event_name(name: &str) -> bool {
    let about = [".scale", ".unit", ".per-pkg", ".snapshot"];
    !about.iter().any(|end| name.ends_with(end))
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_FILE_LEN).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Returns sorted names; none if the folder cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}
