//! Failing servers: data within the retry policy is kept, and each loss is counted and reported.

use std::time::Duration;

use super::requests::recorded;
use crate::support::needs;
use crate::support::server::{ReadRequest, Reply, SERVERS, Sent, Server};

#[test]
fn nothing_is_lost_while_a_server_is_troubled() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("").samples();
    let push = |(kind, read): (&str, ReadRequest)| {
        let server = Server::start(&[
            Reply::Status(429, "retry-after: 1\r\n", Vec::new()),
            Reply::Status(503, "retry-after: 0\r\n", b"busy \x1b[2J".to_vec()),
            Reply::CutOff,
            Reply::CutAnswer,
        ]);
        let run = here
            .rprof("push --max-samples 4 --to")
            .words(kind)
            .arg(&server.url)
            .ok();
        run.says("status 429").says("status 503").is_clean();
        run.says("after 4 retries");
        let sent: Vec<Sent> = server.taken().iter().map(read).collect();
        assert_eq!(
            sent.iter().map(|sent| sent.samples).sum::<u64>(),
            all,
            "{run}"
        );
        let requests = server.requests();
        let waited = requests[1].at.duration_since(requests[0].at);
        assert!(waited >= Duration::from_secs(1), "{waited:?}");
        // A server can recognize a duplicate.
        assert!(requests[..5].iter().all(|one| one.body == requests[0].body));
    };
    std::thread::scope(|scope| {
        for server in SERVERS {
            let push = &push;
            scope.spawn(move || push(server));
        }
    });
}

#[test]
fn what_a_server_refuses_is_counted_and_the_rest_is_sent() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("").samples();
    for (kind, read) in SERVERS {
        let words = br#"{"code":"invalid_argument","message":"too \u001b[2Jold"}"#;
        let server = Server::start(&[Reply::Status(400, "", words.to_vec())]);
        let run = here
            .rprof("push --max-samples 1 --to")
            .words(kind)
            .arg(&server.url)
            .exits(1);
        let lost = read(&server.requests()[0]).samples;
        run.says(&format!("perf.data: {lost} sample"))
            .says("status 400: too")
            .is_clean();
        let taken = server.taken();
        let sent: u64 = taken.iter().map(|request| read(request).samples).sum();
        assert_eq!((lost > 0, sent + lost), (true, all), "{run}");
        assert_eq!(taken.len() + 1, server.requests().len(), "{run}");
    }
}

#[test]
fn nobody_waits_for_ever() {
    needs!(PerfEvents);
    let here = recorded();
    for (reply, words) in [
        (Reply::Hang, "no answer within 3 s"),
        (
            Reply::Status(503, "retry-after: 3600\r\n", Vec::new()),
            "status 503",
        ),
    ] {
        let server = Server::start(&[]);
        server.then(Some(reply));
        let run = here
            .rprof("push --timeout 3s --retry-for 100ms --to pyroscope")
            .arg(&server.url)
            .exits(1);
        run.says(words).says("not sent").is_clean();
        assert_eq!(server.requests().len(), 1, "{run}");
    }
    let run = here
        .rprof("push --retry-for 100ms --to parca http://127.0.0.1:1")
        .exits(1);
    run.says("not sent");
}

#[test]
fn nothing_else_is_sent_where_all_is_refused() {
    needs!(PerfEvents);
    let here = recorded();
    let all = here.report("").samples();
    for reply in [
        Reply::status(401),
        Reply::status(404),
        Reply::Status(302, "location: http://127.0.0.1:1/x\r\n", Vec::new()),
    ] {
        let server = Server::start(&[]);
        server.then(Some(reply));
        let run = here
            .rprof("push --max-samples 1 --to otlp")
            .arg(&server.url)
            .arg("perf.data")
            .arg("perf.data")
            .exits(1);
        assert_eq!(server.requests().len(), 1, "{run}");
        run.says(&format!("perf.data: {all} samples not sent: status"));
    }
}

#[test]
fn what_a_collector_rejects_is_lost_and_said() {
    needs!(PerfEvents);
    let here = recorded();
    // partial_success { rejected_profiles: 1, error_message: "no room" }
    let partial = b"\x0a\x0b\x08\x01\x12\x07no room".to_vec();
    let server = Server::start(&[Reply::Status(200, "", partial)]);
    here.rprof("push --to otlp")
        .arg(&server.url)
        .exits(1)
        .says("accepted in part: no room");
    // A message without a loss is no failure.
    let remark = b"\x0a\x09\x12\x07be brief".to_vec();
    let server = Server::start(&[Reply::Status(200, "", remark)]);
    here.rprof("push --to otlp").arg(&server.url).ok();
}
