//! [`Catalog`]: the events of this machine.
//!
//! Lists all types of events, in the order of perf-list(1). An [`EventOpener`] opens each, to test
//! whether it works for this user.

mod trial;

pub use trial::{Availability, EventOpener, TrialScope};

use crate::event::Event;
use crate::parse::EventParser;
use crate::pmu::{EVENT_SOURCES, Pmu};
use crate::tracefs::{Tracefs, TracefsError};
use crate::{generic, hw_cache};
use rprof_records::EventKind;
use std::path::{Path, PathBuf};
use trial::Trials;

/// Type of event in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ListKind {
    /// Generic events of the CPU's counters.
    Hardware,
    /// Events of the kernel.
    Software,
    /// Generic events of caches.
    Cache,
    /// Raw codes of the CPU's own PMU.
    Raw,
    /// Events of PMUs, by name or by terms.
    Pmu,
    /// Static tracepoints of the kernel and its modules, as `subsystem:name`.
    Tracepoint,
    /// Breakpoints on addresses.
    Breakpoint,
    /// Probes on code.
    Probe,
}

impl ListKind {
    /// Types of events, in the order of a listing.
    pub const ALL: [ListKind; 8] = [
        ListKind::Hardware,
        ListKind::Software,
        ListKind::Cache,
        ListKind::Raw,
        ListKind::Pmu,
        ListKind::Tracepoint,
        ListKind::Breakpoint,
        ListKind::Probe,
    ];

    /// Returns the name in lower case.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Returns all names; the short ones are perf list's.
    fn names(self) -> &'static [&'static str] {
        match self {
            ListKind::Hardware => &["hardware", "hw"],
            ListKind::Software => &["software", "sw"],
            ListKind::Cache => &["cache", "hwcache"],
            ListKind::Raw => &["raw"],
            ListKind::Pmu => &["pmu"],
            ListKind::Tracepoint => &["tracepoint"],
            ListKind::Breakpoint => &["breakpoint"],
            ListKind::Probe => &["probe"],
        }
    }

    /// Finds a type by name, such as `hw`, in any letter case.
    pub fn named(name: &str) -> Option<ListKind> {
        let is = |kind: &&ListKind| kind.names().iter().any(|n| n.eq_ignore_ascii_case(name));
        ListKind::ALL.iter().find(is).copied()
    }
}

/// Event of a listing, or a form for events that cannot be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Type of event.
    pub kind: ListKind,
    /// Text to type. Capitals are placeholders.
    pub name: String,
    /// Other texts for the same event.
    pub aliases: Vec<String>,
    /// Explanation, such as a PMU's terms; may be empty.
    pub detail: String,
    /// Result of the trial for this user.
    pub availability: Availability,
}

/// Events of some types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Catalog {
    /// Events in the order of [`ListKind::ALL`]; within a type, generic events in the order of
    /// perf-list(1), others by name.
    pub events: Vec<Listed>,
    /// Reason why requested tracepoints cannot be listed.
    pub no_tracepoints: Option<TracefsError>,
}

impl Catalog {
    /// Lists the events of these types on this machine. `opener` tests each. Works for every user,
    /// and changes nothing.
    pub fn read(kinds: &[ListKind], opener: &dyn EventOpener) -> Catalog {
        let reader = CatalogReader {
            pmus: PathBuf::from(EVENT_SOURCES),
            tracefs: Tracefs::find(),
            trials: Trials::with(opener),
        };
        reader.read(kinds)
    }

    /// Lists the events of these types from other folders of PMUs and tracefs, without tests.
    pub fn read_from(kinds: &[ListKind], pmus: &Path, tracefs: &Path) -> Catalog {
        let reader = CatalogReader {
            pmus: pmus.to_owned(),
            tracefs: Tracefs::open(tracefs),
            trials: Trials::none(),
        };
        reader.read(kinds)
    }
}

struct CatalogReader<'a> {
    pmus: PathBuf,
    tracefs: Result<Tracefs, TracefsError>,
    trials: Trials<'a>,
}

impl CatalogReader<'_> {
    fn read(&self, kinds: &[ListKind]) -> Catalog {
        let mut catalog = Catalog::default();
        for kind in ListKind::ALL.into_iter().filter(|k| kinds.contains(k)) {
            let events = match kind {
                ListKind::Hardware => self.fixed(kind, EventKind::HARDWARE),
                ListKind::Software => self.fixed(kind, EventKind::SOFTWARE),
                ListKind::Cache => self.caches(),
                ListKind::Raw => vec![self.form(kind, "rHEX", "r0", "code of the CPU's own PMU")],
                ListKind::Pmu => self.pmus(),
                ListKind::Tracepoint => {
                    catalog.no_tracepoints = self.tracefs.as_ref().err().cloned();
                    self.tracepoints()
                }
                ListKind::Breakpoint => vec![self.form(
                    kind,
                    "mem:ADDRESS[/LENGTH][:ACCESS]",
                    "mem:0x1000/8:rw",
                    "access to an address: r, w, rw or x",
                )],
                ListKind::Probe => self.probes(),
            };
            catalog.events.extend(events);
        }
        catalog
    }

    fn fixed(&self, kind: ListKind, number: EventKind) -> Vec<Listed> {
        let rows = generic::fixed(number).into_iter();
        rows.map(|(name, aliases, config)| Listed {
            kind,
            name: name.to_owned(),
            aliases: aliases.iter().map(|name| (*name).to_owned()).collect(),
            detail: String::new(),
            availability: (self.trials).event(&Event::numbered(name, number, config)),
        })
        .collect()
    }

    fn caches(&self) -> Vec<Listed> {
        let all = hw_cache::all().map(|(name, config)| Listed {
            kind: ListKind::Cache,
            availability: (self.trials).event(&Event::numbered(&name, EventKind::HW_CACHE, config)),
            name,
            aliases: Vec::new(),
            detail: String::new(),
        });
        all.collect()
    }

    /// Lists a form for events that cannot be listed individually, with an example to test.
    fn form(&self, kind: ListKind, form: &str, example: &str, detail: &str) -> Listed {
        Listed {
            kind,
            name: form.to_owned(),
            aliases: Vec::new(),
            detail: detail.to_owned(),
            availability: self.try_text(example),
        }
    }

    fn try_text(&self, text: &str) -> Availability {
        match EventParser::new().pmus(&self.pmus).parse(text) {
            Ok(event) => self.trials.event(&event),
            Err(_) => Availability::Unknown,
        }
    }

    fn pmus(&self) -> Vec<Listed> {
        let mut listed = Vec::new();
        for pmu in Pmu::all(&self.pmus) {
            let name = pmu.name();
            // Probes have their own type.
            if ["uprobe", "kprobe"].contains(&name) {
                continue;
            }
            for event in pmu.events() {
                let text = format!("{name}/{event}/");
                listed.push(Listed {
                    kind: ListKind::Pmu,
                    detail: pmu.event(&event).unwrap_or_default(),
                    availability: self.try_text(&text),
                    name: text,
                    aliases: vec![event],
                });
            }
            let terms = pmu.terms();
            if !terms.is_empty() {
                let form: Vec<String> = terms.iter().map(|term| format!("{term}=N")).collect();
                listed.push(Listed {
                    kind: ListKind::Pmu,
                    name: format!("{name}/{}/", form.join(",")),
                    aliases: Vec::new(),
                    detail: "any of these terms".to_owned(),
                    availability: Availability::Unknown,
                });
            }
        }
        listed
    }

    fn tracepoints(&self) -> Vec<Listed> {
        let Ok(tracefs) = &self.tracefs else {
            return Vec::new();
        };
        let mut listed = Vec::new();
        for system in tracefs.systems() {
            for name in tracefs.events(&system) {
                let availability = match tracefs.id(&system, &name) {
                    Ok(Some(id)) => self.trials.tracepoint(id),
                    // Without a number, it cannot be opened.
                    Ok(None) => continue,
                    Err(TracefsError::Denied { .. }) => Availability::Denied,
                    Err(_) => Availability::Unknown,
                };
                listed.push(Listed {
                    kind: ListKind::Tracepoint,
                    name: format!("{system}:{name}"),
                    aliases: Vec::new(),
                    detail: String::new(),
                    availability,
                });
            }
        }
        listed
    }

    fn probes(&self) -> Vec<Listed> {
        let forms = [
            (
                "uprobe",
                "uprobe:/PATH:FUNCTION[+OFFSET]",
                "a function of a program begins",
            ),
            ("uprobe", "uretprobe:/PATH:FUNCTION", "it returns"),
            (
                "kprobe",
                "kprobe:FUNCTION[+OFFSET]",
                "a function of the kernel begins",
            ),
            ("kprobe", "kretprobe:FUNCTION", "it returns"),
        ];
        let listed = forms.into_iter().map(|(pmu, form, detail)| Listed {
            kind: ListKind::Probe,
            name: form.to_owned(),
            aliases: Vec::new(),
            detail: detail.to_owned(),
            availability: match Pmu::open(&self.pmus, pmu) {
                Some(pmu) => self.trials.probe(pmu.kind()),
                None => Availability::Missing,
            },
        });
        listed.collect()
    }
}
