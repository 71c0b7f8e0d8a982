//! Metrics as Prometheus text, on loopback.

mod listener;

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::error::AgentError;
use crate::metrics::listener::Listener;
use crate::status::Status;

/// Media type of the text format (Prometheus, "Exposition formats").
const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Starts a thread that serves `GET /metrics` with the current status.
///
/// # Errors
/// [`AgentError::Metrics`], [`AgentError::System`].
pub fn serve(address: std::net::SocketAddr, status: Arc<Mutex<Status>>) -> Result<(), AgentError> {
    let page = move |path: &str| {
        // Prometheus appends configured parameters to the path.
        let path = path.split('?').next();
        let text = || text(&status.lock().unwrap_or_else(PoisonError::into_inner));
        (path == Some("/metrics")).then(|| (TYPE, text()))
    };
    let listener = Listener::bind(address, page).map_err(|error| AgentError::Metrics {
        address: address.to_string(),
        why: error.to_string(),
    })?;
    let thread = thread::Builder::new().name("metrics".to_owned());
    (thread.spawn(move || listener.run()).map(drop)).map_err(AgentError::System)
}

/// Formats a status as Prometheus text.
pub fn text(status: &Status) -> String {
    let mut text = String::new();
    let mut add = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let _ = writeln!(
            text,
            "# HELP rprof_agent_{name} {help}\n# TYPE rprof_agent_{name} {kind}"
        );
        for (labels, value) in values {
            let _ = writeln!(text, "rprof_agent_{name}{labels} {value}");
        }
    };
    let one = |value: f64| [(String::new(), value)];
    let is_recording = f64::from(u8::from(status.state == "recording"));
    add(
        "recording",
        "gauge",
        "1 while sampling.",
        &one(is_recording),
    );
    add(
        "rate_hertz",
        "gauge",
        "Samples a second of each CPU.",
        &one(status.rate_hz.into()),
    );
    add(
        "wanted_rate_hertz",
        "gauge",
        "Samples a second of each CPU, as configured.",
        &one(status.wanted_rate_hz.into()),
    );
    add(
        "windows_total",
        "counter",
        "Windows that ended.",
        &one(status.windows as f64),
    );
    add(
        "samples_total",
        "counter",
        "Samples in ended windows.",
        &one(status.samples as f64),
    );
    add(
        "lost_samples_total",
        "counter",
        "Records that the kernel lost.",
        &one(status.lost_samples as f64),
    );
    add(
        "cpu_percent",
        "gauge",
        "CPU time of the agent in the last window, in percent of a core.",
        &one(status.cpu_percent),
    );
    add(
        "resident_memory_bytes",
        "gauge",
        "Resident memory of the agent.",
        &one(status.memory_bytes as f64),
    );
    add(
        "spool_bytes",
        "gauge",
        "Bytes in the spool.",
        &one(status.spool_bytes as f64),
    );
    type Get = fn(&crate::status::DestinationStatus) -> f64;
    let of_destinations: [(&str, &str, &str, Get); 7] = [
        (
            "queued_windows",
            "gauge",
            "Windows waiting to be sent.",
            |to| to.queued_windows as f64,
        ),
        ("lost_windows_total", "counter", "Windows lost.", |to| {
            to.lost_windows as f64
        }),
        (
            "sent_files_total",
            "counter",
            "Files accepted by the destination.",
            |to| to.sent.files as f64,
        ),
        (
            "sent_bytes_total",
            "counter",
            "Bytes accepted by the destination.",
            |to| to.sent.bytes as f64,
        ),
        (
            "failed_tries_total",
            "counter",
            "Failed attempts to send.",
            |to| to.sent.failures as f64,
        ),
        (
            "refused_files_total",
            "counter",
            "Files refused by the destination.",
            |to| to.sent.refused as f64,
        ),
        (
            "last_success_timestamp_seconds",
            "gauge",
            "Time when the last file was accepted.",
            |to| to.sent.last_success.unwrap_or(0) as f64,
        ),
    ];
    for (name, kind, help, get) in of_destinations {
        let values: Vec<(String, f64)> = (status.destinations.iter())
            .map(|to| {
                (
                    format!("{{to=\"{}\",kind=\"{}\"}}", to.name, to.kind),
                    get(to),
                )
            })
            .collect();
        add(name, kind, help, &values);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::status::DestinationStatus;

    #[test]
    fn the_page_answers_on_loopback() {
        let status = Status {
            rate_hz: 19,
            state: "recording".into(),
            destinations: vec![DestinationStatus {
                name: "fleet".into(),
                kind: "s3".into(),
                lost_windows: 3,
                ..DestinationStatus::default()
            }],
            ..Status::default()
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        serve(address, Arc::new(Mutex::new(status))).unwrap();
        let get = |path: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            )
            .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let page = get("/metrics");
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("text/plain; version=0.0.4"));
        for line in [
            "rprof_agent_rate_hertz 19\n",
            "rprof_agent_recording 1\n",
            "rprof_agent_lost_windows_total{to=\"fleet\",kind=\"s3\"} 3\n",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(get("/").starts_with("HTTP/1.1 404"));
        assert!(serve(address, Arc::default()).is_err());
    }
}
