//! Requests as received by servers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::server::{Reply, SERVERS, Sent, Server, by_pyroscope};
use crate::support::{Here, c, needs};

pub(crate) fn recorded() -> Here {
    let here = Here::new();
    here.record("-F 999 -g -e cpu-clock:u", &c("threads.c"), "0.2");
    here
}

#[test]
fn every_server_gets_every_sample() {
    needs!(PerfEvents);
    let here = recorded();
    let report = here.report("");
    let event = report.only();
    for (kind, read) in SERVERS {
        let server = Server::start(&[]);
        let run = here
            .rprof("push --label version=1.4.2 --label service_name=checkout --to")
            .words(kind)
            .arg(&server.url)
            .ok();
        run.says("sent perf.data").says("in 1 request,").is_clean();
        let requests = server.requests();
        assert_eq!(requests.len(), 1, "{run}");
        let sent = read(&requests[0]);
        assert_eq!(sent.samples, event.samples, "{kind}");
        if kind != "otlp" {
            assert_eq!(sent.weight, event.weight, "{kind}");
            assert_eq!(sent.labels["__name__"], "process_cpu");
        }
        let service = if kind == "otlp" {
            "service.name"
        } else {
            "service_name"
        };
        assert_eq!(sent.labels[service], "checkout");
        assert_eq!(sent.labels["version"], "1.4.2");
        assert!(sent.strings.iter().any(|name| name == "work_left"));
        // Servers sort by it.
        let time = UNIX_EPOCH + Duration::from_nanos(sent.time);
        let age = SystemTime::now().duration_since(time).expect("in the past");
        assert!(age < Duration::from_secs(3600), "{age:?}");
    }
}

#[test]
fn samples_weigh_what_is_asked_for() {
    needs!(PerfEvents);
    let here = recorded();
    here.record(
        "-o faults.data -g -c 1 -e page-faults:u",
        &c("shares.c"),
        "0.1",
    );
    for (recording, by_period) in [
        ("perf.data", ("cpu", "nanoseconds")),
        ("faults.data", ("page_faults:u", "count")),
    ] {
        let report = here.report(&format!("-i {recording}"));
        let event = report.only();
        for (weight, wanted) in [
            ("", by_period),
            ("--weight period", by_period),
            ("--weight samples", ("samples", "count")),
        ] {
            for (kind, read) in SERVERS {
                let server = Server::start(&[]);
                let push = here.rprof("push --to").words(kind).words(weight);
                push.arg(&server.url).arg(recording).ok();
                let requests = server.requests();
                assert_eq!(requests[0].method, "POST", "{kind}");
                let sent = read(&requests[0]);
                // In OpenTelemetry, a clock event always has sample counts.
                let shown = match (kind, recording) {
                    ("otlp", "perf.data") => ("samples", "count"),
                    _ => wanted,
                };
                let found = (&*sent.shown.0, &*sent.shown.1);
                assert_eq!(found, shown, "{kind} {recording} {weight}");
                assert_eq!(sent.samples, event.samples, "{kind} {recording} {weight}");
                if kind != "otlp" {
                    assert_eq!(sent.weight, event.weight, "{kind} {recording} {weight}");
                }
            }
        }
    }
}

#[test]
fn the_service_is_the_program_unless_it_has_a_name() {
    needs!(PerfEvents);
    let here = recorded();
    let server = Server::start(&[]);
    here.rprof("push --to pyroscope --labels thread,pid,mode,cpu --tenant team")
        .arg(&server.url)
        .ok();
    let requests = server.requests();
    assert_eq!(requests[0].headers["x-scope-orgid"], "team");
    let sent = by_pyroscope(&requests[0]);
    assert_eq!(sent.labels["service_name"], "unknown_service:threads");
    for string in ["comm", "pid", "mode", "cpu", "user"] {
        assert!(sent.strings.iter().any(|known| known == string), "{string}");
    }
}

#[test]
fn what_is_too_large_is_sent_in_parts() {
    let here = Here::new();
    let stacks: String = (0..60)
        .map(|nth| format!("main;work{nth};leaf{nth} {}\n", nth + 1))
        .collect();
    std::fs::write(here.path("x.folded"), &stacks).expect("it can be written");
    let all: u64 = (1..=60).sum();
    for (kind, read) in SERVERS {
        for (limit, too_large) in [
            ("--max-samples 7", None),
            ("--max-bytes 1K", None),
            ("", Some(Reply::status(413))),
        ] {
            let replies: Vec<Reply> = too_large.iter().cloned().collect();
            let server = Server::start(&replies);
            let push = here.rprof("push --to").words(kind).words(limit);
            let run = push.arg(&server.url).arg("x.folded").ok();
            let sent: Vec<Sent> = server.taken().iter().map(read).collect();
            let taken: u64 = sent.iter().map(|sent| sent.samples).sum();
            assert_eq!(taken, all, "{run}");
            let rows: Vec<usize> = sent.iter().map(|sent| sent.rows).collect();
            assert_eq!(rows.iter().sum::<usize>(), 60, "{run}");
            assert!(rows.len() > 1, "{run}");
            if limit == "--max-samples 7" {
                assert!(
                    rows.len() == 9 && rows.iter().all(|rows| *rows <= 7),
                    "{rows:?}"
                );
            }
        }
        // A single stack cannot be split.
        let long = format!("{stacks}main;{} 1000\n", "x".repeat(2_000));
        std::fs::write(here.path("y.folded"), long).expect("it can be written");
        let server = Server::start(&[]);
        let push = here.rprof("push --max-bytes 1K --to").words(kind);
        let run = push.arg(&server.url).arg("y.folded").exits(1);
        run.says("1,000 samples lost: one stack needs");
        let sent = server.taken();
        let taken: u64 = sent.iter().map(|request| read(request).samples).sum();
        assert_eq!(taken, all, "{run}");
    }
}

#[test]
fn a_dry_run_shows_what_would_be_sent_and_sends_nothing() {
    needs!(PerfEvents);
    let here = recorded();
    std::fs::write(here.path("token"), "s3cret\n").expect("it can be written");
    for (kind, path) in [
        ("pyroscope", "/push.v1.PusherService/Push"),
        ("parca", "/api/profiles/writeraw"),
        ("otlp", "/v1development/profiles"),
    ] {
        let server = Server::start(&[]);
        let run = here
            .rprof("push --dry-run --token-file token --label pod=a --to")
            .words(kind)
            .arg(&server.url)
            .ok();
        run.prints(&format!("POST {}{path}", server.url))
            .prints("pod=\"a\"")
            .prints("authorization: (from token)")
            .prints("  request 1: ")
            .prints(" UTC, for ")
            .is_clean();
        assert!(!run.out().contains("s3cret") && !run.err().contains("s3cret"));
        assert!(server.requests().is_empty());
    }
}

#[test]
fn credentials_come_from_files_and_go_to_no_stranger() {
    needs!(PerfEvents);
    let here = recorded();
    let secret = |name: &str, text: &str| {
        std::fs::write(here.path(name), text).expect("it can be written");
    };
    secret("token", "s3cret\n");
    secret("basic", "me:word\n");
    secret("headers", "X-Scope-OrgID: team\nX-More: of it\n");
    let server = Server::start(&[]);
    let run = here
        .rprof("push --to otlp --token-file token --header-file headers")
        .arg(&server.url)
        .ok();
    // The umask may have made the file private.
    assert!(!run.err().contains("s3cret"), "{run}");
    here.rprof("push --to otlp --basic-auth-file basic")
        .arg(&server.url)
        .ok();
    let requests = server.requests();
    assert_eq!(requests[0].headers["authorization"], "Bearer s3cret");
    assert_eq!(requests[0].headers["x-scope-orgid"], "team");
    assert_eq!(requests[0].headers["x-more"], "of it");
    assert_eq!(requests[1].headers["authorization"], "Basic bWU6d29yZA==");
    // An unused address (RFC 5737).
    here.rprof("push --to otlp --token-file token http://192.0.2.1:1")
        .exits(2)
        .says("unencrypted");
    let run = here
        .rprof("push --to otlp http://me:s3cret@localhost/")
        .exits(2);
    run.says("credentials");
    assert!(!run.err().contains("s3cret"), "{run}");
    here.rprof("push --to otlp --token-file none")
        .arg(&server.url)
        .exits(2)
        .says("cannot read none");
    here.rprof("push --to otlp ftp://x")
        .exits(2)
        .says("not an http");
    here.rprof("push --to otlp --label __name__=x http://x")
        .exits(2)
        .says("reserved for the server");
}

#[test]
fn hostile_names_go_nowhere() {
    let here = Here::new();
    std::fs::write(here.path("x.folded"), "main;e\u{1b}[2Jvil\u{202e} 12\n")
        .expect("it can be written");
    for (kind, read) in SERVERS {
        let server = Server::start(&[]);
        here.rprof("push --to")
            .words(kind)
            .arg(&server.url)
            .arg("x.folded")
            .ok()
            .is_clean();
        let sent = read(&server.requests()[0]);
        let is_bad = |c: char| c.is_control() || c == '\u{202e}';
        assert!(sent.strings.iter().any(|name| name.contains("vil")));
        assert!(!sent.strings.iter().any(|name| name.contains(is_bad)));
        assert_eq!(sent.samples, 12);
    }
}

#[test]
fn innermost_frames_of_deep_stacks_are_kept() {
    let here = Here::new();
    let deep: Vec<String> = (0..1_500).map(|depth| format!("f{depth}")).collect();
    std::fs::write(here.path("x.folded"), format!("{} 3\n", deep.join(";")))
        .expect("it can be written");
    let server = Server::start(&[]);
    here.rprof("push --to pyroscope")
        .arg(&server.url)
        .arg("x.folded")
        .ok()
        .says("1 stack sent without outer frames");
    // The server truncates deeper stacks at the other end.
    let sent = by_pyroscope(&server.requests()[0]);
    assert_eq!(sent.samples, 3);
    let has = |name: &str| sent.strings.iter().any(|known| known == name);
    assert!(has("f1499") && has("f500") && !has("f499"));
}
