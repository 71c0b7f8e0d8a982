//! Analyses windows, and converts them to table rows and request bodies.

use std::io;
use std::sync::Arc;

use rprof_analysis::Options;
use rprof_export::{CleanNames, ExportOptions};
use rprof_fleet_table::rows::Identity;
use rprof_fleet_table::{FleetTableError, ProfileOrigin, Tables, Window, of_profile};
use rprof_image::{FileReader, FileView, build_id_of};
use rprof_output::UnnamedFile;
use rprof_perfdata::PerfData;
use rprof_profile::{ObjectKind, Profile, Thread, WeighBy, WeightUnit};
use rprof_push::{Label, Parts, PushClient, PushError, labels};
use rprof_records::BuildId;
use rprof_symbols::{MemoryLimits, Symbolizer};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::budget::Relief;
use crate::config::{Config, WantedNames};
use crate::identity::{Facts, Pods, identity_of};
use crate::live::WindowRecords;
use crate::spool::WindowFile;

/// Error in the analysis of a window.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The records could not be written to a temporary file.
    #[error("cannot store a window's records temporarily: {0}")]
    Temporary(#[from] io::Error),
    /// The records could not be read back.
    #[error("cannot read a window's records: {0}")]
    Read(#[from] rprof_perfdata::Error),
    /// The rows could not be built.
    #[error(transparent)]
    Table(#[from] FleetTableError),
    /// The profile could not be encoded for a server.
    #[error(transparent)]
    Push(#[from] PushError),
}

/// Window that has ended.
#[derive(Debug)]
pub struct EndedWindow {
    /// Time range.
    pub window: Window,
    /// Sampling rate, in samples a second.
    pub rate: u32,
    /// Recorded data.
    pub records: WindowRecords,
}

/// Window as a profile, with the workload of each thread.
pub struct AnalysedWindow {
    window: Window,
    rate: u32,
    scale: f64,
    host: String,
    profile: Profile,
    identities: FxHashMap<i32, Identity>,
}

/// Analyst of windows. Its symbol cache lives across windows.
pub struct Analyst {
    names: WantedNames,
    memory: u64,
    symbolizer: Symbolizer,
    pods: Pods,
    config: Arc<Config>,
    host: String,
}

impl Analyst {
    /// Creates an analyst for a host.
    pub fn new(config: Arc<Config>, host: &str) -> Analyst {
        let memory = (config.budget.memory_mib << 20) / 2;
        Analyst {
            names: config.sample.symbols,
            memory,
            symbolizer: symbolizer(config.sample.symbols, memory),
            pods: Pods::new(&config.identity.pods),
            host: host.to_owned(),
            config,
        }
    }

    /// Drops cached symbols and tables to free memory.
    pub fn forget(&mut self, relief: Relief) {
        match relief {
            Relief::Unused => self.symbolizer.forget_unused(),
            Relief::All => self.symbolizer = symbolizer(self.names, self.memory),
        }
        crate::heap::trim();
    }

    /// Analyses a window.
    ///
    /// # Errors
    /// [`AnalysisError`].
    pub fn analyse(&mut self, ended: EndedWindow) -> Result<AnalysedWindow, AnalysisError> {
        let EndedWindow {
            window,
            rate,
            records,
        } = ended;
        let file = UnnamedFile::create()?;
        records.snapshot.write(file.handle()?)?;
        drop(records.snapshot);
        let data = PerfData::open(&file.path())?;
        let options = Options {
            by_thread: true,
            addresses: true,
            inlined: true,
            threads: 1,
            ..Options::default()
        };
        let mut profile = rprof_analysis::analyse(&data, &self.symbolizer, &options);
        self.symbolizer.forget_removed();
        let begin = u64::try_from(window.start)
            .unwrap_or(0)
            .saturating_mul(1_000);
        let length = u64::try_from(window.length)
            .unwrap_or(0)
            .saturating_mul(1_000);
        profile.wall_time = Some((begin, begin.saturating_add(length)));
        // The bounded record buffer dropped its oldest samples.
        let there: u64 = profile.events.iter().map(|event| event.samples).sum();
        let missing = records.seen.samples.saturating_sub(there);
        profile.quality.lost = profile.quality.lost.saturating_add(missing);
        self.pods.refresh();
        let identities = self.identities(&profile, &records.seen.processes);
        Ok(AnalysedWindow {
            window,
            rate,
            scale: 1.0 / self.config.sample.hosts,
            host: self.host.clone(),
            profile,
            identities,
        })
    }

    /// Maps each pid to its workload.
    fn identities(
        &mut self,
        profile: &Profile,
        processes: &FxHashMap<i32, Arc<Facts>>,
    ) -> FxHashMap<i32, Identity> {
        let mut build_ids = BuildIds::new(profile);
        let mut identities = FxHashMap::default();
        let clean = CleanNames::new(profile);
        let nothing = Facts::default();
        let used: FxHashSet<_> = profile
            .aggregated
            .iter()
            .map(|entry| entry.thread)
            .collect();
        for thread in used {
            let thread = profile.thread(thread);
            let pid = thread.pid.unwrap_or(-1);
            if identities.contains_key(&pid) {
                continue;
            }
            let facts = processes.get(&pid).map_or(&nothing, |facts| facts);
            let comm = clean.comm(thread.process_comm.unwrap_or(thread.comm));
            let pod = facts
                .cgroup
                .pod
                .as_deref()
                .and_then(|uid| self.pods.find(uid));
            let build_id = facts
                .exe
                .as_deref()
                .and_then(|exe| build_ids.find(pid, exe));
            let build_id = build_id.map(|id| id.to_string());
            let rules = &self.config.identity.rule;
            let identity = identity_of(rules, facts, &comm, pod.as_ref(), build_id.as_deref());
            identities.insert(pid, identity);
        }
        identities
    }
}

fn symbolizer(names: WantedNames, memory: u64) -> Symbolizer {
    let has_lines = names == WantedNames::Lines;
    Symbolizer::builder()
        .inlines(has_lines)
        .lines(has_lines)
        // A function has the same name in all windows.
        .tells_apart(false)
        .locates(true)
        .releases_files(true)
        .memory(MemoryLimits::of_all(memory))
        .threads(1)
        .build()
}

struct BuildIds {
    known: FxHashMap<String, Option<BuildId>>,
}

impl BuildIds {
    fn new(profile: &Profile) -> BuildIds {
        let files = profile.objects.iter();
        let files = files.filter(|object| object.kind == ObjectKind::File);
        let known = files.filter_map(|object| {
            let build_id = object.build_id?;
            Some((object.name.to_string(), Some(build_id)))
        });
        BuildIds {
            known: known.collect(),
        }
    }

    fn find(&mut self, pid: i32, exe: &str) -> Option<BuildId> {
        if let Some(known) = self.known.get(exe) {
            return *known;
        }
        let found = build_id_of_program(pid);
        self.known.insert(exe.to_owned(), found);
        found
    }
}

fn build_id_of_program(pid: i32) -> Option<BuildId> {
    let view = FileView::of_process(u32::try_from(pid).ok()?).ok()?;
    let located = view.locate_program().ok()?;
    let file = view.open(&located).ok()?;
    build_id_of(&FileReader::new(&file))
}

impl AnalysedWindow {
    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.profile.events.iter().map(|event| event.samples).sum()
    }

    /// Returns the number of lost records.
    pub fn lost(&self) -> u64 {
        self.profile.quality.lost
    }

    /// Returns the number of services.
    pub fn services(&self) -> usize {
        let services: FxHashSet<&str> = (self.identities.values())
            .map(|identity| &*identity.service)
            .collect();
        services.len()
    }

    fn identity(&self, thread: &Thread) -> Identity {
        let pid = thread.pid.unwrap_or(-1);
        self.identities.get(&pid).cloned().unwrap_or_default()
    }

    /// Returns the rows of all tables, in the hour when the window begins. The `hosts` row does not
    /// count lost windows yet.
    ///
    /// # Errors
    /// [`FleetTableError`].
    pub fn tables(&self) -> Result<Tables, FleetTableError> {
        let identity = |thread: &Thread| self.identity(thread);
        let origin = ProfileOrigin {
            window: Some(self.window),
            host: &self.host,
            rate_hz: self.rate.into(),
            scale: self.scale,
            lost_windows: 0,
            identity: &identity,
        };
        let hours = of_profile(&self.profile, &origin)?;
        Ok(hours
            .into_iter()
            .next()
            .map(|(_, tables)| tables)
            .unwrap_or_default())
    }

    /// Encodes tables as Parquet files.
    ///
    /// # Errors
    /// [`FleetTableError`].
    pub fn files(&self, tables: &mut Tables) -> Result<Vec<WindowFile>, FleetTableError> {
        let begin = self.window.start.div_euclid(1_000_000);
        let files = tables.files(&self.host, begin)?.into_iter();
        let item = files.map(|file| WindowFile {
            name: file.path,
            bytes: file.bytes,
        });
        Ok(item.collect())
    }

    /// Returns request bodies for a profile server: one or more for each workload, within the
    /// server's size limit.
    ///
    /// # Errors
    /// [`PushError`].
    pub fn bodies(
        &mut self,
        client: &PushClient,
        given: &[Label],
    ) -> Result<Vec<WindowFile>, PushError> {
        let all = std::mem::take(&mut self.profile.aggregated);
        let mut of_identities: FxHashMap<Identity, Vec<_>> = FxHashMap::default();
        for entry in &all {
            let identity = self.identity(self.profile.thread(entry.thread));
            of_identities.entry(identity).or_default().push(*entry);
        }
        let mut of_identities: Vec<_> = of_identities.into_iter().collect();
        of_identities.sort_by(|a, b| a.0.cmp(&b.0));
        let mut items = Vec::new();
        let mut outcome = Ok(());
        for (identity, entries) in of_identities {
            self.profile.aggregated = entries;
            outcome = self.body(client, given, &identity, &mut items);
            if outcome.is_err() {
                break;
            }
        }
        self.profile.aggregated = all;
        outcome.map(|()| items)
    }

    fn body(
        &self,
        client: &PushClient,
        given: &[Label],
        identity: &Identity,
        items: &mut Vec<WindowFile>,
    ) -> Result<(), PushError> {
        let profile = &self.profile;
        let (target, limits) = (client.target(), client.target().limits());
        let event = profile.main_event();
        let kind = event.map(|event| {
            let is_time = profile.events[event].unit == WeightUnit::Nanoseconds;
            labels::kind_of(&CleanNames::new(profile).event(event), is_time)
        });
        // OpenTelemetry's semantic conventions.
        let facts = [
            ("service.name", Some(&*identity.service)),
            ("service.version", identity.version.as_deref()),
            ("k8s.namespace.name", identity.namespace.as_deref()),
            ("k8s.pod.uid", identity.pod.as_deref()),
            ("container.id", identity.container_id.as_deref()),
            ("host.name", Some(&*self.host)),
        ];
        let mut all: Vec<Label> = given.to_vec();
        for (name, value) in facts {
            // Configured labels take precedence.
            let Some(value) = value.filter(|_| all.iter().all(|label| label.name != name)) else {
                continue;
            };
            all.push(Label::new(name, value));
        }
        let complete = labels::complete(
            target,
            &all,
            &identity.service,
            &kind.unwrap_or_default(),
            &limits,
        )?;
        let options = ExportOptions {
            resource: (complete.iter())
                .map(|label| (label.name.clone(), label.value.clone()))
                .collect(),
            max_depth: limits.depth,
            ..ExportOptions::default()
        };
        let mut parts = Parts::new(target.encoder(profile, WeighBy::Period, &options), limits);
        while let Some(part) = parts.next_part()? {
            if !part.is_too_large {
                items.push(WindowFile {
                    name: format!("{}-{}", self.window.start, items.len()),
                    bytes: client.body(&complete, part.profile),
                });
            }
        }
        Ok(())
    }
}
