//! Metrics as Prometheus text, on loopback.

mod listener;

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::error::AgentError;
use crate::metrics::listener::Listener;
use crate::status::{DestinationStatus, Status};

/// Media type (Prometheus, "Exposition formats").
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

/// Value with name (without `rprof_agent_`), kind and description.
struct Metric<T> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&T) -> f64,
}

const fn gauge<T>(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Metric<T> {
    Metric {
        name,
        kind: "gauge",
        help,
        value,
    }
}

const fn counter<T>(name: &'static str, help: &'static str, value: fn(&T) -> f64) -> Metric<T> {
    Metric {
        name,
        kind: "counter",
        help,
        value,
    }
}

const OF_AGENT: [Metric<Status>; 9] = [
    gauge("recording", "1 while sampling.", |of| {
        f64::from(u8::from(of.state == "recording"))
    }),
    gauge("rate_hertz", "Samples a second of each CPU.", |of| {
        of.rate_hz.into()
    }),
    gauge(
        "wanted_rate_hertz",
        "Samples a second of each CPU, as configured.",
        |of| of.wanted_rate_hz.into(),
    ),
    counter("windows_total", "Windows that ended.", |of| {
        of.windows as f64
    }),
    counter("samples_total", "Samples in ended windows.", |of| {
        of.samples as f64
    }),
    counter(
        "lost_samples_total",
        "Records that the kernel lost.",
        |of| of.lost_samples as f64,
    ),
    gauge(
        "cpu_percent",
        "CPU time of the agent in the last window, in percent of a core.",
        |of| of.cpu_percent,
    ),
    gauge(
        "resident_memory_bytes",
        "Resident memory of the agent.",
        |of| of.memory_bytes as f64,
    ),
    gauge("spool_bytes", "Bytes in the spool.", |of| {
        of.spool_bytes as f64
    }),
];

const OF_DESTINATION: [Metric<DestinationStatus>; 7] = [
    gauge("queued_windows", "Windows waiting to be sent.", |to| {
        to.queued_windows as f64
    }),
    counter("lost_windows_total", "Windows lost.", |to| {
        to.lost_windows as f64
    }),
    counter(
        "sent_files_total",
        "Files accepted by the destination.",
        |to| to.sent.files as f64,
    ),
    counter(
        "sent_bytes_total",
        "Bytes accepted by the destination.",
        |to| to.sent.bytes as f64,
    ),
    counter("failed_tries_total", "Failed attempts to send.", |to| {
        to.sent.failures as f64
    }),
    counter(
        "refused_files_total",
        "Files refused by the destination.",
        |to| to.sent.refused as f64,
    ),
    gauge(
        "last_success_timestamp_seconds",
        "Time when the last file was accepted.",
        |to| to.sent.last_success.unwrap_or(0) as f64,
    ),
];

/// Formats a status as Prometheus text.
pub fn text(status: &Status) -> String {
    let mut text = String::new();
    for metric in OF_AGENT {
        describe(&metric, &mut text);
        let _ = writeln!(
            text,
            "rprof_agent_{} {}",
            metric.name,
            (metric.value)(status)
        );
    }
    for metric in OF_DESTINATION {
        describe(&metric, &mut text);
        for to in &status.destinations {
            let _ = writeln!(
                text,
                "rprof_agent_{}{{to=\"{}\",kind=\"{}\"}} {}",
                metric.name,
                to.name,
                to.kind,
                (metric.value)(to)
            );
        }
    }
    text
}

fn describe<T>(metric: &Metric<T>, text: &mut String) {
    let Metric {
        name, kind, help, ..
    } = metric;
    let _ = writeln!(
        text,
        "# HELP rprof_agent_{name} {help}\n# TYPE rprof_agent_{name} {kind}"
    );
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write as _};
    use std::net::TcpStream;

    use super::*;

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
