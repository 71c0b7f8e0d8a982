//! A folder of tables, and runs of `rprof-fleet` on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::hosts::{Plan, write};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_rprof-fleet");

/// Query with sums that identify a set of rows.
pub const SUMS: &str = "SELECT service, version, count(*) AS n, sum(samples) AS samples, sum(value) AS amount, \
    count(DISTINCT stack_id) AS stacks FROM samples GROUP BY service, version ORDER BY service, version";

pub struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    pub fn empty() -> Scene {
        Scene {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Generates the tables of some hosts for some minutes.
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

    /// Returns a command with these words as arguments, and `--data` for this folder.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words.split(' '))
            .arg("--data")
            .arg(self.path());
        command
    }

    /// Runs `rprof-fleet`, which must succeed. Returns standard output and standard error.
    pub fn run(&self, words: &str) -> (String, String) {
        finish(&mut self.command(words))
    }

    pub fn sql(&self, query: &str) -> String {
        finish(self.command("sql --format csv").arg(query)).0
    }

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

/// Runs a command, which must succeed. Returns standard output and standard error.
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

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (text(&output.stdout), text(&output.stderr))
}

/// Returns the path of a program of the workspace above: `rprof` or `rprof-agent`, from the folder
/// in RPROF_PROGRAMS or the debug build (`cargo build -p rprof -p rprof-agent`). `None` if it is
/// not built.
pub fn program(name: &str) -> Option<PathBuf> {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/debug");
    let folder = std::env::var_os("RPROF_PROGRAMS").map_or(PathBuf::from(built), PathBuf::from);
    let path = folder.join(name);
    path.is_file().then_some(path)
}

/// Reason for which a test without the programs is skipped.
pub const NO_PROGRAMS: &str =
    "needs rprof and rprof-agent: cargo build -p rprof -p rprof-agent, or RPROF_PROGRAMS";
