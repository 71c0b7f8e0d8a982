//! Agents in their own folders, and table rows read by DuckDB.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Here, Running, Shell, oracles, wait_until};

/// Returns `rprof-agent`: this build, or the release build in RPROF_AGENT_RELEASE.
pub(crate) fn program(here: &Here) -> Shell {
    let release = std::env::var_os("RPROF_AGENT_RELEASE");
    here.command(release.unwrap_or_else(|| env!("CARGO_BIN_EXE_rprof-agent").into()))
}

/// An agent with windows of one or a few seconds.
pub(crate) struct Agent {
    pub(crate) here: Here,
}

impl Agent {
    /// Writes the configuration. `to` is the rest of the file.
    pub(crate) fn new(window_seconds: u32, to: &str) -> Agent {
        let here = Here::new();
        let spool = here.path("spool");
        let text = format!(
            "[sample]\nrate = 97\nwindow-seconds = {window_seconds}\n\
             [budget]\ncpu-percent = 1000.0\nmemory-mib = 100000\n\
             [spool]\nfolder = {spool:?}\nmin-free-percent = 0.0\n[identity]\nhost = \"web-1\"\n{to}"
        );
        fs::write(here.path("agent.toml"), text).expect("written");
        Agent { here }
    }

    pub(crate) fn into_folder(window_seconds: u32) -> Agent {
        let agent = Agent::new(window_seconds, "");
        let data = agent.here.path("data");
        agent.append(&format!("[[to]]\nkind = \"folder\"\npath = {data:?}\n"));
        agent
    }

    pub(crate) fn into_bucket(window_seconds: u32, endpoint: &str) -> Agent {
        let agent = Agent::new(window_seconds, "");
        let keys = agent.here.path("keys");
        fs::write(
            &keys,
            "aws_access_key_id = KEY\naws_secret_access_key = s3cret\n",
        )
        .expect("written");
        agent.append(&format!(
            "[[to]]\nkind = \"s3\"\nurl = \"s3://fleet/a\"\nendpoint = {endpoint:?}\ncredentials-file = {keys:?}\ntimeout-seconds = 2\n"
        ));
        agent
    }

    pub(crate) fn append(&self, text: &str) {
        let path = self.here.path("agent.toml");
        let all = fs::read_to_string(&path).expect("settings") + text;
        fs::write(path, all).expect("written");
    }

    pub(crate) fn command(&self, words: &str) -> Shell {
        program(&self.here)
            .words("--config agent.toml")
            .words(words)
    }

    pub(crate) fn start(&self) -> Running {
        self.command("").start()
    }

    pub(crate) fn status(&self) -> Option<Value> {
        let text = fs::read_to_string(self.here.path("spool/status.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub(crate) fn wait_for_windows(&self, running: &Running, count: u64) {
        let pid = running.pid().as_raw_pid();
        wait_until("windows end", || {
            let status = self.status();
            status.is_some_and(|s| s["pid"] == pid && s["windows"].as_u64() >= Some(count))
        });
    }

    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let root = self.here.path(folder);
        let mut folders = vec![root.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path: PathBuf = entry.path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let path = path.strip_prefix(&root).expect("below it");
                        files.push(path.to_string_lossy().into_owned());
                    }
                }
            }
        }
        files.sort();
        files
    }

    /// Returns the rows of a query on the tables in a folder. `{samples}` and so on stand for the
    /// tables.
    pub(crate) fn query(&self, folder: &str, query: &str) -> Vec<Vec<Value>> {
        let mut query = query.to_owned();
        for table in [
            "samples",
            "stacks",
            "locations",
            "frames",
            "images",
            "hosts",
        ] {
            let files = self.here.path(format!("{folder}/{table}/**/*.parquet"));
            let read = format!("read_parquet('{}')", files.display());
            query = query.replace(&format!("{{{table}}}"), &read);
        }
        let python = oracles().expect("it was asked for").join("python");
        let script = "import duckdb, json, sys\nprint(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))";
        let run = self
            .here
            .command("python3")
            .env("PYTHONPATH", python.to_str().expect("UTF-8"))
            .arg("-c")
            .arg(script)
            .arg(query)
            .ok();
        serde_json::from_slice(run.bytes()).expect("rows")
    }
}
