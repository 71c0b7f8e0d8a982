//! `rprof push --follow`: uploads the finished files of a recorder, one by one.

use std::path::Path;

use rustix::process::Signal;

use super::requests::recorded;
use crate::support::server::{Reply, Server, by_pyroscope};
use crate::support::{Here, Running, c, needs, wait_until};

fn follow(here: &Here, server: &Server) -> Running {
    here.rprof("push --to pyroscope --follow rec.data")
        .arg(&server.url)
        .start()
}

fn finish(here: &Here, nth: u32) {
    let name = format!("rec.data.{:016}", 2026_1123_0000_0000u64 + u64::from(nth));
    // Like the recorder.
    std::fs::copy(here.path("perf.data"), here.path("being-made")).expect("a copy");
    std::fs::rename(here.path("being-made"), here.path(name)).expect("renamed");
}

fn samples(server: &Server) -> u64 {
    let taken = server.taken();
    taken
        .iter()
        .map(|request| by_pyroscope(request).samples)
        .sum()
}

#[test]
fn finished_files_are_sent_once_in_their_order() {
    needs!(PerfEvents);
    let here = recorded();
    let each = here.report("").samples();
    let server = Server::start(&[]);
    finish(&here, 1);
    finish(&here, 2);
    let running = follow(&here, &server);
    wait_until("two files are sent", || server.taken().len() == 2);
    finish(&here, 3);
    wait_until("the third is sent", || {
        std::fs::read_to_string(here.path("rec.data.pushed"))
            .is_ok_and(|text| text.ends_with("03\n"))
    });
    running.signal(Signal::INT);
    running
        .end()
        .exits(0)
        .says("sent 3 files")
        .says("0 files left")
        .is_clean();
    assert_eq!(samples(&server), 3 * each);
    let running = follow(&here, &server);
    finish(&here, 4);
    wait_until("the fourth is sent", || server.taken().len() == 4);
    running.signal(Signal::TERM);
    running.end().exits(0).says("sent 1 file:");
    assert_eq!(server.taken().len(), 4);
    let other = Server::start(&[]);
    here.rprof("push --to pyroscope --follow rec.data")
        .arg(&other.url)
        .exits(2)
        .says("--state");
}

#[test]
fn a_server_that_is_down_costs_what_was_removed_and_no_more() {
    needs!(PerfEvents);
    let here = recorded();
    let each = here.report("").samples();
    let server = Server::start(&[]);
    server.then(Some(Reply::Status(503, "retry-after: 1\r\n", Vec::new())));
    finish(&here, 1);
    let running = follow(&here, &server);
    wait_until("it is tried", || !server.requests().is_empty());
    finish(&here, 2);
    finish(&here, 3);
    finish(&here, 4);
    let tried = server.requests().len();
    wait_until("it is tried again", || server.requests().len() >= tried + 2);
    // The recorder deletes old files: the first is already in memory, the second is lost.
    for nth in [1, 2] {
        std::fs::remove_file(here.path(format!("rec.data.202611230000000{nth}"))).expect("there");
    }
    let tried = server.requests().len();
    wait_until("it is tried again", || server.requests().len() >= tried + 2);
    server.then(None);
    wait_until("all are sent", || server.taken().len() == 3);
    wait_until("the last is noted", || {
        std::fs::read_to_string(here.path("rec.data.pushed"))
            .is_ok_and(|text| text.ends_with("04\n"))
    });
    running.signal(Signal::INT);
    running
        .end()
        .exits(1)
        .says("sent 3 files")
        .says("rec.data.2026112300000002 was removed before it was sent")
        .says("1 file removed unsent");
    assert_eq!(samples(&server), 3 * each);
}

#[test]
fn refused_and_damaged_files_do_not_stop_the_others() {
    needs!(PerfEvents);
    let here = recorded();
    let each = here.report("").samples();
    let server = Server::start(&[Reply::status(400)]);
    finish(&here, 1);
    std::fs::write(here.path("rec.data.2026112300000002"), "no recording").expect("written");
    finish(&here, 3);
    let running = follow(&here, &server);
    wait_until("the last is sent", || !server.taken().is_empty());
    running.signal(Signal::INT);
    running
        .end()
        .exits(1)
        .says(&format!("{each} samples lost: status 400"))
        .says("rec.data.2026112300000002")
        .says("1 unreadable");
    assert_eq!(samples(&server), each);
    let tried = server.requests().len();
    let running = follow(&here, &server);
    finish(&here, 4);
    wait_until("the next is sent", || server.taken().len() == 2);
    running.signal(Signal::INT);
    running.end().exits(0);
    assert_eq!(server.requests().len(), tried + 1);
}

#[test]
fn a_recorder_is_followed() {
    needs!(PerfEvents);
    let here = Here::new();
    let server = Server::start(&[]);
    let running = follow(&here, &server);
    here.record(
        "-F 999 -g -e cpu-clock:u -o rec.data --switch-output=100ms",
        &c("shares.c"),
        "0.5",
    );
    let mut names: Vec<_> = std::fs::read_dir(here.path(""))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| is_finished(path))
        .collect();
    names.sort();
    assert!(names.len() >= 2, "{names:?}");
    let all: u64 = names
        .iter()
        .map(|path| here.report(&format!("-i {}", path.display())).samples())
        .sum();
    let last = names.last().and_then(|path| path.file_name()).expect("one");
    let last = format!("{}\n", last.display());
    wait_until("the last is noted", || {
        std::fs::read_to_string(here.path("rec.data.pushed"))
            .is_ok_and(|text| text.ends_with(&last))
    });
    running.signal(Signal::INT);
    running.end().exits(0);
    assert_eq!(samples(&server), all);
}

fn is_finished(path: &Path) -> bool {
    let name = path
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let stamp = name
        .strip_prefix("rec.data.")
        .unwrap_or_default()
        .to_owned();
    !stamp.is_empty() && stamp.bytes().all(|byte| byte.is_ascii_digit())
}
