//! [`Client`]: searches the cache, then each server.

use crate::cache::{Cache, Cached};
use crate::outcome::{Failure, FetchResult, RequestOutcome};
use crate::settings::Settings;
use crate::transfer::{Limits, download};
use rprof_image::{RemoteFile, RemoteFiles};
use std::fmt;
use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Bytes of a running download, for a progress line.
#[derive(Debug, Clone, Copy)]
pub struct DownloadProgress<'a> {
    /// Image without a local debug file.
    pub image: &'a Path,
    /// Bytes received.
    pub received: u64,
    /// Size of the file in bytes, if the server states it.
    pub expected: Option<u64>,
}

type OnProgress = Box<dyn Fn(DownloadProgress<'_>) + Send + Sync>;

/// Client for files missing on this machine. Shared by reference: several threads may send requests
/// at the same time.
pub struct Client {
    settings: Settings,
    cache: Cache,
    cancelled: Arc<AtomicBool>,
    on_progress: OnProgress,
    /// Deadline of all downloads, set by the first request.
    deadline: OnceLock<Instant>,
    /// True for each server with a persistent failure.
    given_up: Vec<AtomicBool>,
    outcomes: Mutex<Vec<RequestOutcome>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Client"))
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. Sends no request.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            cache: Cache::new(settings.cache.clone()),
            cancelled: Arc::default(),
            on_progress: Box::new(|_| {}),
            deadline: OnceLock::new(),
            given_up: settings
                .urls
                .iter()
                .map(|_| AtomicBool::new(false))
                .collect(),
            outcomes: Mutex::default(),
            settings,
        }
    }

    /// Sets a flag that cancels current and later downloads once it is true.
    #[must_use]
    pub fn cancelled_by(mut self, flag: Arc<AtomicBool>) -> Self {
        self.cancelled = flag;
        self
    }

    /// Sets a function for progress, called several times per second during downloads.
    #[must_use]
    pub fn on_progress(
        mut self,
        call: impl Fn(DownloadProgress<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Box::new(call);
        self
    }

    /// Returns the outcomes of requests since the last call, in order of completion.
    pub fn take_outcomes(&self) -> Vec<RequestOutcome> {
        std::mem::take(&mut self.outcomes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn get(
        &self,
        wanted: &RemoteFile<'_>,
        is_right: &dyn Fn(&Path) -> bool,
    ) -> (Option<PathBuf>, FetchResult) {
        match self.cache.look(wanted.build_id, wanted.kind) {
            // An invalid file in the cache is downloaded again and replaced.
            Cached::File(path) if is_right(&path) => return (Some(path), FetchResult::Cached),
            Cached::Missing => return (None, FetchResult::Missing),
            Cached::File(_) | Cached::Unknown => {}
        }
        // The first request starts the time and cleans the cache. A failure to clean is harmless.
        let deadline = *self.deadline.get_or_init(|| {
            self.cache.clean().ok();
            Instant::now() + self.settings.total_time
        });
        let mut failure = None;
        for (url, given_up) in self.settings.urls.iter().zip(&self.given_up) {
            if self.cancelled.load(Ordering::Relaxed) {
                return (None, FetchResult::Failed(Failure::Cancelled));
            }
            if given_up.load(Ordering::Relaxed) {
                failure = Some(Failure::Server {
                    url: url.clone(),
                    error: "it failed before; not asked again".into(),
                });
                continue;
            }
            match self.fetch_from(url, wanted, is_right, deadline) {
                Ok(Some((path, bytes))) => {
                    let from = url.clone();
                    return (Some(path), FetchResult::Fetched { bytes, from });
                }
                Ok(None) => {}
                Err(error) => {
                    if error.lasts() {
                        given_up.store(true, Ordering::Relaxed);
                    }
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(failure) => (None, FetchResult::Failed(failure)),
            None => {
                // After a failure, the next run only repeats the request.
                self.cache.keep_missing(wanted.build_id, wanted.kind).ok();
                (None, FetchResult::Missing)
            }
        }
    }

    /// Downloads from one server. Returns path and size in bytes, or `None` if the server does not
    /// have the file.
    fn fetch_from(
        &self,
        url: &str,
        wanted: &RemoteFile<'_>,
        is_right: &dyn Fn(&Path) -> bool,
        deadline: Instant,
    ) -> Result<Option<(PathBuf, u64)>, Failure> {
        let cannot = |error| Failure::Cache {
            path: self.cache.path(wanted.build_id, wanted.kind),
            error,
        };
        let limits = Limits {
            patience: self.settings.patience,
            deadline,
            total: self.settings.total_time,
            max_size: self.settings.max_size,
            cancelled: &self.cancelled,
        };
        let file = self
            .cache
            .begin(wanted.build_id, wanted.kind)
            .map_err(cannot)?;
        let into = file.as_file().try_clone().map_err(cannot)?;
        let path = format!("buildid/{}/{}", wanted.build_id, wanted.kind.name());
        let progress = |received, expected| {
            (self.on_progress)(DownloadProgress {
                image: wanted.image,
                received,
                expected,
            });
        };
        let Some(bytes) = download(url, &path, into, &limits, &progress)? else {
            return Ok(None);
        };
        if !is_right(file.path()) {
            return Err(Failure::WrongFile { url: url.into() });
        }
        let kept = self.cache.keep(file, wanted.build_id, wanted.kind);
        Ok(Some((kept.map_err(cannot)?, bytes)))
    }

    /// Downloads a file of at most `max_size` bytes, without caching it. Skips servers with
    /// persistent failures.
    pub(crate) fn download_small(&self, path: &str, into: &File, max_size: u64) -> Option<u64> {
        let deadline = *self
            .deadline
            .get_or_init(|| Instant::now() + self.settings.total_time);
        for (url, given_up) in self.settings.urls.iter().zip(&self.given_up) {
            if self.cancelled.load(Ordering::Relaxed) {
                return None;
            }
            if given_up.load(Ordering::Relaxed) {
                continue;
            }
            let limits = Limits {
                patience: self.settings.patience,
                deadline,
                total: self.settings.total_time,
                max_size,
                cancelled: &self.cancelled,
            };
            // Discards partial data of the previous server.
            into.set_len(0).ok()?;
            (&*into).rewind().ok()?;
            let file = into.try_clone().ok()?;
            match download(url, path, file, &limits, &|_, _| {}) {
                Ok(Some(bytes)) => return Some(bytes),
                Ok(None) => {}
                Err(error) => given_up.store(error.lasts(), Ordering::Relaxed),
            }
        }
        None
    }
}

impl RemoteFiles for Client {
    fn fetch(&self, wanted: &RemoteFile<'_>, is_right: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        let (path, result) = self.get(wanted, is_right);
        let outcome = RequestOutcome {
            image: wanted.image.to_owned(),
            build_id: *wanted.build_id,
            kind: wanted.kind,
            result,
        };
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.push(outcome);
        path
    }
}
