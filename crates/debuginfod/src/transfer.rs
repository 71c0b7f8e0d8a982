//! Downloads one file from one server, with limits on time and size.
//!
//! The request runs on a separate thread. After a timeout, the thread is abandoned: name
//! resolution, handshakes and reads cannot be interrupted, but the caller need not wait for them.

use crate::outcome::Failure;
use crate::redirect::{Refused, follow};
use rprof_proxy::proxy_for;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use ureq::http::header::LOCATION;
use ureq::http::{Response, Uri};
use ureq::{Agent, Body, Timeout};

pub(crate) struct Limits<'a> {
    /// See [`Settings::patience`](crate::Settings::patience).
    pub(crate) patience: Duration,
    /// Deadline of all downloads.
    pub(crate) deadline: Instant,
    /// Time limit for all downloads, for messages.
    pub(crate) total: Duration,
    pub(crate) max_size: u64,
    pub(crate) cancelled: &'a AtomicBool,
}

/// State shared by the thread and the caller.
#[derive(Default)]
struct State {
    received: AtomicU64,
    /// Size in bytes; 0 if unknown.
    expected: AtomicU64,
    stop: AtomicBool,
}

/// Result of the request.
enum End {
    Done(u64),
    NotFound,
    Failed(Failure),
}

/// Minimum bytes in each period of [`Limits::patience`].
const ENOUGH: u64 = 100 << 10;
/// Interval for checking time limits and cancellation.
const TICK: Duration = Duration::from_millis(50);
/// Maximum number of redirects. Servers send one to the file's location, and some another one to
/// HTTPS.
const MAX_REDIRECTS: usize = 4;

/// Downloads `url`/`path` into `file`. Returns its size in bytes, or `None` if the server does not
/// have it. Calls `progress` with received and, if known, expected bytes.
pub(crate) fn download(
    url: &str,
    path: &str,
    file: File,
    limits: &Limits<'_>,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<Option<u64>, Failure> {
    let state = Arc::new(State::default());
    let left = limits.deadline.saturating_duration_since(Instant::now());
    let time_over = || Failure::TimeOver {
        total: limits.total,
    };
    if left.is_zero() {
        return Err(time_over());
    }
    let (sender, receiver) = mpsc::channel();
    let job = Job {
        server: url.to_owned(),
        whole: format!("{url}/{path}"),
        patience: limits.patience,
        total: limits.total,
        left,
        max_size: limits.max_size,
        state: Arc::clone(&state),
    };
    let thread = std::thread::Builder::new().name("debuginfod".into());
    let spawned = thread.spawn(move || {
        // Fails if the caller has timed out.
        sender.send(job.run(file)).ok();
    });
    let server_error = |error: &str| Failure::Server {
        url: url.into(),
        error: error.into(),
    };
    spawned.map_err(|error| server_error(&error.to_string()))?;
    // Bytes and time at the last sufficient progress.
    let mut mark = (0, Instant::now());
    let failure = loop {
        match receiver.recv_timeout(TICK) {
            Ok(End::Done(bytes)) => return Ok(Some(bytes)),
            Ok(End::NotFound) => return Ok(None),
            Ok(End::Failed(failure)) => break failure,
            Err(RecvTimeoutError::Disconnected) => break server_error("the download broke off"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let received = state.received.load(Ordering::Relaxed);
        let expected = state.expected.load(Ordering::Relaxed);
        progress(received, (expected > 0).then_some(expected));
        let now = Instant::now();
        if received >= mark.0 + ENOUGH {
            mark = (received, now);
        }
        if limits.cancelled.load(Ordering::Relaxed) {
            break Failure::Cancelled;
        }
        if now >= limits.deadline {
            break time_over();
        }
        if now.duration_since(mark.1) >= limits.patience {
            break Failure::Slow {
                url: url.into(),
                patience: limits.patience,
            };
        }
    };
    state.stop.store(true, Ordering::Relaxed);
    Err(failure)
}

/// Work of the thread.
struct Job {
    server: String,
    whole: String,
    patience: Duration,
    total: Duration,
    left: Duration,
    max_size: u64,
    state: Arc<State>,
}

impl Job {
    fn run(&self, file: File) -> End {
        self.try_run(file).unwrap_or_else(|failure| match failure {
            Some(failure) => End::Failed(failure),
            None => End::NotFound,
        })
    }

    /// Sends the request and reads the response. An error of `None` means that the file does not
    /// exist.
    fn try_run(&self, mut file: File) -> Result<End, Option<Failure>> {
        let agent = Agent::new_with_config(
            Agent::config_builder()
                // Never downgrades HTTPS to HTTP.
                .https_only(self.server.to_ascii_lowercase().starts_with("https:"))
                .http_status_as_error(false)
                // `ask` follows redirects within the server.
                .max_redirects(0)
                .timeout_global(Some(self.left))
                .timeout_connect(Some(self.patience))
                .timeout_recv_response(Some(self.patience))
                .timeout_per_read(Some(self.patience))
                .user_agent(concat!("rprof/", env!("CARGO_PKG_VERSION")))
                .build(),
        );
        let response = self.ask(&agent)?;
        match response.status().as_u16() {
            200 => {}
            404 | 410 => return Err(None),
            status => {
                let url = self.server.clone();
                return Err(Some(Failure::Status { url, status }));
            }
        }
        let too_large = || Failure::TooLarge {
            url: self.server.clone(),
            max: self.max_size,
        };
        let expected = response.body().content_length();
        if expected.is_some_and(|bytes| bytes > self.max_size) {
            return Err(Some(too_large()));
        }
        let expected = expected.unwrap_or(0);
        self.state.expected.store(expected, Ordering::Relaxed);
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 64 << 10];
        let mut received = 0;
        loop {
            let len = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Some(self.failure(&ureq::Error::from(error)))),
            };
            received += len as u64;
            if received > self.max_size {
                return Err(Some(too_large()));
            }
            if self.state.stop.load(Ordering::Relaxed) {
                return Err(Some(Failure::Cancelled));
            }
            let part = buffer.get(..len).unwrap_or_default();
            file.write_all(part).map_err(|error| {
                Some(Failure::Cache {
                    path: "the download".into(),
                    error,
                })
            })?;
            self.state.received.store(received, Ordering::Relaxed);
        }
        Ok(End::Done(received))
    }

    /// Requests the file, and follows redirects within the server.
    fn ask(&self, agent: &Agent) -> Result<Response<Body>, Option<Failure>> {
        let server_error = |error: &str| {
            Some(Failure::Server {
                url: self.server.clone(),
                error: error.into(),
            })
        };
        let mut uri: Uri =
            (self.whole.parse()).map_err(|_| server_error("it is not an address"))?;
        for _ in 0..=MAX_REDIRECTS {
            let has_credentials = (uri.authority()).is_some_and(|it| it.as_str().contains('@'));
            let proxy = proxy_for(&uri, has_credentials).map_err(|error| {
                Some(Failure::Proxy {
                    url: self.server.clone(),
                    error,
                })
            })?;
            let request = agent.get(&uri).config().proxy(proxy).build();
            let response = request.call().map_err(|error| self.failure(&error))?;
            if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|text| text.to_str().ok()).unwrap_or("");
            uri = follow(&uri, location).map_err(|refused| match refused {
                Refused::NoAddress => server_error("its redirect has no valid address"),
                Refused::Elsewhere(to) => Some(Failure::Redirect {
                    url: self.server.clone(),
                    to,
                }),
            })?;
        }
        Err(server_error("too many redirects"))
    }

    fn failure(&self, error: &ureq::Error) -> Failure {
        let url = self.server.clone();
        match error {
            ureq::Error::Timeout(Timeout::Global) => Failure::TimeOver { total: self.total },
            ureq::Error::Timeout(_) => Failure::Slow {
                url,
                patience: self.patience,
            },
            error => Failure::Server {
                url,
                error: error.to_string(),
            },
        }
    }
}
