//! Folders written by `rprof-agent`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rprof_testing::{Tether, needs, skip};

use crate::support::{NO_PROGRAMS, SUMS, Scene, finish, program};

const QUESTIONS: [&str; 3] = [
    SUMS,
    "SELECT host, count(*) AS windows, sum(samples) AS samples, sum(lost) AS lost FROM hosts GROUP BY host ORDER BY host",
    "SELECT (SELECT count(*) FROM stacks) AS stacks, (SELECT count(*) FROM locations) AS locations, \
     (SELECT count(*) FROM frames) AS frames, (SELECT count(*) FROM images) AS images",
];

fn answers(scene: &Scene) -> Vec<String> {
    let mut all = QUESTIONS.map(|query| scene.sql(query)).to_vec();
    all.push(scene.run("export --format folded").0);
    all
}

/// Runs an agent with this host name and windows of one second, until the folder has three more
/// windows.
fn record(program: &Path, scene: &Scene, host: &str) {
    let here = tempfile::tempdir().expect("a folder");
    let settings = here.path().join("agent.toml");
    let text = format!(
        "[sample]\nrate = 97\nwindow-seconds = 1\n[budget]\ncpu-percent = 1000.0\nmemory-mib = 100000\n\
         [spool]\nfolder = {:?}\nmin-free-percent = 0.0\n[identity]\nhost = {host:?}\n\
         [[to]]\nkind = \"folder\"\npath = {:?}\n",
        here.path().join("spool"),
        scene.path(),
    );
    fs::write(&settings, text).expect("written");
    let tether = Tether::new();
    let mut command = Command::new(program);
    command.arg("--config").arg(settings);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let count = || match scene.path().join("hosts").is_dir() {
        true => scene.files("hosts").len(),
        false => 0,
    };
    let before = count();
    let mut agent = tether.tie(&mut command).spawn().expect("it runs");
    let end = Instant::now() + Duration::from_secs(60);
    while count() < before + 3 {
        assert!(Instant::now() < end, "windows end");
        sleep(Duration::from_millis(100));
    }
    finish(Command::new("kill").arg(agent.id().to_string()));
    assert!(agent.wait().expect("it ends").success());
}

/// Moves all hours to a past date, because compaction skips current hours. Rows keep their
/// timestamps.
fn age(scene: &Scene) {
    for table in fs::read_dir(scene.path()).expect("a folder") {
        let table = table.expect("an entry").path();
        let old = table.join("date=2023-11-14");
        let dates: Vec<PathBuf> = fs::read_dir(&table)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        fs::create_dir(&old).expect("a folder");
        for date in dates {
            for hour in fs::read_dir(&date).expect("a folder") {
                let hour = hour.expect("an entry");
                fs::rename(hour.path(), old.join(hour.file_name())).expect("moved");
            }
            fs::remove_dir(date).expect("removed");
        }
    }
}

/// Records tables with two agents, if the agent is available.
fn two_agents() -> Option<Scene> {
    let Some(agent) = program("rprof-agent") else {
        skip(NO_PROGRAMS);
        return None;
    };
    let scene = Scene::empty();
    record(&agent, &scene, "web-1");
    record(&agent, &scene, "web-2");
    age(&scene);
    Some(scene)
}

#[test]
fn tables_of_agents_answer_the_same_when_they_are_compacted() {
    needs!(Root, PerfEvents);
    let Some(scene) = two_agents() else { return };
    let before = answers(&scene);
    assert!(
        before[1].contains("web-1,") && before[1].contains("web-2,"),
        "{before:?}"
    );
    let hours = fs::read_dir(scene.path().join("samples/date=2023-11-14"))
        .expect("a folder")
        .count();
    let (_, told) = scene.run("compact");
    assert!(!told.contains("left out"), "{told}");
    // First with inputs, then with the inputs deleted, then without any work.
    assert_eq!(answers(&scene), before);
    scene.run("compact --grace 0");
    for table in ["samples", "hosts", "stacks"] {
        assert_eq!(scene.files(table).len(), hours, "{table}");
    }
    assert_eq!(answers(&scene), before);
    let (_, told) = scene.run("compact --grace 0");
    assert!(told.starts_with("0 files"), "{told}");
    assert_eq!(answers(&scene), before);
}

#[test]
fn a_damaged_file_of_an_agent_is_named_and_left_out_of_compaction() {
    needs!(Root, PerfEvents);
    let Some(scene) = two_agents() else { return };
    // One file without a footer, and one with a valid footer but damaged pages.
    let cut = scene.files("samples").remove(0);
    let spoilt = scene.files("stacks").remove(0);
    let bytes = [&cut, &spoilt].map(|path| fs::read(path).expect("a file"));
    for path in [&cut, &spoilt] {
        fs::remove_file(path).expect("removed");
    }
    let expected = answers(&scene);
    let [samples, mut stacks] = bytes;
    fs::write(&cut, &samples[..samples.len() / 2]).expect("written");
    let half = stacks.len() / 2;
    stacks[4..half].fill(0);
    fs::write(&spoilt, stacks).expect("written");
    for words in ["compact", "compact --grace 0", "compact --grace 0"] {
        let (_, told) = scene.run(words);
        for path in [&cut, &spoilt] {
            let path = path.strip_prefix(scene.path()).expect("below it");
            let line = format!("left out: {}: ", path.display());
            assert_eq!(told.matches(&line).count(), 1, "{line}: {told}");
        }
        assert_eq!(answers(&scene), expected, "{words}");
        assert!(cut.is_file() && spoilt.is_file());
    }
}
