//! A folder of tables, and runs of the program on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::hosts::{Plan, write};

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_rprof-fleet");

/// Question for sums that no two sets of rows share by chance.
pub const SUMS: &str = "SELECT service, version, count(*) AS n, sum(samples) AS samples, sum(value) AS amount, \
    count(DISTINCT stack_id) AS stacks FROM samples GROUP BY service, version ORDER BY service, version";

/// Folder of tables.
pub struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// An empty folder.
    pub fn empty() -> Scene {
        Scene {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Tables of some hosts for some minutes.
    pub fn of_hosts(hosts: usize, minutes: usize) -> Scene {
        let scene = Scene::empty();
        let plan = Plan {
            hosts,
            minutes,
            ..Plan::default()
        };
        write(scene.path(), &plan).expect("tables");
        scene
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Command line of the program: words, with `--data` for this folder.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words.split(' '))
            .arg("--data")
            .arg(self.path());
        command
    }

    /// Runs the program, which must succeed, and returns what it printed and what it told.
    pub fn run(&self, words: &str) -> (String, String) {
        finish(&mut self.command(words))
    }

    /// Answers a question in SQL, as CSV.
    pub fn sql(&self, query: &str) -> String {
        finish(self.command("sql --format csv").arg(query)).0
    }

    /// Files of a table, in order.
    pub fn files(&self, table: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().join(table)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path),
                }
            }
        }
        found.sort();
        found
    }
}

/// Runs a command, which must succeed.
pub fn finish(command: &mut Command) -> (String, String) {
    let output = command.output().expect("it runs");
    let (out, err) = texts(&output);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}{err}",
        output.status
    );
    (out, err)
}

/// What a program printed and told.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (text(&output.stdout), text(&output.stderr))
}

/// The profiler, as `cargo build --features FEATURE` in the workspace above leaves it, or as `RPROF` names it; `None` if it lacks the feature,
/// `parquet` or `agent`.
pub fn rprof(feature: &str) -> Option<PathBuf> {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/debug/rprof");
    let path = std::env::var_os("RPROF").map_or(PathBuf::from(built), PathBuf::from);
    let words: &[&str] = match feature {
        "agent" => &["agent", "check", "--config", "/nowhere"],
        _ => &["export", "--format", "parquet", "-i", "/nowhere"],
    };
    let output = Command::new(&path).args(words).output().ok()?;
    let (_, told) = texts(&output);
    (!told.contains(&format!("--features {feature}"))).then_some(path)
}
