//! Windows, and the workloads of their samples.

use std::fs;

use rustix::process::Signal;

use crate::agent::{Agent, program};
use crate::support::server::Server;
use crate::support::{Need, c, has, needs, skip, wait_until};

#[test]
fn rows_are_of_services_and_windows_of_the_wall_clock() {
    needs!(Root, PerfEvents, Oracles);
    let agent = Agent::into_folder(2);
    agent
        .append("[[identity.rule]]\nexe = \"*/shop\"\nservice = \"checkout\"\nversion = \"1.4\"\n");
    agent.here.copy(&c("shares.c"), "shop");
    let shop = agent
        .here
        .sh("while :; do ./shop 1 >shop.out; done")
        .start();
    let running = agent.start();
    agent.wait_for_windows(&running, 3);
    running.signal(Signal::TERM);
    running
        .end()
        .exits(0)
        .says("recording all CPUs at 97 Hz")
        .is_clean();
    shop.signal(Signal::KILL);
    let rows = agent.query(
        "data",
        "SELECT service, version, unit, host, sum(samples)::BIGINT FROM {samples} WHERE service = 'checkout' GROUP BY ALL",
    );
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0][1], "1.4");
    assert_eq!(rows[0][2], "nanoseconds");
    assert_eq!(rows[0][3], "web-1");
    assert!(rows[0][4].as_u64() > Some(20), "{rows:?}");
    let others = agent.query(
        "data",
        "SELECT count(*) FROM {samples} WHERE length(version) = 40",
    );
    assert!(others[0][0].as_u64() > Some(0), "{others:?}");
    let windows = agent.query(
        "data",
        "SELECT epoch_us(window_start)::BIGINT, window_us::BIGINT, samples::BIGINT, rate_hz, scale FROM {hosts} ORDER BY 1",
    );
    assert!(windows.len() >= 3, "{windows:?}");
    for pair in windows.windows(2) {
        let (start, length) = (pair[0][0].as_i64().unwrap(), pair[0][1].as_i64().unwrap());
        let next = pair[1][0].as_i64().unwrap();
        // No gaps. Windows start at multiples of two seconds, within wake-up latency.
        assert!((next - start - length).abs() < 500_000, "{windows:?}");
        let distance = (next + 1_000_000).rem_euclid(2_000_000) - 1_000_000;
        assert!(distance.abs() < 500_000, "{windows:?}");
    }
    assert!(windows.iter().all(|row| row[3] == 97.0 && row[4] == 1.0));
    let sums = agent.query(
        "data",
        "SELECT (SELECT sum(samples) FROM {samples})::BIGINT, (SELECT sum(samples) FROM {hosts})::BIGINT",
    );
    assert_eq!(sums[0][0], sums[0][1]);
    let orphans = agent.query(
        "data",
        "SELECT count(*) FROM {samples} WHERE stack_id NOT IN (SELECT stack_id FROM {stacks})",
    );
    assert_eq!(orphans[0][0], 0);
}

#[test]
fn functions_of_python_have_names_in_the_tables() {
    needs!(Root, PerfEvents, Oracles, X86_64, File("/usr/bin/python3"));
    let agent = Agent::into_folder(2);
    let busy = "def busy_in_python():\n while True: pass\nbusy_in_python()\n";
    fs::write(agent.here.path("busy.py"), busy).expect("written");
    let python = agent
        .here
        .command("/usr/bin/python3")
        .arg("busy.py")
        .start();
    let running = agent.start();
    agent.wait_for_windows(&running, 3);
    running.signal(Signal::TERM);
    running.end().exits(0);
    python.signal(Signal::KILL);
    let names = agent.query(
        "data",
        "SELECT DISTINCT line.function FROM (SELECT unnest(lines) AS line FROM {frames}) WHERE line.function LIKE '%busy_in_python%'",
    );
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_container_is_known_by_its_control_group() {
    needs!(Root, PerfEvents, Oracles);
    let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let mount = mounts
        .iter()
        .find(|m| fs::metadata(format!("{m}/cgroup.procs")).is_ok());
    let id = format!("{:064x}", u128::from(std::process::id()) + (0xab << 64));
    let group = mount.map(|mount| format!("{mount}/docker-{id}.scope"));
    let Some(group) = group.filter(|group| fs::create_dir(group).is_ok()) else {
        return skip("needs control groups that may be made");
    };
    let agent = Agent::into_folder(1);
    let shop = agent
        .here
        .sh(&format!(
            "echo $$ >{group}/cgroup.procs; while :; do {} 1 >out; done",
            c("shares.c").display()
        ))
        .start();
    let running = agent.start();
    agent.wait_for_windows(&running, 3);
    running.signal(Signal::TERM);
    running.end().exits(0);
    shop.signal(Signal::KILL);
    let rows = agent.query(
        "data",
        "SELECT DISTINCT container_id, service FROM {samples} WHERE container_id IS NOT NULL",
    );
    let found = rows
        .iter()
        .any(|row| row[0] == id.as_str() && row[1] == "shares");
    wait_until("the group is empty", || fs::remove_dir(&group).is_ok());
    assert!(found, "{rows:?}");
}

#[test]
fn a_signal_closes_the_window_and_sends_it() {
    needs!(Root, PerfEvents);
    let agent = Agent::into_folder(3600);
    let running = agent.start();
    wait_until("it records", || {
        agent.status().is_some_and(|s| s["state"] == "recording")
    });
    agent.here.command(c("shares.c")).arg("0.3").ok();
    agent.command("status").exits(0).prints("recording");
    running.signal(Signal::TERM);
    running.end().exits(0).says("stopped");
    let files = agent.files("data");
    assert!(
        files.iter().any(|file| file.starts_with("samples/")),
        "{files:?}"
    );
    assert!(
        files.iter().any(|file| file.starts_with("hosts/")),
        "{files:?}"
    );
    assert!(agent.files("spool/folder/queue").is_empty());
    agent.command("status").exits(1).prints("stopped");
    let json = agent.command("status --format json").exits(1).out();
    assert!(json.contains("\"state\": \"stopped\""), "{json}");
}

#[test]
fn a_check_sends_no_data_and_shows_whose_processes_are() {
    needs!(Root, PerfEvents);
    let server = Server::start(&[]);
    let agent = Agent::into_bucket(60, &server.url);
    agent.append("[[identity.rule]]\ncomm = \"rprof*\"\nservice = \"profiler\"\n");
    let run = agent.command("check").exits(0);
    run.prints("ok      recording")
        .prints("the bucket answers")
        .prints("profiler")
        .is_clean();
    let requests = server.requests();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!((&*request.method, request.body.len()), ("HEAD", 0));
        assert!(!request.path.contains("s3cret"));
    }
    let away = Agent::into_bucket(60, "http://127.0.0.1:1");
    away.command("check").exits(1).prints("FAILED");
    assert!(!agent.here.path("spool").exists(), "a check makes nothing");
}

#[test]
fn settings_that_are_wrong_are_named() {
    let agent = Agent::new(
        60,
        "[[to]]\nkind = \"folder\"\npath = \"/data\"\nurl = \"x\"\n",
    );
    agent
        .command("")
        .exits(2)
        .says("agent.toml")
        .says("url is not for");
    fs::write(agent.here.path("agent.toml"), "[sample]\nraet = 1\n").expect("written");
    agent
        .command("check")
        .exits(2)
        .says("agent.toml")
        .says("raet");
    program(&agent.here)
        .words("--config none.toml status")
        .exits(2)
        .says("none.toml");
    if has(Need::Root) {
        let agent = Agent::into_folder(60);
        agent.command("status").exits(1).says("no agent has run");
    }
}

#[test]
fn two_agents_do_not_share_a_spool() {
    needs!(Root, PerfEvents);
    let agent = Agent::into_folder(60);
    let running = agent.start();
    wait_until("it records", || {
        agent.status().is_some_and(|s| s["state"] == "recording")
    });
    agent.command("").exits(1).says("is used by another agent");
    running.signal(Signal::INT);
    running.end().exits(0);
}
