//! [`Listener`]: serves a page over HTTP/1 to a few clients at once, on one thread.
//!
//! Every local user, and every container in the host's network, can connect to a loopback address.
//! A client therefore costs at most [`MAX_HEAD`] bytes and one descriptor for [`PATIENCE`]:
//!
//! - `httparse` parses the head of a request. No body is read.
//! - Each connection gets one answer and is closed.
//! - At most [`MAX_CONNECTIONS`] are open. A further one replaces the oldest, so that idle
//!   connections do not lock out a client that sends its request at once.
//! - Without descriptors or memory, the listener pauses and tries again.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Maximum bytes of a request's head.
const MAX_HEAD: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
const MAX_CONNECTIONS: usize = 32;
/// Longest life of a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a system error, such as a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Server of one page. `P` returns the media type and text at a path.
pub(super) struct Listener<P> {
    socket: TcpListener,
    page: P,
    patience: Duration,
    /// The oldest first.
    connections: Vec<Connection>,
    /// Time until which no connection is accepted.
    paused_until: Option<Instant>,
}

impl<P: Fn(&str) -> Option<(&'static str, String)>> Listener<P> {
    pub(super) fn bind(address: SocketAddr, page: P) -> io::Result<Listener<P>> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Listener {
            socket,
            page,
            patience: PATIENCE,
            connections: Vec::new(),
            paused_until: None,
        })
    }

    pub(super) fn run(mut self) -> ! {
        loop {
            if self.step().is_err() {
                thread::sleep(PAUSE);
            }
        }
    }

    fn step(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.connections.retain(|open| open.deadline > now);
        self.paused_until = self.paused_until.filter(|until| *until > now);

        let deadlines = self.connections.iter().map(|open| open.deadline);
        let wake = deadlines.chain(self.paused_until).min();
        let wait = wake.and_then(|wake| Timespec::try_from(wake - now).ok());
        let mut polled: Vec<PollFd<'_>> = (self.connections.iter())
            .map(|open| PollFd::new(&open.stream, open.awaited()))
            .collect();
        if self.paused_until.is_none() {
            polled.push(PollFd::new(&self.socket, PollFlags::IN));
        }
        poll(&mut polled, wait.as_ref())?;

        let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        self.connections
            .retain_mut(|open| ready.next() != Some(true) || open.advance(&self.page));
        if ready.next() == Some(true) {
            self.accept();
        }
        Ok(())
    }

    fn accept(&mut self) {
        let now = Instant::now();
        let accepted = self.socket.accept();
        let accepted =
            accepted.and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| stream));
        match accepted {
            Ok(stream) => {
                if self.connections.len() == MAX_CONNECTIONS {
                    self.connections.remove(0);
                }
                let mut open = Connection {
                    stream,
                    deadline: now + self.patience,
                    state: State::Head(Vec::new()),
                };
                if open.advance(&self.page) {
                    self.connections.push(open);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) if is_not_now(&error) => {}
            // EMFILE, ENFILE, ENOBUFS, ENOMEM: the client stays in the queue, so poll(2) would
            // return at once.
            Err(_) => self.paused_until = Some(now + PAUSE),
        }
    }
}

struct Connection {
    stream: TcpStream,
    deadline: Instant,
    state: State,
}

enum State {
    Head(Vec<u8>),
    /// Response, and the number of bytes sent.
    Answer(Vec<u8>, usize),
}

impl Connection {
    fn awaited(&self) -> PollFlags {
        match self.state {
            State::Head(_) => PollFlags::IN,
            State::Answer(..) => PollFlags::OUT,
        }
    }

    /// Returns false if the connection is to be closed.
    fn advance(&mut self, page: impl Fn(&str) -> Option<(&'static str, String)>) -> bool {
        if let State::Head(head) = &mut self.state {
            let room = MAX_HEAD - head.len();
            let read = (&self.stream).take(room as u64).read_to_end(head);
            let has_more = match &read {
                Ok(_) => false,
                Err(error) if is_not_now(error) => true,
                Err(_) => return false,
            };
            match answer(head, page) {
                Some(bytes) => self.state = State::Answer(bytes, 0),
                None => return has_more,
            }
        }
        if let State::Answer(bytes, sent) = &mut self.state {
            while let Some(rest) = bytes.get(*sent..).filter(|rest| !rest.is_empty()) {
                match (&self.stream).write(rest) {
                    Ok(0) => return false,
                    Ok(written) => *sent += written,
                    Err(error) => return is_not_now(&error),
                }
            }
        }
        false
    }
}

/// Returns the answer to a request; `None` if its head is incomplete.
fn answer(head: &[u8], page: impl Fn(&str) -> Option<(&'static str, String)>) -> Option<Vec<u8>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(head);
    let failure = |status, text: &str| (status, (TEXT, text.to_owned()));
    let (status, (media_type, text)) = match parsed {
        Ok(httparse::Status::Complete(_)) => match (request.method, request.path) {
            (Some("GET"), Some(path)) => match page(path) {
                Some(page) => ("200 OK", page),
                None => failure("404 Not Found", "only /metrics is here\n"),
            },
            _ => failure("405 Method Not Allowed", "only GET is supported\n"),
        },
        Ok(httparse::Status::Partial) if head.len() < MAX_HEAD => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => failure(
            "431 Request Header Fields Too Large",
            "the head of the request is too large\n",
        ),
        Err(_) => failure("400 Bad Request", "not a request of HTTP/1\n"),
    };
    let length = text.len();
    let allow = match status.starts_with("405") {
        true => "allow: GET\r\n",
        false => "",
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\n{allow}content-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    );
    Some(answer.into_bytes())
}

fn is_not_now(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::iter;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    fn serve(size: usize, patience: Duration) -> SocketAddr {
        let page = move |path: &str| (path == "/metrics").then(|| ("text/plain", "x".repeat(size)));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = Listener::bind(any, page).unwrap();
        listener.patience = patience;
        let address = listener.socket.local_addr().unwrap();
        thread::spawn(move || listener.run());
        address
    }

    fn open(address: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // The listener may close before it has read everything.
        stream.write_all(request.as_bytes()).ok();
        stream
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut answer = Vec::new();
        match open(address, request).read_to_end(&mut answer) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => String::from_utf8(answer).unwrap(),
        }
    }

    #[track_caller]
    fn assert_serves(address: SocketAddr) {
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer:.100}");
        assert!(answer.ends_with("\r\n\r\nx"), "{answer:.100}");
    }

    #[test]
    fn requests_other_than_get_metrics_are_refused() {
        let address = serve(1, PATIENCE);
        let long = format!(
            "GET /metrics HTTP/1.1\r\na: {}\r\n\r\n",
            "x".repeat(MAX_HEAD)
        );
        let lines = format!(
            "GET /metrics HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(MAX_HEADERS + 1)
        );
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\u{16}\u{3}\u{1}", "400"),
            ("GET /metrics\r\n\r\n", "400"),
            (&lines, "431"),
            (&long[..MAX_HEAD], "431"),
        ] {
            let answer = ask(address, request);
            assert_eq!(
                answer.get(9..12),
                Some(status),
                "{request:.40?}: {answer:.100}"
            );
            assert_serves(address);
        }
    }

    #[test]
    fn announced_bodies_are_not_read_whatever_their_length() {
        let address = serve(1, PATIENCE);
        for length in [
            "70368744177664",
            "9223372036854775813",
            "1048576",
            "-1",
            "x",
        ] {
            for method in ["POST", "GET"] {
                let head =
                    format!("{method} /metrics HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
                let status = if method == "GET" { "200" } else { "405" };
                assert_eq!(ask(address, &head).get(9..12), Some(status), "{head}");
            }
            ask(
                address,
                &format!(
                    "POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\nabc"
                ),
            );
            assert_serves(address);
        }
        let chunked =
            "POST /metrics HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n";
        ask(address, chunked);
        assert_serves(address);
    }

    #[test]
    fn half_requests_lock_nobody_out() {
        let address = serve(1, PATIENCE);
        let half: Vec<TcpStream> = (0..532)
            .map(|at| open(address, if at % 2 == 0 { "GET /metr" } else { "" }))
            .collect();
        assert_serves(address);
        drop(half);
        assert_serves(address);
    }

    #[test]
    fn half_requests_end_with_the_patience() {
        let address = serve(1, Duration::from_millis(50));
        let mut rest = String::new();
        open(address, "GET /metrics HTTP/1.1\r\n")
            .read_to_string(&mut rest)
            .unwrap();
        assert_eq!(rest, "");
    }

    /// Larger than the buffers of a connection.
    const LARGE: usize = 32 << 20;

    #[test]
    fn answers_that_are_not_read_hold_nobody_up() {
        let address = serve(LARGE, Duration::from_secs(60));
        let slow = open(address, "GET /metrics HTTP/1.1\r\n\r\n");
        let answer = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.len() > LARGE);
        drop(slow);
    }

    #[test]
    fn answers_that_are_not_read_end_with_the_patience() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let page = |_: &str| Some(("text/plain", "x".repeat(LARGE)));
        let mut listener = Listener::bind(any, page).unwrap();
        listener.patience = Duration::ZERO;
        let address = listener.socket.local_addr().unwrap();
        let _slow = open(address, "GET /metrics HTTP/1.1\r\n\r\n");
        listener.step().unwrap();
        assert_eq!(listener.connections.len(), 1);
        let _next = open(address, "GET");
        listener.step().unwrap();
        assert_eq!(listener.connections.len(), 1);
        assert!(matches!(listener.connections[0].state, State::Head(_)));
    }

    #[test]
    fn without_descriptors_the_listener_waits_and_goes_on() {
        let name = "without_descriptors_the_listener_waits_and_goes_on";
        if !rprof_testing::in_environment(module_path!(), name, &[]) {
            return;
        }
        let address = serve(1, PATIENCE);
        assert_serves(address);
        let limit = Rlimit {
            current: Some(64),
            ..getrlimit(Resource::Nofile)
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        let open = || File::open("/dev/null");
        let mut files: Vec<File> = iter::from_fn(|| open().ok()).collect();
        drop(files.pop());
        let mut client = TcpStream::connect(address).unwrap();
        assert!(open().is_err());
        thread::sleep(3 * PAUSE);
        drop(files);
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nx"), "{answer}");
        assert_serves(address);
    }
}
