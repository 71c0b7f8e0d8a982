//! Loopback server with responses scripted by tests, byte by byte.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

/// Listens until the end of the test.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Receiver<String>,
}

impl Server {
    /// Each connection serves one request. `answer` receives the path, and writes the response.
    pub(crate) fn new(
        answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Clone + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, sender, answer) =
                    (stream.unwrap(), sender.clone(), answer.clone());
                std::thread::spawn(move || {
                    let path = request(&mut stream);
                    sender.send(path.clone()).ok();
                    // The client may disconnect early.
                    answer(&path, &mut stream).ok();
                });
            }
        });
        Server { url, requests }
    }

    pub(crate) fn wait_until_asked(&self) {
        (self.requests.recv()).expect("the server runs as long as this");
    }

    /// Paths requested since the last call.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}

/// Reads a request to its end, and returns its path.
fn request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|len| len == 1) {
        text.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&text);
    text.split(' ').nth(1).unwrap_or_default().into()
}

pub(crate) fn reply(stream: &mut TcpStream, status: &str, body: &[u8]) -> std::io::Result<()> {
    let len = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}
