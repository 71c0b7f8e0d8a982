//! Failing servers: recording continues, and each file arrives once or goes to quarantine.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::agent::Agent;
use crate::support::server::{Reply, Request, SERVERS, Server};
use crate::support::{c, needs, wait_until};

fn names(requests: &[Request]) -> Vec<String> {
    let name = |request: &Request| {
        request
            .path
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    requests.iter().map(name).collect()
}

#[test]
fn what_is_not_taken_is_sent_again_and_what_is_refused_is_not() {
    needs!(Root, PerfEvents);
    let no = b"<Error><Code>InvalidRequest</Code><Message>no \x1b[2J</Message></Error>";
    let server = Server::start(&[
        Reply::Status(429, "retry-after: 1\r\n", Vec::new()),
        Reply::Status(503, "retry-after: 0\r\n", b"busy".to_vec()),
        Reply::CutOff,
        Reply::Hang,
        Reply::Status(400, "", no.to_vec()),
    ]);
    let agent = Agent::into_bucket(1, &server.url);
    let running = agent.start();
    wait_until("all of it happened", || server.taken().len() > 8);
    let windows = agent.status().expect("a status")["windows"].as_u64();
    assert!(windows >= Some(2), "recording went on: {windows:?}");
    running.signal(Signal::TERM);
    let run = running.end();
    run.exits(0)
        .says("status 429")
        .says("in quarantine")
        .is_clean();
    let requests = server.requests();
    let names = names(&requests);
    // Retried until accepted or rejected.
    assert!(names[..5].iter().all(|name| *name == names[0]), "{names:?}");
    assert!(!names[5..].contains(&names[0]), "{names:?}");
    let waited = requests[1].at.duration_since(requests[0].at);
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    let taken: Vec<String> = self::names(&server.taken());
    assert_eq!(
        taken.iter().collect::<BTreeSet<_>>().len(),
        taken.len(),
        "each once"
    );
    let quarantine = agent.files("spool/s3/quarantine");
    assert_eq!(quarantine.len(), 2, "{quarantine:?}");
    let why = quarantine
        .iter()
        .find(|file| file.ends_with(".why"))
        .expect("a reason");
    let why = fs::read_to_string(agent.here.path("spool/s3/quarantine").join(why)).expect("text");
    assert!(
        why.starts_with("status 400: InvalidRequest") && !why.contains('\x1b'),
        "{why}"
    );
    for file in agent.files("spool") {
        let bytes = fs::read(agent.here.path("spool").join(file)).expect("a file");
        assert!(!bytes.windows(6).any(|six| six == b"s3cret"));
    }
    assert!(
        !run.err().contains("s3cret") && !run.err().contains("X-Amz"),
        "{run}"
    );
}

#[test]
fn recording_goes_on_while_a_server_hangs_and_ends_in_time() {
    needs!(Root, PerfEvents);
    let server = Server::start(&[]);
    server.then(Some(Reply::Hang));
    let agent = Agent::into_bucket(1, &server.url);
    let running = agent.start();
    agent.wait_for_windows(&running, 4);
    running.signal(Signal::TERM);
    running.end().exits(0).says("stopped");
    let status = agent.status().expect("a status");
    let to = &status["destinations"][0];
    assert!(to["queued_windows"].as_u64() >= Some(4), "{to}");
    assert_eq!(to["lost_windows"], 0, "{to}");
    server.then(None);
    let before = server.requests().len();
    let running = agent.start();
    wait_until("all is sent", || {
        let status = agent.status();
        // The status is updated when a window is stored, which is then still queued.
        status.is_some_and(|s| {
            let queued = s["destinations"][0]["queued_windows"].as_u64();
            queued <= Some(1) && s["windows"] != 0
        })
    });
    let names = names(&server.requests()[before..]);
    running.signal(Signal::TERM);
    running.end().exits(0);
    let hosts: Vec<&String> = names
        .iter()
        .filter(|name| name.contains("/hosts/"))
        .collect();
    assert!(hosts.len() >= 5 && hosts.is_sorted(), "{hosts:?}");
}

#[test]
fn servers_of_profiles_get_one_of_each_service() {
    needs!(Root, PerfEvents);
    for (kind, read) in SERVERS {
        let server = Server::start(&[]);
        let agent = Agent::new(1, "");
        agent.append(&format!(
            "[[to]]\nkind = {kind:?}\nurl = {:?}\nlabels = [\"team=a\"]\n\
             [[identity.rule]]\nexe = \"*/shares\"\nservice = \"checkout\"\nversion = \"1.4\"\n",
            server.url
        ));
        let program = c("shares.c");
        let shop = agent
            .here
            .sh(&format!("while :; do {} 1 >out; done", program.display()))
            .start();
        let running = agent.start();
        let label = match kind {
            "otlp" => "service.name",
            _ => "service_name",
        };
        wait_until("its profile is taken", || {
            let sent = server.taken();
            let mut sent = sent.iter().map(read);
            sent.any(|sent| {
                sent.labels
                    .get(label)
                    .is_some_and(|name| name == "checkout")
                    && sent.samples > 20
            })
        });
        running.signal(Signal::TERM);
        running.end().exits(0).is_clean();
        shop.signal(Signal::KILL);
        for sent in server.taken().iter().map(read) {
            assert_eq!(sent.labels["team"], "a", "{kind}");
            assert!(sent.samples > 0, "{kind}");
        }
    }
}
