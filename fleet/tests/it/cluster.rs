//! The same queries on a scheduler and executors.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rprof_testing::default_signals;

use crate::support::{PROGRAM, SUMS, Scene, finish, texts};

/// A process that stops with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn start(words: &str) -> Process {
    let mut command = Command::new(PROGRAM);
    command
        .args(words.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process(command.spawn().expect("it runs"))
}

/// Returns the first of two adjacent free ports.
fn ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = first.local_addr().expect("an address").port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

fn wait_for(port: u16) {
    let end = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "nobody listens at {port}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_cluster_answers_as_one_process_does_also_without_an_executor_that_it_had() {
    let scene = Scene::of_hosts(10, 2);
    let (scheduler_port, first, second) = (ports(), ports(), ports());
    let _scheduler = start(&format!("scheduler --port {scheduler_port}"));
    wait_for(scheduler_port);
    let executor = |port: u16| {
        start(&format!(
            "executor --scheduler 127.0.0.1:{scheduler_port} --port {port} --tasks 1"
        ))
    };
    let lost = executor(first);
    let _kept = executor(second);
    wait_for(first);
    wait_for(second);
    let engine = format!("--engine ballista=df://127.0.0.1:{scheduler_port}");
    let sql = || {
        finish(
            scene
                .command(&format!("sql --format csv {engine}"))
                .arg(SUMS),
        )
        .0
    };
    let expected = scene.sql(SUMS);
    assert_eq!(sql(), expected);
    let words = "export --format folded";
    let folded = scene.run(words).0;
    assert_eq!(scene.run(&format!("{words} {engine}")).0, folded);
    // The executor dies during a query, and is missing in the next one.
    let mut asked = scene.command(&format!("sql --format csv {engine}"));
    let asked = asked.arg(SUMS).stdout(Stdio::piped()).spawn();
    let asked = asked.expect("it runs");
    sleep(Duration::from_millis(400));
    drop(lost);
    let output = asked.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert_eq!(sql(), expected);
    assert_eq!(scene.run(&format!("{words} {engine}")).0, folded);
}

const ENDLESS: &str = "SELECT sum(a.value * b.value * c.value * d.value) AS x FROM samples a, samples b, samples c, samples d \
    WHERE a.value + b.value + c.value + d.value > 0";

/// Waits until a log has `count` lines with a text.
fn wait_for_lines(log: &Path, text: &str, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    let found = || fs::read_to_string(log).expect("a log");
    while found().matches(text).count() < count {
        assert!(Instant::now() < end, "no {text:?}: {}", found());
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_client_that_is_stopped_has_its_job_cancelled() {
    let scene = Scene::of_hosts(10, 2);
    let here = tempfile::tempdir().expect("a folder");
    let log = here.path().join("log");
    let (port, own) = (ports(), ports());
    let mut command = Command::new(PROGRAM);
    command
        .args(["scheduler", "--port", &port.to_string()])
        .env("RUST_LOG", "info")
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).expect("a log"));
    let _scheduler = Process(command.spawn().expect("it runs"));
    wait_for(port);
    let _executor = start(&format!(
        "executor --scheduler 127.0.0.1:{port} --port {own} --tasks 1"
    ));
    wait_for(own);
    let engine = format!("--engine ballista=df://127.0.0.1:{port}");
    for (count, (signal, status)) in [("INT", 130), ("TERM", 143)].into_iter().enumerate() {
        let mut command = scene.command(&format!("sql --format csv {engine}"));
        command.arg(ENDLESS);
        let client = default_signals(&mut command).stderr(Stdio::piped()).spawn();
        let client = client.expect("it runs");
        // The second query waits behind the first, if that has not ended yet.
        wait_for_lines(&log, "Job submitted: ", count + 1);
        sleep(Duration::from_millis(500));
        finish(Command::new("kill").args(["-s", signal, &client.id().to_string()]));
        let output = client.wait_with_output().expect("it ends");
        let (_, told) = texts(&output);
        assert_eq!(output.status.code(), Some(status), "{told}");
        assert!(
            told.contains("cancelling what runs in the cluster"),
            "{told}"
        );
        wait_for_lines(&log, "Job cancelled: ", count + 1);
    }
}

#[test]
fn a_scheduler_that_is_not_there_is_told() {
    let scene = Scene::of_hosts(1, 1);
    let port = ports();
    let mut command = scene.command(&format!("top --engine ballista=df://127.0.0.1:{port}"));
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(!output.stderr.is_empty());
}
