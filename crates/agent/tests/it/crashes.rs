//! Killed agents: no duplicates, no partial windows, and every lost window is counted.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::agent::Agent;
use crate::support::server::{Reply, Server, by_pyroscope};
use crate::support::{needs, wait_until};

#[test]
fn a_kill_in_a_window_loses_that_one_and_tells_of_it_once() {
    needs!(Root, PerfEvents, Oracles);
    let agent = Agent::into_folder(1);
    for _ in 0..3 {
        let running = agent.start();
        agent.wait_for_windows(&running, 2);
        running.signal(Signal::KILL);
        running.end();
    }
    let running = agent.start();
    agent.wait_for_windows(&running, 2);
    running.signal(Signal::TERM);
    running.end().exits(0);
    let rows = agent.query(
        "data",
        "SELECT count(*)::BIGINT, count(DISTINCT window_start)::BIGINT, sum(lost_windows)::BIGINT FROM {hosts}",
    );
    let lost = agent.status().expect("a status")["destinations"][0]["lost_windows"].as_u64();
    assert_eq!(rows[0][0], rows[0][1], "no window is there twice: {rows:?}");
    // Each kill hit a window being recorded; another may have been queued.
    assert_eq!(rows[0][2].as_u64(), lost);
    assert!((3..=6).contains(&lost.expect("a number")), "{lost:?}");
    let sums = agent.query(
        "data",
        "SELECT (SELECT sum(samples) FROM {samples})::BIGINT, (SELECT sum(samples) FROM {hosts})::BIGINT",
    );
    assert_eq!(sums[0][0], sums[0][1]);
    let strays = agent.files("data");
    assert!(
        strays
            .iter()
            .all(|file| file.ends_with(".parquet") && !file.contains("/.")),
        "{strays:?}"
    );
    assert!(agent.files("spool/folder/queue").is_empty());
}

/// Kills the agent while the server hangs at its second request, and runs it again for two windows.
fn kill_while_sending(agent: &Agent, server: &Server) {
    let running = agent.start();
    wait_until("the server hangs", || server.requests().len() == 2);
    running.signal(Signal::KILL);
    running.end();
    let running = agent.start();
    agent.wait_for_windows(&running, 2);
    running.signal(Signal::TERM);
    running.end().exits(0);
}

#[test]
fn a_kill_while_an_object_is_sent_sends_the_same_object_again() {
    needs!(Root, PerfEvents);
    let server = Server::start(&[Reply::status(200), Reply::Hang]);
    let agent = Agent::into_bucket(1, &server.url);
    kill_while_sending(&agent, &server);
    let mut objects: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let requests = server.requests();
    for request in &requests {
        assert_eq!(request.method, "PUT");
        let (name, signature) = request.path.split_once('?').expect("a signature");
        assert!(signature.contains("X-Amz-Signature="));
        let before = objects.insert(name.to_owned(), request.body.clone());
        assert!(before.is_none_or(|before| before == request.body), "{name}");
    }
    let interrupted = requests[1].path.split('?').next().expect("a name");
    let again = requests[2..]
        .iter()
        .filter(|r| r.path.starts_with(interrupted) && r.status == 200);
    assert_eq!(again.count(), 1);
    assert!(objects.keys().all(|name| name.starts_with("/fleet/a/")));
}

#[test]
fn a_kill_while_a_profile_is_sent_does_not_count_it_twice() {
    needs!(Root, PerfEvents);
    let server = Server::start(&[Reply::status(200), Reply::Hang]);
    let agent = Agent::new(1, "");
    agent.append(&format!(
        "[[to]]\nkind = \"pyroscope\"\nurl = {:?}\n",
        server.url
    ));
    kill_while_sending(&agent, &server);
    let requests = server.requests();
    let interrupted = &requests[1].body;
    assert!(
        requests[2..]
            .iter()
            .all(|request| request.body != *interrupted)
    );
    let lost = agent.status().expect("a status")["destinations"][0]["lost_windows"].as_u64();
    assert!(
        lost >= Some(2),
        "that in flight, and that which was recorded: {lost:?}"
    );
    for request in server.taken() {
        let sent = by_pyroscope(&request);
        assert!(
            sent.labels.contains_key("service_name"),
            "{:?}",
            sent.labels
        );
        assert_eq!(sent.labels["host_name"], "web-1");
    }
}
