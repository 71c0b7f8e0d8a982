//! PMUs: what counts events, as sysfs lists them.
//!
//! Each folder of `/sys/bus/event_source/devices` is one, with its number (`type`), the terms of
//! its events (`format/`), names for useful ones (`events/`), and the CPUs to open
//! them on where not every CPU will do (`cpumask`, or `cpus` for cores of one kind). The
//! reference is `Documentation/ABI/testing/sysfs-bus-event_source-devices*`.

mod format;
mod glob;

pub(crate) use format::word_index;
pub use format::{Format, WORDS};
pub(crate) use glob::is_pattern;
pub use glob::matches;

use crate::cpus;
use rprof_records::EventKind;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the kernel lists its PMUs.
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// No file of a PMU that is read here is longer than a page.
const PAGE: u64 = 4096;

/// One PMU. What it has is read when asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    name: String,
    folder: PathBuf,
    kind: EventKind,
}

impl Pmu {
    /// The PMU of this name; `None` when there is none.
    pub fn named(sources: &Path, name: &str) -> Option<Pmu> {
        // A name is typed by a user: it must not lead elsewhere.
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

    /// All PMUs, by name.
    pub fn all(sources: &Path) -> Vec<Pmu> {
        let names = names_in(sources);
        names
            .iter()
            .filter_map(|name| Pmu::named(sources, name))
            .collect()
    }

    /// Its name, such as `cpu` or `uncore_imc_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `perf_event_attr.type` of its events.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// Where a term's value goes.
    pub fn format(&self, term: &str) -> Option<Format> {
        Format::parse(&self.file("format", term)?)
    }

    /// The terms its events have.
    pub fn terms(&self) -> Vec<String> {
        names_in(&self.folder.join("format"))
    }

    /// What one of its named events is made of, such as `event=0xcd,umask=0x1,ldlat=3`.
    pub fn event(&self, name: &str) -> Option<String> {
        match is_event_name(name) {
            true => self.file("events", name),
            false => None,
        }
    }

    /// Names of its events.
    pub fn events(&self) -> Vec<String> {
        let mut names = names_in(&self.folder.join("events"));
        names.retain(|name| is_event_name(name));
        names
    }

    /// The CPUs to open its events on; `None` where each CPU counts for itself.
    ///
    /// A PMU of a package has a `cpumask` with one CPU of each; the PMU of one kind of cores
    /// (`cpu_atom`) has `cpus` with those cores.
    pub fn cpus(&self) -> Option<Vec<u32>> {
        ["cpumask", "cpus"]
            .iter()
            .find_map(|file| text(&self.folder.join(file)))
            .and_then(|list| cpus::parse_list(&list).ok())
    }

    /// Whether the name is what a user means by `pattern`: as perf, a name, a shell pattern, or
    /// the name without `uncore_` before it or a number behind it.
    pub fn answers_to(&self, pattern: &str) -> bool {
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

/// Files such as `energy-pkg.scale` stand beside the event they are about.
fn is_event_name(name: &str) -> bool {
    let about = [".scale", ".unit", ".per-pkg", ".snapshot"];
    !about.iter().any(|end| name.ends_with(end))
}

/// The first line's worth of a file, trimmed; `None` when it cannot be read.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(path).ok()?;
    file.take(PAGE).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Names in a folder, sorted; none when it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    names
}
