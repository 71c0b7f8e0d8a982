//! Adds names that hosts could not resolve: looks them up by build-id in folders or at debuginfod
//! servers, and appends rows of a higher rank.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rprof_debuginfod::{Client, FetchResult};
use rprof_export::CleanName;
use rprof_fleet_table::rows::{FrameLine, FrameRow};
use rprof_fleet_table::{Id, Table, Tables};
use rprof_symbols::{BuildId, Frames, ImageKey, Reason, RemoteFiles, Symbolizer};

use crate::FleetError;
use crate::engine::{Engine, Fleet};
use crate::files::Files;
use crate::hours::Hours;
use crate::names::Names;
use crate::store::Store;

/// Result of a symbolization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Images with missing names.
    pub images: Vec<WantedImage>,
    /// Number of appended rows.
    pub rows: usize,
}

/// Image with missing names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedImage {
    /// Path, sanitized for output.
    pub path: String,
    /// Build-id in hexadecimal digits.
    pub build_id: String,
    /// Number of locations without lines.
    pub wanted: usize,
    /// Number of these that now have names or lines.
    pub found: usize,
    /// Reason why one of the others has none.
    pub reason: Option<Reason>,
    /// Files that servers did not send, with reasons. Not sanitized for output.
    pub unsent: Vec<String>,
}

/// Debug files `.build-id/ab/cdef.debug` and images `.build-id/ab/cdef` of folders, with servers as
/// a fallback.
#[derive(Debug)]
struct Sources {
    folders: Vec<PathBuf>,
    servers: Option<Arc<Client>>,
}

impl RemoteFiles for Sources {
    fn fetch(
        &self,
        wanted: &rprof_image::RemoteFile<'_>,
        is_right: &dyn Fn(&Path) -> bool,
    ) -> Option<PathBuf> {
        let id = wanted.build_id.to_string();
        let (first, rest) = id.split_at_checked(2)?;
        // An image with symbols may have either name.
        let names = match wanted.kind {
            rprof_image::RemoteKind::Executable => [rest.to_owned(), format!("{rest}.debug")],
            _ => [format!("{rest}.debug"), rest.to_owned()],
        };
        let local = self.folders.iter().flat_map(|folder| {
            let folder = folder.join(".build-id").join(first);
            names.iter().map(move |name| folder.join(name))
        });
        let mut local = local.filter(|path| path.is_file() && is_right(path));
        local
            .next()
            .or_else(|| self.servers.as_ref()?.fetch(wanted, is_right))
    }
}

/// Counts of an image's locations.
#[derive(Default)]
struct Counts {
    wanted: BTreeSet<Id>,
    found: BTreeSet<Id>,
    reason: Option<Reason>,
}

/// Looks up the missing names in some hours, and appends the results to each hour.
///
/// # Errors
/// The store fails.
pub async fn symbolize(
    store: &Store,
    hours: Hours,
    folders: Vec<PathBuf>,
    servers: Option<Client>,
) -> Result<Outcome, FleetError> {
    let servers = servers.map(Arc::new);
    let symbolizer = Symbolizer::builder()
        .perf_cache(None)
        .debug_dirs(folders.clone())
        .remote(Some(Arc::new(Sources {
            folders,
            servers: servers.clone(),
        })))
        .build();
    let mut outcome = Outcome::default();
    let mut counted: BTreeMap<(String, String), Counts> = BTreeMap::new();
    let mut known: HashMap<Id, Result<FrameRow, Reason>> = HashMap::new();
    let partitions: BTreeSet<i64> = (Files::of(store, Table::Locations, hours).await?.live.iter())
        .map(|file| file.hour)
        .collect();
    for hour in partitions {
        let of_hour = Hours {
            since: Some(hour),
            until: Some(hour + 1),
        };
        let fleet = Fleet::open(store.clone(), of_hour, Engine::Embedded).await?;
        let mut names = Names::default();
        for (query, add) in [
            (
                "SELECT * FROM images",
                Names::add_images as fn(&mut Names, &_) -> _,
            ),
            ("SELECT * FROM locations", Names::add_locations),
            ("SELECT * FROM frames", Names::add_frames),
        ] {
            for batch in fleet.ask(query).await? {
                add(&mut names, &batch)?;
            }
        }
        let mut rows = Vec::new();
        for (image, locations) in wanted(&names) {
            let Some((image, build_id)) = names
                .images
                .get(&image)
                .and_then(|image| Some((image, BuildId::from_hex(image.build_id.as_deref()?)?)))
            else {
                continue;
            };
            let new: Vec<(Id, u64)> = (locations.iter().copied())
                .filter(|(id, _)| !known.contains_key(id))
                .collect();
            let offsets: Vec<u64> = new.iter().map(|(_, address)| *address).collect();
            let key = ImageKey::file(&image.path).with_build_id(Some(build_id));
            for ((id, _), found) in new.iter().zip(symbolizer.resolve_image(&key, &offsets)) {
                known.insert(*id, found.map(|frames| row(*id, &frames)));
            }
            let name = (
                CleanName::new(&image.path).into_owned(),
                image.build_id.clone().unwrap_or_default(),
            );
            let counts = counted.entry(name).or_default();
            for (id, _) in locations {
                counts.wanted.insert(id);
                let before = names.frames.get(&id).map_or(-1, |frames| frames.rank);
                match known.get(&id) {
                    Some(Ok(row)) if i64::from(row.symbols_rank) > before => {
                        counts.found.insert(id);
                        rows.push(row.clone());
                    }
                    Some(Err(reason)) => counts.reason = Some(*reason),
                    _ => {}
                }
            }
        }
        outcome.rows += rows.len();
        let mut tables = Tables {
            frames: rows,
            ..Tables::default()
        };
        for file in tables.files("symbolize", hour)? {
            store.put(&file.path, file.bytes).await?;
        }
    }
    let mut unsent = servers.map_or_else(BTreeMap::new, |servers| unsent(&servers));
    let counts = counted.into_iter();
    outcome.images = counts
        .map(|((path, build_id), counts)| WantedImage {
            unsent: unsent.remove(&build_id).unwrap_or_default(),
            path,
            build_id,
            wanted: counts.wanted.len(),
            found: counts.found.len(),
            reason: counts.reason,
        })
        .collect();
    Ok(outcome)
}

/// Returns failed downloads by build-id.
fn unsent(servers: &Client) -> BTreeMap<String, Vec<String>> {
    let mut unsent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for outcome in servers.take_outcomes() {
        let why = match outcome.result {
            FetchResult::Missing => format!("no server has its {}", outcome.kind.name()),
            FetchResult::Failed(failure) => failure.to_string(),
            _ => continue,
        };
        let of_image = unsent.entry(outcome.build_id.to_string()).or_default();
        if !of_image.contains(&why) {
            of_image.push(why);
        }
    }
    unsent
}

/// Returns the locations and file offsets of images with missing names, if nothing better than a
/// function's start is known.
fn wanted(names: &Names) -> BTreeMap<Id, Vec<(Id, u64)>> {
    let mut wanted: BTreeMap<Id, Vec<(Id, u64)>> = BTreeMap::new();
    for (id, location) in &names.locations {
        let image = names.images.get(&location.image);
        let is_wanted =
            image.is_some_and(|image| image.symbols == "wanted" && image.kind == "file");
        let has_name = names.frames.get(id).is_some_and(|frames| frames.rank > 1);
        if let Some(address) = location.address.filter(|_| is_wanted && !has_name) {
            wanted
                .entry(location.image)
                .or_default()
                .push((*id, address.cast_unsigned()));
        }
    }
    for locations in wanted.values_mut() {
        locations.sort_unstable_by_key(|(_, address)| *address);
    }
    wanted
}

fn row(location_id: Id, frames: &Frames) -> FrameRow {
    let lines: Vec<FrameLine> = (frames.iter().rev())
        .map(|frame| FrameLine {
            function: Some(CleanName::new(frame.name).into_owned()),
            file: frame
                .line
                .map(|line| CleanName::new(&line.file).into_owned()),
            line: frame
                .line
                .and_then(|line| i32::try_from(line.line).ok())
                .filter(|line| *line > 0),
            inlined: frame.inlined,
        })
        .collect();
    let has_lines = lines.iter().any(|line| line.line.is_some());
    FrameRow {
        location_id,
        symbols_rank: match frames.symbol().located {
            _ if has_lines => 2,
            None => 1,
            Some(_) => 0,
        },
        lines,
    }
}
