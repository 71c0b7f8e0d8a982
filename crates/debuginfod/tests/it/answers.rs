//! The client's reaction to each kind of response.

use crate::server::{Server, reply};
use rprof_debuginfod::{Client, Failure, FetchResult, RequestOutcome, Settings};
use rprof_image::{BuildId, RemoteFile, RemoteFiles, RemoteKind};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Contents of the correct file.
const RIGHT: &[u8] = b"the right file";
/// More than any test needs, but far less than a server could delay.
const LONG: Duration = Duration::from_secs(30);

struct Asker {
    cache: tempfile::TempDir,
    settings: Settings,
}

impl Asker {
    fn new(urls: &[&str]) -> Asker {
        let cache = tempfile::tempdir().unwrap();
        let settings = Settings {
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            cache: cache.path().to_owned(),
            // A busy machine may delay a server; tests of slow servers use `impatient`.
            patience: LONG,
            total_time: LONG,
            max_size: 1 << 20,
        };
        Asker { cache, settings }
    }

    fn impatient(mut self) -> Asker {
        self.settings.patience = Duration::from_millis(800);
        self
    }

    fn client(&self) -> Client {
        Client::new(self.settings.clone())
    }

    fn ask(&self) -> (Option<PathBuf>, RequestOutcome) {
        ask(&self.client())
    }

    fn fails(&self) -> Failure {
        let begin = Instant::now();
        let (path, outcome) = self.ask();
        assert!(begin.elapsed() < LONG / 2, "took {:?}", begin.elapsed());
        assert_eq!(path, None);
        assert_eq!(self.files(), Vec::<PathBuf>::new());
        match outcome.result {
            FetchResult::Failed(failure) => failure,
            other => panic!("a failure was expected, not {other:?}"),
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        let folder = self.cache.path().join(id().to_string());
        let Ok(files) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        files.map(|file| file.unwrap().path()).collect()
    }
}

fn id() -> BuildId {
    BuildId::new(&[0xab; 20]).unwrap()
}

fn is_right(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes == RIGHT)
}

fn ask(client: &Client) -> (Option<PathBuf>, RequestOutcome) {
    let wanted = RemoteFile {
        build_id: &id(),
        kind: RemoteKind::DebugInfo,
        image: Path::new("/usr/bin/program"),
    };
    let path = client.fetch(&wanted, &is_right);
    let mut outcomes = client.take_outcomes();
    assert_eq!(outcomes.len(), 1);
    (path, outcomes.remove(0))
}

#[test]
fn found_and_then_cached() {
    let server = Server::new(|_, stream| reply(stream, "200 OK", RIGHT));
    let asker = Asker::new(&[&server.url]);
    let (path, outcome) = asker.ask();
    let path = path.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), RIGHT);
    let FetchResult::Fetched { bytes, from } = outcome.result else {
        panic!("{outcome:?}");
    };
    assert_eq!((bytes, from), (RIGHT.len() as u64, server.url.clone()));
    let asked = format!("/buildid/{}/debuginfo", id());
    assert_eq!(server.asked(), [asked]);
    let (again, outcome) = asker.ask();
    assert!(matches!(outcome.result, FetchResult::Cached));
    assert_eq!(again, Some(path));
    assert!(server.asked().is_empty());
}

#[test]
fn missing_is_remembered() {
    let server = Server::new(|_, stream| reply(stream, "404 Not Found", b"no"));
    let asker = Asker::new(&[&server.url]);
    for asked in [1, 0] {
        let (path, outcome) = asker.ask();
        assert_eq!(path, None);
        assert!(
            matches!(outcome.result, FetchResult::Missing),
            "{outcome:?}"
        );
        assert_eq!(server.asked().len(), asked);
    }
}

#[test]
fn the_next_server_is_asked() {
    let missing = Server::new(|_, stream| reply(stream, "404 Not Found", b""));
    let broken = Server::new(|_, stream| reply(stream, "500 Oh", b""));
    let wrong = Server::new(|_, stream| reply(stream, "200 OK", b"another file"));
    let has = Server::new(|_, stream| reply(stream, "200 OK", RIGHT));
    let asker = Asker::new(&[
        &missing.url,
        "http://127.0.0.1:1",
        &broken.url,
        &wrong.url,
        &has.url,
    ]);
    let (path, outcome) = asker.ask();
    assert!(path.is_some(), "{outcome:?}");
    assert!(matches!(outcome.result, FetchResult::Fetched { from, .. } if from == has.url));
}

#[test]
fn a_wrong_file_is_refused() {
    let server = Server::new(|_, stream| reply(stream, "200 OK", b"another file"));
    let failure = Asker::new(&[&server.url]).fails();
    assert!(matches!(failure, Failure::WrongFile { .. }), "{failure}");
}

#[test]
fn a_wrong_file_in_the_cache_is_replaced() {
    let server = Server::new(|_, stream| reply(stream, "200 OK", RIGHT));
    let asker = Asker::new(&[&server.url]);
    let folder = asker.cache.path().join(id().to_string());
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("debuginfo"), b"another file").unwrap();
    let (path, outcome) = asker.ask();
    assert!(
        matches!(outcome.result, FetchResult::Fetched { .. }),
        "{outcome:?}"
    );
    assert!(is_right(&path.unwrap()));
}

#[test]
fn slow_servers_are_left() {
    // No response; a response without data; single bytes at a time.
    let silent = Server::new(|_, _| {
        std::thread::sleep(LONG);
        Ok(())
    });
    let stalls = Server::new(|_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")?;
        std::thread::sleep(LONG);
        Ok(())
    });
    let drips = Server::new(|_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let headers = Server::new(|_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\n")?;
        loop {
            stream.write_all(b"X")?;
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    for server in [silent, stalls, drips, headers] {
        let failure = Asker::new(&[&server.url]).impatient().fails();
        assert!(matches!(failure, Failure::Slow { .. }), "{failure}");
        assert!(failure.to_string().contains("DEBUGINFOD_TIMEOUT"));
    }
}

#[test]
fn a_server_that_failed_is_not_waited_for_again() {
    let server = Server::new(|_, _| {
        std::thread::sleep(LONG);
        Ok(())
    });
    let asker = Asker::new(&[&server.url]).impatient();
    let client = asker.client();
    assert!(matches!(ask(&client).1.result, FetchResult::Failed(_)));
    // The server may receive the request only now.
    server.wait_until_asked();
    for _ in 0..2 {
        assert!(matches!(ask(&client).1.result, FetchResult::Failed(_)));
        assert!(server.asked().is_empty());
    }
}

#[test]
fn sizes_are_bounded() {
    let huge = Server::new(|_, stream| {
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n"
        )?;
        std::thread::sleep(LONG);
        Ok(())
    });
    let endless = Server::new(|_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        loop {
            stream.write_all(&[0; 4096])?;
        }
    });
    let chunked = Server::new(|_, stream| {
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        )?;
        loop {
            write!(stream, "1000\r\n{:4096}\r\n", "")?;
        }
    });
    for server in [huge, endless, chunked] {
        let failure = Asker::new(&[&server.url]).fails();
        assert!(matches!(failure, Failure::TooLarge { .. }), "{failure}");
    }
}

#[test]
fn broken_answers() {
    let answers: &[&[u8]] = &[
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\ncut off",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nthe\r\n",
        b"HTTP/1.1 999 \xff\xfe\r\n\r\n",
    ];
    for answer in answers {
        let server = Server::new(|_, stream| stream.write_all(answer));
        let failure = Asker::new(&[&server.url]).fails();
        let text = String::from_utf8_lossy(answer);
        assert!(
            failure.to_string().contains(&server.url),
            "{failure} of {text:?}"
        );
    }
}

#[test]
fn redirects_are_followed_some_times() {
    let has = Server::new(|path, stream| match path {
        "/there" => reply(stream, "200 OK", RIGHT),
        _ => write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ),
    });
    let (path, outcome) = Asker::new(&[&has.url]).ask();
    assert!(path.is_some(), "{outcome:?}");
    let circle = Server::new(|path, stream| {
        write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {path}x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    });
    let failure = Asker::new(&[&circle.url]).fails();
    assert!(failure.to_string().contains("redirect"), "{failure}");
    assert!(circle.asked().len() < 10);
    for to in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "http://",
        "\u{1b}[2J",
    ] {
        let server = Server::new(move |_, stream| {
            write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
        });
        Asker::new(&[&server.url]).fails();
    }
}

#[test]
fn redirects_to_another_server_are_not_followed_but_told() {
    let other = Server::new(|_, stream| reply(stream, "200 OK", RIGHT));
    let to = other.url.clone();
    let server = Server::new(move |path, stream| {
        write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {to}{path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    });
    let failure = Asker::new(&[&server.url]).fails();
    assert!(matches!(failure, Failure::Redirect { .. }), "{failure}");
    let text = failure.to_string();
    assert!(
        text.contains(&other.url) && text.contains("DEBUGINFOD_URLS"),
        "{text}"
    );
    assert_eq!(other.asked(), Vec::<String>::new());
}

#[test]
fn the_total_time_is_bounded() {
    // Fast enough to never count as slow.
    let server = Server::new(|_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            stream.write_all(&vec![0; 200 << 10])?;
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut asker = Asker::new(&[&server.url]);
    asker.settings.total_time = Duration::from_millis(1500);
    asker.settings.max_size = u64::MAX;
    let client = asker.client();
    let (path, outcome) = ask(&client);
    assert_eq!(path, None);
    let is_over = |outcome: &RequestOutcome| {
        matches!(
            outcome.result,
            FetchResult::Failed(Failure::TimeOver { .. })
        )
    };
    assert!(is_over(&outcome), "{outcome:?}");
    server.wait_until_asked();
    assert!(is_over(&ask(&client).1));
    assert!(server.asked().is_empty());
}

#[test]
fn cancelling_ends_it() {
    let server = Server::new(|_, _| {
        std::thread::sleep(LONG);
        Ok(())
    });
    let mut asker = Asker::new(&[&server.url]);
    asker.settings.patience = LONG;
    let flag = Arc::new(AtomicBool::new(false));
    let setter = Arc::clone(&flag);
    let client = asker.client().cancelled_by(Arc::clone(&flag));
    let client = client.on_progress(move |_| setter.store(true, Ordering::SeqCst));
    let begin = Instant::now();
    for _ in 0..2 {
        let (_, outcome) = ask(&client);
        assert!(
            matches!(outcome.result, FetchResult::Failed(Failure::Cancelled)),
            "{outcome:?}"
        );
    }
    assert!(begin.elapsed() < LONG / 2);
    server.wait_until_asked();
    assert!(server.asked().is_empty());
}

#[test]
fn a_cache_that_cannot_be_written_is_said() {
    let server = Server::new(|_, stream| reply(stream, "200 OK", RIGHT));
    let mut asker = Asker::new(&[&server.url]);
    // A file instead of a folder.
    asker.settings.cache = asker.cache.path().join("file");
    std::fs::write(&asker.settings.cache, "").unwrap();
    let failure = asker.fails();
    assert!(matches!(failure, Failure::Cache { .. }), "{failure}");
    assert!(failure.to_string().contains("DEBUGINFOD_CACHE_PATH"));
}

#[test]
fn proxies_are_used_for_other_machines_only() {
    let name = "proxies_are_used_for_other_machines_only";
    // No server listens there.
    let variables = [("http_proxy", "http://127.0.0.2:1"), ("no_proxy", "x")];
    if !rprof_testing::in_environment(module_path!(), name, &variables) {
        return;
    }
    let server = Server::new(|_, stream| reply(stream, "200 OK", RIGHT));
    let (path, outcome) = Asker::new(&[&server.url]).ask();
    assert!(path.is_some(), "{outcome:?}");
    let failure = Asker::new(&["http://192.0.2.1:1"]).fails();
    assert!(matches!(failure, Failure::Server { .. }), "{failure}");
    let failure = Asker::new(&["http://me:s3cret@192.0.2.1:1"]).fails();
    assert!(matches!(failure, Failure::Proxy { .. }), "{failure}");
    let message = failure.to_string();
    assert!(message.contains("http_proxy") && message.contains("192.0.2.1 to NO_PROXY"));
}
