//! A server that accepts requests, or fails as configured.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use serde_json::Value;

use super::wire::{Field, Message};

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends a status, headers and a body.
    Status(u16, &'static str, Vec<u8>),
    Hang,
    /// Closes the connection without a response.
    CutOff,
    CutAnswer,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Reply {
        Reply::Status(status, "", Vec::new())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Status of the response; 0 if there was none.
    pub(crate) status: u16,
    pub(crate) at: Instant,
}

#[derive(Default)]
struct State {
    replies: Vec<Reply>,
    then: Option<Reply>,
    requests: Vec<Request>,
}

pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    /// Sends these replies, and then accepts everything.
    pub(crate) fn start(replies: &[Reply]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let state = Arc::new(Mutex::new(State {
            replies: replies.iter().rev().cloned().collect(),
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Server { url, state }
    }

    /// Sets the response after the last reply. `None` accepts everything.
    pub(crate) fn then(&self, reply: Option<Reply>) {
        self.state().then = reply;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    pub(crate) fn taken(&self) -> Vec<Request> {
        let mut all = self.requests();
        all.retain(|request| request.status == 200);
        all
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let Some(mut request) = read(&mut stream) else {
        return;
    };
    let reply = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.replies.pop().or_else(|| state.then.clone());
        let reply = next.unwrap_or_else(|| Reply::status(200));
        request.status = match &reply {
            Reply::Status(status, ..) => *status,
            _ => 0,
        };
        state.requests.push(request);
        reply
    };
    match reply {
        Reply::Status(status, headers, body) => {
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
                body.len()
            );
            stream.write_all(&[head.as_bytes(), &body].concat()).ok();
        }
        Reply::Hang => std::thread::sleep(Duration::from_secs(600)),
        Reply::CutOff => {}
        Reply::CutAnswer => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf";
            stream.write_all(head).ok();
        }
    }
}

fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 << 10];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        let len = stream.read(&mut buffer).ok().filter(|len| *len > 0)?;
        bytes.extend_from_slice(&buffer[..len]);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("headers are text");
    let mut lines = head.split("\r\n");
    let first: Vec<&str> = lines.next()?.split(' ').collect();
    assert_eq!(first[2], "HTTP/1.1", "{head}");
    let headers: BTreeMap<String, String> = lines
        .map(|line| line.split_once(':').expect("a header"))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let len = headers.get("content-length").filter(|_| first[0] != "HEAD");
    let len: usize = len.map_or(0, |len| len.parse().expect("a length"));
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < len {
        let len = stream.read(&mut buffer).ok().filter(|len| *len > 0)?;
        body.extend_from_slice(&buffer[..len]);
    }
    Some(Request {
        method: first[0].to_owned(),
        path: first[1].to_owned(),
        headers,
        body,
        status: 0,
        at: Instant::now(),
    })
}

#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) rows: usize,
    /// Counts and weights of all samples.
    pub(crate) samples: u64,
    pub(crate) weight: u64,
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    pub(crate) strings: Vec<String>,
    pub(crate) shown: (String, String),
}

fn check_headers(request: &Request, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(request.headers[*name], *value, "{request:?}");
    }
    assert!(request.headers["user-agent"].starts_with("rprof/"));
}

/// Parses `push.v1.PushRequest` in a unary call of the Connect protocol.
pub(crate) fn by_pyroscope(request: &Request) -> Sent {
    assert_eq!(request.path, "/push.v1.PusherService/Push");
    check_headers(
        request,
        &[
            ("content-type", "application/proto"),
            ("connect-protocol-version", "1"),
        ],
    );
    let push = Message::read(&request.body, "PushRequest", &[1]);
    let series = Message::read(push.one(1).bytes(), "RawProfileSeries", &[1, 2]);
    let mut labels = BTreeMap::new();
    for label in series.all(1) {
        let pair = Message::read(label.bytes(), "LabelPair", &[1, 2]);
        let twice = labels.insert(pair.one(1).text(), pair.one(2).text());
        assert_eq!(twice, None, "two labels of a name");
    }
    // pkg/validation/validate.go of Pyroscope.
    assert!(!labels["service_name"].is_empty() && labels.len() <= 30);
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    assert!(labels["__name__"].starts_with(is_first));
    let sample = Message::read(series.one(2).bytes(), "RawSample", &[1]);
    let profile = sample.one(1).bytes();
    let sent = check_pprof(profile, labels);
    assert!(sent.rows <= 16_000, "{} samples", sent.rows);
    sent
}

/// Parses `WriteRawRequest` as JSON.
pub(crate) fn by_parca(request: &Request) -> Sent {
    use base64::Engine;

    assert_eq!(request.path, "/api/profiles/writeraw");
    check_headers(request, &[("content-type", "application/json")]);
    let json: Value = serde_json::from_slice(&request.body).expect("JSON");
    let keys = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(keys(&json), ["normalized", "series", "tenant"]);
    assert_eq!(json["normalized"], true);
    let [series] = &json["series"].as_array().expect("series")[..] else {
        panic!("one series was expected: {json}");
    };
    assert_eq!(keys(series), ["labels", "samples"]);
    let mut labels = BTreeMap::new();
    for label in series["labels"]["labels"].as_array().expect("labels") {
        assert_eq!(keys(label), ["name", "value"]);
        let text = |key: &str| label[key].as_str().expect("text").to_owned();
        labels.insert(text("name"), text("value"));
    }
    assert!(!labels["__name__"].is_empty());
    let samples = &series["samples"];
    assert_eq!(keys(&samples[0]), ["rawProfile"]);
    let profile = samples[0]["rawProfile"].as_str().expect("text");
    let profile = base64::engine::general_purpose::STANDARD.decode(profile);
    check_pprof(&profile.expect("base64"), labels)
}

/// Checks more strictly than Pyroscope and Parca (pkg/validation/validate.go,
/// pkg/normalizer/validate.go).
fn check_pprof(gzip: &[u8], labels: BTreeMap<String, String>) -> Sent {
    let mut bytes = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut bytes).expect("gzip");
    assert!(bytes.len() <= 16 << 20, "{} bytes", bytes.len());
    let known = [1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14];
    let profile = Message::read(&bytes, "Profile", &known);
    let strings: Vec<String> = profile.all(6).map(Field::text).collect();
    assert_eq!(strings[0], "");
    let string = |index: u64| strings[index as usize].as_str();
    let types: Vec<(u64, u64)> = profile
        .all(1)
        .map(|field| Message::read(field.bytes(), "ValueType", &[1, 2]))
        .map(|kind| (kind.number(1), kind.number(2)))
        .collect();
    assert!(types.iter().all(|(name, _)| !string(*name).contains('-')));
    let table = |tag: u64, name: &str, known: &[u64]| -> Vec<Message> {
        let rows: Vec<Message> = profile
            .all(tag)
            .map(|field| Message::read(field.bytes(), name, known))
            .collect();
        for (row, id) in rows.iter().zip(1..) {
            assert_eq!(row.number(1), id, "ids of {name} are in order");
        }
        rows
    };
    let mappings = table(3, "Mapping", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let locations = table(4, "Location", &[1, 2, 3, 4]);
    let functions = table(5, "Function", &[1, 2, 3, 4, 5]);
    for location in &locations {
        assert!(location.number(2) <= mappings.len() as u64);
        for line in location.all(4) {
            let line = Message::read(line.bytes(), "Line", &[1, 2, 3]);
            assert!((1..=functions.len() as u64).contains(&line.number(1)));
        }
    }
    for function in &functions {
        assert!(!string(function.number(2)).is_empty());
    }
    let (mut rows, mut samples, mut weight) = (0, 0, 0);
    for sample in profile.all(2) {
        let sample = Message::read(sample.bytes(), "Sample", &[1, 2, 3]);
        let ids = sample.packed(1);
        assert!(!ids.is_empty() && ids.len() <= 1_000);
        assert!(
            ids.iter()
                .all(|id| (1..=locations.len() as u64).contains(id))
        );
        let values = sample.packed(2);
        assert_eq!(values.len(), types.len());
        for label in sample.all(3) {
            let label = Message::read(label.bytes(), "Label", &[1, 2, 3]);
            assert!(!string(label.number(1)).is_empty());
        }
        (rows, samples, weight) = (rows + 1, samples + values[0], weight + values[1]);
    }
    let shown = string(profile.number(14)).to_owned();
    let unit = types.iter().find(|(name, _)| string(*name) == shown);
    let unit = string(unit.expect("the default is one of the types").1).to_owned();
    Sent {
        labels,
        rows,
        samples,
        weight,
        time: profile.number(9),
        shown: (shown, unit),
        strings,
    }
}

/// `ExportProfilesServiceRequest`, with the fields of proto 1.10.
pub(crate) fn by_collector(request: &Request) -> Sent {
    assert_eq!(request.path, "/v1development/profiles");
    check_headers(
        request,
        &[
            ("content-type", "application/x-protobuf"),
            ("content-encoding", "gzip"),
        ],
    );
    let mut bytes = Vec::new();
    GzDecoder::new(&request.body[..])
        .read_to_end(&mut bytes)
        .expect("gzip");
    let export = Message::read(&bytes, "ExportProfilesServiceRequest", &[1, 2]);
    let dictionary = export.one(2).bytes();
    let dictionary = Message::read(dictionary, "ProfilesDictionary", &[1, 2, 3, 4, 5, 6, 7]);
    let strings: Vec<String> = dictionary.all(5).map(Field::text).collect();
    assert_eq!(strings[0], "");
    let of_resource = Message::read(export.one(1).bytes(), "ResourceProfiles", &[1, 2]);
    let resource = Message::read(of_resource.one(1).bytes(), "Resource", &[1]);
    let mut labels = BTreeMap::new();
    for attribute in resource.all(1) {
        let attribute = Message::read(attribute.bytes(), "KeyValue", &[1, 2]);
        let value = Message::read(attribute.one(2).bytes(), "AnyValue", &[1]);
        labels.insert(attribute.one(1).text(), value.one(1).text());
    }
    let scope = Message::read(of_resource.one(2).bytes(), "ScopeProfiles", &[1, 2]);
    let (mut rows, mut samples, mut time) = (0, 0, 0);
    let mut shown = (String::new(), String::new());
    for profile in scope.all(2) {
        let profile = Message::read(profile.bytes(), "Profile", &[1, 2, 3, 4, 5, 6]);
        time = profile.number(3);
        let kind = Message::read(profile.one(1).bytes(), "ValueType", &[1, 2]);
        let string = |tag: u64| strings[kind.number(tag) as usize].clone();
        shown = (string(1), string(2));
        for sample in profile.all(2) {
            let sample = Message::read(sample.bytes(), "Sample", &[1, 2, 4]);
            let stacks = dictionary.all(7).count() as u64;
            assert!((1..stacks).contains(&sample.number(1)));
            let values = sample.packed(4);
            assert_eq!(values.len(), 1);
            (rows, samples) = (rows + 1, samples + values[0]);
        }
    }
    Sent {
        labels,
        rows,
        samples,
        weight: 0,
        time,
        shown,
        strings,
    }
}

/// Panics where the server would reject the request.
pub(crate) type ReadRequest = fn(&Request) -> Sent;

/// Kinds of servers, and their parsers.
pub(crate) const SERVERS: [(&str, ReadRequest); 3] = [
    ("pyroscope", by_pyroscope),
    ("parca", by_parca),
    ("otlp", by_collector),
];
